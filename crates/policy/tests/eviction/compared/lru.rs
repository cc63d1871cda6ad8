//! The page not hit for the longest time goes.
//!
//! Every hit moves the page to the end of the one list, so every hit takes the lock. One long
//! stream pushes everything else out.

use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, Links, SKIPS_MAX};

use super::Eviction;

const ALL: usize = 0;

/// Least recently used.
#[derive(Debug)]
pub struct Lru {
    links: Links,
}

impl Lru {
    /// For an arena of so many places.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            links: Links::new(frames, 1),
        }
    }
}

impl Eviction for Lru {
    fn inserted(&mut self, frame: FrameIndex, _key: u64, _arrival: Arrival) {
        self.links.push(ALL, frame);
    }

    fn hit(&mut self, frame: FrameIndex) {
        if self.links.list_of(frame).is_some() {
            self.links.push(ALL, frame);
        }
    }

    fn removed(&mut self, frame: FrameIndex) {
        self.links.remove(frame);
    }

    fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        for _ in 0..=SKIPS_MAX {
            let frame = self.links.first(ALL)?;
            if frames.is_evictable(frame) {
                self.links.remove(frame);
                return Some(frame);
            }
            // In use, so it counts as used.
            self.links.push(ALL, frame);
        }
        None
    }
}
