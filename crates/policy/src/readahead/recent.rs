//! The latest accesses that belong to no stream: what streams begin from.
//!
//! # Problem
//!
//! A random read must neither cause read-ahead nor cost a stream its place, but the first read of
//! a stream looks like a random one, and the second comes after those of other readers.
//!
//! # Rule
//!
//! The last 32 such reads are kept in a ring, apart from the streams. A read that begins where one
//! of them ended is the second of a stream. Reads fetch whole units, so one that begins in
//! the last unit of another is adjacent to it: what was between were hits. Two reads in a row that
//! end where the one before began are a backward stream; one is not enough, because threads that
//! share a file swap their reads.
//!
//! The parts of one read have the same time and meet at a page boundary: they are one read, up to
//! 1 MiB.
//!
//! # Weaknesses
//!
//! More than 32 readers that begin at once push each other out. With a coarse clock two reads are
//! taken for one, and the stream begins a few reads later.

use std::time::Duration;

use super::settings::{READ_BYTES_MAX, Settings, down, up};
use super::stream::Touch;

const RECENT_MAX: usize = 32;
/// So many steps down in a row make a backward stream.
const DESCENTS_MIN: u8 = 2;

/// A read that belongs to no stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) seen: Duration,
    pub(super) bound: Option<u64>,
    descents: u8,
}

/// What a read is to the ones before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// The second of a stream that began with this.
    Forward(Recent),
    /// This read, whole: the third of a backward stream.
    Backward(Recent),
    /// A further part of a read, or the same again.
    Same,
    /// The second of what may be a backward stream.
    Descent,
    /// Nothing.
    New,
}

/// The ring.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentReads {
    ring: [Recent; RECENT_MAX],
    next: usize,
}

impl RecentReads {
    /// Looks for the read before this one, and remembers this one.
    pub(super) fn take(&mut self, touch: &Touch, settings: &Settings) -> Found {
        if let Some(found) = self.again(touch, settings) {
            return found;
        }
        for recent in self.ring.iter_mut().filter(|recent| recent.end > 0) {
            let reach = up(recent.end, settings.unit_bytes);
            let adjacent = touch.offset > recent.start && touch.offset <= reach;
            if adjacent && touch.end > recent.end {
                return Found::Forward(std::mem::take(recent));
            }
        }
        let place = self.next;
        self.next = (place + 1) % RECENT_MAX;
        if let Some(recent) = self.ring.get_mut(place) {
            *recent = Recent {
                start: touch.offset,
                end: touch.end,
                seen: touch.now,
                bound: touch.bound(),
                descents: 0,
            };
        }
        self.descend(place, settings).unwrap_or(Found::New)
    }

    /// A further part of a read, or one that was seen before. An unused place ends at 0.
    fn again(&mut self, touch: &Touch, settings: &Settings) -> Option<Found> {
        let part = |recent: &Recent| {
            recent.seen == touch.now
                && recent.end == touch.offset
                && touch.offset.is_multiple_of(settings.page_bytes)
                && touch.end - recent.start <= READ_BYTES_MAX
        };
        let place = self.ring.iter().position(|recent| {
            let seen = touch.offset >= recent.start && touch.end <= recent.end;
            recent.end > 0 && (seen || part(recent))
        })?;
        let recent = self.ring.get_mut(place)?;
        recent.seen = touch.now;
        if touch.end <= recent.end {
            return Some(Found::Same);
        }
        recent.end = touch.end;
        recent.bound = touch.bound().or(recent.bound);
        Some(self.descend(place, settings).unwrap_or(Found::Same))
    }

    /// Whether the read in `place` ends where another begins. Takes over what that one has
    /// counted.
    fn descend(&mut self, place: usize, settings: &Settings) -> Option<Found> {
        let read = *self.ring.get(place)?;
        let above = self.ring.iter_mut().find(|above| {
            let below = down(above.start, settings.unit_bytes);
            read.start < above.start && (below..=above.start).contains(&read.end)
        })?;
        let descents = std::mem::take(above).descents + 1;
        let recent = self.ring.get_mut(place)?;
        recent.descents = descents;
        if descents < DESCENTS_MIN {
            return Some(Found::Descent);
        }
        Some(Found::Backward(std::mem::take(recent)))
    }
}
