//! The rings of one device.
//!
//! Problem: a completion (marking pages, waking readers, choosing the next request) takes
//! microseconds, so one thread completes some hundred thousand requests a second, while a fast disk
//! answers millions. Rule: one ring, with its reaper, for each [`PROCESSORS_PER_RING`] processors.
//! The rings take turns by batch of requests; a reaper submits to its own ring, with few system
//! calls. Each ring has the whole depth of the device, so that one thread's stream stays on one
//! ring.
//!
//! Known weaknesses: callers that exceed the depth may have as much in the kernel for each ring;
//! each ring pins memory, which counts against the limit of locked memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ring::Ring;
use super::transfer::{Target, Transfer};
use crate::Memory;

/// Processors whose requests one reaper completes.
const PROCESSORS_PER_RING: usize = 8;
pub(super) const RINGS_MAX: u32 = 8;

pub(super) struct Rings {
    rings: Vec<Ring>,
    next: AtomicUsize,
}

/// The default on this machine.
pub(super) fn usual_count() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let count = u32::try_from(processors / PROCESSORS_PER_RING);
    count.unwrap_or(RINGS_MAX).clamp(1, RINGS_MAX)
}

impl Rings {
    /// Starts up to `count` rings of `depth` requests each. Fails when the first does.
    pub(super) fn start(target: &Arc<Target>, depth: u32, count: u32) -> io::Result<Self> {
        let first = Ring::start(target, depth)?;
        let others = (1..count).map_while(|_| Ring::start(target, depth).ok());
        Ok(Self {
            rings: std::iter::once(first).chain(others).collect(),
            next: AtomicUsize::new(0),
        })
    }

    pub(super) fn submit(&self, transfers: Vec<Transfer>) {
        let own = self.rings.iter().find(|ring| ring.is_completing_here());
        let in_turn = || {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            self.rings.get(turn % self.rings.len().max(1))
        };
        if let Some(ring) = own.or_else(in_turn) {
            ring.submit(transfers);
        }
    }

    /// Prepares memory, so that the kernel need not look up its pages for each request.
    pub(super) fn register(&self, memory: &Memory) {
        for ring in &self.rings {
            ring.register(memory);
        }
    }
}
