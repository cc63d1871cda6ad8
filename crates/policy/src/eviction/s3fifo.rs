//! Three queues, first in first out; what was hit is kept, what passes through goes early.
//!
//! Problem: most pages are read once. A policy that gives each of them the same time as the pages
//! that are read again and again wastes the cache, and one long stream empties it. A hit must not
//! take a lock or move anything.
//!
//! Rule: S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023), with one more queue for streams.
//!
//! ```text
//!   read on demand ──> small (10 %) ──not hit──> gone, its name goes to the ghosts
//!                        └──hit──> main ──not hit──> gone
//!   named by a ghost ───────────────^ └─hit──> end of main, heat less 1
//!   read ahead ──────> stream (25 %) ──not hit──> gone, no ghost
//!                        └──hit──> main
//! ```
//!
//! The page at the front of a queue is looked at. The stream queue is looked at first when it has
//! more than its share, then the small queue when it has more than its share, then main. Pages
//! that a stream brought therefore go first; but up to its share they stay, because read-ahead
//! comes before its reader, and a window that evicts its own beginning is worse than none.
//!
//! Heat is counted by the owner of the pages: a hit by the reader of the stream that brought the
//! page must not count, else many small reads of one page look like heat.
//!
//! A page that cannot go now (pinned, dirty) moves to the end of its queue; at most
//! [`SKIPS_MAX`] in one search. At most [`SPARED_MAX`] pages are spared for their heat in one
//! search, then the next that can go does: so the search is bounded when everything is hot.
//!
//! | constant | value | reason |
//! |---|---|---|
//! | small | 10 % | the paper's; pages read once leave it after a tenth of the cache |
//! | stream | 25 % | all that may be read ahead and unread when memory is full |
//! | heat | at most 3 | two bits, three more rounds in main |
//! | promotion | heat 1 | pages are counted at most once per pass, so one hit is real |
//! | ghosts | as many as main | the paper's |
//!
//! Weaknesses: a page whose second use comes after its time in the small queue and in the ghosts
//! is never kept; a loop slightly larger than the cache gains little.

use super::ghost::Ghost;
use super::list::Links;
use super::{Arrival, FrameIndex, Frames, SKIPS_MAX, SPARED_MAX};

const SMALL: usize = 0;
const MAIN: usize = 1;
const STREAM: usize = 2;
const LISTS: usize = 3;

/// One in so many places is the share of the small queue.
const SMALL_SHARE: u32 = 10;
/// The same of the stream queue. Read-ahead that is unread is to be no more than that.
pub const STREAM_SHARE: u32 = 4;

/// Small, main and ghost queue.
#[derive(Debug)]
pub struct S3Fifo {
    links: Links,
    /// The name of the page in each place.
    keys: Vec<u64>,
    ghost: Ghost,
    /// What the small queue may hold before it is looked at first.
    small_share: usize,
    /// The same of the stream queue.
    stream_share: usize,
}

impl S3Fifo {
    /// For an arena of so many places. Memory is taken here and never again.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        let small_share = (frames / SMALL_SHARE).max(1);
        Self {
            links: Links::new(frames, LISTS),
            keys: vec![0; frames as usize],
            ghost: Ghost::new(frames.saturating_sub(small_share)),
            small_share: small_share as usize,
            stream_share: (frames / STREAM_SHARE).max(1) as usize,
        }
    }

    /// A page named by `key` (any hash of file and page number) came into a free place.
    pub fn inserted(&mut self, frame: FrameIndex, key: u64, arrival: Arrival) {
        if let Some(slot) = self.keys.get_mut(frame.0 as usize) {
            *slot = key;
        }
        let list = match arrival {
            Arrival::Stream => STREAM,
            Arrival::Demand if self.ghost.take(key) => MAIN,
            Arrival::Demand => SMALL,
        };
        self.links.push(list, frame);
    }

    /// The page that was chosen cannot go after all.
    pub fn put_back(&mut self, frame: FrameIndex) {
        if let Some(key) = self.keys.get(frame.0 as usize) {
            self.inserted(frame, *key, Arrival::Demand);
        }
    }

    /// The page left without having been chosen: its place is free.
    pub fn removed(&mut self, frame: FrameIndex) {
        self.links.remove(frame);
    }

    /// Chooses a page to go and forgets its place, or `None` when none may go. Work is bounded: it
    /// gives up after [`SKIPS_MAX`] pages of each queue that cannot go, and goes on with others
    /// when it is asked again.
    pub fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        let mut order = [MAIN, SMALL, STREAM];
        // Those above their share come to the front, the others stay behind main.
        if self.links.length(SMALL) > self.small_share {
            order = [SMALL, MAIN, STREAM];
        }
        if self.links.length(STREAM) > self.stream_share {
            order = [STREAM, order[0], order[1]];
        }
        let mut spares = SPARED_MAX;
        for list in order {
            let found = self.search(list, frames, &mut spares);
            if found.is_some() {
                return found;
            }
        }
        // Only when hot pages moved to main after it had been looked at.
        self.search(MAIN, frames, &mut 0)
    }

    /// Searches one queue from its front, and spares at most so many pages for their heat.
    fn search(&mut self, list: usize, frames: &dyn Frames, spares: &mut u32) -> Option<FrameIndex> {
        let mut skips = SKIPS_MAX;
        for _ in 0..self.links.length(list).saturating_mul(2) {
            let frame = self.links.first(list)?;
            if !frames.is_evictable(frame) {
                skips = skips.checked_sub(1)?;
                self.links.push(list, frame);
                continue;
            }
            let heat = frames.heat(frame);
            if *spares == 0 || heat == 0 {
                self.links.remove(frame);
                if list == SMALL
                    && let Some(key) = self.keys.get(frame.0 as usize)
                {
                    self.ghost.insert(*key);
                }
                return Some(frame);
            }
            *spares -= 1;
            let heat = if list == MAIN { heat - 1 } else { 0 };
            frames.cool(frame, heat);
            self.links.push(MAIN, frame);
        }
        None
    }
}
