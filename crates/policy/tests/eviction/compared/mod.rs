//! Policies that the one in use is compared with, and what plays traces to any of them. The bench
//! has this file, too.

mod clock;
mod lru;
mod replay;
mod sieve;

pub use clock::Clock;
pub use lru::Lru;
pub use replay::Replay;
pub use sieve::Sieve;

use pagewell_policy::eviction::{Arrival, FrameIndex, Frames, S3Fifo};

/// An eviction policy over the places of an arena. See [`S3Fifo`].
pub trait Eviction {
    fn inserted(&mut self, frame: FrameIndex, key: u64, arrival: Arrival);

    /// The page was hit. Only for policies that go by more than the heat.
    fn hit(&mut self, _frame: FrameIndex) {}

    fn removed(&mut self, frame: FrameIndex);

    fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex>;
}

impl Eviction for S3Fifo {
    fn inserted(&mut self, frame: FrameIndex, key: u64, arrival: Arrival) {
        self.inserted(frame, key, arrival);
    }

    fn removed(&mut self, frame: FrameIndex) {
        self.removed(frame);
    }

    fn victim(&mut self, frames: &dyn Frames) -> Option<FrameIndex> {
        self.victim(frames)
    }
}
