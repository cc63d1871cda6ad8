//! The rings of one device.
//!
//! Problem: what a completion does (marking pages, waking readers, choosing the next request) takes
//! microseconds. One thread that runs them all ends at some hundred thousand requests a second, and
//! a fast disk answers millions. Rule: there is a ring, and with it a thread that completes, for
//! each [`PROCESSORS_PER_RING`] processors. Requests that are submitted together go to one ring,
//! and the rings take turns. A thread that completes submits to its own ring: what its completions
//! submit is handed over with few system calls.
//!
//! Each ring has all of the depth of the device: a stream that one thread keeps going stays on one
//! ring.
//!
//! Known weaknesses: callers that do not keep to the depth may have as much in the kernel for each
//! ring; memory is pinned once for each ring, which counts against the limit of locked memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ring::Ring;
use super::transfer::{Target, Transfer};
use crate::Memory;

/// One thread completes what the threads of so many processors ask for.
const PROCESSORS_PER_RING: usize = 8;
/// The most rings of one device.
pub(super) const RINGS_MAX: u32 = 8;

/// One ring or more.
pub(super) struct Rings {
    rings: Vec<Ring>,
    /// The ring for the next requests.
    next: AtomicUsize,
}

/// How many there are on this machine, unless the options say otherwise.
pub(super) fn usual_count() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let count = u32::try_from(processors / PROCESSORS_PER_RING);
    count.unwrap_or(RINGS_MAX).clamp(1, RINGS_MAX)
}

impl Rings {
    /// Up to `count` rings with room for `depth` requests each. Fails where there is not one.
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

    /// Prepares the memory, so that the kernel need not look up its pages for each request.
    pub(super) fn register(&self, memory: &Memory) {
        for ring in &self.rings {
            ring.register(memory);
        }
    }
}
