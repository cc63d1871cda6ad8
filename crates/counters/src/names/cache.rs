//! The page cache.

use crate::Counter;

register! { CACHE, Counter:
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
        "Pages given back because a stream had left them behind.";
    CACHE_DROP_BEHIND_REFAULTS = "pagewell_cache_drop_behind_refaults_total",
        "Pages fetched again that were given back because their reader was said to keep them.";
    CACHE_CONFLICTS = "pagewell_cache_conflicts_total",
        "Pages evicted because their places in the page table were wanted.";
    CACHE_MEMORY_WAITS = "pagewell_cache_memory_waits_total",
        "Times that a reader slept because every page was in use.";
    CACHE_TIMEOUTS = "pagewell_cache_timeouts_total",
        "Reads given up because a device did not answer in time.";
    // Before those pinned, so that a reader of both never finds more let go than pinned.
    CACHE_UNPINNED_PAGES = "pagewell_cache_unpinned_pages_total",
        "Pinned pages that were let go.";
    CACHE_PINNED_PAGES = "pagewell_cache_pinned_pages_total",
        "Pages pinned to be sent instead of copied.";
    CACHE_PINS_REFUSED = "pagewell_cache_pins_refused_total",
        "Reads copied because too many pages were pinned.";
    CACHE_HUGE_PAGES_MISSING = "pagewell_cache_huge_pages_missing_total",
        "Caches whose memory is in ordinary pages because the system has no huge ones.";
    CACHE_HALVED = "pagewell_cache_halved_total",
        "Halvings of the usual size of a cache because there was no memory for it.";
    CACHE_POPULATE_FAILED = "pagewell_cache_populate_failed_total",
        "Caches whose first part of memory could not be taken at the start.";
    CACHE_WRITES = "pagewell_cache_writes_total", "Writes into the page cache.";
    CACHE_WRITTEN_BYTES = "pagewell_cache_written_bytes_total",
        "Bytes written into the page cache.";
    CACHE_REWRITTEN_BYTES = "pagewell_cache_rewritten_bytes_total",
        "Of them, bytes that were not on the device yet: writes saved.";
    CACHE_DETACHED_PAGES = "pagewell_cache_detached_pages_total",
        "Pages copied at a write because they were in use.";
    CACHE_WRITE_MOMENTS = "pagewell_cache_write_moments_total",
        "Writes that waited a moment for the page to be let go of.";
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
}
