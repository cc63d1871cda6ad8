//! The constants of write-back, and their reasons.
//!
//! ```text
//!  0        background       free run    setpoint      hard
//!  +------------+---------------+-----------+-----------+--> dirty memory
//!   nothing      the flusher     writers pause,          writers
//!   written      writes whole    the longer the          wait
//!                pages           further right
//!                                others written too
//! ```
//!
//! | constant | value | reason |
//! |---|---|---|
//! | hard limit | 2 s of the device | how long a commit may take |
//! | background | 1/2 of it | room for a burst on one side, work to sort on the other |
//! | the same, if nothing is to be written early | 3/4 of it | a commit may make it needless |
//! | pages with gaps | 7/8 of it | they may become whole |
//! | pause | at most 200 ms | longer ones are felt as a hang (Linux) |
//! | expire, tick | 30 s, 5 s | what a crash may cost, how often one looks (4.xBSD, Linux) |
//! | under write-out | 1 to 16 MiB, low mark 2/3 | busy device, short queue (FreeBSD) |
//! | retry | 1 s, doubling to 30 s | a device that is away is not hammered |

use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Of a cache page.
pub const PAGE_BYTES: u64 = 64 * KIB;
/// Longest write where the device has no preference.
pub const CLUSTER_BYTES_MAX: u64 = MIB;
/// Most dirty memory, in time of the device.
pub const DEVICE_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest pause of a writer.
pub const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Bytes dirty so long are written.
pub const EXPIRE: Duration = Duration::from_secs(30);
/// How often to look for expired bytes.
pub const TICK: Duration = Duration::from_secs(5);
/// Most bytes under write-out.
pub const FLIGHT_BYTES_MAX: u64 = 16 * MIB;
/// Bytes per second before a measurement.
pub const BANDWIDTH_INITIAL: u64 = 100 * MIB;
/// Wait after a first failure.
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest wait after failures.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// However slow the device is.
pub(super) const FLIGHT_BYTES_MIN: u64 = MIB;
/// At most this part of a second of the device.
pub(super) const FLIGHT_SECOND_DIVISOR: u64 = 4;
/// However slow the device is.
pub(super) const HARD_PAGES_MIN: u64 = 16;

const PAGE_BYTES_LIMIT: u64 = 1 << 30;
const BYTES_LIMIT: u64 = 1 << 50;

const _: () = assert!(PAGE_BYTES.is_power_of_two());
const _: () = assert!(FLIGHT_BYTES_MIN <= FLIGHT_BYTES_MAX);
const _: () = assert!(CLUSTER_BYTES_MAX <= FLIGHT_BYTES_MAX);
const _: () = assert!(TICK.as_nanos() < EXPIRE.as_nanos());
const _: () = assert!(RETRY_MIN.as_nanos() <= RETRY_MAX.as_nanos());

/// What [`super::WriteBack`] goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a cache page, a power of two.
    pub page_bytes: u64,
    /// Longest write, in bytes.
    pub cluster_bytes_max: u64,
    /// Most dirty memory, in bytes: a share of the arena.
    pub dirty_bytes_max: u64,
    /// Most dirty memory, in time of the device.
    pub device_time_max: Duration,
    /// Bytes dirty so long are written.
    pub expire: Duration,
    /// Most bytes under write-out; less on slow devices.
    pub flight_bytes_max: u64,
    /// Bytes per second before a measurement.
    pub bandwidth_initial: u64,
    /// Whether bytes are written before their memory is needed: behind a sequential writer, and
    /// from the background limit on. Where a commit need not write them they are not, and that
    /// limit is where writers are slowed.
    pub writes_early: bool,
}

impl Settings {
    /// The documented constants.
    #[must_use]
    pub const fn new(dirty_bytes_max: u64) -> Self {
        Self {
            page_bytes: PAGE_BYTES,
            cluster_bytes_max: CLUSTER_BYTES_MAX,
            dirty_bytes_max,
            device_time_max: DEVICE_TIME_MAX,
            expire: EXPIRE,
            flight_bytes_max: FLIGHT_BYTES_MAX,
            bandwidth_initial: BANDWIDTH_INITIAL,
            writes_early: true,
        }
    }

    pub(super) fn normalised(mut self) -> Self {
        let page_bytes = self.page_bytes.clamp(1, PAGE_BYTES_LIMIT);
        self.page_bytes = page_bytes.next_power_of_two();
        self.dirty_bytes_max = self.dirty_bytes_max.clamp(self.page_bytes, BYTES_LIMIT);
        self.flight_bytes_max = self.flight_bytes_max.clamp(self.page_bytes, BYTES_LIMIT);
        self.cluster_bytes_max = self.cluster_bytes_max.clamp(1, self.flight_bytes_max);
        self.bandwidth_initial = self.bandwidth_initial.clamp(1, BYTES_LIMIT);
        self
    }
}

pub(super) fn retry_delay(before: Duration) -> Duration {
    before.saturating_mul(2).clamp(RETRY_MIN, RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_documented_ones() {
        let settings = Settings::new(1 << 30);
        assert_eq!(settings.page_bytes, 65_536);
        assert_eq!(settings.device_time_max, Duration::from_secs(2));
        assert_eq!(PAUSE_MAX, Duration::from_millis(200));
        assert_eq!(settings.expire, Duration::from_secs(30));
        assert_eq!(TICK, Duration::from_secs(5));
        assert_eq!(settings.flight_bytes_max, 16 << 20);
        assert_eq!(RETRY_MIN, Duration::from_secs(1));
        assert_eq!(RETRY_MAX, Duration::from_secs(30));
        assert_eq!(settings, settings.normalised());
    }

    #[test]
    fn any_settings_become_consistent() {
        for value in [0, 1, 3, 4096, 65_537, u64::MAX] {
            let settings = Settings {
                page_bytes: value,
                cluster_bytes_max: value,
                device_time_max: Duration::ZERO,
                expire: Duration::ZERO,
                flight_bytes_max: value,
                bandwidth_initial: value,
                ..Settings::new(value)
            }
            .normalised();
            assert!(settings.page_bytes.is_power_of_two());
            assert!(settings.dirty_bytes_max >= settings.page_bytes);
            assert!(settings.flight_bytes_max >= settings.page_bytes);
            assert!(settings.cluster_bytes_max <= settings.flight_bytes_max);
            assert!(settings.cluster_bytes_max >= 1 && settings.bandwidth_initial >= 1);
            assert_eq!(settings, settings.normalised());
        }
    }
}
