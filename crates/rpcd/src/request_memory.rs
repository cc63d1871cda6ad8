//! Memory for requests larger than a reader's scratch buffer: one budget, and records that grow
//! within it. A thousand clients may send hundreds of WRITEs of 1 MiB each; some never come.
//!
//! # A record
//!
//! Four bytes can claim a megabyte, but a record should lie in one piece, uncopied. Up to
//! [`BEGINNING_BYTES`] it has a small, uncounted buffer. Then it gets address space for all of it
//! and the right to its first [`STEP_BYTES`], and when these are full, to twice as much: untouched
//! memory costs nothing, so it holds at most twice what has arrived.
//!
//! ```text
//!   address space  [########|########|--------|----------------| . . . . . . . . . . ]
//!                   arrived           may be used               is not memory yet
//! ```
//!
//! While others wait for memory a record must be whole in [`WHOLE_WITHIN`], even one that waits
//! itself, or its connection is closed; the client repeats the call on another. A record whose next
//! step is in the socket has twice the time. The time restarts while the record waits for its
//! export's storage or for earlier calls.
//!
//! # The budget
//!
//! Each address has its [share](crate::share). Whole records of one export may use at most as much
//! as is left for others. A connection that wants more is not read and waits in a queue, oldest
//! record first; a return of memory wakes as many as fit, except records over their share. A
//! connection that cannot use the memory passes the offer on.
//!
//! ```text
//!   [whole, of export A | whole, of B | records that arrive, of each address |   left   ] [first]
//!    \__ each at most what is left __/                                        24 MiB ^
//! ```
//!
//! Records could all wait for each other. So one of them, the *first*, may exceed the budget until
//! it is whole. Weakness: many addresses with records that never become whole leave nothing to
//! others for most of the time.
//!
//! A few freed buffers are kept, as a fresh megabyte costs 256 page faults, and charged as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;
use pagewell_sunrpc::record::Assembly;

use crate::connection::inbox::Waker;
use crate::share::{Address, Shares};

/// A WRITE of 1 MiB with the largest header.
pub const RECORD_BYTES_MAX: usize = (1 << 20) + (4 << 10);

/// Of all requests in memory.
pub const REQUEST_BYTES_MAX: usize = 24 << 20;

const FREE_BYTES_MAX: usize = 6 << 20;

/// A call's head and its handle are shorter.
pub const BEGINNING_BYTES: usize = 2 << 10;

/// Of a beginning.
const SMALL_BYTES: usize = 16 << 10;

/// Smaller buffers are plain allocations, bounded by each connection's limits.
const COUNTED_FROM_BYTES: usize = 32 << 10;

/// Larger buffers are multiples, for reuse.
const GRANULE_BYTES: usize = 16 << 10;

const STEP_BYTES: usize = 32 << 10;

/// A line of 2 Mbit/s delivers a megabyte in this time.
const WHOLE_WITHIN: Duration = Duration::from_secs(5);

/// The budget.
pub struct RequestBudget {
    limit: usize,
    state: Mutex<State>,
}

struct State {
    by_address: Shares<Address>,
    by_export: Shares<u32>,
    free_bytes: usize,
    free: Vec<Vec<u8>>,
    /// By record number.
    waiting: BTreeMap<u64, Waiting>,
    next_order: u64,
    /// The connection of the first record.
    first: Option<u64>,
    /// Its bytes over the budget, which other records do not lose.
    first_bytes: usize,
}

struct Waiting {
    wanted: Wanted,
    waker: Waker,
    /// Woken, and not back yet.
    is_called: bool,
}

#[derive(Clone, Copy)]
struct Wanted {
    address: Address,
    export: Option<u32>,
    bytes: usize,
    grows: bool,
}

impl State {
    fn has_room_for(&self, export: Option<u32>, left: usize) -> bool {
        export.is_none_or(|export| self.by_export.of(export) < left)
    }

    fn fits(&self, wanted: &Wanted) -> bool {
        self.by_address.may_add(wanted.address, wanted.bytes)
            && self.has_room_for(wanted.export, self.by_address.left())
    }

    fn may_be_first(&self, wanted: &Wanted, token: u64, limit: usize) -> bool {
        let used = self.by_address.used() + self.first_bytes;
        let left = (limit + RECORD_BYTES_MAX).saturating_sub(used);
        wanted.grows
            && self.first.is_none_or(|first| first == token)
            && wanted.bytes <= left
            && self.has_room_for(wanted.export, left)
    }

    /// Whether an older record has a claim on what is left.
    fn is_behind(&self, order: u64) -> bool {
        let mut older = self.waiting.range(..order);
        older.any(|(_, waiting)| self.fits(&waiting.wanted))
    }

    /// The oldest record that may be the first.
    fn next_first(&self, limit: usize) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        let able = waiting.find(|(_, Waiting { wanted, waker, .. })| {
            self.may_be_first(wanted, waker.token, limit)
        });
        able.map(|(order, _)| *order)
    }

    fn charge(&mut self, address: Address, bytes: usize, is_first: bool) {
        if is_first {
            self.first_bytes += bytes;
        } else {
            self.by_address.add(address, bytes);
        }
        names::REQUEST_MEMORY_BYTES.add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn discharge(&mut self, address: Address, bytes: usize) {
        self.by_address.subtract(address, bytes);
        names::REQUEST_MEMORY_BYTES.add(-i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Whole or gone: its memory counts as any other.
    fn end_first(&mut self, address: Address) {
        self.first = None;
        let bytes = std::mem::take(&mut self.first_bytes);
        self.by_address.add(address, bytes);
    }

    /// The connections to wake, whose memory is free.
    fn due(&mut self, limit: usize) -> Vec<Waker> {
        let mut left = self.by_address.left();
        let mut due = Vec::new();
        let next_first = self.next_first(limit).filter(|_| self.first.is_none());
        let mut all = std::mem::take(&mut self.waiting);
        for (order, waiting) in &mut all {
            let wanted = &waiting.wanted;
            let fits = self.fits(wanted) && wanted.bytes <= left;
            if waiting.is_called {
                left = left.saturating_sub(wanted.bytes);
            } else if fits || next_first == Some(*order) {
                left = left.saturating_sub(if fits { wanted.bytes } else { 0 });
                waiting.is_called = true;
                due.push(waiting.waker.clone());
            }
        }
        self.waiting = all;
        due
    }

    fn stop_waiting(&mut self, token: u64) {
        self.waiting
            .retain(|_, waiting| waiting.waker.token != token);
    }

    fn reuse(&mut self, size: usize) -> Option<Vec<u8>> {
        let found = self.free.iter().position(|free| free.len() == size)?;
        self.free_bytes -= size;
        Some(self.free.swap_remove(found))
    }
}

/// For a record.
pub struct Lease {
    /// The budget.
    pub memory: Arc<RequestBudget>,
    /// The client's.
    pub address: Address,
    token: u64,
    /// The record's, if known.
    pub export: Option<u32>,
    /// Charged.
    pub bytes: usize,
    /// The record's number, from its first request.
    order: Option<u64>,
    is_first: bool,
    /// The record counts for its export.
    is_whole: bool,
}

/// What a record got.
pub enum Given {
    /// For all of it.
    Reused(Vec<u8>),
    /// A total of this many bytes.
    Step(usize),
}

impl Lease {
    /// An empty lease.
    pub fn new(memory: &Arc<RequestBudget>, address: Address, token: u64) -> Self {
        Self {
            memory: memory.clone(),
            address,
            token,
            export: None,
            bytes: 0,
            order: None,
            is_first: false,
            is_whole: false,
        }
    }

    /// The lease of the connection's next record.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(&self.memory, self.address, self.token)
    }

    /// Asks for a total of `step` of `size` bytes. If refused, `waker` is called once memory is
    /// free; then the record must ask again or [`RequestBudget::pass_on`].
    pub fn grow(&mut self, step: usize, size: usize, waker: Option<&Waker>) -> Option<Given> {
        let memory = self.memory.clone();
        let mut state = memory.state.lock();
        let order = *self.order.get_or_insert_with(|| {
            state.next_order += 1;
            state.next_order
        });
        let is_behind = state.is_behind(order);
        let mut wanted = Wanted {
            address: self.address,
            export: self.export,
            bytes: size,
            grows: self.bytes > 0,
        };
        if self.bytes == 0
            && !is_behind
            && state.fits(&wanted)
            && let Some(bytes) = state.reuse(size)
        {
            self.bytes = size;
            state.charge(self.address, size, false);
            state.stop_waiting(self.token);
            memory.call(state);
            return Some(Given::Reused(bytes));
        }
        wanted.bytes = step.saturating_sub(self.bytes);
        if is_behind || !state.fits(&wanted) {
            if !state.may_be_first(&wanted, self.token, memory.limit)
                || state
                    .next_first(memory.limit)
                    .is_some_and(|next| next < order)
            {
                names::REQUEST_MEMORY_REFUSED.add(1);
                if let Some(waker) = waker.cloned() {
                    let is_called = false;
                    let waiting = Waiting {
                        wanted,
                        waker,
                        is_called,
                    };
                    state.waiting.insert(order, waiting);
                }
                return None;
            }
            state.first = Some(self.token);
            self.is_first = true;
        }
        self.bytes += wanted.bytes;
        state.stop_waiting(self.token);
        state.charge(self.address, wanted.bytes, self.is_first);
        let step = Some(Given::Step(self.bytes));
        memory.call(state);
        step
    }

    /// Whether the export can take no more of the record.
    pub fn export_is_full(&self) -> bool {
        let state = self.memory.state.lock();
        !state.has_room_for(self.export, state.by_address.left())
    }

    /// Whether it waits for its export's storage.
    pub fn waits_for_storage(&self) -> bool {
        let state = self.memory.state.lock();
        let much = state.by_address.left().max(self.memory.limit / 8);
        !state.has_room_for(self.export, much)
    }

    /// Another may be the first.
    fn whole(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let memory = self.memory.clone();
        let mut state = memory.state.lock();
        if let Some(export) = self.export {
            state.by_export.add(export, self.bytes);
            self.is_whole = true;
        }
        if !std::mem::take(&mut self.is_first) {
            return;
        }
        state.end_first(self.address);
        memory.call(state);
    }
}

/// They return to the budget on drop.
pub struct Buffer {
    bytes: Vec<u8>,
    lease: Lease,
}

impl RequestBudget {
    /// Of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            state: Mutex::new(State {
                by_address: Shares::new(limit),
                by_export: Shares::new(limit),
                free_bytes: 0,
                free: Vec::new(),
                waiting: BTreeMap::new(),
                next_order: 0,
                first: None,
                first_bytes: 0,
            }),
        })
    }

    /// A copied small record, which counts for no address.
    pub fn uncounted(self: &Arc<Self>, record: &[u8]) -> Buffer {
        Buffer {
            bytes: record.to_vec(),
            lease: Lease::new(self, Address::NONE, 0),
        }
    }

    /// The connection `token` cannot use the memory that it waits for.
    pub fn pass_on(&self, token: u64) {
        let mut state = self.state.lock();
        state.stop_waiting(token);
        self.call(state);
    }

    fn call(&self, mut state: MutexGuard<'_, State>) {
        if state.waiting.is_empty() {
            return;
        }
        let due = state.due(self.limit);
        drop(state);
        due.iter().for_each(Waker::wake);
    }

    /// Whether a record waits.
    pub fn is_wanted(&self) -> bool {
        !self.state.lock().waiting.is_empty()
    }

    fn give_back(&self, lease: &mut Lease, bytes: Vec<u8>) {
        let charged = std::mem::take(&mut lease.bytes);
        if charged == 0 {
            return;
        }
        let mut state = self.state.lock();
        if std::mem::take(&mut lease.is_first) {
            state.end_first(lease.address);
        }
        state.discharge(lease.address, charged);
        if let Some(export) = lease.export.filter(|_| lease.is_whole) {
            state.by_export.subtract(export, charged);
        }
        // A short buffer is of no use to others.
        if bytes.len() == charged && state.free_bytes + charged <= FREE_BYTES_MAX {
            state.free_bytes += charged;
            state.free.push(bytes);
        }
        self.call(state);
    }
}

impl Buffer {
    /// A whole record.
    #[must_use]
    pub fn whole(bytes: Vec<u8>, mut lease: Lease) -> Self {
        lease.whole();
        Self { bytes, lease }
    }

    /// A record that ends early: returns its memory.
    #[must_use]
    pub fn cut_short(bytes: Vec<u8>, lease: Lease) -> Self {
        Self { bytes, lease }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = self.lease.memory.clone();
        memory.give_back(&mut self.lease, std::mem::take(&mut self.bytes));
    }
}

/// Of the record that a connection receives.
pub struct RecordMemory {
    lease: Lease,
    waker: Waker,
    /// In the queue for memory, or woken and not served yet.
    pub waits: bool,
    /// At the start of the wait.
    missing_bytes: usize,
    /// Of the record or wait.
    since: Instant,
}

impl RecordMemory {
    /// `waker` wakes the reader.
    pub fn new(budget: &Arc<RequestBudget>, address: Address, waker: Waker) -> Self {
        Self {
            lease: Lease::new(budget, address, waker.token),
            waker,
            waits: false,
            missing_bytes: 0,
            since: Instant::now(),
        }
    }

    /// Gives memory for more of a record of `bytes`, of which `next` comes next. False: none is
    /// free; with `must_wait` the reader is woken later.
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

    /// The record's, if it can take no more.
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

    /// Whether the client is too slow to fill memory that others wait for. `is_held_up`: by earlier
    /// calls; `unread_bytes`: received outside any record.
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
impl RequestBudget {
    /// Takes memory whatever the rules say.
    pub fn taken(self: &Arc<Self>, bytes: usize) -> Buffer {
        self.state.lock().charge(Address::NONE, bytes, false);
        let mut lease = Lease::new(self, Address::NONE, 0);
        lease.bytes = bytes;
        Buffer {
            bytes: vec![0; bytes],
            lease,
        }
    }
}

#[cfg(test)]
mod tests;
