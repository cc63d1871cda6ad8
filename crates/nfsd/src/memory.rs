//! Memory for requests that do not fit a reader's scratch buffer, and the bound on it.
//!
//! Problem: a WRITE carries up to 1 MiB, clients keep hundreds in flight, and there may be a
//! thousand clients. Rule: one budget for the whole server. A connection that wants more than is
//! left stops being read (TCP then slows the client) and stands in a queue, once; whoever returns
//! memory calls as many from its head as there is room for. A call is an offer, not a reservation:
//! a connection that does not take it (it is gone, or may not go on for another reason) passes it
//! on, or those behind would wait for ever. Freed buffers are kept for reuse up to a small bound,
//! because a fresh megabyte costs 256 page faults.
//!
//! Known weakness: clients that announce large records and never finish them hold the budget; the
//! reader closes connections whose record makes no progress (`STALLED_AFTER` in `reader`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell_counters::names;

use crate::reader::Waker;

/// Bytes of requests in memory at once, all connections together.
pub const REQUEST_BYTES_MAX: usize = 24 << 20;

/// Bytes kept free for reuse.
const FREE_BYTES_MAX: usize = 6 << 20;

/// Below this a buffer is an ordinary allocation, bounded by the limits of each connection.
pub const COUNTED_FROM_BYTES: usize = 32 << 10;

/// The budget.
pub struct Memory {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    free_bytes: usize,
    free: Vec<Vec<u8>>,
    /// Who waits for how many bytes.
    waiting: VecDeque<(usize, Waker)>,
}

impl State {
    /// Takes those off the queue that can be offered the memory they want.
    fn due(&mut self, limit: usize) -> Vec<Waker> {
        let mut room = limit - self.used;
        let mut due = Vec::new();
        while self.waiting.front().is_some_and(|(size, _)| *size <= room) {
            if let Some((size, waker)) = self.waiting.pop_front() {
                room -= size;
                due.push(waker);
            }
        }
        due
    }
}

/// Bytes of one request or reply. Returns itself to the budget when dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    memory: Arc<Memory>,
}

impl Memory {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            state: Mutex::new(State::default()),
        })
    }

    /// At least `wanted` bytes (contents undefined but initialised), or `None` when the budget is
    /// used up.
    pub fn take(self: &Arc<Self>, wanted: usize) -> Option<Buffer> {
        let size = wanted.next_power_of_two();
        if size < COUNTED_FROM_BYTES {
            return Some(Buffer {
                bytes: vec![0; size],
                memory: self.clone(),
            });
        }
        self.take_counted(size, self.lock())
    }

    fn take_counted(
        self: &Arc<Self>,
        size: usize,
        mut state: MutexGuard<'_, State>,
    ) -> Option<Buffer> {
        if state.used + size > self.limit {
            names::REQUEST_MEMORY_REFUSED.add(1);
            return None;
        }
        state.used += size;
        names::REQUEST_MEMORY_BYTES.add(size as i64);
        let reused = state.free.iter().position(|free| free.len() == size);
        let bytes = reused.map(|index| state.free.swap_remove(index));
        state.free_bytes -= bytes.as_ref().map_or(0, Vec::len);
        drop(state);
        let bytes = bytes.unwrap_or_else(|| vec![0; size]);
        Some(Buffer {
            bytes,
            memory: self.clone(),
        })
    }

    /// Like [`Memory::take`]; when refused, `waker` will be called once there is room. Whoever
    /// was refused must either come again when called or [`Memory::pass_on`].
    pub fn take_or_wait(self: &Arc<Self>, wanted: usize, waker: &Waker) -> Option<Buffer> {
        let size = wanted.next_power_of_two();
        let mut state = self.lock();
        if size >= COUNTED_FROM_BYTES && state.used + size > self.limit {
            names::REQUEST_MEMORY_REFUSED.add(1);
            let token = waker.token();
            if !state
                .waiting
                .iter()
                .any(|(_, other)| other.token() == token)
            {
                state.waiting.push_back((size, waker.clone()));
            }
            return None;
        }
        state
            .waiting
            .retain(|(_, other)| other.token() != waker.token());
        if size < COUNTED_FROM_BYTES {
            drop(state);
            return self.take(wanted);
        }
        self.take_counted(size, state)
    }

    /// The connection `token` does not want what it waited for, for now: others may have it.
    pub fn pass_on(&self, token: u64) {
        let mut state = self.lock();
        state.waiting.retain(|(_, other)| other.token() != token);
        let due = state.due(self.limit);
        drop(state);
        for waker in due {
            waker.wake();
        }
    }

    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() < COUNTED_FROM_BYTES {
            return;
        }
        let mut state = self.lock();
        state.used -= bytes.len();
        names::REQUEST_MEMORY_BYTES.add(-(bytes.len() as i64));
        if state.free_bytes + bytes.len() <= FREE_BYTES_MAX {
            state.free_bytes += bytes.len();
            state.free.push(bytes);
        }
        let due = state.due(self.limit);
        drop(state);
        for waker in due {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// Takes the bytes out, to be put back with [`Buffer::restore`] on the same budget.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The reverse of [`Buffer::into_bytes`].
    #[must_use]
    pub fn restore(bytes: Vec<u8>, memory: &Arc<Memory>) -> Self {
        Self {
            bytes,
            memory: memory.clone(),
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Mailbox;

    #[test]
    fn the_budget_holds_and_comes_back() {
        let memory = Memory::new(256 << 10);
        let first = memory.take(100 << 10).unwrap();
        let second = memory.take(128 << 10).unwrap();
        assert!(memory.take(COUNTED_FROM_BYTES).is_none());
        assert!(memory.take(100).is_some(), "small ones are not counted");
        drop(first);
        assert_eq!(memory.take(70 << 10).unwrap().len(), 128 << 10);
        let bytes = second.into_bytes();
        assert_eq!(memory.lock().used, 128 << 10, "taken out is still counted");
        drop(Buffer::restore(bytes, &memory));
        assert_eq!(memory.lock().used, 0);
    }
    #[test]
    fn whoever_waits_is_called_once_and_offers_are_passed_on() {
        let memory = Memory::new(128 << 10);
        let mailbox = Mailbox::new().unwrap();
        let waker = |token| Waker::new(mailbox.clone(), token);
        let held = memory.take(128 << 10).unwrap();
        for _ in 0..10 {
            assert!(memory.take_or_wait(100 << 10, &waker(1)).is_none());
        }
        for token in 2..=4 {
            assert!(memory.take_or_wait(64 << 10, &waker(token)).is_none());
        }
        drop(held);
        assert_eq!(mailbox.called(), [1], "more do not fit");
        memory.pass_on(1);
        assert_eq!(mailbox.called(), [2, 3]);
        memory.pass_on(2);
        assert_eq!(mailbox.called(), [4]);
        let third = memory.take_or_wait(64 << 10, &waker(3)).unwrap();
        let fourth = memory.take_or_wait(64 << 10, &waker(4)).unwrap();
        assert!(memory.take_or_wait(64 << 10, &waker(5)).is_none());
        memory.pass_on(5);
        drop((third, fourth));
        assert!(mailbox.called().is_empty(), "it no longer waits");
    }
}
