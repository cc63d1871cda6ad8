//! A buffer cache of the reports' systems: blocks, each with one range of dirty bytes.
//!
//! **Problem.** The reports blame a rule of old systems: a block is written when a call reaches its
//! end, or when a second range of it becomes dirty, and the next call that changes it waits for
//! that write. The page cache has no such rule, so a baseline needs this cache.
//!
//! **Rule.** Each call copies its bytes into blocks and widens their dirty ranges. A block that the
//! rule wants written is *busy* until its [`Store`] has it; a call that touches a busy block waits.
//!
//! Known weaknesses: nothing expires; an error ends all later calls.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pagewell_load::named;

use super::{Error, Result};

/// Blocks in writing at a time.
const BUSY_MAX: usize = 256;
/// Dirty bytes; above it the lowest block is written.
const DIRTY_BYTES_MAX: u64 = 1 << 30;

named! {
    /// When written bytes go to the device.
    pub enum Rule {
        /// When there is a reason: the rule of the page cache.
        Delayed = "delayed",
        /// The rule of FreeBSD 2 and 3: a call that reaches the end of a block has that block
        /// written at once, except block 0, and a block reached in the same call right after it.
        BlockEnd = "block-end",
        /// The same without clustering (mount option `noclusterw`), without exception.
        NoCluster = "nocluster",
        /// Every call is durable before it returns.
        Sync = "sync",
        /// The same, and each call reads the block again, as on a `sync` mount of FreeBSD 3.
        BugReplica = "bug-replica",
        /// The rule of FreeBSD's NFS client: a block has one range of dirty bytes. A call that
        /// neither overlaps nor touches it waits until it is written; a call that reaches the end
        /// of a block has it written at once.
        OneRange = "one-range",
    }
}

impl Rule {
    /// Whether blocks are written one by one, and writers wait for them, as in [`BlockBuffers`].
    pub(super) fn is_by_block(self) -> bool {
        matches!(self, Self::BlockEnd | Self::NoCluster | Self::OneRange)
    }

    /// The blocks that a call makes due.
    ///
    /// ```text
    ///   blocks   |  0  |  1  |  2  |  3  |  4  |
    ///   a call                 |------------|       the ends of 2 and 3 are reached: due
    ///   a call     |------------------|             of 0, 1 and 2 too, but only 2 is due
    /// ```
    fn due(self, (start, end): (u64, u64), block_bytes: u64) -> Range<u64> {
        let (first, reached) = (start / block_bytes, end / block_bytes);
        let exempt = match self {
            Self::BlockEnd if first == 0 => 2,
            _ => 0,
        };
        first.max(exempt)..reached
    }
}

/// The end of a write to a [`Store`], with the reason of a failure.
pub(super) type Ended = Box<dyn FnOnce(Result<(), String>) + Send>;

/// What is below the blocks.
pub(super) trait Store: Send + Sync + 'static {
    /// Whether blocks stay after their write.
    const KEEPS: bool;

    /// Fills a missing block.
    fn load(&self, offset: u64, target: &mut [u8]) -> Result<()>;

    /// Starts a write; `ended` is called once, on any thread.
    fn start(&self, offset: u64, bytes: &[u8], ended: Ended);

    /// Makes earlier writes durable.
    fn flush(&self) -> Result<()>;
}

pub(super) struct BlockBuffers<S> {
    rule: Rule,
    block_bytes: u64,
    /// Writes begin and end at multiples of this; a block has whole grains.
    grain_bytes: u64,
    store: S,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A write has ended.
    progress: Condvar,
}

#[derive(Default)]
struct State {
    /// By number.
    blocks: BTreeMap<u64, Block>,
    dirty_bytes: u64,
    busy: usize,
    /// Writes that were started.
    started: u64,
    /// Why one failed.
    failure: Option<String>,
    busy_waits: u64,
    joined: u64,
}

struct Block {
    bytes: Vec<u8>,
    /// From the first dirty byte to the last.
    dirty: Option<(u64, u64)>,
    /// The number of the present write of the block.
    busy: Option<u64>,
}

/// A block in flight.
struct Sent {
    number: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.progress.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, number: u64, keeps: bool, result: Result<(), String>) {
        let mut state = self.lock();
        state.busy -= 1;
        if let Some(block) = state.blocks.get_mut(&number) {
            block.busy = None;
            if !keeps && block.dirty.is_none() {
                state.blocks.remove(&number);
            }
        }
        if let Err(failure) = result {
            state.failure.get_or_insert(failure);
        }
        drop(state);
        self.progress.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(Error::Wrong(failure.clone())),
        }
    }

    fn is_busy(&self, numbers: Range<u64>) -> bool {
        self.blocks
            .range(numbers)
            .any(|(_, block)| block.busy.is_some())
    }
}

impl<S: Store> BlockBuffers<S> {
    /// Blocks of whole grains over a store.
    pub(super) fn new(rule: Rule, block_bytes: u64, grain_bytes: u64, store: S) -> Self {
        Self {
            rule,
            block_bytes,
            grain_bytes,
            store,
            shared: Arc::default(),
        }
    }

    pub(super) fn store(&self) -> &S {
        &self.store
    }

    /// How many calls waited for a block.
    pub(super) fn busy_waits(&self) -> u64 {
        self.shared.lock().busy_waits
    }

    /// How many calls widened a dirty range.
    pub(super) fn joined(&self) -> u64 {
        self.shared.lock().joined
    }

    fn numbers(&self, start: u64, end: u64) -> Range<u64> {
        start / self.block_bytes..end.div_ceil(self.block_bytes)
    }

    pub(super) fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let end = offset + target.len() as u64;
        let mut state = self.shared.lock();
        for (number, inside, outside) in self.parts(offset, end) {
            let block = self.block(&mut state, number)?;
            target[outside].copy_from_slice(&block.bytes[inside]);
        }
        Ok(())
    }

    /// Copies bytes into the blocks, when the rule lets it, and starts due writes.
    pub(super) fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let span = (offset, offset + source.len() as u64);
        let mut state = self.admit(span)?;
        let mut has_joined = false;
        for (number, inside, outside) in self.parts(span.0, span.1) {
            let base = number * self.block_bytes;
            let (from, to) = (base + inside.start as u64, base + inside.end as u64);
            let block = self.block(&mut state, number)?;
            block.bytes[inside].copy_from_slice(&source[outside]);
            let before = block.dirty;
            let (first, last) = before.unwrap_or((from, to));
            let hull = (first.min(from), last.max(to));
            block.dirty = Some(hull);
            has_joined |= before.is_some();
            state.dirty_bytes += hull.1 - hull.0;
            state.dirty_bytes -= before.map_or(0, |(first, last)| last - first);
        }
        state.joined += u64::from(has_joined);
        let mut due: Vec<u64> = self.rule.due(span, self.block_bytes).collect();
        if state.dirty_bytes > DIRTY_BYTES_MAX {
            let mut dirty = state
                .blocks
                .iter()
                .filter(|(_, block)| block.dirty.is_some());
            due.extend(dirty.next().map(|(number, _)| *number));
        }
        self.start(state, due);
        Ok(())
    }

    /// Waits until no block of a call is busy, and none at its ends has another range.
    fn admit(&self, (start, end): (u64, u64)) -> Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        let mut has_waited = false;
        loop {
            state.check()?;
            let is_busy = state.is_busy(self.numbers(start, end));
            let others = match is_busy {
                true => Vec::new(),
                false => self.other_ranges(&state, (start, end)),
            };
            if !is_busy && others.is_empty() && state.busy < BUSY_MAX {
                return Ok(state);
            }
            state.busy_waits += u64::from(!std::mem::replace(&mut has_waited, true));
            if others.is_empty() {
                state = self.shared.wait(state);
            } else {
                self.start(state, others);
                state = self.shared.lock();
            }
        }
    }

    /// Blocks at the ends of a call whose dirty range it neither overlaps nor touches.
    fn other_ranges(&self, state: &State, (start, end): (u64, u64)) -> Vec<u64> {
        if self.rule != Rule::OneRange || start >= end {
            return Vec::new();
        }
        let ends = [start / self.block_bytes, (end - 1) / self.block_bytes];
        let is_other = |number: &u64| {
            let dirty = state.blocks.get(number).and_then(|block| block.dirty);
            dirty.is_some_and(|(first, last)| start > last || first > end)
        };
        ends.into_iter().filter(is_other).collect()
    }

    /// The parts of a range in each block: its number, bytes of the block, bytes of the range.
    // Inside a block, or memory that exists.
    fn parts(
        &self,
        offset: u64,
        end: u64,
    ) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> + use<S> {
        let block_bytes = self.block_bytes;
        self.numbers(offset, end).map(move |number| {
            let base = number * block_bytes;
            let (from, to) = (offset.max(base), end.min(base + block_bytes));
            let inside = (from - base) as usize..(to - base) as usize;
            (
                number,
                inside,
                (from - offset) as usize..(to - offset) as usize,
            )
        })
    }

    /// A block, loaded if missing.
    fn block<'a>(&self, state: &'a mut State, number: u64) -> Result<&'a mut Block> {
        use std::collections::btree_map::Entry;
        match state.blocks.entry(number) {
            Entry::Occupied(found) => Ok(found.into_mut()),
            Entry::Vacant(place) => {
                // Memory that exists.
                let mut bytes = vec![0; self.block_bytes as usize];
                self.store.load(number * self.block_bytes, &mut bytes)?;
                Ok(place.insert(Block {
                    bytes,
                    dirty: None,
                    busy: None,
                }))
            }
        }
    }

    /// Starts writes of the dirty bytes of some blocks.
    // Inside a block.
    fn start(&self, mut state: MutexGuard<'_, State>, numbers: impl IntoIterator<Item = u64>) {
        let mut all = Vec::new();
        for number in numbers {
            let State {
                blocks, started, ..
            } = &mut *state;
            let block = blocks.get_mut(&number).filter(|block| block.busy.is_none());
            let Some((block, (first, last))) = block.and_then(|block| {
                let dirty = block.dirty.take()?;
                Some((block, dirty))
            }) else {
                continue;
            };
            *started += 1;
            block.busy = Some(*started);
            let base = number * self.block_bytes;
            let offset = first - first % self.grain_bytes;
            let end = last.next_multiple_of(self.grain_bytes);
            let bytes = block.bytes[(offset - base) as usize..(end - base) as usize].to_vec();
            all.push(Sent {
                number,
                offset,
                bytes,
            });
            state.dirty_bytes -= last - first;
            state.busy += 1;
        }
        drop(state);
        // Without the lock: a write may end before its start returns.
        for sent in all {
            let shared = self.shared.clone();
            let ended = move |result| shared.ended(sent.number, S::KEEPS, result);
            self.store.start(sent.offset, &sent.bytes, Box::new(ended));
        }
    }

    /// Waits until nothing is busy.
    pub(super) fn settle(&self) -> Result<()> {
        let mut state = self.shared.lock();
        while state.busy > 0 {
            state = self.shared.wait(state);
        }
        state.check()
    }

    /// Makes earlier writes durable.
    pub(super) fn sync(&self) -> Result<()> {
        let state = self.shared.lock();
        let all: Vec<u64> = state.blocks.keys().copied().collect();
        self.start(state, all);
        let mut state = self.shared.lock();
        let last = state.started;
        let is_older = |block: &Block| block.busy.is_some_and(|write| write <= last);
        while state.blocks.values().any(is_older) {
            state = self.shared.wait(state);
        }
        state.check()?;
        drop(state);
        self.store.flush()
    }
}

#[cfg(test)]
mod tests;
