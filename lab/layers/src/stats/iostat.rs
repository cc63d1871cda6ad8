//! A row of numbers as `iostat -xn` of Solaris shows it.
//!
//! | column | meaning |
//! |---|---|
//! | r/s, w/s | reads and writes completed per second |
//! | kr/s, kw/s | KiB read and written per second |
//! | wait, actv | mean number of requests waiting and active |
//! | wsvc_t, asvc_t | mean milliseconds that a completed request waited and was active |
//! | %w, %b | part of the time in which a request was waiting, active |

use std::fmt;
use std::time::Duration;

use super::snapshot::{Snapshot, ratio};
use pagewell_device::Operation;

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Iostat {
    /// Reads per second.
    pub reads: f64,
    /// Writes per second.
    pub writes: f64,
    /// KiB read per second.
    pub read_kibibytes: f64,
    /// KiB written per second.
    pub write_kibibytes: f64,
    /// Mean number of requests waiting.
    pub waiting: f64,
    /// Mean number of requests active.
    pub active: f64,
    /// Mean milliseconds waiting.
    pub waiting_milliseconds: f64,
    /// Mean milliseconds active.
    pub active_milliseconds: f64,
    /// Percent of the time with a request waiting.
    pub waiting_percent: f64,
    /// Percent of the time with a request active.
    pub busy_percent: f64,
    /// Name of the device.
    pub device: String,
}

impl Iostat {
    /// The line above the rows, without its end.
    pub const HEADER: &str = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device";

    pub(super) fn new(difference: &Snapshot) -> Self {
        let time = difference.time.as_secs_f64();
        let (reads, read_bytes) = completed(difference, Operation::Read);
        let (writes, write_bytes) = completed(difference, Operation::Write);
        let requests = reads + writes;
        let per_second = |count: f64| ratio(count, time);
        let mean = |sum: Duration| ratio(sum.as_secs_f64(), time);
        let each = |sum: Duration| ratio(sum.as_secs_f64() * 1e3, requests);
        Self {
            reads: per_second(reads),
            writes: per_second(writes),
            read_kibibytes: per_second(read_bytes / 1024.0),
            write_kibibytes: per_second(write_bytes / 1024.0),
            waiting: mean(difference.waiting_time),
            active: mean(difference.active_time),
            waiting_milliseconds: each(difference.waiting_time),
            active_milliseconds: each(difference.active_time),
            waiting_percent: 100.0 * mean(difference.waiting_busy),
            busy_percent: 100.0 * mean(difference.active_busy),
            device: difference.device.clone(),
        }
    }
}

fn completed(difference: &Snapshot, operation: Operation) -> (f64, f64) {
    let flows = difference.flows.iter();
    let flows = flows.filter(|flow| flow.operation == operation);
    flows.fold((0.0, 0.0), |(requests, bytes), flow| {
        let completed = flow.latency.count() as f64;
        (requests + completed, bytes + flow.bytes as f64)
    })
}

impl fmt::Display for Iostat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            " {:6.1} {:6.1} {:6.1} {:6.1} {:4.1} {:4.1} {:6.1} {:6.1} {:3.0} {:3.0} {}",
            self.reads,
            self.writes,
            self.read_kibibytes,
            self.write_kibibytes,
            self.waiting,
            self.active,
            self.waiting_milliseconds,
            self.active_milliseconds,
            self.waiting_percent,
            self.busy_percent,
            self.device
        )
    }
}
