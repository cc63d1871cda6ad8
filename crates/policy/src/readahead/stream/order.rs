//! Whether a stream is one: which of its touches go on where it was, and which may be chance.
//!
//! # Problem
//!
//! Of a thousand reads in random order among sixteen thousand blocks, two begin where another
//! ended. So each makes a stream with a window, further reads fall into it, and a window that
//! follows them grows like that of a reader: a file that is read at random is fetched whole.
//!
//! # Rule
//!
//! ```text
//!       position         next page          page         window_end
//!   -------|--------|--------|--------------|---------------|------> offset
//!         [ next ]         [ page ]    [ anywhere ]      [ page ]
//! ```
//!
//! A reader that reads on touches the byte at the position, or, as hits are not told, goes over the
//! beginning of a page or over the end of the window. A read that finds its bytes on their way may
//! have overtaken one other. What the reader of a dense stride leaves out (`gap`) belongs to the
//! read behind it: such a read goes over the beginning of a page, too, if its gap does. All others
//! hit anywhere: of reads of 4 KiB by chance 15 in 16, and a window has few pages that are told.
//!
//! A touch in order proves something, and more when nobody has read elsewhere since the last one:
//! two such touches prove a stream, or four among others. Each one anywhere takes some of it back
//! from a proven stream, and nothing from others. As long as a stream is not proven
//!
//! - what hits anywhere is passed over. If it touches the page of the marker, the marker moves to
//!   the next page, as the cache forgets that of a page that is touched, whatever it tells about
//!   the touch: a reader that reads on from there shows it at that page;
//! - a stream that was passed over since its last touch in order gives its place to a new stream
//!   that finds no other;
//! - what lies between the position and a page does not count as read, so that the distance stays
//!   what the first request asks for.
//!
//! # Weaknesses
//!
//! A reader that leaves out the beginning of each page, and not at equal distances, is not read
//! ahead of for longer than one window. Where gaps are long, nearly all that hits the window of a
//! dense stride by chance counts for its reader.
//! Where places are short, a reader that begins among random reads can lose its own to the next
//! stream, and begins again at its marker.

use super::super::settings::{Settings, up};
use super::{AccessKind, Plan, Stream, Touch};

/// How a touch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// At the position, or behind a read that was overtaken.
    Next,
    /// Over the beginning of a page, or the end of the window.
    Page,
    /// Neither.
    Anywhere,
}

/// What proves a stream.
const PROOF_MIN: u8 = 4;
/// A touch in order that comes straight after the one before.
const PROOF_STRAIGHT: u8 = 2;
/// One after accesses elsewhere: of other readers, or of one that reads anywhere.
const PROOF: u8 = 1;

impl Stream {
    /// How a touch goes on with this stream.
    pub(super) fn order(&self, touch: &Touch, settings: &Settings) -> Order {
        let length = touch.end - touch.offset;
        let overtakes = touch.kind == AccessKind::Late;
        let hole = if overtakes { length } else { 0 };
        let next = self.position.saturating_add(hole);
        // What a dense stride leaves out belongs to the read behind it.
        let page = up(touch.offset.saturating_sub(self.gap), settings.page_bytes);
        let goes_on = touch.offset <= self.window_end && touch.end > self.window_end;
        match () {
            () if touch.offset <= next => Order::Next,
            () if goes_on || page < touch.end => Order::Page,
            () => Order::Anywhere,
        }
    }

    /// Whether a touch anywhere in its window may be the reader's.
    pub(super) fn is_proven(&self) -> bool {
        self.proof >= PROOF_MIN
    }

    /// Counts a touch that is about to move the position.
    pub(super) fn prove(&mut self, order: Order, is_straight: bool, touch: &Touch) {
        let is_later = self.began < Some(touch.now) && self.last_proof < touch.now;
        if order == Order::Anywhere {
            self.proof = self.proof.saturating_sub(PROOF_STRAIGHT);
        } else if is_later {
            let proof = if is_straight { PROOF_STRAIGHT } else { PROOF };
            self.proof = (self.proof + proof).min(PROOF_MIN);
            self.last_proof = touch.now;
        }
        let from = match order {
            Order::Next => self.position,
            Order::Page if self.is_proven() => self.position,
            Order::Page | Order::Anywhere => touch.offset,
        };
        self.ordered = self.ordered.saturating_add(touch.end - from.min(touch.end));
    }

    /// It may be chance. A reader that reads on from there shows it at the next page.
    pub(super) fn pass_over(&mut self, touch: &Touch, settings: &Settings) -> Plan {
        self.passed_over = true;
        // The marker of a page goes with its first touch, also when that is told as another kind.
        let of_page = |marker: u64| {
            touch.end > marker && touch.offset < marker.saturating_add(settings.page_bytes)
        };
        let is_marked = touch.kind == AccessKind::Marker || self.marker.is_some_and(of_page);
        if !is_marked {
            return Plan::default();
        }
        self.marker = None;
        self.rearm(up(touch.end, settings.page_bytes))
    }
}
