//! The page cache.

use crate::Counter;

register! { CACHE, Counter:
    CACHE_HITS = "pagewell_cache_hits_total",
        "Pages, or parts of them, that reads found in the page cache.";
    CACHE_MISSES = "pagewell_cache_misses_total",
        "Reads that found bytes missing in the page cache, or still on their way from a device.";
    CACHE_WOULD_BLOCK = "pagewell_cache_would_block_total",
        "Reads of the page cache given back to their caller because they would have waited, and \
         the caller may not wait.";
    CACHE_JOINED = "pagewell_cache_joined_total",
        "Times that a read waited for a fetch which another had begun, instead of asking the \
         device again.";
    CACHE_FETCH_REQUESTS = "pagewell_cache_fetch_requests_total",
        "Read requests that the page cache sent to devices.";
    CACHE_FETCHED_BYTES = "pagewell_cache_fetched_bytes_total",
        "Bytes that devices brought into the page cache.";
    CACHE_FETCH_ERRORS = "pagewell_cache_fetch_errors_total",
        "Ranges of bytes that the page cache asked a device for and did not get.";
    CACHE_RETRIES = "pagewell_cache_retries_total",
        "Reads, and requests to devices, made again in smaller parts because a larger one had \
         failed.";
    CACHE_MERGED_REQUESTS = "pagewell_cache_merged_requests_total",
        "Requests of the page cache that reached the device as part of another, adjacent request.";
    CACHE_WRAPS = "pagewell_cache_elevator_wraps_total",
        "Times that the queue of a device, which goes through requests by rising address, went \
         back to the lowest one.";
    CACHE_DEADLINE_PICKS = "pagewell_cache_elevator_deadline_picks_total",
        "Requests sent to a device out of the order of addresses because they had waited too long.";
    CACHE_AHEAD_PLANNED_BYTES = "pagewell_cache_read_ahead_bytes_total",
        "Bytes that read-ahead asked devices for before a reader wanted them.";
    CACHE_AHEAD_USEFUL_BYTES = "pagewell_cache_read_ahead_useful_bytes_total",
        "Bytes of pages fetched by read-ahead that were read later, counted in whole pages.";
    CACHE_AHEAD_WASTED_BYTES = "pagewell_cache_read_ahead_wasted_bytes_total",
        "Bytes of pages fetched by read-ahead that were evicted unread, counted in whole pages.";
    CACHE_AHEAD_LATE = "pagewell_cache_read_ahead_late_total",
        "Reads that waited for bytes which read-ahead had asked for, but which had not come yet.";
    CACHE_AHEAD_REFUSED = "pagewell_cache_read_ahead_refused_total",
        "Times that read-ahead fetched less than it wanted because there was no memory for it.";
    CACHE_EVICTED_PAGES = "pagewell_cache_evicted_pages_total",
        "Pages evicted from the page cache to make room for others.";
    CACHE_RELEASED_PAGES = "pagewell_cache_released_pages_total",
        "Pages that the page cache gave back because a sequential reader had left them behind.";
    CACHE_DROP_BEHIND_REFAULTS = "pagewell_cache_drop_behind_refaults_total",
        "Pages given back on the word that their reader keeps them itself, which then had to be \
         fetched again.";
    CACHE_CONFLICTS = "pagewell_cache_conflicts_total",
        "Times that the page cache evicted others because all places for a new page in the page \
         table were taken.";
    CACHE_MEMORY_WAITS = "pagewell_cache_memory_waits_total",
        "Times that a reader or a writer slept because every page of the cache was in use.";
    CACHE_TIMEOUTS = "pagewell_cache_timeouts_total",
        "Reads given up because a device did not answer in time.";
    // Before those pinned, so that a reader of both never finds more let go than pinned.
    CACHE_UNPINNED_PAGES = "pagewell_cache_unpinned_pages_total",
        "Pages of the page cache that were let go of after they had been pinned.";
    CACHE_PINNED_PAGES = "pagewell_cache_pinned_pages_total",
        "Pages of the page cache that were pinned, so that their bytes can be sent without a copy.";
    CACHE_PINS_REFUSED = "pagewell_cache_pins_refused_total",
        "Reads whose bytes were copied because too many pages were pinned, or because there was \
         no memory for all their pages at once.";
    CACHE_HUGE_PAGES_MISSING = "pagewell_cache_huge_pages_missing_total",
        "Page caches whose memory is in ordinary pages because the system has no huge ones.";
    CACHE_HALVED = "pagewell_cache_halved_total",
        "Times that the usual size of a page cache was halved because the system had no memory \
         for it.";
    CACHE_POPULATE_FAILED = "pagewell_cache_populate_failed_total",
        "Page caches for which the system did not give the first part of memory at the start.";
    CACHE_WRITES = "pagewell_cache_writes_total", "Writes that the page cache took.";
    CACHE_WRITTEN_BYTES = "pagewell_cache_written_bytes_total",
        "Bytes of the writes that the page cache took.";
    CACHE_REWRITTEN_BYTES = "pagewell_cache_rewritten_bytes_total",
        "Bytes written into the page cache over bytes that were not on the device yet, which \
         saved a write to it.";
    CACHE_DETACHED_PAGES = "pagewell_cache_detached_pages_total",
        "Pages of the page cache that a write copied because they were still being read or sent.";
    CACHE_WRITE_MOMENTS = "pagewell_cache_write_moments_total",
        "Times that a write waited a moment, without sleeping long, until nothing read or sent \
         its page any more.";
    CACHE_WRITE_FETCH_WAITS = "pagewell_cache_write_fetch_waits_total",
        "Times that a write waited for a fetch of the same bytes from the device.";
    CACHE_WRITE_PAUSES = "pagewell_cache_write_pauses_total",
        "Times that a writer was slowed down by a pause because much was not on its device yet.";
    CACHE_WRITE_PAUSE_NANOSECONDS = "pagewell_cache_write_pause_nanoseconds_total",
        "Time, in seconds, that writers spent in pauses because much was not on their device yet.";
    CACHE_WRITE_REFUSALS = "pagewell_cache_write_refusals_total",
        "Writes that had to wait for a device to take bytes because dirty memory was at its limit.";
    CACHE_WRITE_TIMEOUTS = "pagewell_cache_write_timeouts_total",
        "Writes and commits given up because a device did not answer in time.";
    CACHE_WRITE_WOULD_BLOCK = "pagewell_cache_write_would_block_total",
        "Writes into the page cache given back to their caller because they would have waited, \
         and the caller may not wait.";
    CACHE_WRITE_FILLS = "pagewell_cache_write_fills_total",
        "Times that a write had its page read from the device first, because too many small \
         ranges of it had gathered.";
    CACHE_FILLS = "pagewell_cache_fills_total",
        "Reads from a device that filled the gaps between newer bytes of a page.";
    CACHE_STAGED_BYTES = "pagewell_cache_staged_bytes_total",
        "Bytes copied out of pages into the buffers that devices write from.";
    CACHE_WRITE_OUT_REQUESTS = "pagewell_cache_write_out_requests_total",
        "Write requests that the page cache sent to devices.";
    CACHE_WRITE_OUT_BYTES = "pagewell_cache_write_out_bytes_total",
        "Bytes that the page cache wrote to devices.";
    CACHE_WRITE_OUT_FILLS = "pagewell_cache_write_out_fills_total",
        "Write requests that waited until the rest of a block had been read from the device.";
    CACHE_WRITES_POSTPONED = "pagewell_cache_writes_postponed_total",
        "Write requests that waited until another one of the same block had ended.";
    CACHE_WRITE_ERRORS = "pagewell_cache_write_errors_total",
        "Write requests of the page cache that failed; their bytes are tried again.";
    CACHE_COMMITS = "pagewell_cache_commits_total",
        "Times that a caller asked the page cache to make durable what was written to a device.";
    CACHE_COMMIT_ERRORS = "pagewell_cache_commit_errors_total",
        "Commits of the page cache that failed, so that not all bytes are known to be durable.";
    CACHE_FLUSHES = "pagewell_cache_flushes_total",
        "Times that the page cache told a device to make its writes durable.";
    CACHE_FLUSHES_SHARED = "pagewell_cache_flushes_shared_total",
        "Commits that waited for a flush which another thread had begun.";
    CACHE_FLUSH_ERRORS = "pagewell_cache_flush_errors_total",
        "Flushes of the page cache that a device failed, so that bytes written before may be lost.";
    CACHE_FLUSHES_UNASKED = "pagewell_cache_flushes_unasked_total",
        "Flushes made although no commit waited, to free memory that is kept until a flush.";
    CACHE_REPLAYS = "pagewell_cache_replays_total",
        "Times that a device or a server said that it had lost bytes which were not flushed.";
    CACHE_REPLAYED_BYTES = "pagewell_cache_replayed_bytes_total",
        "Bytes that became dirty again, to be written once more, because a flush failed.";
    CACHE_DRIVES_HANDED_OVER = "pagewell_cache_drives_handed_over_total",
        "Times that a thread which sent writes to a device left the rest to the flusher, because \
         other threads brought more all the time.";
    CACHE_DURABLE_WRITES = "pagewell_cache_durable_writes_total",
        "Write requests that the page cache sent as durable ones, which need no flush.";
    CACHE_FLUSHER_WAKES = "pagewell_cache_flusher_wakes_total",
        "Times that the flusher, the thread that writes because of age or memory, looked for \
         something to write.";
    CACHE_FLUSHER_MISSING = "pagewell_cache_flusher_missing_total",
        "Page caches without a flusher because the system gave no thread.";
    CACHE_DISCARDS = "pagewell_cache_discards_total",
        "Times that a range of bytes was dropped from the page cache, because it was no longer \
         true or not part of a file.";
    CACHE_DISCARDED_PAGES = "pagewell_cache_discarded_pages_total",
        "Pages that lost bytes when a range was dropped from the page cache.";
    CACHE_DISCARDED_DIRTY_BYTES = "pagewell_cache_discarded_dirty_bytes_total",
        "Bytes dropped from the page cache that were not on their device yet.";
    CACHE_LOST_BYTES = "pagewell_cache_lost_bytes_total",
        "Bytes that were lost because they could not be written before their device was closed.";
}
