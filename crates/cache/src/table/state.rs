//! What one word says about a page in the cache.
//!
//! ```text
//!  63      56 55 54    52 51  48 47            16 15      0
//! +----------+--+--------+------+----------------+---------+
//! |   flags              | heat |     frame      |  pins   |
//! +----------+--+--------+------+----------------+---------+
//! ```

use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};

const FRAME_SHIFT: u32 = 16;
const HEAT_SHIFT: u32 = 48;
const HEAT_BITS: u64 = 0xf;

/// One more pin.
pub(crate) const PIN: u64 = 1;
/// A page may be pinned so often at a time; the rest of the field is room for attempts that see
/// the limit and step back.
pub(crate) const PINS_MAX: u64 = 0x7fff;
const PINS: u64 = 0xffff;

/// The slot holds a page; without it the other fields mean nothing.
pub(crate) const PRESENT: u64 = 1 << 52;
/// Every byte of the page has been fetched.
pub(crate) const FULL: u64 = 1 << 53;
/// The first touch is to be noted with the read-ahead policy.
pub(crate) const MARKER: u64 = 1 << 54;
/// Read-ahead fetched it and nobody has touched it.
pub(crate) const AHEAD: u64 = 1 << 55;
/// Read-ahead fetched it for a stream: only hits of its first byte are heat, once for each pass.
pub(crate) const STREAM: u64 = 1 << 56;

/// It holds bytes that are not on the device, or are on their way there: it stays.
pub(crate) const DIRTY: u64 = 1 << 57;
/// A writer changes bytes of it that readers may use: a thread that wants to pin it waits a moment.
pub(crate) const WRITING: u64 = 1 << 58;
/// Another page has taken its name; it stays for those that have pinned it.
pub(crate) const DETACHED: u64 = 1 << 59;

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// Of a page that has just come.
    pub(crate) fn new(frame: FrameIndex, flags: u64) -> Self {
        Self(PRESENT | flags | u64::from(frame.0) << FRAME_SHIFT)
    }

    /// Whether all of `flags` are set.
    pub(crate) fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }

    /// Whether it is of a page that can be found.
    #[inline]
    pub(crate) fn is_named(self) -> bool {
        self.0 & (PRESENT | DETACHED) == PRESENT
    }

    /// Where the page is.
    #[allow(clippy::cast_possible_truncation)] // the field has 32 bits
    pub(crate) fn frame(self) -> FrameIndex {
        FrameIndex((self.0 >> FRAME_SHIFT) as u32)
    }

    /// Heat and flags.
    pub(crate) fn kept(self) -> u64 {
        self.0 >> HEAT_SHIFT << HEAT_SHIFT
    }

    /// How many have pinned it.
    pub(crate) fn pins(self) -> u64 {
        self.0 & PINS
    }

    /// Hits, at most [`HEAT_MAX`].
    #[allow(clippy::cast_possible_truncation)] // the field has 4 bits
    pub(crate) fn heat(self) -> u8 {
        ((self.0 >> HEAT_SHIFT & HEAT_BITS) as u8).min(HEAT_MAX)
    }

    /// The same with another heat.
    pub(crate) fn with_heat(self, heat: u8) -> Self {
        Self(self.0 & !(HEAT_BITS << HEAT_SHIFT) | u64::from(heat) << HEAT_SHIFT)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other() {
        let state = State::new(FrameIndex(u32::MAX), FULL | MARKER);
        assert_eq!(state.frame(), FrameIndex(u32::MAX));
        assert_eq!((state.pins(), state.heat()), (0, 0));
        let state = State(state.0 + PINS_MAX * PIN).with_heat(3);
        assert_eq!((state.pins(), state.heat()), (PINS_MAX, 3));
        assert!(state.has(PRESENT | FULL | MARKER) && !state.has(AHEAD));
        assert_eq!(state.with_heat(15).heat(), HEAT_MAX);
        assert_eq!(state.with_heat(0).frame(), FrameIndex(u32::MAX));
    }
}
