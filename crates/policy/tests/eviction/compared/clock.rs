//! First in, first out, but a page that was hit gets a second round.
//!
//! CLOCK: the hand passes over the pages; one hit since the last pass spares it once more. A hit
//! only sets the heat and takes no lock. One pass of a stream that is hit more than once per page
//! still pushes everything out.

use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, Links, SKIPS_MAX, SPARED_MAX};

use super::Eviction;

const ALL: usize = 0;

/// Second chance.
#[derive(Debug)]
pub struct Clock {
    links: Links,
}

impl Clock {
    /// For an arena of so many places.
    #[must_use]
    pub fn new(frames: u32) -> Self {
        Self {
            links: Links::new(frames, 1),
        }
    }
}

impl Eviction for Clock {
    fn inserted(&mut self, frame: FrameIndex, _key: u64, _arrival: Arrival) {
        self.links.push(ALL, frame);
    }

    fn removed(&mut self, frame: FrameIndex) {
        self.links.remove(frame);
    }

    fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        let (mut skips, mut spared) = (0, 0);
        while skips <= SKIPS_MAX {
            let frame = self.links.first(ALL)?;
            if !frames.is_evictable(frame) {
                skips += 1;
            } else if frames.heat(frame) > 0 && spared < SPARED_MAX {
                spared += 1;
                frames.cool(frame, 0);
            } else {
                self.links.remove(frame);
                return Some(frame);
            }
            self.links.push(ALL, frame);
        }
        None
    }
}
