//! A device whose power fails at a chosen request: [`PowerCut`] over memory that survives.

use std::sync::Arc;

use pagewell_device::{Device, Geometry, Operation, RamDevice, Request};
use pagewell_layers::{PowerCut, PowerCutHandle};

use crate::random::Random;
use crate::volume::STORE_BYTES;

/// What survives.
pub(crate) type Medium = Arc<RamDevice>;

pub(crate) fn medium() -> Medium {
    Arc::new(RamDevice::new("medium", STORE_BYTES as u64))
}

/// The device.
pub(crate) struct FailingPower {
    inner: PowerCut,
    handle: PowerCutHandle,
    /// Blocks of one device are larger than those of another.
    block_bytes: u32,
    flushes: bool,
    seed: u64,
}

impl FailingPower {
    /// The power fails in the middle of the write or flush after `cut_after` others. `flushes`:
    /// whether a flush does what it says.
    pub(crate) fn new(
        medium: &Medium,
        cut_after: u64,
        flushes: bool,
        mut random: Random,
    ) -> Arc<Self> {
        // A small one flushes by itself.
        let log_bytes_max = random.of(&[64 << 10, 2 << 20]);
        let inner = PowerCut::new(medium.clone(), log_bytes_max).expect("a thread");
        let handle = inner.handle();
        let seed = random.number();
        if cut_after < u64::MAX {
            handle.cut_after(cut_after, seed);
        }
        Arc::new(Self {
            inner,
            handle,
            block_bytes: random.of(&[512, 4096]),
            flushes,
            seed,
        })
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.handle.is_cut()
    }

    /// Cuts the power if it is still on. The medium is as it stays when this returns.
    pub(crate) fn cut(&self) {
        self.handle.cut(self.seed);
    }
}

impl Device for FailingPower {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            logical_block_bytes: self.block_bytes,
            memory_alignment_bytes: 512,
            ..self.inner.geometry()
        }
    }

    fn submit(&self, request: Request) {
        if request.operation() == Operation::Flush && !self.flushes && !self.is_cut() {
            request.succeed();
        } else {
            self.inner.submit(request);
        }
    }
}
