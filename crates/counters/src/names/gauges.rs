//! The name of every gauge.

use crate::Gauge;

register! { GAUGES, Gauge:
    CACHE_ARENA_BYTES = "pagewell_cache_arena_bytes", "Memory of page caches.";
    CACHE_ARENA_PAGES = "pagewell_cache_arena_pages", "Pages that page caches have room for.";
    CACHE_PAGES = "pagewell_cache_pages", "Pages in page caches now.";
    CACHE_STAGING_BYTES = "pagewell_cache_staging_bytes",
        "Memory in use for bytes on their way to devices.";
    CACHE_DIRTY_PAGES = "pagewell_cache_dirty_pages",
        "Pages with bytes that are not on their device.";
    CACHE_KEPT_BYTES = "pagewell_cache_kept_bytes",
        "Bytes that were written and are kept until a flush.";
    CACHE_DIRTY_BYTES = "pagewell_cache_dirty_bytes", "Bytes that are not on their device.";
    DIR_OPEN_DESCRIPTORS = "pagewell_dir_open_descriptors",
        "Descriptors held for objects of served directories.";
    CONNECTIONS = "pagewell_connections", "Client connections open now.";
    LOCKS_HELD = "pagewell_locks_held", "Ranges of files locked by clients now.";
    LOCKS_WAITING = "pagewell_locks_waiting", "Locks that clients wait for now.";
    REQUEST_MEMORY_BYTES = "pagewell_request_memory_bytes",
        "Bytes of memory that hold requests now.";
    UNSENT_REPLY_BYTES = "pagewell_unsent_reply_bytes",
        "Memory of replies that have not left, and of listings that are being made.";
    SEND_COPY_COST = "pagewell_send_copy_cost_picoseconds",
        "Processor time for a byte of a file that was sent by copying it, lately.";
    SEND_COPY_TIME = "pagewell_send_copy_time_picoseconds",
        "How long a byte of large READs that are copied takes until the client goes on.";
    SEND_MAP_COST = "pagewell_send_map_cost_picoseconds",
        "Processor time for a byte of a file that was sent from a mapping, lately.";
    SEND_MAP_TIME = "pagewell_send_map_time_picoseconds",
        "How long a byte of large READs that are mapped takes until the client goes on.";
    SEND_SPLICE_COST = "pagewell_send_splice_cost_picoseconds",
        "Processor time for a byte of a file that was spliced, lately.";
    SEND_SPLICE_TIME = "pagewell_send_splice_time_picoseconds",
        "How long a byte of large READs that are spliced takes until the client goes on.";
    CALLS_RUNNING = "pagewell_calls_running", "Calls that may wait, being worked on now.";
    FUSE_NODES = "pagewell_fuse_nodes", "Objects in mounts that the kernel knows now.";
    FUSE_OPEN_FILES = "pagewell_fuse_open_files", "Files open in mounts now.";
    RAM_BYTES = "pagewell_ram_bytes", "Bytes charged to RAM file systems now.";
    CLIENT_CALLS_IN_FLIGHT = "pagewell_client_calls_in_flight",
        "Calls to other servers that have no outcome yet.";
}
