//! Which parts of a file were in the page cache a moment ago.
//!
//! Asking the kernel costs each READ a system call and a look at each page. But files are read in
//! many pieces, and what was cached still is. So each file remembers which windows were whole, and
//! when.
//!
//! ```text
//!   first READ in a window       ask for its bytes: perhaps no other READ comes near
//!   another one soon after       ask for the whole window
//!   READs for a quarter second   ask nothing
//! ```
//!
//! Weaknesses: the sending thread waits once for a page evicted within that time. Windows that
//! share a slot evict each other.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a question.
const WINDOW_BYTES: u64 = 2 << 20;

/// Lifetime of "cached". Long, as an early eviction costs one thread one wait.
const CACHED_MILLISECONDS: u64 = 250;

/// Lifetime of "not cached": data being read arrives soon.
const MISSED_MILLISECONDS: u64 = 5;

const SLOTS: usize = 64;

/// Bits of a slot for the time (milliseconds) and the kind; the rest is the window.
const TIME_BITS: u32 = 18;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const KIND_BITS: u32 = 2;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;

/// A part was asked for.
const PART: u64 = 1;
/// Fully cached.
const WHOLE: u64 = 2;
/// Not fully cached.
const BROKEN: u64 = 3;

/// What to ask before sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Known,
    /// About these whole windows; if not fully cached, about the bytes.
    Windows(Range<u64>),
    /// About the bytes.
    Bytes,
}

#[derive(Debug)]
pub(super) struct Seen([AtomicU64; SLOTS]);

impl Default for Seen {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }
}

impl Seen {
    /// What to ask about `range`; `now` is of any monotonic clock.
    pub(super) fn look(&self, range: &Range<u64>, now: Duration) -> Look {
        let now = milliseconds(now);
        let mut is_known = true;
        for window in windows(range) {
            match self.kind(window, now) {
                Some(WHOLE) => {}
                Some(PART) => is_known = false,
                Some(_) => return Look::Bytes,
                None => {
                    self.set(window, PART, now);
                    return Look::Bytes;
                }
            }
        }
        if is_known {
            return Look::Known;
        }
        let all = windows(range);
        let end = all.end.saturating_mul(WINDOW_BYTES);
        Look::Windows(all.start.saturating_mul(WINDOW_BYTES)..end)
    }

    /// Notes the answer for the windows of `range`.
    pub(super) fn note(&self, range: &Range<u64>, is_whole: bool, now: Duration) {
        let kind = if is_whole { WHOLE } else { BROKEN };
        for window in windows(range) {
            self.set(window, kind, milliseconds(now));
        }
    }

    /// A window's kind, while it is valid.
    fn kind(&self, window: u64, now: u64) -> Option<u64> {
        let slot = self.slot(window)?.load(Ordering::Relaxed);
        let then = (slot >> KIND_BITS) & TIME_MASK;
        let kind = slot & KIND_MASK;
        let lifetime = match kind {
            BROKEN => MISSED_MILLISECONDS,
            _ => CACHED_MILLISECONDS,
        };
        let is_recent = now.wrapping_sub(then) & TIME_MASK < lifetime;
        let is_this = slot >> (TIME_BITS + KIND_BITS) == window && kind != 0;
        (is_this && is_recent).then_some(kind)
    }

    fn set(&self, window: u64, kind: u64, now: u64) {
        if let Some(slot) = self.slot(window) {
            let value = window << (TIME_BITS + KIND_BITS) | now << KIND_BITS | kind;
            slot.store(value, Ordering::Relaxed);
        }
    }

    #[allow(clippy::cast_possible_truncation)] // it is less than SLOTS
    fn slot(&self, window: u64) -> Option<&AtomicU64> {
        self.0.get((window % SLOTS as u64) as usize)
    }
}

fn windows(range: &Range<u64>) -> Range<u64> {
    range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES)
}

#[allow(clippy::cast_possible_truncation)] // only the last bits are kept
fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64 & TIME_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_window_is_asked_for_once_while_it_is_read() {
        let seen = Seen::default();
        let start = 7 * WINDOW_BYTES;
        let read = |index: u64| start + index * 65536..start + (index + 1) * 65536;
        let mut now = Duration::from_secs(3600);
        assert_eq!(seen.look(&read(0), now), Look::Bytes);
        let window = start..start + WINDOW_BYTES;
        assert_eq!(seen.look(&read(1), now), Look::Windows(window.clone()));
        seen.note(&window, true, now);
        for index in 2..32 {
            assert_eq!(seen.look(&read(index), now), Look::Known);
        }
        now += MILLISECOND * 249;
        assert_eq!(seen.look(&read(2), now), Look::Known);
        now += MILLISECOND;
        assert_eq!(seen.look(&read(3), now), Look::Bytes, "too long ago");
    }

    #[test]
    fn of_a_window_that_is_not_whole_the_bytes_are_asked_for() {
        let seen = Seen::default();
        let window = 0..WINDOW_BYTES;
        let now = MILLISECOND;
        assert_eq!(seen.look(&(0..4096), now), Look::Bytes);
        assert_eq!(seen.look(&(4096..8192), now), Look::Windows(window.clone()));
        seen.note(&window, false, now);
        assert_eq!(seen.look(&(4096..8192), now), Look::Bytes);
        // What was read meanwhile is found soon.
        let later = now + MILLISECOND * 5;
        assert_eq!(seen.look(&(4096..8192), later), Look::Bytes);
        assert_eq!(seen.look(&(0..4096), later), Look::Windows(window));
    }

    #[test]
    fn distant_reads_ask_for_their_bytes_alone() {
        let seen = Seen::default();
        for index in 0..1000 {
            let start = index * 3 * WINDOW_BYTES;
            let look = seen.look(&(start..start + 65536), MILLISECOND);
            assert_eq!(look, Look::Bytes);
        }
    }

    #[test]
    fn a_read_over_two_windows_knows_both_or_asks() {
        let seen = Seen::default();
        let first = 0..WINDOW_BYTES;
        let over = WINDOW_BYTES - 4096..WINDOW_BYTES + 4096;
        seen.note(&first, true, MILLISECOND);
        assert_eq!(seen.look(&over, MILLISECOND), Look::Bytes);
        let both = 0..2 * WINDOW_BYTES;
        assert_eq!(seen.look(&over, MILLISECOND), Look::Windows(both.clone()));
        seen.note(&both, true, MILLISECOND);
        assert_eq!(seen.look(&over, MILLISECOND), Look::Known);
        let empty = seen.look(&(5..5), MILLISECOND);
        assert_eq!(empty, Look::Known);
        let last = u64::MAX - 10..u64::MAX;
        assert_eq!(seen.look(&last, MILLISECOND), Look::Bytes);
    }
}
