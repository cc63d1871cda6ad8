//! The memory of a record while it arrives.
//!
//! Four bytes can claim a megabyte, and connections that send only those must not take all memory;
//! but a real record should lie in one piece, uncopied.
//!
//! Up to [`BEGINNING_BYTES`] a record has a small, uncounted buffer. Then it gets address space for
//! all of it and the right to its first [`STEP_BYTES`], and when these are full, to twice as much.
//! Untouched memory costs nothing, so a record holds at most twice what has arrived, and only its
//! beginning is copied.
//!
//! ```text
//!   address space  [########|########|--------|----------------| . . . . . . . . . . ]
//!                   arrived           may be used               is not memory yet
//! ```
//!
//! While others wait for memory a record must be whole in [`WHOLE_WITHIN`], or its connection is
//! closed; an honest client repeats the call on another one. This includes records that wait for
//! memory, or they would wait for each other without end; one whose next step is in the socket has
//! twice the time, and outlives them. The time restarts while the record waits for its export's
//! storage, or is not read because of earlier calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_sunrpc::record::Assembly;

use crate::connection::inbox::Waker;
use crate::request_memory::budget::{Buffer, Given, Lease, RequestBudget};
use crate::share::Address;

/// A call's head and its handle are shorter.
pub const BEGINNING_BYTES: usize = 2 << 10;

/// The buffer of a beginning.
const SMALL_BYTES: usize = 16 << 10;

/// Smaller buffers are plain allocations, bounded by each connection's limits.
const COUNTED_FROM_BYTES: usize = 32 << 10;

/// Larger buffers are multiples, for reuse.
const GRANULE_BYTES: usize = 16 << 10;

/// The first counted step.
const STEP_BYTES: usize = 32 << 10;

/// A line of 2 Mbit/s delivers a megabyte in this time.
const WHOLE_WITHIN: Duration = Duration::from_secs(5);

/// Memory of the record that a connection receives.
pub struct RecordMemory {
    lease: Lease,
    waker: Waker,
    /// In the queue for memory, or woken and not served yet.
    pub waits: bool,
    /// Missing bytes at the start of the wait.
    missing_bytes: usize,
    /// Start of the record or wait.
    since: Instant,
}

impl RecordMemory {
    /// For a new connection; `waker` wakes its reader.
    pub fn new(budget: &Arc<RequestBudget>, address: Address, waker: Waker) -> Self {
        Self {
            lease: Lease::new(budget, address, waker.token),
            waker,
            waits: false,
            missing_bytes: 0,
            since: Instant::now(),
        }
    }

    /// Gives memory for more of a record of `bytes` in all, of which `next` comes next. False: none
    /// is free; with `must_wait` the reader is woken when there is.
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
            // A client may send the first bytes as a fragment of their own.
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

    /// Gives up memory that was or will be offered.
    pub fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.lease.memory.pass_on(self.waker.token);
        }
    }

    /// The record's export, if it can take no more.
    pub fn full_export(&self) -> Option<u32> {
        self.lease.export.filter(|_| self.lease.export_is_full())
    }

    /// The record in `bytes` is whole.
    pub fn whole(&mut self, bytes: Vec<u8>) -> Buffer {
        Buffer::whole(bytes, self.take_lease())
    }

    /// The record in `bytes` ends early; its memory returns.
    pub fn give_up(&mut self, bytes: Vec<u8>) {
        self.stop_waiting();
        drop(Buffer::cut_short(bytes, self.take_lease()));
    }

    fn take_lease(&mut self) -> Lease {
        let next = self.lease.anew();
        std::mem::replace(&mut self.lease, next)
    }

    /// Whether the client is too slow to fill memory that others wait for; for regular checks.
    /// `is_held_up`: earlier calls delay it; `unread_bytes`: received bytes outside any record.
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
