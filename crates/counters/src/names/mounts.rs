//! Mounts through FUSE.

use crate::Counter;

register! { MOUNTS, Counter:
    FUSE_LOOKUPS = "pagewell_fuse_lookups_total", "Names that mounts were asked for.";
    FUSE_ATTRIBUTES_ASKED = "pagewell_fuse_attributes_asked_total",
        "Attributes that mounts were asked for.";
    FUSE_ENTRIES_LISTED = "pagewell_fuse_entries_listed_total",
        "Directory entries told with their attributes by mounts.";
    FUSE_FILES_PUSHED = "pagewell_fuse_files_pushed_total",
        "Small files put into the kernel's pages before they were asked for.";
    FUSE_AROUND_BYTES = "pagewell_fuse_around_bytes_total",
        "Bytes put into the kernel's pages beside small reads, before they were asked for.";
    FUSE_EXTENDED_ASKED = "pagewell_fuse_extended_attributes_asked_total",
        "Extended attributes that mounts were asked for, also by the kernel before a write.";
    FUSE_OPENS = "pagewell_fuse_opens_total", "Files opened in mounts, as far as the kernel asked.";
    FUSE_CLOSES = "pagewell_fuse_closes_total",
        "Descriptors closed in mounts, as far as the kernel told.";
    FUSE_READS = "pagewell_fuse_reads_total", "Reads that mounts were asked for.";
    FUSE_READ_BYTES = "pagewell_fuse_read_bytes_total", "Bytes that mounts answered reads with.";
    FUSE_READS_HELD = "pagewell_fuse_reads_held_total",
        "Reads of mounts that waited until the data of others was sent.";
    FUSE_WRITES = "pagewell_fuse_writes_total", "Writes that mounts were asked for.";
    FUSE_WRITES_OVERDUE = "pagewell_fuse_writes_overdue_total",
        "Writes that mounts held beyond their bound, since the storage did not answer.";
    FUSE_NODES_PRUNED = "pagewell_fuse_nodes_pruned_total",
        "Objects that mounts asked the kernel to forget, as there were too many.";
    FUSE_PRUNES_REFUSED = "pagewell_fuse_prunes_refused_total",
        "Times that the kernel refused to be asked that.";
    FUSE_APPENDS_MOVED = "pagewell_fuse_appends_moved_total",
        "Appends in mounts to files that had become longer than the kernel knew.";
    FUSE_WRITTEN_BYTES = "pagewell_fuse_written_bytes_total", "Bytes written in mounts.";
    FUSE_HANDED_OVER = "pagewell_fuse_handed_over_total",
        "Requests of mounts handed to a worker so that a thread goes on receiving.";
    FUSE_INTERRUPTED = "pagewell_fuse_interrupted_total",
        "Requests of mounts given up because their program was killed while it waited.";
    FUSE_GROUPS_READ = "pagewell_fuse_groups_read_total",
        "Times that the supplementary groups of a program were looked up.";
    FUSE_PASSTHROUGH_OPENS = "pagewell_fuse_passthrough_opens_total",
        "Files opened in mounts that the kernel reads and writes by itself.";
    FUSE_PASSTHROUGH_REFUSED = "pagewell_fuse_passthrough_refused_total",
        "Files that the kernel refused to read and write by itself.";
}
