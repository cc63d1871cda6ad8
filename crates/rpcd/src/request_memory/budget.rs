//! Memory for requests that do not fit a reader's scratch buffer, and the bound on it.
//!
//! Problem: a WRITE carries up to 1 MiB, clients keep hundreds in flight, and there may be a
//! thousand clients; some announce large records and never send them, and storage may hold what it
//! was given for ever.
//!
//! Rules: one budget for the whole server. A record gets memory in steps, each as large as what
//! has arrived, so that no client holds much more than it has sent
//! ([`crate::request_memory::record`]). Each address has its [share](crate::share). Records that
//! wait for the storage of one export have at most as much as is left, so that there is something
//! for the others. A connection that wants more than that stops being read (TCP then slows the
//! client) and stands in a queue, the oldest record first; a thread that returns memory calls as
//! many as fit. One that wants more than its share holds up none behind it that want less. A
//! connection that is called and does not come (it is gone, or may not go on for another reason)
//! passes the offer on, or those behind would wait for ever.
//!
//! ```text
//!   [whole, of export A | whole, of B | records that arrive, of each address |   left   ] [first]
//!    \__ each at most what is left __/                                        24 MiB ^
//! ```
//!
//! Records that arrive could all wait for each other, none of them whole. So one of them, the
//! *first*, may go on although nothing is left, until it is whole. Those that are never whole are
//! got rid of by [`record`](super::record), and [`careless`](super::careless) finds those that
//! begin them over and over.
//!
//! Freed buffers are kept for reuse up to a small bound, because a fresh megabyte costs 256 page
//! faults. A record that gets one is charged for all of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;

use crate::connection::inbox::Waker;
use crate::request_memory::careless::Careless;
use crate::share::{Address, Shares};

/// The longest record that is taken: a WRITE of 1 MiB with the largest header there can be.
pub const RECORD_BYTES_MAX: usize = (1 << 20) + (4 << 10);

/// Bytes of requests in memory at once, all connections together.
pub const REQUEST_BYTES_MAX: usize = 24 << 20;

/// Bytes kept free for reuse.
const FREE_BYTES_MAX: usize = 6 << 20;

/// The budget.
pub struct RequestBudget {
    limit: usize,
    state: Mutex<State>,
}

struct State {
    by_address: Shares<Address>,
    /// Bytes of whole records, by export.
    by_export: Shares<u32>,
    free_bytes: usize,
    free: Vec<Vec<u8>>,
    /// By the order of the records.
    waiting: BTreeMap<u64, Waiting>,
    next_order: u64,
    /// The connection whose record may go over the limit.
    first: Option<u64>,
    /// What it has there: no other record has less for it.
    first_bytes: usize,
    careless: Careless,
}

struct Waiting {
    wanted: Wanted,
    waker: Waker,
    /// It was called, and has not come yet.
    is_called: bool,
}

/// More memory for a record.
#[derive(Clone, Copy)]
struct Wanted {
    address: Address,
    export: Option<u32>,
    bytes: usize,
    /// A part of the record is there.
    grows: bool,
}

impl Wanted {
    /// Its position in the order of those that want to be the first.
    fn turn(&self, order: u64) -> (bool, u64) {
        (self.address == Address::NONE, order)
    }
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

    /// Whether an older record is to have what is left.
    fn is_behind(&self, order: u64) -> bool {
        let mut older = self.waiting.range(..order);
        older.any(|(_, waiting)| self.fits(&waiting.wanted))
    }

    /// The position of the one that is to be the first next.
    fn next_first(&self, limit: usize) -> Option<(bool, u64)> {
        let waiting = self.waiting.iter();
        let able = waiting.filter(|(_, Waiting { wanted, waker, .. })| {
            self.may_be_first(wanted, waker.token, limit)
        });
        able.map(|(order, waiting)| waiting.wanted.turn(*order))
            .min()
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

    /// The first is whole or gone: its memory counts like that of others.
    fn end_first(&mut self, address: Address) {
        self.first = None;
        let bytes = std::mem::take(&mut self.first_bytes);
        self.by_address.add(address, bytes);
    }

    /// Finds those that can be offered the memory they want.
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
            } else if fits || next_first == Some(wanted.turn(*order)) {
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

/// What one record is charged for.
pub struct Lease {
    /// Where it comes from.
    pub memory: Arc<RequestBudget>,
    /// The client's address.
    pub address: Address,
    /// The address for whose share it counts.
    payer: Address,
    token: u64,
    /// The export that it is for, when that is known.
    pub export: Option<u32>,
    /// Bytes that it is charged for.
    pub bytes: usize,
    /// Among all records, from when it first asked.
    order: Option<u64>,
    is_first: bool,
    /// It is whole, and counts for its export.
    is_whole: bool,
}

/// What a record was given.
pub enum Given {
    /// A buffer for all of it.
    Reused(Vec<u8>),
    /// The right to as many bytes in all.
    Step(usize),
}

impl Lease {
    /// Of nothing yet.
    pub fn new(memory: &Arc<RequestBudget>, address: Address, token: u64) -> Self {
        Self {
            memory: memory.clone(),
            address,
            payer: address,
            token,
            export: None,
            bytes: 0,
            order: None,
            is_first: false,
            is_whole: false,
        }
    }

    /// One for the next record of the same connection.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(&self.memory, self.address, self.token)
    }

    /// Asks for `step` bytes in all of the `size` that the record will have. When refused, `waker`
    /// is called once there is enough. What was refused must either come again when called or
    /// [`RequestBudget::pass_on`].
    pub fn grow(&mut self, step: usize, size: usize, waker: Option<&Waker>) -> Option<Given> {
        let memory = self.memory.clone();
        let mut state = memory.state.lock();
        let order = *self.order.get_or_insert_with(|| {
            self.payer = state.careless.payer(self.address);
            state.next_order += 1;
            state.next_order
        });
        let is_behind = state.is_behind(order);
        let mut wanted = Wanted {
            address: self.payer,
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
            state.charge(self.payer, size, false);
            state.stop_waiting(self.token);
            memory.call(state);
            return Some(Given::Reused(bytes));
        }
        wanted.bytes = step.saturating_sub(self.bytes);
        if is_behind || !state.fits(&wanted) {
            let turn = wanted.turn(order);
            if !state.may_be_first(&wanted, self.token, memory.limit)
                || state
                    .next_first(memory.limit)
                    .is_some_and(|next| next < turn)
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
        state.charge(self.payer, wanted.bytes, self.is_first);
        let step = Some(Given::Step(self.bytes));
        memory.call(state);
        step
    }

    /// Whether the record's export holds so much that no more of it fits.
    pub fn export_is_full(&self) -> bool {
        let state = self.memory.state.lock();
        !state.has_room_for(self.export, state.by_address.left())
    }

    /// Whether the storage of the record's export has so much to do that it has to wait for that,
    /// and not for records that arrive.
    pub fn waits_for_storage(&self) -> bool {
        let state = self.memory.state.lock();
        let much = state.by_address.left().max(self.memory.limit / 8);
        !state.has_room_for(self.export, much)
    }

    /// The record is whole: another one may be the first.
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
        state.end_first(self.payer);
        memory.call(state);
    }
}

/// Bytes of one request or reply. Returns itself to the budget when dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    lease: Lease,
}

impl RequestBudget {
    /// A budget of `limit` bytes.
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
                careless: Careless::default(),
            }),
        })
    }

    /// A small record, copied: it counts for no address.
    pub fn uncounted(self: &Arc<Self>, record: &[u8]) -> Buffer {
        Buffer {
            bytes: record.to_vec(),
            lease: Lease::new(self, Address::NONE, 0),
        }
    }

    /// The connection `token` does not want what it waited for, for now: others may have it.
    pub fn pass_on(&self, token: u64) {
        let mut state = self.state.lock();
        state.stop_waiting(token);
        self.call(state);
    }

    /// Calls those whose memory there is.
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

    /// A record of `address` was lost because others waited for its memory.
    pub fn blame(&self, address: Address) {
        self.state.lock().careless.note(address);
    }

    fn give_back(&self, lease: &mut Lease, bytes: Vec<u8>) {
        let charged = std::mem::take(&mut lease.bytes);
        if charged == 0 {
            return;
        }
        let mut state = self.state.lock();
        if std::mem::take(&mut lease.is_first) {
            state.end_first(lease.payer);
        }
        state.discharge(lease.payer, charged);
        if let Some(export) = lease.export.filter(|_| lease.is_whole) {
            state.by_export.subtract(export, charged);
        }
        // One that was cut short is of no use to others.
        if bytes.len() == charged && state.free_bytes + charged <= FREE_BYTES_MAX {
            state.free_bytes += charged;
            state.free.push(bytes);
        }
        self.call(state);
    }
}

impl Buffer {
    /// A whole record in memory that was leased for it.
    #[must_use]
    pub fn whole(bytes: Vec<u8>, mut lease: Lease) -> Self {
        lease.whole();
        Self { bytes, lease }
    }

    /// A record that will not be whole: only to give its memory back.
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

#[cfg(test)]
impl RequestBudget {
    /// Memory that others have, whatever the rules say.
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
