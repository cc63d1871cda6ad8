//! The memory of a record while it arrives.
//!
//! Problem: a marker of four bytes claims a megabyte, and many connections that send no more than
//! that must not have all the memory there is. But a record that does arrive should lie in one
//! piece, and not be copied.
//!
//! Rule: until [`BEGINNING_BYTES`] are there a record has a small buffer that is not counted. Then
//! it gets address space for all of it and the right to its first [`STEP_BYTES`], and whenever
//! these are full, to twice as much. Memory that was never touched is none, so a record holds at
//! most twice what has arrived of it, and nothing is copied but its beginning.
//!
//! ```text
//!   address space  [########|########|--------|----------------| . . . . . . . . . . ]
//!                   arrived           may be used               is not memory yet
//! ```
//!
//! Others may wait for memory. Then a record must be whole in [`WHOLE_WITHIN`], or its connection
//! is closed: a client in earnest sends the call again on another one. This holds for a record that
//! waits for memory itself, or records would wait for each other for as long as their clients like;
//! but one whose next step has come and lies in the socket has twice that time, so that it outlives
//! those it waits for. And the time begins anew while a record waits for the storage of its export,
//! or is not read because of the calls before it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_sunrpc::record::Assembly;

use crate::connection::inbox::Waker;
use crate::request_memory::budget::{Buffer, Given, Lease, RequestBudget};
use crate::share::Address;

/// A call's head and the handle of its object fit in less.
pub const BEGINNING_BYTES: usize = 2 << 10;

/// The buffer of a record that has hardly begun.
const SMALL_BYTES: usize = 16 << 10;

/// Below this a buffer is an ordinary allocation, bounded by the limits of each connection.
const COUNTED_FROM_BYTES: usize = 32 << 10;

/// Larger buffers have a multiple of this, so that those of one client can be used again.
const GRANULE_BYTES: usize = 16 << 10;

/// The first counted step.
const STEP_BYTES: usize = 32 << 10;

/// A line of 2 Mbit/s brings a megabyte in this time.
const WHOLE_WITHIN: Duration = Duration::from_secs(5);

/// Memory of the record that a connection is receiving.
pub struct RecordMemory {
    lease: Lease,
    waker: Waker,
    /// Stands in the queue for memory, or has been called and not taken it yet.
    pub waits: bool,
    /// Bytes that it lacked when it began to wait.
    missing_bytes: usize,
    /// When it began.
    since: Instant,
}

impl RecordMemory {
    /// For a new connection of an address, whose reader is called with `waker`.
    pub fn new(budget: &Arc<RequestBudget>, address: Address, waker: Waker) -> Self {
        Self {
            lease: Lease::new(budget, address, waker.token),
            waker,
            waits: false,
            missing_bytes: 0,
            since: Instant::now(),
        }
    }

    /// Gives memory for more of a record of `bytes` in all, of which `next` comes next. False: it
    /// waits, and the connection is called when there is memory; without `must_wait` it does not.
    pub fn give(
        &mut self,
        assembly: &mut Assembly,
        bytes: usize,
        must_wait: bool,
        export_of: impl FnOnce(&[u8]) -> Option<u32>,
        next: &[u8],
    ) -> bool {
        let filled = assembly.beginning().len();
        if bytes < COUNTED_FROM_BYTES {
            assembly.give_buffer(vec![0; bytes]);
            return true;
        }
        if filled + next.len() < BEGINNING_BYTES {
            assembly.give_buffer(vec![0; SMALL_BYTES]);
            return true;
        }
        let size = bytes.next_multiple_of(GRANULE_BYTES);
        let is_new = self.lease.bytes == 0;
        if is_new {
            self.since = Instant::now();
            // A client may send a few bytes as a fragment of their own before the rest.
            let next = &next[..BEGINNING_BYTES.min(next.len())];
            self.lease.export = export_of(&[assembly.beginning(), next].concat());
        }
        let step = STEP_BYTES.max(self.lease.bytes.saturating_mul(2)).min(size);
        let waker = must_wait.then_some(&self.waker);
        let given = self.lease.grow(step, size, waker);
        self.waits = must_wait && given.is_none();
        self.missing_bytes = bytes.saturating_sub(filled);
        match given {
            None => return false,
            Some(Given::Reused(buffer)) => assembly.give_buffer(buffer),
            Some(Given::Step(step)) if is_new => {
                let mut buffer = Vec::with_capacity(size);
                buffer.resize(step, 0);
                assembly.give_buffer(buffer);
            }
            Some(Given::Step(step)) => assembly.grow(step),
        }
        true
    }

    /// Memory that was or will be offered cannot be taken now.
    pub fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.lease.memory.pass_on(self.waker.token);
        }
    }

    /// The export of the record, if that holds so much that no more of it fits.
    pub fn full_export(&self) -> Option<u32> {
        self.lease.export.filter(|_| self.lease.export_is_full())
    }

    /// The record in `bytes` is whole.
    pub fn whole(&mut self, bytes: Vec<u8>) -> Buffer {
        Buffer::whole(bytes, self.take_lease())
    }

    /// The record in `bytes` will not be whole; its memory goes back.
    pub fn give_up(&mut self, bytes: Vec<u8>) {
        self.stop_waiting();
        drop(Buffer::cut_short(bytes, self.take_lease()));
    }

    fn take_lease(&mut self) -> Lease {
        let next = self.lease.anew();
        std::mem::replace(&mut self.lease, next)
    }

    /// Whether the client takes too long to fill memory, if others wait for it. Called every now
    /// and then; `is_held_up`: it waits for calls before it; `unread_bytes`: what has come from the
    /// client and lies in no record yet.
    pub fn is_overdue(
        &mut self,
        now: Instant,
        is_held_up: bool,
        unread_bytes: impl FnOnce() -> usize,
    ) -> bool {
        if is_held_up || (self.waits && self.lease.waits_for_storage()) {
            self.since = now;
        }
        let took = now.saturating_duration_since(self.since);
        if self.lease.bytes == 0 || took <= WHOLE_WITHIN {
            return false;
        }
        let has_come = self.waits && unread_bytes() >= self.missing_bytes.min(STEP_BYTES);
        !has_come || took > 2 * WHOLE_WITHIN
    }

    /// Has the client's address count as careless: its record was lost because it was overdue.
    pub fn blame(&self) {
        self.lease.memory.blame(self.lease.address);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use pagewell_sunrpc::record::{LAST_FRAGMENT, Progress};

    use super::*;
    use crate::connection::inbox::Inbox;

    const RECORD_BYTES: usize = 64 << 10;

    /// A record of [`RECORD_BYTES`] that has its first step, while others hold all other memory.
    fn waiting(budget: &Arc<RequestBudget>, budget_bytes: usize) -> (RecordMemory, [Buffer; 2]) {
        let of = |last| Address::of(IpAddr::from([10, 0, 0, last]));
        let waker = Waker::new(Inbox::new().unwrap(), 1);
        let mut memory = RecordMemory::new(budget, of(1), waker);
        let mut assembly = Assembly::new(RECORD_BYTES);
        let next = [0; BEGINNING_BYTES];
        let mut gives = || memory.give(&mut assembly, RECORD_BYTES, true, |_| None, &next);
        assert!(gives());
        // The one that may have more than there is.
        let mut first = Lease::new(budget, of(2), 2);
        assert!(first.grow(STEP_BYTES, RECORD_BYTES, None).is_some());
        let others = budget.taken(budget_bytes - 2 * STEP_BYTES);
        assert!(first.grow(RECORD_BYTES, RECORD_BYTES, None).is_some());
        assert!(!gives());
        assert!(memory.waits);
        (memory, [others, Buffer::cut_short(Vec::new(), first)])
    }

    #[test]
    fn a_record_that_has_come_outlives_those_it_waits_for() {
        let budget_bytes = 16 * STEP_BYTES;
        let budget = RequestBudget::new(budget_bytes);
        let (mut memory, _others) = waiting(&budget, budget_bytes);
        let after = |seconds| memory.since + Duration::from_secs(seconds);
        let (early, late, last) = (after(4), after(6), after(11));
        assert!(!memory.is_overdue(early, false, || 0), "it has some time");
        assert!(memory.is_overdue(late, false, || 100), "little has come");
        assert!(!memory.is_overdue(late, false, || RECORD_BYTES));
        assert!(memory.is_overdue(last, false, || RECORD_BYTES), "bounded");
    }

    #[test]
    fn the_export_is_known_also_of_a_record_with_a_tiny_first_fragment() {
        let budget = RequestBudget::new(16 * STEP_BYTES);
        let waker = Waker::new(Inbox::new().unwrap(), 1);
        let mut memory = RecordMemory::new(&budget, Address::NONE, waker);
        let mut assembly = Assembly::new(RECORD_BYTES);
        let record = [7; RECORD_BYTES];
        let first = [0, 0, 0, 4, 7, 7, 7, 7];
        let second = (LAST_FRAGMENT | (RECORD_BYTES as u32 - 4)).to_be_bytes();
        let stream = [&first[..], &second, &record[4..]].concat();
        let mut rest = stream.as_slice();
        loop {
            let (taken, progress) = assembly.take(rest);
            rest = &rest[taken..];
            let Progress::NeedsBuffer(bytes) = progress else {
                break assert_eq!(progress, Progress::Whole);
            };
            let export_of = |beginning: &[u8]| {
                let is_long_enough = beginning.len() >= BEGINNING_BYTES;
                (is_long_enough && record.starts_with(beginning)).then_some(9)
            };
            let next = &rest[..rest.len().min(100)];
            assert!(memory.give(&mut assembly, bytes, true, export_of, next));
        }
        assert_eq!(memory.lease.export, Some(9));
    }
}
