//! Memory, images and directories.

use crate::Counter;

register! { FILE_SYSTEMS, Counter:
    RAM_PAGES_COPIED = "pagewell_ram_pages_copied_total",
        "Pages of RAM files copied at a write because a reader still held them.";
    RAM_TRIMS = "pagewell_ram_trims_total",
        "Times that the memory of removed objects and names was handed back.";
    RAM_REFUSED = "pagewell_ram_refused_total",
        "Changes of a RAM file system refused or cut short because it was full.";
    ISO_DIRECTORY_HITS = "pagewell_iso_directory_cache_hits_total",
        "Directories of images found parsed.";
    ISO_DIRECTORY_MISSES = "pagewell_iso_directory_cache_misses_total",
        "Directories of images that had to be parsed.";
    ISO_NODE_HITS = "pagewell_iso_node_cache_hits_total",
        "Groups of objects of images (a directory, or what a sector records) found in memory.";
    ISO_NODE_MISSES = "pagewell_iso_node_cache_misses_total",
        "Groups of objects of images that had to be read from their records.";
    ISO_READS_IN_PLACE = "pagewell_iso_reads_in_place_total",
        "Reads of files in images that lie in one piece.";
    ISO_READS_GATHERED = "pagewell_iso_reads_gathered_total",
        "Reads of files in images gathered from several pieces.";
    ISO_READS_PAST_END = "pagewell_iso_reads_past_end_total",
        "Reads of files in images cut short or refused because the image is truncated.";
    ISO_MALFORMED_RECORDS = "pagewell_iso_malformed_records_total",
        "Directory records of images whose lengths contradict each other.";
    ISO_MALFORMED_SYSTEM_USE = "pagewell_iso_malformed_system_use_total",
        "System use entries of images that are damaged or out of bounds.";
    ISO_ENDIAN_MISMATCHES = "pagewell_iso_endian_mismatches_total",
        "Numbers of images whose two byte orders differ.";
    ISO_NAMES_REPEATED = "pagewell_iso_names_repeated_total",
        "Names of images given a number because they were repeated.";
    DIR_OBJECTS_HIT = "pagewell_dir_objects_hit_total", "Calls whose object was held open.";
    DIR_OBJECTS_MISSED = "pagewell_dir_objects_missed_total",
        "Calls whose object had to be opened by its identifier.";
    DIR_OBJECTS_EVICTED = "pagewell_dir_objects_evicted_total",
        "Objects closed to make room for others.";
    DIR_EVICTION_SYNCS = "pagewell_dir_eviction_syncs_total",
        "Objects with unstable data that were synced because they had to be closed.";
    DIR_LOOKUPS_NOT_CACHED = "pagewell_dir_lookups_not_cached_total",
        "Lookups passed to a thread that may wait because the kernel did not have the name.";
    DIR_RESOLVE_FALLBACKS = "pagewell_dir_resolve_fallbacks_total",
        "Times that openat2 or RESOLVE_CACHED was found missing.";
    DIR_MOUNT_POINTS_REFUSED = "pagewell_dir_mount_points_refused_total",
        "Lookups refused because the name is a mount point.";
    DIR_OWN_MOUNTS_REFUSED = "pagewell_dir_own_mounts_refused_total",
        "Exports that could not be given a mount of their own: mount points in them are refused.";
    DIR_HANDLE_FALLBACKS = "pagewell_dir_handle_fallbacks_total",
        "Exports that name objects by inode number and path hint instead of kernel handles.";
    DIR_CONTAINMENT_CHECKS = "pagewell_dir_containment_checks_total",
        "Objects that were asked whether they are inside the export.";
    DIR_OBJECTS_OUTSIDE = "pagewell_dir_objects_outside_total",
        "Objects refused because they had left the export.";
    DIR_PATH_HINT_TABLE_HITS = "pagewell_dir_path_hint_table_hits_total",
        "Objects found again where they were last seen.";
    DIR_PATH_HINT_WALKS = "pagewell_dir_path_hint_walks_total",
        "Objects looked for along their path hint.";
    DIR_PATH_HINT_SEARCHES = "pagewell_dir_path_hint_searches_total",
        "Objects looked for in the whole export.";
    DIR_PATH_HINT_SEARCHES_FAILED = "pagewell_dir_path_hint_searches_failed_total",
        "Objects looked for in the whole export in vain.";
    DIR_EXPORTS_REPLACED = "pagewell_dir_exports_replaced_total",
        "Directories that were removed and made again while they were served.";
    DIR_CENSUSES = "pagewell_dir_censuses_total",
        "Readings of all directories of an export, to tell what is in it.";
    DIR_CENSUSES_FAILED = "pagewell_dir_censuses_failed_total",
        "Such readings that ended early, for want of descriptors or memory.";
    DIR_IDENTITY_SWITCHES = "pagewell_dir_identity_switches_total",
        "Times that a thread began to act for another caller.";
    DIR_IDENTITY_FAILURES = "pagewell_dir_identity_failures_total",
        "Calls refused because the system did not let a thread act for the caller.";
    DIR_ACL_LOOKS = "pagewell_dir_acl_looks_total",
        "Times that an object was asked whether it has an access control list.";
    DIR_ACL_CHECKS = "pagewell_dir_acl_checks_total",
        "Permissions that an access control list decided.";
    DIR_CHANGES_OVERLAPPED = "pagewell_dir_changes_overlapped_total",
        "Changes answered without attributes from before because a change of names overlapped.";
    DIR_WRITES_INLINE = "pagewell_dir_writes_inline_total",
        "Unstable writes made by the thread that received them.";
    DIR_WRITES_HELD = "pagewell_dir_writes_held_total",
        "Times that the system held back such a write, so that others went elsewhere for a second.";
    DIR_SYNCS = "pagewell_dir_syncs_total",
        "Sync calls made for files, directories and file systems.";
    DIR_FILESYSTEM_SYNCS = "pagewell_dir_filesystem_syncs_total", "Syncs of a whole file system.";
    DIR_SYNC_FAILURES = "pagewell_dir_sync_failures_total",
        "Sync calls that failed; each changed the write verifier.";
    DIR_LISTINGS_OPENED = "pagewell_dir_listings_opened_total",
        "Directory pages for which the directory was opened.";
    DIR_LISTINGS_CONTINUED = "pagewell_dir_listings_continued_total",
        "Directory pages that continued an open listing.";
    DIR_LISTINGS_REMEMBERED = "pagewell_dir_listings_remembered_total",
        "Directory pages whose names were remembered and known to be unchanged.";
    DIR_LISTINGS_ORDERED = "pagewell_dir_listings_ordered_total",
        "Times that a directory was put in order because the file system gives no cookies.";
    DIR_LISTINGS_REFUSED = "pagewell_dir_listings_refused_total",
        "Directory pages put off because many waited for a directory to be put in order.";
    DIR_OBJECTS_SWEPT = "pagewell_dir_objects_swept_total",
        "Objects closed because a local program removed their last name.";
    DIR_ATTRIBUTES_REMEMBERED = "pagewell_dir_attributes_remembered_total",
        "Listed names whose attributes were remembered and known to be unchanged.";
    DIR_ATTRIBUTES_LOST = "pagewell_dir_attributes_lost_total",
        "Times all remembered attributes were forgotten because too much had changed.";
    DIR_WATCHES_REFUSED = "pagewell_dir_watches_refused_total",
        "Exports whose changes the kernel does not report: nothing is remembered of them.";
    DIR_LISTING_DOUBTS = "pagewell_dir_listing_doubts_total",
        "Listed names that were opened because their handle could not be compared.";
}
