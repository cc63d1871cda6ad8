//! Giving up a device that does not answer: how a mount ends whose server is gone for good.
//!
//! Everybody who waits for it, readers and writers and commits, is told; what was not written is
//! lost, and counted. Nobody can call back what is at the device: its requests have to end by
//! themselves, which is for the device to see to, and their memory stays until they do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;

use crate::cached_device::CachedDevice;
use crate::object::Object;
use crate::residency::in_flight::Flight;

/// How often who waits for the device looks whether it was given up.
const TICK: Duration = Duration::from_millis(100);

impl CachedDevice {
    /// [`Self::commit`] of everything, and [`Self::abandon`]: when nothing has got any further for
    /// so long, what is left is lost. Says how many bytes that were. Nobody can write any more.
    pub fn close_within(&self, patience: Duration) -> u64 {
        let (offset, length) = (0, self.object.length_bytes);
        if let Err(error) = self
            .object
            .commit_range(Extent { offset, length }, patience)
        {
            eprintln!("pagewell: {error}");
        }
        self.abandon()
    }

    /// Gives up what is not durable: it is lost, or not known to be. Says how many bytes that
    /// are. Who waits for the device is told that it is abandoned, within a moment; so is everybody
    /// who writes, or reads what is not in memory. Requests at the device end when it ends them.
    pub fn abandon(&self) -> u64 {
        self.object.drop_dirty()
    }
}

impl Object {
    /// Waits for a flight; `None` when it has not landed by then, or the device was given up.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        flight: &Flight,
        deadline: Instant,
    ) -> Option<Result<(), DeviceError>> {
        loop {
            let now = Instant::now();
            let until = deadline.min(now + TICK);
            if let Some(outcome) = flight.wait(until) {
                return Some(outcome);
            }
            if now >= deadline || self.is_abandoned() {
                return None;
            }
        }
    }
}
