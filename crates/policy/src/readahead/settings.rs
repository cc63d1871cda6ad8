//! The constants of adaptive read-ahead, and their reasons.
//!
//! ```text
//!  request      distance_bytes_min                              distance_bytes_max
//!     |  x4, x2, x2 ... |  + 1/8 each time that it was too short,       |
//!     |                 |  at once to the bandwidth-delay product       |
//!     v                 v                                               v
//!  ---+-----------------+-----------------------------------------------+--> distance
//! ```
//!
//! - 4 times the request (Linux), doubled to 4 MiB (ZFS): short files cost little, long ones are at
//!   full speed after eight steps. Above, 64 MiB cover 64 ms at 1 GiB/s.
//! - A batch is 1/2 of a distance; at a server a block. Flash: 512 KiB cost nothing extra. Rotating
//!   media: to spend 0.8 of its time on data, a DVD (8.5 MB/s, 67 ms) needs 2.3 MB in a row, a disk
//!   (200 MB/s, 12 ms) 9.6 MB; 4 MiB is between. They end at 16 MiB, as others wait for all of it.

use std::time::Duration;

use super::Bounds;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Of a cache page.
pub const PAGE_BYTES: u64 = 64 * KIB;
/// Of the smallest fetch.
pub const UNIT_BYTES: u64 = 4 * KIB;
/// End of doubling.
pub const DISTANCE_BYTES_MIN: u64 = 4 * MIB;
/// End of growth on flash.
pub const DISTANCE_BYTES_MAX: u64 = 64 * MIB;
/// End of growth on rotating media.
pub const DISTANCE_BYTES_MAX_ROTATING: u64 = 16 * MIB;
/// Least bytes of a batch on flash.
pub const BATCH_BYTES_MIN: u64 = 512 * KIB;
/// Least bytes of a batch on rotating media.
pub const BATCH_BYTES_MIN_ROTATING: u64 = 4 * MIB;
/// Streams of one file.
pub const STREAMS_MAX: usize = 8;
/// How far ahead of a stream an access may belong to it.
pub const REORDER_BYTES: u64 = 16 * MIB;
/// What free-behind leaves to a reader that steps back.
pub const BACK_SEEK_BYTES: u64 = MIB;
/// After this silence a stream may lose its place.
pub const IDLE_REUSE: Duration = Duration::from_secs(1);
/// After this silence a stream's speed is not known any more.
pub const IDLE_FORGET: Duration = Duration::from_secs(2);

/// The first distance of a stream, in requests.
pub(super) const START_REQUESTS: u64 = 4;
/// Growth in each round trip.
pub(super) const LATENCY_TIMES: u64 = 8;
/// The same by what other streams learnt.
pub(super) const LEARNT_TIMES: u64 = 32;
pub(super) const LATE_GROWTH_DIVISOR: u64 = 8;
pub(super) const WASTE_DIVISOR: u64 = 4;
pub(super) const HOLE_DIVISOR: u64 = 4;
/// The parts of one read; more in a row is a stream.
pub(super) const READ_BYTES_MAX: u64 = MIB;

const STREAMS_LIMIT: usize = 64;
const PAGE_BYTES_LIMIT: u64 = 1 << 30;
const DISTANCE_BYTES_LIMIT: u64 = 1 << 40;

const _: () = assert!(PAGE_BYTES.is_power_of_two() && UNIT_BYTES.is_power_of_two());
const _: () = assert!(UNIT_BYTES <= PAGE_BYTES);
const _: () = assert!(DISTANCE_BYTES_MIN >= 4 * PAGE_BYTES);
const _: () = assert!(DISTANCE_BYTES_MIN <= DISTANCE_BYTES_MAX);
const _: () = assert!(DISTANCE_BYTES_MIN <= DISTANCE_BYTES_MAX_ROTATING);
const _: () = assert!(2 * BATCH_BYTES_MIN <= DISTANCE_BYTES_MAX);
const _: () = assert!(2 * BATCH_BYTES_MIN_ROTATING <= DISTANCE_BYTES_MAX_ROTATING);
const _: () = assert!(BATCH_BYTES_MIN >= PAGE_BYTES);
const _: () = assert!(STREAMS_MAX >= 1 && STREAMS_MAX <= STREAMS_LIMIT);
const _: () = assert!(BACK_SEEK_BYTES < REORDER_BYTES);
const _: () = assert!(IDLE_REUSE.as_nanos() < IDLE_FORGET.as_nanos());

/// What [`super::Adaptive`] goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the file or device.
    pub length_bytes: u64,
    /// Bytes of a cache page, a power of two; windows end, and markers lie, at pages.
    pub page_bytes: u64,
    /// Bytes of the smallest fetch, a power of two, at most a page.
    pub unit_bytes: u64,
    /// End of doubling of the distance.
    pub distance_bytes_min: u64,
    /// End of growth of the distance.
    pub distance_bytes_max: u64,
    /// Least bytes of a grown stream's batch.
    pub batch_bytes_min: u64,
    /// Steps of windows; `None`: 1/2 of a distance.
    pub block_bytes: Option<u64>,
    /// Files begin at multiples of this and lie apart; the rest is never requested. `None`: files
    /// may follow each other.
    pub file_alignment_bytes: Option<u64>,
    /// Streams of one file.
    pub streams_max: usize,
    /// Reads at random bring along the rest of an object that is far away.
    pub brings_along: bool,
}

impl Settings {
    /// For media without seeks.
    #[must_use]
    pub const fn flash(length_bytes: u64) -> Self {
        Self {
            length_bytes,
            page_bytes: PAGE_BYTES,
            unit_bytes: UNIT_BYTES,
            distance_bytes_min: DISTANCE_BYTES_MIN,
            distance_bytes_max: DISTANCE_BYTES_MAX,
            batch_bytes_min: BATCH_BYTES_MIN,
            block_bytes: None,
            file_alignment_bytes: None,
            streams_max: STREAMS_MAX,
            brings_along: false,
        }
    }

    /// For disks and optical media.
    #[must_use]
    pub const fn rotating(length_bytes: u64) -> Self {
        Self {
            batch_bytes_min: BATCH_BYTES_MIN_ROTATING,
            distance_bytes_max: DISTANCE_BYTES_MAX_ROTATING,
            ..Self::flash(length_bytes)
        }
    }

    /// Nothing is read ahead: a baseline.
    #[must_use]
    pub const fn off() -> Self {
        Self::flash(0)
    }

    pub(super) fn normalised(mut self) -> Self {
        let power = |bytes: u64| bytes.clamp(1, PAGE_BYTES_LIMIT).next_power_of_two();
        self.page_bytes = power(self.page_bytes);
        self.unit_bytes = power(self.unit_bytes).min(self.page_bytes);
        // The last page of 2^64 bytes cannot be rounded up.
        self.length_bytes = self.length_bytes.min(down(u64::MAX, self.page_bytes));
        let block = |bytes: u64| up(bytes.clamp(1, PAGE_BYTES_LIMIT), self.page_bytes);
        self.block_bytes = self.block_bytes.map(block);
        // Without blocks, windows have two halves.
        let pages = if self.block_bytes.is_some() { 1 } else { 2 };
        let most = up(self.distance_bytes_max, self.page_bytes);
        self.distance_bytes_max = most.clamp(pages * self.page_bytes, DISTANCE_BYTES_LIMIT);
        let least = up(self.distance_bytes_min, self.page_bytes);
        self.distance_bytes_min = least.clamp(pages * self.page_bytes, self.distance_bytes_max);
        self.batch_bytes_min = self.batch_bytes_min.min(self.distance_bytes_max / 2);
        self.file_alignment_bytes = self.file_alignment_bytes.filter(|bytes| *bytes > 0);
        self.streams_max = self.streams_max.clamp(1, STREAMS_LIMIT);
        self
    }

    pub(super) fn begins(&self, offset: u64) -> bool {
        let at = |alignment| offset.is_multiple_of(alignment);
        offset == 0 || self.file_alignment_bytes.is_some_and(at)
    }

    /// Where files lie apart, the file at `offset`; if not known, until where the next may begin.
    pub(super) fn file(&self, offset: u64, known: Option<Bounds>) -> Option<Bounds> {
        let alignment = self.file_alignment_bytes?;
        let start = offset - offset % alignment;
        Some(known.unwrap_or(Bounds {
            start,
            end: start.saturating_add(alignment),
        }))
    }

    pub(super) fn distance_bytes_grown(&self) -> u64 {
        self.distance_bytes_min.max(2 * self.batch_bytes_min)
    }
}

/// The multiple of a power of two at or below `value`.
pub(super) const fn down(value: u64, unit: u64) -> u64 {
    value & !(unit - 1)
}

/// The multiple of a power of two at or above `value`, or the last.
pub(super) const fn up(value: u64, unit: u64) -> u64 {
    down(value.saturating_add(unit - 1), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_settings_become_consistent() {
        for value in [0, 1, 3, 4096, 65_537, u64::MAX] {
            for length_bytes in [0, 1, u64::MAX] {
                let settings = Settings {
                    length_bytes,
                    page_bytes: value,
                    unit_bytes: value,
                    distance_bytes_min: value,
                    distance_bytes_max: value,
                    batch_bytes_min: value,
                    block_bytes: (value % 2 == 0).then_some(value),
                    file_alignment_bytes: Some(value),
                    streams_max: usize::try_from(value).unwrap(),
                    brings_along: true,
                }
                .normalised();
                assert!(settings.page_bytes.is_power_of_two());
                assert!(settings.unit_bytes <= settings.page_bytes);
                assert!(settings.distance_bytes_min <= settings.distance_bytes_max);
                assert!(settings.distance_bytes_grown() <= settings.distance_bytes_max);
                assert!(settings.streams_max >= 1);
                assert_eq!(settings, settings.normalised());
            }
        }
    }

    #[test]
    fn the_presets_are_consistent() {
        for settings in [Settings::flash(1 << 30), Settings::rotating(1 << 30)] {
            assert_eq!(settings, settings.normalised());
        }
        assert_eq!(Settings::flash(1).distance_bytes_grown(), 4 * MIB);
        assert_eq!(Settings::rotating(1).distance_bytes_grown(), 8 * MIB);
    }

    #[test]
    fn rounding() {
        assert_eq!((down(4097, 4096), up(4097, 4096)), (4096, 8192));
        assert_eq!((down(4096, 4096), up(4096, 4096)), (4096, 4096));
        assert_eq!(up(u64::MAX, 4096), u64::MAX - 4095);
    }
}
