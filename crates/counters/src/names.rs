//! The name of every counter of the program, in one place.
//!
//! `docs/METRICS.md` is generated from [`COUNTERS`] and [`GAUGES`].

use crate::{Counter, Gauge};

macro_rules! register {
    ($list:ident, $kind:ident: $($ident:ident = $name:literal, $help:literal;)*) => {
        $(#[doc = $help] pub static $ident: $kind = $kind::new($name, $help);)*
        /// All of the kind, in the order in which they are shown.
        pub static $list: &[&$kind] = &[$(&$ident),*];
    };
}

register! { COUNTERS, Counter:
    COPIED_BYTES = "pagewell_copied_bytes_total",
        "Bytes of file data copied in user space or between kernel and user space.";
    SPLICED_BYTES = "pagewell_spliced_bytes_total",
        "Bytes of file data sent without a copy in user space.";
    SEND_CALLS = "pagewell_send_calls_total", "System calls that sent replies.";
    RECEIVE_CALLS = "pagewell_receive_calls_total", "System calls that received requests.";
    PIPES_EXHAUSTED = "pagewell_pipes_exhausted_total",
        "Reads copied because every pipe for splicing was in use.";
    REQUEST_MEMORY_REFUSED = "pagewell_request_memory_refused_total",
        "Times a request had to wait because the memory for requests was used up.";
    CALLS_INLINE = "pagewell_calls_inline_total",
        "Calls answered by the thread that received them.";
    CALLS_POOLED = "pagewell_calls_pooled_total",
        "Calls handed to the threads that may wait for storage.";
    CONNECTIONS_ACCEPTED = "pagewell_connections_accepted_total", "Connections accepted.";
    CONNECTIONS_REFUSED = "pagewell_connections_refused_total",
        "Connections closed at once because too many were open.";
    CONNECTIONS_STALLED = "pagewell_connections_stalled_total",
        "Connections closed because a record or a reply made no progress.";
    RECORDS_OVERSIZED = "pagewell_records_oversized_total",
        "Records over the size cap, skipped and refused.";
    RECORDS_BROKEN = "pagewell_records_broken_total",
        "Connections closed because their record marking made no sense.";
    DUPLICATES_REPLAYED = "pagewell_duplicates_replayed_total",
        "Retransmitted calls answered with the reply of the first.";
    DUPLICATES_IN_PROGRESS = "pagewell_duplicates_in_progress_total",
        "Retransmitted calls whose first was still being worked on.";
    JUKEBOX_REPLIES = "pagewell_jukebox_replies_total",
        "Calls answered NFS3ERR_JUKEBOX because storage was slow.";
    PANICS = "pagewell_panics_total",
        "Calls that ended in a defect of the program; each cost its client the connection.";
    BAD_HANDLES = "pagewell_bad_handles_total",
        "Calls with a handle that this server never made.";
    RAM_PAGES_COPIED = "pagewell_ram_pages_copied_total",
        "Pages of RAM files copied at a write because a reader still held them.";
    RAM_REFUSED = "pagewell_ram_refused_total",
        "Changes of a RAM file system refused or cut short because it was full.";
}

register! { GAUGES, Gauge:
    CONNECTIONS = "pagewell_connections", "Client connections open now.";
    REQUEST_MEMORY_BYTES = "pagewell_request_memory_bytes",
        "Bytes of memory that hold requests now.";
    CALLS_RUNNING = "pagewell_calls_running", "Calls that may wait, being worked on now.";
    RAM_BYTES = "pagewell_ram_bytes", "Bytes charged to RAM file systems now.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut seen = std::collections::HashSet::new();
        let counters = COUNTERS
            .iter()
            .map(|counter| (counter.name(), counter.help()));
        let gauges = GAUGES.iter().map(|gauge| (gauge.name(), gauge.help()));
        for (name, help) in counters.clone().chain(gauges) {
            assert!(seen.insert(name), "{name} twice");
            assert!(
                name.starts_with("pagewell_") && help.ends_with('.'),
                "{name}"
            );
        }
        assert!(
            counters
                .into_iter()
                .all(|(name, _)| name.ends_with("_total"))
        );
    }
}
