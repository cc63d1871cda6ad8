//! The client of other servers.

use crate::Counter;

register! { CLIENT, Counter:
    NFS_SILLY_RENAMES = "pagewell_nfs_silly_renames_total",
        "Open files of other servers that were renamed because their last name was removed.";
    CLIENT_CALLS = "pagewell_client_calls_total",
        "Calls made to other servers, each counted once however often it was sent.";
    CLIENT_RETRANSMISSIONS = "pagewell_client_retransmissions_total",
        "Calls to other servers sent again because the connection was lost or silent.";
    CLIENT_TIMEOUTS = "pagewell_client_timeouts_total",
        "Times that a call to another server got no reply within the timeout.";
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
        "Times that an ordinary port was used to connect to another server because no reserved \
         one could be had.";
    CLIENT_SENT_BYTES = "pagewell_client_sent_bytes_total", "Bytes of calls sent to other servers.";
    CLIENT_RECEIVED_BYTES = "pagewell_client_received_bytes_total",
        "Bytes of replies received from other servers.";
    CLIENT_SEND_CALLS = "pagewell_client_send_calls_total",
        "System calls made to send calls to other servers.";
    CLIENT_RECEIVE_CALLS = "pagewell_client_receive_calls_total",
        "System calls made to receive replies of other servers.";
    CLIENT_SENDS_HANDED_OVER = "pagewell_client_sends_handed_over_total",
        "Times that a thread of its own went on sending to another server because the caller \
         would have waited.";
    CLIENT_COMPLETION_PANICS = "pagewell_client_completion_panics_total",
        "Ends of calls to other servers that met a defect of the program.";
    CLIENT_ATTRIBUTE_HITS = "pagewell_client_attribute_cache_hits_total",
        "Times that attributes from memory were believed without asking their server.";
    CLIENT_ATTRIBUTE_MISSES = "pagewell_client_attribute_cache_misses_total",
        "Times that another server was asked for attributes.";
    CLIENT_NAME_HITS = "pagewell_client_name_cache_hits_total",
        "Names looked up in memory without asking their server.";
    CLIENT_NAME_MISSES = "pagewell_client_name_cache_misses_total",
        "Names that another server was asked for.";
    CLIENT_READ_HITS = "pagewell_client_read_hits_total",
        "Reads of files of other servers that needed no answer of the server.";
    CLIENT_READ_MISSES = "pagewell_client_read_misses_total",
        "Reads of files of other servers that waited for the server.";
    CLIENT_WRITE_HITS = "pagewell_client_write_hits_total",
        "Writes to files of other servers that memory took at once.";
    CLIENT_WRITE_MISSES = "pagewell_client_write_misses_total",
        "Writes to files of other servers that waited for memory or for the server.";
    CLIENT_FILES_IN_QUESTION = "pagewell_client_files_in_question_total",
        "Files of other servers read anew because replies did not show whether another client had \
         changed them beside this one.";
    CLIENT_WRITER_CHANGES = "pagewell_client_writer_changes_total",
        "Files of other servers committed because another user was about to write to them.";
    CLIENT_LINK_HITS = "pagewell_client_link_cache_hits_total",
        "Symbolic links of other servers read from memory without asking the server.";
    CLIENT_LINK_MISSES = "pagewell_client_link_cache_misses_total",
        "Symbolic links that another server was asked for.";
    CLIENT_DIRECTORY_HITS = "pagewell_client_directory_cache_hits_total",
        "Directory pages of other servers listed from memory without asking the server.";
    CLIENT_DIRECTORY_MISSES = "pagewell_client_directory_cache_misses_total",
        "Directory pages that another server was asked for.";
    CLIENT_ENTRY_HITS = "pagewell_client_entry_cache_hits_total",
        "Directory pages of other servers that went on with a listing from memory.";
    CLIENT_ENTRY_MISSES = "pagewell_client_entry_cache_misses_total",
        "Kept for programs that read it, and always 0: no listing has to begin anew to find its \
         place.";
    CLIENT_ACCESS_HITS = "pagewell_client_access_cache_hits_total",
        "Permissions at other servers known from memory without asking the server.";
    CLIENT_ACCESS_MISSES = "pagewell_client_access_cache_misses_total",
        "Permissions that another server was asked for.";
}
