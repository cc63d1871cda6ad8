//! The name of every gauge.

use crate::Gauge;

register! { GAUGES, Gauge:
    CACHE_ARENA_BYTES = "pagewell_cache_arena_bytes", "Bytes of memory that page caches have.";
    CACHE_ARENA_PAGES = "pagewell_cache_arena_pages",
        "Pages of 64 KiB that page caches have room for.";
    CACHE_PAGES = "pagewell_cache_pages", "Pages of 64 KiB that page caches hold now.";
    CACHE_STAGING_BYTES = "pagewell_cache_staging_bytes",
        "Bytes of memory that hold copies of dirty bytes on their way to devices now.";
    CACHE_KEPT_BYTES = "pagewell_cache_kept_bytes",
        "Bytes that are written to a device and stay in memory until a flush has made them \
         durable.";
    CACHE_DIRTY_BYTES = "pagewell_cache_dirty_bytes",
        "Bytes written into page caches that are not on their device yet.";
    CACHE_REQUESTS_IN_QUEUE = "pagewell_cache_requests_in_queue",
        "Requests of page caches to devices and other servers that have not ended yet.";
    DIR_OPEN_DESCRIPTORS = "pagewell_dir_open_descriptors",
        "File descriptors held for objects of served directories now.";
    CONNECTIONS = "pagewell_connections", "Connections of clients that are open now.";
    CONNECTIONS_LIMITED = "pagewell_connections_limited",
        "Connections of clients that wait now because of a limit of calls or bytes a second.";
    LOCKS_HELD = "pagewell_locks_held", "Ranges of files that clients have locked now.";
    LOCKS_WAITING = "pagewell_locks_waiting", "Locks that clients wait for now.";
    REQUEST_MEMORY_BYTES = "pagewell_request_memory_bytes",
        "Bytes of memory that hold requests now.";
    UNSENT_REPLY_BYTES = "pagewell_unsent_reply_bytes",
        "Bytes of memory that hold replies which have not left, and listings that are being made.";
    CALLS_RUNNING = "pagewell_calls_running",
        "Calls that threads which may wait for storage work on now.";
    FUSE_NODES = "pagewell_fuse_nodes", "Objects in mounts that the kernel knows now.";
    FUSE_OPEN_FILES = "pagewell_fuse_open_files",
        "Opens of files in mounts that are not closed yet.";
    OBJECT_UPLOADS = "pagewell_object_uploads",
        "Changed files that are being sent to object stores now.";
    OBJECT_GUARDED = "pagewell_object_guarded",
        "Buckets that can be written, in whose stores no change replaces another one unseen.";
    OBJECT_UNGUARDED = "pagewell_object_unguarded",
        "Buckets that can be written although changes may replace each other unseen there.";
    STAGING_BYTES = "pagewell_staging_bytes",
        "Changed bytes of objects that are in staging folders, those kept for people included.";
    STAGING_JOURNALED_BYTES = "pagewell_staging_journaled_bytes",
        "Bytes that were acknowledged and are in staging folders alone.";
    STAGING_KEPT_FILES = "pagewell_staging_kept_files",
        "Changed objects whose bytes staging folders keep for people.";
    RAM_BYTES = "pagewell_ram_bytes", "Bytes that RAM file systems count as used now.";
    CLIENT_CALLS_IN_FLIGHT = "pagewell_client_calls_in_flight",
        "Calls to other servers that have no outcome yet.";
    SANDBOX_FILES_CONFINED = "pagewell_sandbox_files_confined",
        "1 when files outside of what is served cannot be opened, else 0.";
    SANDBOX_TCP_CONFINED = "pagewell_sandbox_tcp_confined",
        "1 when TCP connections to others cannot be made, nor other ports be listened at, else 0.";
    SANDBOX_CAPABILITIES = "pagewell_sandbox_capabilities",
        "Capabilities that the process has; root without a sandbox has about 40.";
}
