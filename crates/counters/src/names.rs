//! The name of every counter of the program, in one place.
//!
//! `docs/METRICS.md` is generated from [`COUNTERS`] and [`GAUGES`].

use crate::Counter;

macro_rules! register {
    ($list:ident, $kind:ident: $($ident:ident = $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $ident: $kind = $kind::new($name, $help);)*
        /// All of the kind, in the order in which they are shown.
        pub static $list: &[&$kind] = &[$(&$ident),*];
    };
}

// Behind the macro, so that it is known there.
mod gauges;
#[cfg(test)]
mod tests;

pub use gauges::*;

register! { COUNTERS, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data copied in user space or between kernel and user space.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data sent without a copy in user space.";
    SEND_CALLS = "pagewell_send_calls_total", "System calls that sent replies.";
    RECEIVE_CALLS = "pagewell_receive_calls_total", "System calls that received requests.";
    PIPES_EXHAUSTED = "pagewell_pipes_exhausted_total",
        "Reads copied because every pipe for splicing was in use.";
    REQUEST_MEMORY_REFUSED = "pagewell_request_memory_refused_total",
        "Times a request had to wait because the memory for requests was used up.";
    REQUEST_MEMORY_FIRST = "pagewell_request_memory_first_total",
        "Requests received beyond that memory, one at a time, because all waited for each other.";
    CALLS_INLINE = "pagewell_calls_inline_total",
        "Calls answered by the thread that received them.";
    CALLS_POOLED = "pagewell_calls_pooled_total",
        "Calls handed to the threads that may wait for storage.";
    CONNECTIONS_ACCEPTED = "pagewell_connections_accepted_total", "Connections accepted.";
    CONNECTIONS_REFUSED = "pagewell_connections_refused_total",
        "Connections closed at once because too many were open, of all or of their address.";
    CONNECTIONS_NOT_ALLOWED = "pagewell_connections_not_allowed_total",
        "Connections closed at once because no export allows their address.";
    CONNECTIONS_IDLE_CLOSED = "pagewell_connections_idle_closed_total",
        "Connections without a call for long, closed because others wanted their places.";
    ACCEPTS_FAILED = "pagewell_accepts_failed_total",
        "Times that no connection could be accepted for want of descriptors or memory.";
    LISTINGS_SHORTENED = "pagewell_listings_shortened_total",
        "Pages of listings made shorter because much of the memory for replies was taken.";
    CONNECTIONS_STALLED = "pagewell_connections_stalled_total",
        "Connections closed because a record or a reply made no progress.";
    RECORDS_OVERDUE = "pagewell_records_overdue_total",
        "Connections closed because others waited for the memory of a record that did not come.";
    RECORDS_PUT_OFF = "pagewell_records_put_off_total",
        "Large calls answered NFS3ERR_JUKEBOX unread because storage held too many of the export.";
    RECORDS_OVERSIZED = "pagewell_records_oversized_total",
        "Records over the size cap, skipped and refused.";
    RECORDS_BROKEN = "pagewell_records_broken_total",
        "Connections closed because their record marking made no sense.";
    DUPLICATES_REPLAYED = "pagewell_duplicates_replayed_total",
        "Retransmitted calls answered with the reply of the first.";
    DUPLICATES_IN_PROGRESS = "pagewell_duplicates_in_progress_total",
        "Retransmitted calls whose first was still being worked on.";
    DUPLICATES_PUSHED_OUT = "pagewell_duplicates_pushed_out_total",
        "Replies kept for a retransmission and pushed out by later ones before they were old.";
    CALLS_ABANDONED = "pagewell_calls_abandoned_total",
        "Calls not begun because the connection that they came on was gone.";
    JUKEBOX_REPLIES = "pagewell_jukebox_replies_total",
        "Calls answered NFS3ERR_JUKEBOX because storage was slow.";
    CALLS_PARKED = "pagewell_calls_parked_total",
        "Calls that waited without a thread because storage held others for their object.";
    PANICS = "pagewell_panics_total",
        "Calls that ended in a defect of the program; each cost its client the connection.";
    STORAGE_ERRORS = "pagewell_storage_errors_total", "Calls that failed because storage did.";
    BAD_HANDLES = "pagewell_bad_handles_total", "Calls with a handle that this server never made.";
    LOCKS_GRANTED = "pagewell_locks_granted_total",
        "Locks that clients asked for and got, at once or when they asked again.";
    LOCKS_BLOCKED = "pagewell_locks_blocked_total",
        "Times that a client was told to wait for a lock.";
    LOCKS_DENIED = "pagewell_locks_denied_total",
        "Locks refused because somebody else holds them.";
    LOCKS_REFUSED = "pagewell_locks_refused_total",
        "Locks refused because a bound on locks was reached.";
    LOCK_DEADLOCKS = "pagewell_lock_deadlocks_total",
        "Locks refused because the wait for them would have had no end.";
    LOCK_GRACE_REFUSALS = "pagewell_lock_grace_refusals_total",
        "New locks refused after a restart, and old ones that were asked for too late.";
    LOCK_OFFERS_LAPSED = "pagewell_lock_offers_lapsed_total",
        "Locks offered to a client that waited, and taken back because it did not answer.";
    LOCK_CALLS = "pagewell_lock_calls_total",
        "Calls made to clients about locks.";
    LOCK_CALL_FAILURES = "pagewell_lock_call_failures_total",
        "Calls to clients about locks that were refused or not answered.";
    LOCK_CALLS_DROPPED = "pagewell_lock_calls_dropped_total",
        "Calls to clients not made because too many waited.";
    LOCK_CLIENTS_TOLD = "pagewell_lock_clients_told_total",
        "Clients told that this server has restarted.";
    LOCK_NOTICES = "pagewell_lock_notices_total",
        "Restarts of clients that freed their locks.";
    LOCK_NOTICES_IGNORED = "pagewell_lock_notices_ignored_total",
        "Notices of restarts that came again or were of no client with locks.";
    LOCK_DATAGRAMS_DROPPED = "pagewell_lock_datagrams_dropped_total",
        "Datagrams not answered: of strangers, too long, or too many.";
    RAM_PAGES_COPIED = "pagewell_ram_pages_copied_total",
        "Pages of RAM files copied at a write because a reader still held them.";
    RAM_TRIMS = "pagewell_ram_trims_total",
        "Times that the memory of removed objects and names was handed back.";
    RAM_REFUSED = "pagewell_ram_refused_total",
        "Changes of a RAM file system refused or cut short because it was full.";
    NFS_SILLY_RENAMES = "pagewell_nfs_silly_renames_total",
        "Open files of mounted exports that were renamed because their last name was removed.";
    DEVICE_READS = "pagewell_device_reads_total", "Read requests made to files and block devices.";
    DEVICE_READ_BYTES = "pagewell_device_read_bytes_total",
        "Bytes read from files and block devices.";
    DEVICE_READ_ERRORS = "pagewell_device_read_errors_total",
        "Reads that a file or block device refused.";
    CACHE_HITS = "pagewell_cache_hits_total", "Pages, or parts of them, found in the page cache.";
    CACHE_MISSES = "pagewell_cache_misses_total",
        "Reads of the page cache that found something missing or on its way.";
    CACHE_WOULD_BLOCK = "pagewell_cache_would_block_total", "Misses of callers that may not wait.";
    CACHE_JOINED = "pagewell_cache_joined_total",
        "Times that a reader waited for a fetch that was on its way already.";
    CACHE_FETCH_REQUESTS = "pagewell_cache_fetch_requests_total",
        "Requests sent to devices by the page cache.";
    CACHE_FETCHED_BYTES = "pagewell_cache_fetched_bytes_total",
        "Bytes that devices brought into the page cache.";
    CACHE_FETCH_ERRORS = "pagewell_cache_fetch_errors_total",
        "Runs of bytes that a device did not bring.";
    CACHE_RETRIES = "pagewell_cache_retries_total",
        "Reads and requests made again, smaller, because a larger one had failed.";
    CACHE_MERGED_REQUESTS = "pagewell_cache_merged_requests_total",
        "Requests that travelled with another.";
    CACHE_WRAPS = "pagewell_cache_elevator_wraps_total",
        "Times that the elevator went back to the lowest address.";
    CACHE_DEADLINE_PICKS = "pagewell_cache_elevator_deadline_picks_total",
        "Requests sent out of order because they had waited too long.";
    CACHE_AHEAD_PLANNED_BYTES = "pagewell_cache_read_ahead_bytes_total",
        "Bytes fetched before they were asked for.";
    CACHE_AHEAD_USEFUL_BYTES = "pagewell_cache_read_ahead_useful_bytes_total",
        "Bytes of pages fetched by read-ahead that were read, in whole pages.";
    CACHE_AHEAD_WASTED_BYTES = "pagewell_cache_read_ahead_wasted_bytes_total",
        "Bytes of pages fetched by read-ahead and evicted unread, in whole pages.";
    CACHE_AHEAD_LATE = "pagewell_cache_read_ahead_late_total",
        "Reads that had to wait for read-ahead.";
    CACHE_AHEAD_REFUSED = "pagewell_cache_read_ahead_refused_total",
        "Times that there was no memory for read-ahead.";
    CACHE_EVICTED_PAGES = "pagewell_cache_evicted_pages_total", "Pages evicted for others.";
    CACHE_RELEASED_PAGES = "pagewell_cache_released_pages_total",
        "Pages given back because a stream had passed them.";
    CACHE_PASSED_WANTED = "pagewell_cache_passed_wanted_total",
        "Pages fetched again that were given back because their reader was said to keep them.";
    CACHE_CONFLICTS = "pagewell_cache_conflicts_total",
        "Pages evicted because their places in the page table were wanted.";
    CACHE_MEMORY_WAITS = "pagewell_cache_memory_waits_total",
        "Times that a reader slept because every page was in use.";
    CACHE_TIMEOUTS = "pagewell_cache_timeouts_total",
        "Reads given up because a device did not answer in time.";
    // Before those lent, so that whoever reads both never finds more returned than lent.
    CACHE_RETURNED_PAGES = "pagewell_cache_returned_pages_total", "Lent pages that came back.";
    CACHE_LENT_PAGES = "pagewell_cache_lent_pages_total", "Pages lent instead of copied.";
    CACHE_LENDING_REFUSED = "pagewell_cache_lending_refused_total",
        "Reads copied because too many pages were lent.";
    CACHE_HUGE_PAGES_MISSING = "pagewell_cache_huge_pages_missing_total",
        "Caches whose memory is in ordinary pages because the system has no huge ones.";
    CACHE_HALVED = "pagewell_cache_halved_total",
        "Halvings of the usual size of a cache because there was no memory for it.";
    CACHE_POPULATE_FAILED = "pagewell_cache_populate_failed_total",
        "Caches whose first part of memory could not be taken at the start.";
    CACHE_WINDOW_HITS = "pagewell_cache_window_hits_total", "Reads that found their window mapped.";
    CACHE_WINDOW_MAPS = "pagewell_cache_window_maps_total", "Windows mapped.";
    CACHE_WINDOW_UNMAPS = "pagewell_cache_window_unmaps_total", "Windows unmapped.";
    CACHE_WRITES = "pagewell_cache_writes_total", "Writes into the page cache.";
    CACHE_WRITTEN_BYTES = "pagewell_cache_written_bytes_total",
        "Bytes written into the page cache.";
    CACHE_REWRITTEN_BYTES = "pagewell_cache_rewritten_bytes_total",
        "Of them, bytes that were not on the device yet: writes saved.";
    CACHE_DETACHED_PAGES = "pagewell_cache_detached_pages_total",
        "Pages copied at a write because somebody held them.";
    CACHE_WRITE_MOMENTS = "pagewell_cache_write_moments_total",
        "Writes that waited a moment for somebody to let go of the page.";
    CACHE_WRITE_FETCH_WAITS = "pagewell_cache_write_fetch_waits_total",
        "Writes that waited for a fetch of the same bytes.";
    CACHE_WRITE_BUSY_WAITS = "pagewell_cache_write_busy_waits_total",
        "Writes that waited for a write-out of the same block, as rules for comparison want it.";
    CACHE_WRITE_PAUSES = "pagewell_cache_write_pauses_total",
        "Pauses of writers because much is not on the device yet.";
    CACHE_WRITE_PAUSE_NANOSECONDS = "pagewell_cache_write_pause_nanoseconds_total",
        "Time of those pauses.";
    CACHE_WRITE_REFUSALS = "pagewell_cache_write_refusals_total",
        "Writes that waited because as much as may be was not on the device.";
    CACHE_WRITE_TIMEOUTS = "pagewell_cache_write_timeouts_total",
        "Writes and commits given up because a device did not answer in time.";
    CACHE_WRITE_WOULD_BLOCK = "pagewell_cache_write_would_block_total",
        "Writes of callers that may not wait.";
    CACHE_WRITE_FILLS = "pagewell_cache_write_fills_total",
        "Writes that read first because too many small ranges had gathered.";
    CACHE_FILLS = "pagewell_cache_fills_total",
        "Reads from a device into the gaps between bytes that are newer.";
    CACHE_STAGED_BYTES = "pagewell_cache_staged_bytes_total",
        "Bytes copied out of pages to be written to devices.";
    CACHE_WRITE_OUT_REQUESTS = "pagewell_cache_write_out_requests_total",
        "Write requests sent to devices by the page cache.";
    CACHE_WRITE_OUT_BYTES = "pagewell_cache_write_out_bytes_total",
        "Bytes that the page cache wrote to devices.";
    CACHE_WRITE_OUT_FILLS = "pagewell_cache_write_out_fills_total",
        "Write requests that waited for the rest of a block to be read.";
    CACHE_WRITES_POSTPONED = "pagewell_cache_writes_postponed_total",
        "Write requests that waited for another of the same block.";
    CACHE_WRITE_ERRORS = "pagewell_cache_write_errors_total",
        "Write requests that failed; their bytes are tried again.";
    CACHE_COMMITS = "pagewell_cache_commits_total", "Commits of something written.";
    CACHE_COMMIT_ERRORS = "pagewell_cache_commit_errors_total", "Commits that failed.";
    CACHE_FLUSHES = "pagewell_cache_flushes_total", "Flushes of devices.";
    CACHE_FLUSHES_SHARED = "pagewell_cache_flushes_shared_total",
        "Times that a commit waited for the flush of another.";
    CACHE_FLUSH_ERRORS = "pagewell_cache_flush_errors_total",
        "Flushes that failed: what was written before may be lost.";
    CACHE_FLUSHES_UNASKED = "pagewell_cache_flushes_unasked_total",
        "Flushes that nobody waited for, so that what is kept for them can go.";
    CACHE_REPLAYS = "pagewell_cache_replays_total",
        "Times that a device had lost what was not flushed, and said so.";
    CACHE_REPLAYED_BYTES = "pagewell_cache_replayed_bytes_total",
        "Bytes written again because of a flush that failed.";
    CACHE_DRIVES_HANDED_OVER = "pagewell_cache_drives_handed_over_total",
        "Times that a thread left write-out to the flusher, as others brought more and more.";
    CACHE_DURABLE_WRITES = "pagewell_cache_durable_writes_total",
        "Write requests that were durable by themselves, without a flush.";
    CACHE_FLUSHER_WAKES = "pagewell_cache_flusher_wakes_total",
        "Times that the flusher looked for something to write.";
    CACHE_FLUSHER_MISSING = "pagewell_cache_flusher_missing_total",
        "Caches without a flusher because the system had no thread.";
    CACHE_DISCARDS = "pagewell_cache_discards_total", "Ranges of devices discarded.";
    CACHE_DISCARDED_PAGES = "pagewell_cache_discarded_pages_total",
        "Pages that lost bytes to a discard.";
    CACHE_DISCARDED_DIRTY_BYTES = "pagewell_cache_discarded_dirty_bytes_total",
        "Bytes that were dirty or under write-out when they were discarded.";
    CACHE_LOST_BYTES = "pagewell_cache_lost_bytes_total",
        "Bytes that could not be written before their device was closed.";
    DEVICE_WRITES = "pagewell_device_writes_total",
        "Write requests made to files and block devices.";
    DEVICE_WRITE_BYTES = "pagewell_device_write_bytes_total",
        "Bytes written to files and block devices.";
    DEVICE_WRITE_ERRORS = "pagewell_device_write_errors_total",
        "Writes that a file or block device refused.";
    DEVICE_DURABLE_WRITES = "pagewell_device_durable_writes_total",
        "Writes to files and block devices that had to survive a power failure by themselves.";
    DEVICE_DURABLE_FALLBACKS = "pagewell_device_durable_fallbacks_total",
        "Durable writes made by a flush because the system has no durable write.";
    DEVICE_FLUSHES = "pagewell_device_flushes_total",
        "Times that files and block devices were told to make writes durable.";
    DEVICE_FLUSH_ERRORS = "pagewell_device_flush_errors_total",
        "Flushes that failed: what was written before may be lost.";
    DEVICE_IN_USE = "pagewell_device_in_use_total",
        "Devices not opened for writing because another program uses them.";
    DEVICE_LOCKS_MISSING = "pagewell_device_locks_missing_total",
        "Files opened for writing where the system has no locks to keep other programs away.";
    DEVICE_REFUSED = "pagewell_device_refused_total",
        "Requests refused because they were misaligned, out of bounds or not allowed.";
    DEVICE_TRUNCATED = "pagewell_device_truncated_total",
        "Requests that met the end of a file which had become shorter.";
    DEVICE_CONTINUED = "pagewell_device_continued_total",
        "Transfers that were short or interrupted and went on.";
    DEVICE_BUFFERED_FALLBACKS = "pagewell_device_buffered_fallbacks_total",
        "Devices read through the kernel's page cache because they cannot be read directly.";
    DEVICE_TAIL_WRITES = "pagewell_device_tail_writes_total",
        "Writes of the partial last block of a file, made through the kernel's page cache.";
    DEVICE_RING_FALLBACKS = "pagewell_device_ring_fallbacks_total",
        "Devices served by threads because the kernel gave no ring.";
    DEVICE_RING_STALLS = "pagewell_device_ring_stalls_total",
        "Times that the kernel did not take requests from a ring at once.";
    DEVICE_RING_QUEUED = "pagewell_device_ring_queued_total",
        "Requests that waited because a ring was at its depth.";
    DEVICE_FIXED_TRANSFERS = "pagewell_device_fixed_transfers_total",
        "Transfers in memory that was prepared for the ring.";
    DEVICE_MEMORY_FALLBACKS = "pagewell_device_memory_fallbacks_total",
        "Times that memory could not be prepared for a ring.";
    DEVICE_WORKERS_REFUSED = "pagewell_device_workers_refused_total",
        "Times that the system gave no further thread to a device.";
    DEVICE_COMPLETION_PANICS = "pagewell_device_completion_panics_total",
        "Completions that ended in a defect of the program.";
    STRIPE_REQUESTS_DEALT = "pagewell_stripe_requests_dealt_total",
        "Requests of stripes that touched more than one device.";
    STRIPE_PIECES_MERGED = "pagewell_stripe_pieces_merged_total",
        "Chunks of stripes that travelled in the request of their neighbour.";
    MIRROR_READS_RETRIED = "pagewell_mirror_reads_retried_total",
        "Reads of mirrors tried again on another half after a failure.";
    MIRROR_READS_FAILED = "pagewell_mirror_reads_failed_total",
        "Reads of mirrors that failed on every half.";
    MIRROR_WRITES_FAILED = "pagewell_mirror_writes_failed_total",
        "Writes of mirrors that failed on every half.";
    MIRROR_READS_STALE = "pagewell_mirror_reads_stale_total",
        "Reads of mirrors made again because their half had missed a write meanwhile.";
    MIRROR_FLUSHES_FAILED = "pagewell_mirror_flushes_failed_total",
        "Flushes of mirrors that failed on every half.";
    MIRROR_HALVES_FAILED = "pagewell_mirror_halves_failed_total",
        "Halves of mirrors taken out of service because a write or a flush failed.";
    MIRROR_HALVES_LEFT_OUT = "pagewell_mirror_halves_left_out_total",
        "Halves not read when their mirror was opened because they missed writes or may have.";
    MIRROR_RECORD_FAILURES = "pagewell_mirror_record_failures_total",
        "Times that the record of a half of a mirror could not be stored.";
    MIRROR_COMPARED_BYTES = "pagewell_mirror_compared_bytes_total",
        "Bytes of halves compared with another half to make them equal.";
    MIRROR_RESYNCHRONISED_BYTES = "pagewell_mirror_resynchronised_bytes_total",
        "Bytes copied to halves of mirrors to make them equal.";
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
        "Exports that name objects by inode trails instead of kernel handles.";
    DIR_CONTAINMENT_CHECKS = "pagewell_dir_containment_checks_total",
        "Objects that were asked whether they are inside the export.";
    DIR_OBJECTS_OUTSIDE = "pagewell_dir_objects_outside_total",
        "Objects refused because they had left the export.";
    DIR_TRAIL_TABLE_HITS = "pagewell_dir_trail_table_hits_total",
        "Objects found again where they were last seen.";
    DIR_TRAIL_WALKS = "pagewell_dir_trail_walks_total", "Objects looked for along their trail.";
    DIR_TRAIL_SEARCHES = "pagewell_dir_trail_searches_total",
        "Objects looked for in the whole export.";
    DIR_TRAIL_SEARCHES_FAILED = "pagewell_dir_trail_searches_failed_total",
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
    DIR_SYNCS = "pagewell_dir_syncs_total",
        "Sync calls made for files, directories and file systems.";
    DIR_FILESYSTEM_SYNCS = "pagewell_dir_filesystem_syncs_total", "Syncs of a whole file system.";
    DIR_SYNC_FAILURES = "pagewell_dir_sync_failures_total",
        "Sync calls that failed; each changed the write verifier.";
    DIR_LISTINGS_OPENED = "pagewell_dir_listings_opened_total",
        "Directory pages for which the directory was opened.";
    DIR_LISTINGS_CONTINUED = "pagewell_dir_listings_continued_total",
        "Directory pages that continued an open listing.";
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
    CLIENT_CALLS = "pagewell_client_calls_total",
        "Calls made to other servers, each counted once however often it was sent.";
    CLIENT_RETRANSMISSIONS = "pagewell_client_retransmissions_total",
        "Calls to other servers sent again because the connection was lost or silent.";
    CLIENT_TIMEOUTS = "pagewell_client_timeouts_total",
        "Attempts of calls to other servers that got no reply in time.";
    CLIENT_INVALID_REPLIES = "pagewell_client_invalid_replies_total",
        "Replies of other servers that made no sense; each cost the connection.";
    CLIENT_UNEXPECTED_REPLIES = "pagewell_client_unexpected_replies_total",
        "Replies of other servers to calls that were never made.";
    CLIENT_LATE_REPLIES = "pagewell_client_late_replies_total",
        "Replies of other servers to calls that had been given up.";
    CLIENT_CONNECTIONS = "pagewell_client_connections_total", "Connections made to other servers.";
    CLIENT_RECONNECTIONS = "pagewell_client_reconnections_total",
        "Connections made to other servers in place of a lost one.";
    CLIENT_CONNECT_FAILURES = "pagewell_client_connect_failures_total",
        "Attempts to connect to another server again that failed.";
    CLIENT_RESERVED_PORT_FALLBACKS = "pagewell_client_reserved_port_fallbacks_total",
        "Connections to other servers from an ordinary port because no reserved one was allowed.";
    CLIENT_SENT_BYTES = "pagewell_client_sent_bytes_total", "Bytes of calls sent to other servers.";
    CLIENT_RECEIVED_BYTES = "pagewell_client_received_bytes_total",
        "Bytes of replies received from other servers.";
    CLIENT_SEND_CALLS = "pagewell_client_send_calls_total",
        "System calls that sent calls to other servers.";
    CLIENT_RECEIVE_CALLS = "pagewell_client_receive_calls_total",
        "System calls that received replies of other servers.";
    CLIENT_SENDS_HANDED_OVER = "pagewell_client_sends_handed_over_total",
        "Times that sending went on in a thread of its own because the caller would have waited.";
    CLIENT_COMPLETION_PANICS = "pagewell_client_completion_panics_total",
        "Completions of calls to other servers that ended in a defect of the program.";
    FUSE_LOOKUPS = "pagewell_fuse_lookups_total", "Names that mounts were asked for.";
    FUSE_ATTRIBUTES_ASKED = "pagewell_fuse_attributes_asked_total",
        "Attributes that mounts were asked for.";
    FUSE_ENTRIES_LISTED = "pagewell_fuse_entries_listed_total",
        "Directory entries told with their attributes by mounts.";
    FUSE_FILES_PUSHED = "pagewell_fuse_files_pushed_total",
        "Small files put into the kernel's pages before they were asked for.";
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
        "Requests of mounts handed to a worker so that somebody goes on receiving.";
    FUSE_INTERRUPTED = "pagewell_fuse_interrupted_total",
        "Requests of mounts given up because their program was killed while it waited.";
    FUSE_GROUPS_READ = "pagewell_fuse_groups_read_total",
        "Times that the supplementary groups of a program were looked up.";
    FUSE_PASSTHROUGH_OPENS = "pagewell_fuse_passthrough_opens_total",
        "Files opened in mounts that the kernel reads and writes by itself.";
    FUSE_PASSTHROUGH_REFUSED = "pagewell_fuse_passthrough_refused_total",
        "Files that the kernel refused to read and write by itself.";
    CLIENT_ATTRIBUTE_HITS = "pagewell_client_attribute_cache_hits_total",
        "Times that attributes were believed without asking the server.";
    CLIENT_ATTRIBUTE_MISSES = "pagewell_client_attribute_cache_misses_total",
        "Times that attributes were asked for.";
    CLIENT_NAME_HITS = "pagewell_client_name_cache_hits_total",
        "Names looked up without asking the server.";
    CLIENT_NAME_MISSES = "pagewell_client_name_cache_misses_total",
        "Names that the server was asked for.";
    CLIENT_READ_HITS = "pagewell_client_read_hits_total",
        "Reads of files that needed no answer of the server.";
    CLIENT_READ_MISSES = "pagewell_client_read_misses_total",
        "Reads of files that waited for the server.";
    CLIENT_WRITE_HITS = "pagewell_client_write_hits_total", "Writes to files that memory took.";
    CLIENT_WRITE_MISSES = "pagewell_client_write_misses_total",
        "Writes to files that waited for the server.";
    CLIENT_FILES_IN_QUESTION = "pagewell_client_files_in_question_total",
        "Files read anew because a server did not tell whether others had changed them, too.";
    CLIENT_WRITER_CHANGES = "pagewell_client_writer_changes_total",
        "Files committed before another user wrote to them.";
    CLIENT_LINK_HITS = "pagewell_client_link_cache_hits_total",
        "Symbolic links read without asking the server.";
    CLIENT_LINK_MISSES = "pagewell_client_link_cache_misses_total",
        "Symbolic links that the server was asked for.";
    CLIENT_DIRECTORY_HITS = "pagewell_client_directory_cache_hits_total",
        "Directory pages listed without asking the server.";
    CLIENT_DIRECTORY_MISSES = "pagewell_client_directory_cache_misses_total",
        "Directory pages that the server was asked for.";
    CLIENT_ENTRY_HITS = "pagewell_client_entry_cache_hits_total",
        "Listings that were continued where memory knew the place.";
    CLIENT_ENTRY_MISSES = "pagewell_client_entry_cache_misses_total",
        "Listings that were read again from the beginning to find the place.";
    CLIENT_ACCESS_HITS = "pagewell_client_access_cache_hits_total",
        "Permissions known without asking the server.";
    CLIENT_ACCESS_MISSES = "pagewell_client_access_cache_misses_total",
        "Permissions that the server was asked for.";
}
