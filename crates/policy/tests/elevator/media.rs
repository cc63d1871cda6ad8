//! A device with one place, a head and a media rate, in virtual time.

use std::time::Duration;

use pagewell_policy::elevator::Extent;

/// Service = seek, unless the request begins where the last ended, + bytes / rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Media {
    seek: Duration,
    bytes_per_second: u64,
    head: u64,
}

impl Media {
    /// The optical drive of the HSFS report: 67 ms for a request elsewhere, 8.5 MB/s.
    pub(crate) fn dvd() -> Self {
        Self {
            seek: Duration::from_millis(67),
            bytes_per_second: 8_500_000,
            head: 0,
        }
    }

    /// How long the device takes, and what it would take for the bytes alone.
    pub(crate) fn serve(&mut self, extent: Extent) -> Duration {
        let seek = if extent.offset == self.head {
            Duration::ZERO
        } else {
            self.seek
        };
        self.head = extent.end();
        seek + Duration::from_nanos(extent.length * 1_000_000_000 / self.bytes_per_second)
    }

    /// The share of the media rate that so many bytes in so much time are.
    pub(crate) fn share_of_rate(&self, bytes: u64, time: Duration) -> f64 {
        bytes as f64 / (self.bytes_per_second as f64 * time.as_secs_f64())
    }
}
