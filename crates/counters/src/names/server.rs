//! The server: connections, calls, locks.

use crate::Counter;

register! { SERVER, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data that Pagewell copied in its memory, or between its memory and a file; \
         what the kernel copies to and from sockets is not counted.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data that the kernel sent straight from a file, with sendfile.";
    SEND_FAULTS = "pagewell_send_faults_total",
        "Times that the rest of a file had to be copied while a reply sent it, mostly because the \
         file had been cut short.";
    SEND_CALLS = "pagewell_send_calls_total", "System calls made to send replies to clients.";
    RECEIVE_CALLS = "pagewell_receive_calls_total",
        "System calls made to receive requests of clients.";
    POLLS_SUCCESSFUL = "pagewell_polls_successful_total",
        "Times that a receiving thread looked for work before it slept, and found some.";
    POLLS_IN_VAIN = "pagewell_polls_in_vain_total",
        "Times that a receiving thread looked for work before it slept, and found none.";
    POLLS_INTERRUPTED = "pagewell_polls_interrupted_total",
        "Times that a receiving thread looked for work before it slept, and something else had \
         its processor meanwhile.";
    READERS_MOVED = "pagewell_readers_moved_total",
        "Times that a receiving thread moved to the processor where packets of its connection \
         arrive, with more threads at work than half the processors.";
    REQUEST_MEMORY_REFUSED = "pagewell_request_memory_refused_total",
        "Times that a request had to wait for memory, because the memory for requests or its \
         client's share of it was used up, or others came first.";
    REQUEST_MEMORY_FIRST = "pagewell_request_memory_first_total",
        "Requests that were given memory beyond the limit on memory for requests, one at a time, \
         so that not all wait for each other.";
    REQUEST_MEMORY_CARELESS = "pagewell_request_memory_careless_total",
        "Requests from addresses that lost an unfinished request within the last minute; all of \
         these addresses together have the memory of one.";
    CALLS_INLINE = "pagewell_calls_inline_total",
        "Calls answered by the thread that received them.";
    CALLS_POOLED = "pagewell_calls_pooled_total",
        "Calls handed to threads that may wait for storage.";
    CONNECTIONS_ACCEPTED = "pagewell_connections_accepted_total",
        "Connections accepted from clients.";
    CONNECTIONS_UNPACED = "pagewell_connections_unpaced_total",
        "Connections with clients and servers on this machine, whose bytes are sent without \
         pacing.";
    CONNECTIONS_REFUSED = "pagewell_connections_refused_total",
        "Connections closed at once because too many were open, of all clients or of the same \
         address.";
    CONNECTIONS_NOT_ALLOWED = "pagewell_connections_not_allowed_total",
        "Connections closed at once because no export allows their address.";
    CONNECTIONS_IDLE_CLOSED = "pagewell_connections_idle_closed_total",
        "Idle connections closed because new ones wanted their places or descriptors.";
    ACCEPTS_FAILED = "pagewell_accepts_failed_total",
        "Times that no connection could be accepted for want of descriptors or memory.";
    LISTINGS_SHORTENED = "pagewell_listings_shortened_total",
        "Pages of directory listings made shorter because much of the memory for replies was \
         taken.";
    CONNECTIONS_STALLED = "pagewell_connections_stalled_total",
        "Connections closed because a request or a reply on them made no progress for too long.";
    RECORDS_OVERDUE = "pagewell_records_overdue_total",
        "Connections closed because their unfinished request held memory that others waited for.";
    RECORDS_PUT_OFF = "pagewell_records_put_off_total",
        "Large calls answered NFS3ERR_JUKEBOX without being read, because storage already held \
         too many calls of their export.";
    RECORDS_OVERSIZED = "pagewell_records_oversized_total",
        "Calls skipped and refused because they were longer than the server takes.";
    RECORDS_BROKEN = "pagewell_records_broken_total",
        "Connections closed because the lengths in front of their calls (record marking) made no \
         sense.";
    DUPLICATES_REPLAYED = "pagewell_duplicates_replayed_total",
        "Retransmitted calls answered with the kept reply to the first.";
    DUPLICATES_IN_PROGRESS = "pagewell_duplicates_in_progress_total",
        "Calls like one that was still being worked on, or whose reply had not arrived yet.";
    DUPLICATES_PUSHED_OUT = "pagewell_duplicates_pushed_out_total",
        "Kept replies forgotten before their time because later ones needed the memory; a \
         retransmission of their calls would be done again.";
    CALLS_ABANDONED = "pagewell_calls_abandoned_total",
        "Calls not begun because the connection that they came on was gone or given up.";
    JUKEBOX_REPLIES = "pagewell_jukebox_replies_total",
        "Calls answered NFS3ERR_JUKEBOX because storage held them, or others for the same object, \
         too long.";
    CALLS_PARKED = "pagewell_calls_parked_total",
        "Calls that waited without a thread because storage already held others for their object.";
    LIMIT_CLIENT_WAITS = "pagewell_limit_client_waits_total",
        "Times that a connection was not read for a while because its client had as many calls or \
         bytes a second as each client may have.";
    LIMIT_EXPORT_WAITS = "pagewell_limit_export_waits_total",
        "Times that a connection was not read for a while because its export gave as many calls or \
         bytes a second as it may.";
    PANICS = "pagewell_panics_total",
        "Calls of NFS clients, requests of mounts and work for locks that met a defect of the \
         program; an NFS client lost its connection by it.";
    STORAGE_ERRORS = "pagewell_storage_errors_total",
        "I/O errors of storage that failed a call, or kept the server from storing its list of \
         clients with locks.";
    BAD_HANDLES = "pagewell_bad_handles_total", "Calls with a handle that this server never made.";
    LOCKS_GRANTED = "pagewell_locks_granted_total",
        "Locks granted to clients, when they asked first or when they asked again.";
    LOCKS_BLOCKED = "pagewell_locks_blocked_total",
        "Times that a client was told to wait for a lock.";
    LOCKS_DENIED = "pagewell_locks_denied_total",
        "Locks refused because another owner holds the range, to clients that do not wait.";
    LOCKS_REFUSED = "pagewell_locks_refused_total",
        "Locks refused because the server holds as many locks, or waiting clients, as it may.";
    LOCK_DEADLOCKS = "pagewell_lock_deadlocks_total",
        "Locks refused because owners of locks would have waited for each other for ever.";
    LOCK_GRACE_REFUSALS = "pagewell_lock_grace_refusals_total",
        "New locks refused in the time after a restart that is kept for old ones, and old ones \
         that were asked for after it.";
    LOCK_OFFERS_LAPSED = "pagewell_lock_offers_lapsed_total",
        "Locks offered to a waiting client and taken back because it did not answer.";
    LOCK_CALLS = "pagewell_lock_calls_total",
        "Calls about locks from the server to clients: grants, results and notices of a restart.";
    LOCK_CALL_FAILURES = "pagewell_lock_call_failures_total",
        "Calls about locks from the server to clients that were refused, not answered, or no \
         longer needed.";
    LOCK_CALLS_DROPPED = "pagewell_lock_calls_dropped_total",
        "Calls about locks that the server did not make because too many to clients were queued.";
    LOCK_CLIENTS_NOTIFIED = "pagewell_lock_clients_notified_total",
        "Clients that the server told of its restart, and that answered.";
    LOCK_NOTICES = "pagewell_lock_notices_total",
        "Notices that a client had restarted, by which the server freed the locks of that client.";
    LOCK_NOTICES_IGNORED = "pagewell_lock_notices_ignored_total",
        "Notices that a client had restarted that came again, or were of no client with locks.";
    LOCK_DATAGRAMS_DROPPED = "pagewell_lock_datagrams_dropped_total",
        "Datagrams about locks not answered because no export allows their sender, they were too \
         long, or too many waited.";
}
