//! The client of other servers.

use crate::Counter;

register! { CLIENT, Counter:
    CLIENT_RETRANSMISSIONS = "pagewell_client_retransmissions_total",
        "Calls to other servers sent again because the connection was lost or silent.";
    CLIENT_TIMEOUTS = "pagewell_client_timeouts_total",
        "Times that a call to another server got no reply within the timeout.";
    CLIENT_RECONNECTIONS = "pagewell_client_reconnections_total",
        "Connections made to other servers in place of a lost one.";
    CLIENT_CONNECT_FAILURES = "pagewell_client_connect_failures_total",
        "Attempts to connect to another server again that failed.";
    CLIENT_SENT_BYTES = "pagewell_client_sent_bytes_total", "Bytes of calls sent to other servers.";
    CLIENT_RECEIVED_BYTES = "pagewell_client_received_bytes_total",
        "Bytes of replies received from other servers.";
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
}
