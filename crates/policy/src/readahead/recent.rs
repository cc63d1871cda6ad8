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
    descents: u8,
}

/// What a read is to the ones before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// The second of a stream that began with this.
    Forward(Recent),
    /// The third of a backward stream, of which this was the second.
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
        for recent in &mut self.ring {
            // An unused place ends at 0, where no read that is not empty begins anew.
            if recent.end == 0 {
                continue;
            }
            if touch.offset >= recent.start && touch.end <= recent.end {
                recent.seen = touch.now;
                return Found::Same;
            }
            let reach = up(recent.end, settings.unit_bytes);
            if touch.offset > recent.start && touch.offset <= reach && touch.end > recent.end {
                let part = recent.seen == touch.now
                    && touch.offset == recent.end
                    && touch.offset.is_multiple_of(settings.page_bytes)
                    && touch.end - recent.start <= READ_BYTES_MAX;
                if part {
                    recent.end = touch.end;
                    return Found::Same;
                }
                return Found::Forward(std::mem::take(recent));
            }
            let below = down(recent.start, settings.unit_bytes);
            if touch.offset < recent.start && (below..=recent.start).contains(&touch.end) {
                recent.descents += 1;
                if recent.descents >= DESCENTS_MIN {
                    return Found::Backward(std::mem::take(recent));
                }
                (recent.start, recent.end, recent.seen) = (touch.offset, touch.end, touch.now);
                return Found::Descent;
            }
        }
        let place = self.next;
        self.next = (place + 1) % RECENT_MAX;
        if let Some(recent) = self.ring.get_mut(place) {
            *recent = Recent {
                start: touch.offset,
                end: touch.end,
                seen: touch.now,
                descents: 0,
            };
        }
        Found::New
    }
}
