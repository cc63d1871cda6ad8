//! Memory, images and directories.

use crate::Counter;

register! { FILE_SYSTEMS, Counter:
    RAM_PAGES_COPIED = "pagewell_ram_pages_copied_total",
        "Pages of RAM files copied at a write because a read still held them.";
    RAM_TRIMS = "pagewell_ram_trims_total",
        "Times that memory of removed objects of RAM file systems was handed back to the system.";
    RAM_REFUSED = "pagewell_ram_refused_total",
        "Changes of a RAM file system refused or cut short because it was full.";
    ISO_DIRECTORY_HITS = "pagewell_iso_directory_cache_hits_total",
        "Times that a directory of an ISO image was found parsed in memory.";
    ISO_DIRECTORY_MISSES = "pagewell_iso_directory_cache_misses_total",
        "Times that a directory of an ISO image had to be parsed.";
    ISO_NODE_HITS = "pagewell_iso_node_cache_hits_total",
        "Times that a group of objects of an ISO image (a directory's, or those that a sector \
         records) was found in memory.";
    ISO_NODE_MISSES = "pagewell_iso_node_cache_misses_total",
        "Times that a group of objects of an ISO image had to be read from its records.";
    ISO_READS_IN_PLACE = "pagewell_iso_reads_in_place_total",
        "Reads of files in ISO images whose bytes lie in one piece.";
    ISO_READS_GATHERED = "pagewell_iso_reads_gathered_total",
        "Reads of files in ISO images whose bytes were gathered from several pieces.";
    ISO_READS_PAST_END = "pagewell_iso_reads_past_end_total",
        "Reads of files in ISO images cut short or refused because the image is truncated.";
    ISO_MALFORMED_RECORDS = "pagewell_iso_malformed_records_total",
        "Directory records of ISO images skipped because their lengths make no sense.";
    ISO_MALFORMED_SYSTEM_USE = "pagewell_iso_malformed_system_use_total",
        "System use entries of ISO images that are damaged or out of bounds.";
    ISO_ENDIAN_MISMATCHES = "pagewell_iso_endian_mismatches_total",
        "Numbers in ISO images whose little-endian and big-endian copies differ.";
    ISO_NAMES_REPEATED = "pagewell_iso_names_repeated_total",
        "Names in ISO images that were given a number because their directory has them more than \
         once.";
    DIR_OBJECTS_HIT = "pagewell_dir_objects_hit_total",
        "Calls on an object of a served directory that was held open.";
    DIR_OBJECTS_MISSED = "pagewell_dir_objects_missed_total",
        "Calls on an object of a served directory that had to be opened by its identifier.";
    DIR_OBJECTS_EVICTED = "pagewell_dir_objects_evicted_total",
        "Objects of served directories closed to make room for others.";
    DIR_EVICTION_SYNCS = "pagewell_dir_eviction_syncs_total",
        "Objects with unstable data that were synced because they had to be closed.";
    DIR_LOOKUPS_NOT_CACHED = "pagewell_dir_lookups_not_cached_total",
        "Lookups passed to a thread that may wait because the kernel did not have the name.";
    DIR_RESOLVE_FALLBACKS = "pagewell_dir_resolve_fallbacks_total",
        "Exports whose system lacks openat2 or its flag RESOLVE_CACHED, so that every lookup goes \
         to a thread that may wait.";
    DIR_MOUNT_POINTS_REFUSED = "pagewell_dir_mount_points_refused_total",
        "Lookups refused because the name is a mount point.";
    DIR_OWN_MOUNTS_REFUSED = "pagewell_dir_own_mounts_refused_total",
        "Exports that could not be given a mount of their own, so that mount points in them are \
         refused.";
    DIR_HANDLE_FALLBACKS = "pagewell_dir_handle_fallbacks_total",
        "Exports that name objects by inode number and path hint instead of kernel handles.";
    DIR_CONTAINMENT_CHECKS = "pagewell_dir_containment_checks_total",
        "Times that Pagewell checked whether an object is inside its export.";
    DIR_OBJECTS_OUTSIDE = "pagewell_dir_objects_outside_total",
        "Times that an object was refused because it had left its export.";
    DIR_PATH_HINT_TABLE_HITS = "pagewell_dir_path_hint_table_hits_total",
        "Objects without a kernel handle that were found again where they were last seen.";
    DIR_PATH_HINT_WALKS = "pagewell_dir_path_hint_walks_total",
        "Objects without a kernel handle that were looked for along the path hint in their \
         identifier.";
    DIR_PATH_HINT_SEARCHES = "pagewell_dir_path_hint_searches_total",
        "Objects without a kernel handle that were looked for in the whole export.";
    DIR_PATH_HINT_SEARCHES_FAILED = "pagewell_dir_path_hint_searches_failed_total",
        "Objects without a kernel handle that were looked for in the whole export and not found.";
    DIR_EXPORTS_REPLACED = "pagewell_dir_exports_replaced_total",
        "Times that a served directory had been removed and made again, and the new one was \
         opened.";
    DIR_CENSUSES = "pagewell_dir_censuses_total",
        "Times that a thread read all directories of an export, to learn what is in it.";
    DIR_CENSUSES_FAILED = "pagewell_dir_censuses_failed_total",
        "Times that a thread read the directories of an export and an error, such as want of \
         descriptors or memory, ended that early.";
    DIR_IDENTITY_SWITCHES = "pagewell_dir_identity_switches_total",
        "Times that a thread began to act for another user.";
    DIR_IDENTITY_FAILURES = "pagewell_dir_identity_failures_total",
        "Calls refused because the system did not let a thread act for the caller.";
    DIR_ACL_LOOKS = "pagewell_dir_acl_looks_total",
        "Times that Pagewell asked the kernel whether an object has an access control list.";
    DIR_ACL_CHECKS = "pagewell_dir_acl_checks_total",
        "Permissions that the kernel was asked for because an object has an access control list.";
    DIR_CHANGES_OVERLAPPED = "pagewell_dir_changes_overlapped_total",
        "Changes answered without the attributes from before them because another change \
         overlapped.";
    DIR_WRITES_INLINE = "pagewell_dir_writes_inline_total",
        "Unstable writes to served directories made by the thread that received them.";
    DIR_WRITES_HELD = "pagewell_dir_writes_held_total",
        "Times that the system held up a write of a thread that receives, so that for a second \
         other threads make such writes.";
    DIR_SYNCS = "pagewell_dir_syncs_total",
        "Sync calls made for files, directories and file systems of exports.";
    DIR_FILESYSTEM_SYNCS = "pagewell_dir_filesystem_syncs_total",
        "Sync calls made for the whole file system of an export.";
    DIR_SYNC_FAILURES = "pagewell_dir_sync_failures_total",
        "Sync calls of exports that failed; each changed the write verifier.";
    DIR_LISTINGS_OPENED = "pagewell_dir_listings_opened_total",
        "Pages of directory listings for which the directory had to be opened.";
    DIR_LISTINGS_CONTINUED = "pagewell_dir_listings_continued_total",
        "Pages of directory listings that went on in an open listing.";
    DIR_LISTINGS_REMEMBERED = "pagewell_dir_listings_remembered_total",
        "Pages of directory listings whose names were remembered and known to be unchanged.";
    DIR_LISTINGS_ORDERED = "pagewell_dir_listings_ordered_total",
        "Times that a directory was read to be put in order, because its file system gives no \
         positions that last.";
    DIR_LISTINGS_REFUSED = "pagewell_dir_listings_refused_total",
        "Pages of directory listings put off because many threads waited for a directory to be \
         put in order.";
    DIR_OBJECTS_SWEPT = "pagewell_dir_objects_swept_total",
        "Objects closed because a local program removed their last name.";
    DIR_ATTRIBUTES_REMEMBERED = "pagewell_dir_attributes_remembered_total",
        "Listed names whose attributes were remembered and known to be unchanged.";
    DIR_ATTRIBUTES_LOST = "pagewell_dir_attributes_lost_total",
        "Times that all that was remembered of an export was forgotten, because too much had \
         changed or nothing had been listed for long.";
    DIR_WATCHES_REFUSED = "pagewell_dir_watches_refused_total",
        "Exports whose changes the kernel does not report, so that nothing is remembered of them.";
    DIR_LISTING_DOUBTS = "pagewell_dir_listing_doubts_total",
        "Listed names that were opened because their handle could not be compared.";
}
