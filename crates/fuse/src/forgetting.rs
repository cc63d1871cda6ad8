//! Files whose pages the kernel is asked to forget.

use std::collections::HashSet;

use pagewell_base::sync::{Condvar, Mutex};

/// Files whose pages the kernel is to give up. A thread of its own tells it, because that waits for
/// the pages of requests that others are to answer.
#[derive(Default)]
pub(crate) struct Forgetting {
    state: Mutex<Wanted>,
    change: Condvar,
}

#[derive(Default)]
struct Wanted {
    nodes: HashSet<u64>,
    stopping: bool,
}

impl Forgetting {
    /// A file is told once, however often it was asked for meanwhile.
    pub(crate) fn want(&self, node: u64) {
        if self.state.lock().nodes.insert(node) {
            self.change.notify_one();
        }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        let mut wanted = self.state.lock();
        loop {
            if wanted.stopping {
                return None;
            }
            // Out of the set before the kernel is told: what comes from then on is told again.
            if let Some(node) = wanted.nodes.iter().next().copied() {
                wanted.nodes.remove(&node);
                return Some(node);
            }
            wanted = self.change.wait(wanted);
        }
    }

    /// The mount ends.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.change.notify_one();
    }
}
