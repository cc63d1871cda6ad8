//! The server: connections, calls, locks.

use crate::Counter;

register! { SERVER, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data copied in user space or between kernel and user space.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data sent without a copy in user space.";
    MAPPED_BYTES = "pagewell_mapped_bytes_total",
        "Bytes of file data sent from a mapping of the file.";
    SEND_FAULTS = "pagewell_send_faults_total",
        "Files that were cut short while they were sent.";
    SEND_CALLS = "pagewell_send_calls_total", "System calls that sent replies.";
    RECEIVE_CALLS = "pagewell_receive_calls_total", "System calls that received requests.";
    POLLS_SUCCESSFUL = "pagewell_polls_successful_total",
        "Times a receiving thread without work looked for it, and found some before it slept.";
    POLLS_IN_VAIN = "pagewell_polls_in_vain_total",
        "Times it found none and slept.";
    POLLS_INTERRUPTED = "pagewell_polls_interrupted_total",
        "Times another thread had its processor meanwhile.";
    REQUEST_MEMORY_REFUSED = "pagewell_request_memory_refused_total",
        "Times a request had to wait because the memory for requests was used up.";
    REQUEST_MEMORY_FIRST = "pagewell_request_memory_first_total",
        "Requests received beyond that memory, one at a time, because all waited for each other.";
    REQUEST_MEMORY_CARELESS = "pagewell_request_memory_careless_total",
        "Requests in the one share of memory of clients that lately began others and did not end \
         them.";
    CALLS_INLINE = "pagewell_calls_inline_total",
        "Calls answered by the thread that received them.";
    CALLS_POOLED = "pagewell_calls_pooled_total",
        "Calls handed to the threads that may wait for storage.";
    CONNECTIONS_ACCEPTED = "pagewell_connections_accepted_total", "Connections accepted.";
    CONNECTIONS_UNPACED = "pagewell_connections_unpaced_total",
        "Connections within this machine, of clients and to servers, whose bytes are sent without \
         pacing.";
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
        "Locks refused because another owner holds them.";
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
    LOCK_CLIENTS_NOTIFIED = "pagewell_lock_clients_notified_total",
        "Clients notified that this server has restarted.";
    LOCK_NOTICES = "pagewell_lock_notices_total",
        "Restarts of clients that freed their locks.";
    LOCK_NOTICES_IGNORED = "pagewell_lock_notices_ignored_total",
        "Notices of restarts that came again or were of no client with locks.";
    LOCK_DATAGRAMS_DROPPED = "pagewell_lock_datagrams_dropped_total",
        "Datagrams not answered: of strangers, too long, or too many.";
}
