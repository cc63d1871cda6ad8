//! The page cache.

use crate::Counter;

register! { CACHE, Counter:
    CACHE_HITS = "pagewell_cache_hits_total",
        "Pages, or parts of them, that reads found in the page cache.";
    CACHE_MISSES = "pagewell_cache_misses_total",
        "Reads that found bytes missing in the page cache, or still on their way from a device.";
    CACHE_JOINED = "pagewell_cache_joined_total",
        "Times that a read waited for a fetch which another had begun, instead of asking the \
         device again.";
    CACHE_FETCH_REQUESTS = "pagewell_cache_fetch_requests_total",
        "Read requests that the page cache sent to devices.";
    CACHE_FETCHED_BYTES = "pagewell_cache_fetched_bytes_total",
        "Bytes that devices brought into the page cache.";
    CACHE_FETCH_ERRORS = "pagewell_cache_fetch_errors_total",
        "Ranges of bytes that the page cache asked a device for and did not get.";
    CACHE_MERGED_REQUESTS = "pagewell_cache_merged_requests_total",
        "Requests of the page cache that reached the device as part of another, adjacent request.";
    CACHE_WRAPS = "pagewell_cache_elevator_wraps_total",
        "Times that the queue of a device, which goes through requests by rising address, went \
         back to the lowest one.";
    CACHE_DEADLINE_PICKS = "pagewell_cache_elevator_deadline_picks_total",
        "Requests sent to a device out of the order of addresses because they had waited too long.";
    CACHE_AHEAD_USEFUL_BYTES = "pagewell_cache_read_ahead_useful_bytes_total",
        "Bytes of pages fetched by read-ahead that were read later, counted in whole pages.";
    CACHE_AHEAD_WASTED_BYTES = "pagewell_cache_read_ahead_wasted_bytes_total",
        "Bytes of pages fetched by read-ahead that were evicted unread, counted in whole pages.";
    CACHE_EVICTED_PAGES = "pagewell_cache_evicted_pages_total",
        "Pages evicted from the page cache to make room for others.";
    CACHE_CONFLICTS = "pagewell_cache_conflicts_total",
        "Times that the page cache evicted others because all places for a new page in the page \
         table were taken.";
    CACHE_MEMORY_WAITS = "pagewell_cache_memory_waits_total",
        "Times that a reader or a writer slept because every page of the cache was in use.";
    CACHE_TIMEOUTS = "pagewell_cache_timeouts_total",
        "Reads, writes and commits given up because a device did not answer in time.";
    // Before the pinned ones, so that a reader of both never finds more unpinned than pinned.
    CACHE_UNPINNED_PAGES = "pagewell_cache_unpinned_pages_total",
        "Pages of the page cache that were let go of after they had been pinned.";
    CACHE_PINNED_PAGES = "pagewell_cache_pinned_pages_total",
        "Pages of the page cache that were pinned, so that their bytes can be sent without a copy.";
    CACHE_PINS_REFUSED = "pagewell_cache_pins_refused_total",
        "Reads whose bytes were copied because too many pages were pinned, or because there was \
         no memory for all their pages at once.";
    CACHE_HALVED = "pagewell_cache_halved_total",
        "Times that the usual size of a page cache was halved because the system had no memory \
         for it.";
    CACHE_DETACHED_PAGES = "pagewell_cache_detached_pages_total",
        "Pages of the page cache that a write copied because they were still being read or sent.";
    CACHE_WRITE_FETCH_WAITS = "pagewell_cache_write_fetch_waits_total",
        "Times that a write waited for a fetch of the same bytes from the device.";
    CACHE_WRITE_PAUSES = "pagewell_cache_write_pauses_total",
        "Times that a writer was slowed down by a pause because much was not on its device yet.";
    CACHE_WRITE_REFUSALS = "pagewell_cache_write_refusals_total",
        "Writes that had to wait for a device to take bytes because dirty memory was at its limit.";
    CACHE_WRITE_PAUSE_NANOSECONDS = "pagewell_cache_write_pause_nanoseconds_total",
        "Time, in seconds, that writers spent in pauses because much was not on their device yet.";
    CACHE_STAGED_BYTES = "pagewell_cache_staged_bytes_total",
        "Bytes copied out of pages into the buffers that devices write from.";
    CACHE_WRITE_ERRORS = "pagewell_cache_write_errors_total",
        "Write requests of the page cache that failed; their bytes are tried again.";
    CACHE_COMMIT_ERRORS = "pagewell_cache_commit_errors_total",
        "Commits of the page cache that failed, so that not all bytes are known to be durable.";
    CACHE_FLUSHES_SHARED = "pagewell_cache_flushes_shared_total",
        "Commits that waited for a flush which another thread had begun.";
    CACHE_FLUSH_ERRORS = "pagewell_cache_flush_errors_total",
        "Flushes of the page cache that a device failed, so that bytes written before may be lost.";
    CACHE_LOST_BYTES = "pagewell_cache_lost_bytes_total",
        "Bytes that were lost because they could not be written before their device was closed.";
}
