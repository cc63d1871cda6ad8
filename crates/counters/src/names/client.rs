//! The client of other servers.

use crate::Counter;

register! { CLIENT, Counter:
    NFS_SILLY_RENAMES = "pagewell_nfs_silly_renames_total",
        "Open files of mounted exports that were renamed because their last name was removed.";
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
