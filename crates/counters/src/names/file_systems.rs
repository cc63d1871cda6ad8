//! Memory, images and directories.

use crate::Counter;

register! { FILE_SYSTEMS, Counter:
    DIR_OBJECTS_HIT = "pagewell_dir_objects_hit_total",
        "Calls on an object of a served directory that was held open.";
    DIR_OBJECTS_MISSED = "pagewell_dir_objects_missed_total",
        "Calls on an object of a served directory that had to be opened by its identifier.";
    DIR_SYNCS = "pagewell_dir_syncs_total",
        "Sync calls made for files, directories and file systems of exports.";
    DIR_SYNC_FAILURES = "pagewell_dir_sync_failures_total",
        "Sync calls of exports that failed; each changed the write verifier.";
    DIR_LISTINGS_REMEMBERED = "pagewell_dir_listings_remembered_total",
        "Pages of directory listings whose names were remembered and known to be unchanged.";
    DIR_ATTRIBUTES_REMEMBERED = "pagewell_dir_attributes_remembered_total",
        "Listed names whose attributes were remembered and known to be unchanged.";
    DIR_WATCHES_REFUSED = "pagewell_dir_watches_refused_total",
        "Exports whose changes the kernel does not report, so that nothing is remembered of them.";
}
