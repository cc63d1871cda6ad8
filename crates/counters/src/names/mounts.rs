//! Mounts through FUSE.

use crate::Counter;

register! { MOUNTS, Counter:
    FUSE_LOOKUPS = "pagewell_fuse_lookups_total", "Names that the kernel asked mounts to look up.";
    FUSE_ATTRIBUTES_ASKED = "pagewell_fuse_attributes_asked_total",
        "Times that the kernel asked mounts for attributes.";
    FUSE_ENTRIES_LISTED = "pagewell_fuse_entries_listed_total",
        "Directory entries told with their attributes by mounts.";
    FUSE_FILES_PUSHED = "pagewell_fuse_files_pushed_total",
        "Times that a mount offered a small file to the kernel's page cache before it was asked \
         for.";
    FUSE_AROUND_BYTES = "pagewell_fuse_around_bytes_total",
        "Bytes put into the kernel's pages beside small reads, before they were asked for.";
    FUSE_EXTENDED_ASKED = "pagewell_fuse_extended_attributes_asked_total",
        "Times that the kernel asked mounts for an extended attribute, as it does before writes, \
         too.";
    FUSE_OPENS = "pagewell_fuse_opens_total",
        "Opens of files in mounts, as far as the kernel tells of them.";
    FUSE_CLOSES = "pagewell_fuse_closes_total",
        "Descriptors of files in mounts that were closed, as far as the kernel tells of them.";
    FUSE_READS = "pagewell_fuse_reads_total", "Reads that the kernel asked mounts for.";
    FUSE_READ_BYTES = "pagewell_fuse_read_bytes_total", "Bytes that mounts answered reads with.";
    FUSE_WRITES = "pagewell_fuse_writes_total", "Writes that the kernel asked mounts for.";
    FUSE_WRITES_OVERDUE = "pagewell_fuse_writes_overdue_total",
        "Writes that mounts held beyond their limit of memory because storage did not answer.";
    FUSE_NODES_PRUNED = "pagewell_fuse_nodes_pruned_total",
        "Objects that mounts asked the kernel to forget because it knew too many.";
    FUSE_PRUNES_REFUSED = "pagewell_fuse_prunes_refused_total",
        "Times that the kernel did not take a mount's request to forget objects.";
    FUSE_WRITTEN_BYTES = "pagewell_fuse_written_bytes_total", "Bytes written in mounts.";
    FUSE_PASSTHROUGH_OPENS = "pagewell_fuse_passthrough_opens_total",
        "Opens of files in mounts that the kernel then reads and writes by itself.";
    FUSE_PASSTHROUGH_REFUSED = "pagewell_fuse_passthrough_refused_total",
        "Times that the kernel refused to read and write a file of a mount by itself.";
}
