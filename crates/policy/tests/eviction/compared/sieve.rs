//! CLOCK in which the spared pages stay where they are.
//!
//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024): new pages join at one end; a hand
//! goes from the old end to the new one, takes the heat from the pages that have some and evicts
//! the first that has none. As spared pages are not moved behind new ones, new pages that are never
//! hit are found soon. Weak against loops larger than the cache.

use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, Links, SKIPS_MAX, SPARED_MAX};

use super::Eviction;

const ALL: usize = 0;

/// Lazy promotion, quick demotion.
#[derive(Debug)]
pub struct Sieve {
    links: Links,
    /// The next page to look at; none: the oldest.
    hand: Option<FrameIndex>,
}

impl Sieve {
    /// For an arena of so many places.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            links: Links::new(frames, 1),
            hand: None,
        }
    }
}

impl Eviction for Sieve {
    fn inserted(&mut self, frame: FrameIndex, _key: u64, _arrival: Arrival) {
        self.removed(frame);
        self.links.push(ALL, frame);
    }

    fn removed(&mut self, frame: FrameIndex) {
        if self.hand == Some(frame) {
            self.hand = self.links.after(frame);
        }
        self.links.remove(frame);
    }

    fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        let (mut skips, mut spared) = (0, 0);
        while skips <= SKIPS_MAX {
            let frame = self.hand.or_else(|| self.links.first(ALL))?;
            self.hand = self.links.after(frame);
            if !frames.is_evictable(frame) {
                skips += 1;
            } else if frames.heat(frame) > 0 && spared < SPARED_MAX {
                spared += 1;
                frames.cool(frame, 0);
            } else {
                self.links.remove(frame);
                return Some(frame);
            }
        }
        None
    }
}
