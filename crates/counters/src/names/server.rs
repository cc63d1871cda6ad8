//! The server: connections, calls, locks.

use crate::Counter;

register! { SERVER, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data that Pagewell copied in its memory, or between its memory and a file; \
         what the kernel copies to and from sockets is not counted.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data that the kernel sent straight from a file, with sendfile.";
    RECEIVE_CALLS = "pagewell_receive_calls_total",
        "System calls made to receive requests of clients.";
    REQUEST_MEMORY_REFUSED = "pagewell_request_memory_refused_total",
        "Times that a request had to wait for memory, because the memory for requests or its \
         client's share of it was used up, or others came first.";
    CONNECTIONS_ACCEPTED = "pagewell_connections_accepted_total",
        "Connections accepted from clients.";
    CONNECTIONS_REFUSED = "pagewell_connections_refused_total",
        "Connections closed at once because too many were open, of all clients or of the same \
         address.";
    CONNECTIONS_NOT_ALLOWED = "pagewell_connections_not_allowed_total",
        "Connections closed at once because no export allows their address.";
    ACCEPTS_FAILED = "pagewell_accepts_failed_total",
        "Times that no connection could be accepted for want of descriptors or memory.";
    CONNECTIONS_STALLED = "pagewell_connections_stalled_total",
        "Connections closed because a request or a reply on them made no progress for too long.";
    DUPLICATES_REPLAYED = "pagewell_duplicates_replayed_total",
        "Retransmitted calls answered with the kept reply to the first.";
    DUPLICATES_PUSHED_OUT = "pagewell_duplicates_pushed_out_total",
        "Kept replies forgotten before their time because later ones needed the memory; a \
         retransmission of their calls would be done again.";
    JUKEBOX_REPLIES = "pagewell_jukebox_replies_total",
        "Calls answered NFS3ERR_JUKEBOX because storage held them, or others of their object or \
         export, too long.";
    LIMIT_CLIENT_WAITS = "pagewell_limit_client_waits_total",
        "Times that a connection was not read for a while because its client had as many calls or \
         bytes a second as each client may have.";
    LIMIT_EXPORT_WAITS = "pagewell_limit_export_waits_total",
        "Times that a connection was not read for a while because its export gave as many calls or \
         bytes a second as it may.";
    PANICS = "pagewell_panics_total",
        "Calls, requests of mounts, work for locks and ends of requests to devices and other \
         servers that met a defect of the program; an NFS client lost its connection by it.";
    STORAGE_ERRORS = "pagewell_storage_errors_total",
        "I/O errors of storage that failed a call, or kept the server from storing its list of \
         clients with locks.";
    BAD_HANDLES = "pagewell_bad_handles_total", "Calls with a handle that this server never made.";
    LOCKS_REFUSED = "pagewell_locks_refused_total",
        "Locks refused because the server holds as many locks, or waiting clients, as it may.";
    LOCK_CALL_FAILURES = "pagewell_lock_call_failures_total",
        "Calls about locks from the server to clients that were refused, not answered, or no \
         longer needed.";
}
