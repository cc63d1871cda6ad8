//! What all uploads of a bucket may use together: bytes in memory, and threads.
//!
//! Threads get bytes in the order in which they asked, so a large part waits no longer than what
//! came before it takes. The thread of a caller always works; helpers join while there are any, and
//! no caller waits for them.

use std::collections::VecDeque;

use pagewell_base::sync::{Condvar, Mutex};

const BYTES_MAX: u64 = 32 << 20;
const HELPERS_MAX: u32 = 16;

pub(crate) struct Budget {
    bytes_max: u64,
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free_bytes: u64,
    free_helpers: u32,
    waiting: VecDeque<u64>,
    next_ticket: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BYTES_MAX, HELPERS_MAX)
    }
}

impl Budget {
    pub(crate) fn new(bytes_max: u64, helpers_max: u32) -> Self {
        Self {
            bytes_max,
            state: Mutex::new(State {
                free_bytes: bytes_max,
                free_helpers: helpers_max,
                waiting: VecDeque::new(),
                next_ticket: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Waits for bytes. More than there are is all of them.
    pub(crate) fn bytes(&self, wanted: u64) -> TakenBytes<'_> {
        let bytes = wanted.min(self.bytes_max);
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        while state.waiting.front() != Some(&ticket) || state.free_bytes < bytes {
            state = self.freed.wait(state);
        }
        state.waiting.pop_front();
        state.free_bytes -= bytes;
        drop(state);
        self.freed.notify_all();
        TakenBytes {
            budget: self,
            bytes,
        }
    }

    /// Whether a thread that is begun now is likely to get one.
    pub(crate) fn has_helper(&self) -> bool {
        self.state.lock().free_helpers > 0
    }

    pub(crate) fn helper(&self) -> Option<Helper<'_>> {
        let mut state = self.state.lock();
        state.free_helpers = state.free_helpers.checked_sub(1)?;
        Some(Helper(self))
    }
}

pub(crate) struct TakenBytes<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for TakenBytes<'_> {
    fn drop(&mut self) {
        self.budget.state.lock().free_bytes += self.bytes;
        self.budget.freed.notify_all();
    }
}

pub(crate) struct Helper<'a>(&'a Budget);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.state.lock().free_helpers += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn bytes_are_given_in_order_and_come_back() {
        let budget = Budget::new(10, 0);
        let first = budget.bytes(4);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let wait_for = |count: usize| {
                while budget.state.lock().waiting.len() < count {
                    std::thread::yield_now();
                }
            };
            for (at, bytes) in [(1, 1_000), (2, 1)] {
                let (budget, sender) = (&budget, sender.clone());
                scope.spawn(move || {
                    let _taken = budget.bytes(bytes);
                    sender.send(at).unwrap();
                });
                wait_for(at);
            }
            // The second would find bytes, but waits for the first.
            assert!(receiver.try_recv().is_err());
            drop(first);
            assert_eq!(receiver.recv().unwrap(), 1);
            assert_eq!(receiver.recv().unwrap(), 2);
        });
        assert_eq!(budget.state.lock().free_bytes, 10);
    }

    #[test]
    fn helpers_are_counted() {
        let budget = Budget::new(0, 1);
        let helper = budget.helper();
        assert!(helper.is_some() && budget.helper().is_none() && !budget.has_helper());
        drop(helper);
        assert!(budget.has_helper());
        assert!(budget.helper().is_some());
        // A budget without bytes still lets one through.
        drop(budget.bytes(5));
    }
}
