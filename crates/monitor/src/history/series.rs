//! The numbers of the history.

use pagewell_counters::{Counter, Gauge, names};

pub(super) struct Series {
    /// The name in `/history.json`.
    pub(super) name: &'static str,
    /// `bytes/s`, `1/s`, `ratio`, `bytes`, `seconds` or `count`.
    pub(super) unit: &'static str,
    pub(super) source: Source,
}

/// The origin of a number.
pub(super) enum Source {
    /// Events in a second.
    Rate(&'static [&'static Counter]),
    /// The share of the first counter in both, 0 to 1.
    Ratio(&'static Counter, &'static Counter),
    /// A value that goes up and down.
    Gauge(&'static Gauge),
    /// Resident memory.
    Resident,
    /// Calls of a group in a second.
    Calls(Group),
    /// Calls that servers answered with an error.
    Errors,
    /// Bytes of calls to servers.
    Received,
    /// Bytes of their replies.
    Sent,
    /// A quantile of the latency of a group.
    Latency(Group, PerMille),
}

/// A group of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// READ, answered by servers.
    Read,
    /// WRITE and COMMIT.
    Write,
    /// All others.
    Other,
    /// Calls by the NFS clients of the process.
    Client,
}

impl Group {
    pub(super) const COUNT: usize = 4;
}

/// A quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PerMille {
    Median,
    P99,
    P999,
}

const fn series(name: &'static str, unit: &'static str, source: Source) -> Series {
    Series { name, unit, source }
}

pub(super) static SERIES: [Series; 42] = {
    use Group::{Client, Other, Read, Write};
    use PerMille::{Median, P99, P999};
    use Source::{Calls, Errors, Gauge, Latency, Rate, Ratio, Received, Resident, Sent};
    const BYTES: &str = "bytes";
    const BYTE_RATE: &str = "bytes/s";
    const COUNT: &str = "count";
    const RATE: &str = "1/s";
    const TIME: &str = "seconds";
    [
        series("server_sent", BYTE_RATE, Sent),
        series("server_received", BYTE_RATE, Received),
        series("server_reads", RATE, Calls(Read)),
        series("server_writes", RATE, Calls(Write)),
        series("server_others", RATE, Calls(Other)),
        series("server_errors", RATE, Errors),
        series("read_p50", TIME, Latency(Read, Median)),
        series("read_p99", TIME, Latency(Read, P99)),
        series("read_p999", TIME, Latency(Read, P999)),
        series("write_p50", TIME, Latency(Write, Median)),
        series("write_p99", TIME, Latency(Write, P99)),
        series("write_p999", TIME, Latency(Write, P999)),
        series("other_p50", TIME, Latency(Other, Median)),
        series("other_p99", TIME, Latency(Other, P99)),
        series("other_p999", TIME, Latency(Other, P999)),
        series("client_calls", RATE, Calls(Client)),
        series("client_p50", TIME, Latency(Client, Median)),
        series("client_p99", TIME, Latency(Client, P99)),
        series("client_p999", TIME, Latency(Client, P999)),
        series("client_sent", BYTE_RATE, Rate(&[&names::CLIENT_SENT_BYTES])),
        series(
            "client_received",
            BYTE_RATE,
            Rate(&[&names::CLIENT_RECEIVED_BYTES]),
        ),
        series(
            "client_in_flight",
            COUNT,
            Gauge(&names::CLIENT_CALLS_IN_FLIGHT),
        ),
        series("mount_read", BYTE_RATE, Rate(&[&names::FUSE_READ_BYTES])),
        series(
            "mount_written",
            BYTE_RATE,
            Rate(&[&names::FUSE_WRITTEN_BYTES]),
        ),
        series("mount_reads", RATE, Rate(&[&names::FUSE_READS])),
        series("mount_writes", RATE, Rate(&[&names::FUSE_WRITES])),
        series(
            "mount_others",
            RATE,
            Rate(&[
                &names::FUSE_LOOKUPS,
                &names::FUSE_ATTRIBUTES_ASKED,
                &names::FUSE_ENTRIES_LISTED,
                &names::FUSE_OPENS,
            ]),
        ),
        series("mount_open_files", COUNT, Gauge(&names::FUSE_OPEN_FILES)),
        series(
            "cache_hit_ratio",
            "ratio",
            Ratio(&names::CACHE_HITS, &names::CACHE_MISSES),
        ),
        series(
            "file_handle_hit_ratio",
            "ratio",
            Ratio(&names::DIR_OBJECTS_HIT, &names::DIR_OBJECTS_MISSED),
        ),
        series(
            "read_ahead_useful",
            BYTE_RATE,
            Rate(&[&names::CACHE_AHEAD_USEFUL_BYTES]),
        ),
        series(
            "read_ahead_wasted",
            BYTE_RATE,
            Rate(&[&names::CACHE_AHEAD_WASTED_BYTES]),
        ),
        series("device_read", BYTE_RATE, Rate(&[&names::DEVICE_READ_BYTES])),
        series(
            "device_written",
            BYTE_RATE,
            Rate(&[&names::DEVICE_WRITE_BYTES]),
        ),
        series(
            "device_requests",
            RATE,
            Rate(&[&names::DEVICE_READS, &names::DEVICE_WRITES]),
        ),
        series(
            "device_queue",
            COUNT,
            Gauge(&names::CACHE_REQUESTS_IN_QUEUE),
        ),
        series("calls_waiting", COUNT, Gauge(&names::CALLS_RUNNING)),
        series("dirty", BYTES, Gauge(&names::CACHE_DIRTY_BYTES)),
        series("kept", BYTES, Gauge(&names::CACHE_KEPT_BYTES)),
        series("cache_pages", COUNT, Gauge(&names::CACHE_PAGES)),
        series("connections", COUNT, Gauge(&names::CONNECTIONS)),
        series("resident", BYTES, Resident),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = SERIES.iter().map(|series| series.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
    }
}
