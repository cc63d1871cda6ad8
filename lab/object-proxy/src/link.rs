//! The line between client and server: how long a request takes to be answered at least, and how
//! many bytes pass in a second, all connections together.

use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;

/// A line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Before a request goes on; a connection's first request waits twice, as for the handshake of
    /// TCP.
    pub latency: Duration,
    /// From the server to the client; 0 for no limit.
    pub down_bytes_per_second: u64,
    /// From the client to the server; 0 for no limit.
    pub up_bytes_per_second: u64,
}

/// One direction of a line: when it will have sent what was given to it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// Gives bytes to the line at `now`; how long their sender waits until they are through.
    pub(crate) fn wait_for(&self, bytes: usize, bytes_per_second: u64, now: Instant) -> Duration {
        if bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let nanoseconds = u128::try_from(bytes).unwrap_or(0) * 1_000_000_000;
        let nanoseconds = nanoseconds / u128::from(bytes_per_second);
        let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut free_at = self.free_at.lock();
        let begin = free_at.map_or(now, |free_at| free_at.max(now));
        let end = begin.checked_add(time).unwrap_or(begin);
        *free_at = Some(end);
        end - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_for_those_in_front_of_them() {
        let pace = Pace::default();
        let now = Instant::now();
        let seconds = Duration::from_secs;
        assert_eq!(pace.wait_for(1_000, 0, now), Duration::ZERO);
        assert_eq!(pace.wait_for(1_000, 500, now), seconds(2));
        assert_eq!(pace.wait_for(500, 500, now), seconds(3));
        assert_eq!(pace.wait_for(500, 500, now + seconds(1)), seconds(3));
        // Time in which nothing was sent is not saved up.
        assert_eq!(pace.wait_for(500, 500, now + seconds(100)), seconds(1));
    }
}
