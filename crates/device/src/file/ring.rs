//! Transfers by `io_uring`: a ring and its reaper thread.
//!
//! ```text
//!   callers ──> waiting ──> slots ──> submission queue ──> kernel
//!                 ^           (depth)                        │
//!                 └────────── reaper <── completion queue <──┘
//! ```
//!
//! - The submitting thread passes its requests on, many by one system call.
//! - A *slot* holds a transfer in the kernel, as many as the depth; the rest waits in order.
//! - The *reaper* sleeps until a transfer completes. It takes all completions, refills the slots,
//!   and only then runs the requests' completions: the device has work, and nothing recurses.
//!   Requests that these submit go to the kernel in portions; deferred work comes last (see
//!   `request.rs`).
//! - The kernel owns the memory until the completion: dropping a ring waits for all.
//! - Requests that the kernel does not take (no memory) stay in the submission queue; the reaper
//!   submits them again within [`PATIENCE`].
//! - When a thread ends, the kernel cancels its requests that have not begun (`ECANCELED`), and its
//!   reads through the page cache lose their memory (`EFAULT`); see `transfer.rs`.
//!
//! Weakness: a request that the hardware never answers keeps its slot for ever, and the device
//! cannot be dropped.
//!
//! # Registered memory
//!
//! The kernel pins the pages of ordinary memory for every direct transfer, those of registered
//! memory once. A transfer uses it when all its segments lie in one *region*: a single one by
//! `READ_FIXED`, several by `READV_FIXED` (Linux 6.15). When the kernel refuses (limit of locked
//! memory), transfers are plain, with a warning.
//!
//! # Several rings
//!
//! One thread completes some hundred thousand requests a second; a fast disk answers millions. So
//! there is a ring, with its reaper, for each [`PROCESSORS_PER_RING`] processors. The rings take
//! turns by batch of requests; a reaper submits to its own. Each ring has the device's whole depth,
//! so that one thread's stream stays on one ring.
//!
//! Weaknesses: the depth holds for each ring, not for all; each ring's pins count against the limit
//! of locked memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, Submitter, opcode, squeue};
use pagewell_base::sync::{Condvar, Mutex};
use pagewell_counters::names::DEVICE_FIXED_TRANSFERS;
use rustix::io::Errno;

use super::transfer::{Call, Progress, Target, Transfer};
use crate::request::{Burst, complete, join_others};
use crate::warning::warn_once;
use crate::{Memory, Outcome, Request, Segment};

/// How often the reaper retries submissions, and how long it idles before it parks.
const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(1);
/// After so many completions the reaper submits their new requests, as the device may be idle; then
/// after twice as many each time.
const OFFER_FIRST: usize = 1;
/// Only wakes the reaper.
const WAKE: u64 = u64::MAX;

struct Ring {
    shared: Arc<Shared>,
    reaper: Option<JoinHandle<()>>,
}

struct Shared {
    ring: IoUring,
    target: Arc<Target>,
    depth: usize,
    state: Mutex<State>,
    work: Condvar,
    reaper: OnceLock<ThreadId>,
    /// The submission queue has entries unknown to the kernel.
    unsent: AtomicBool,
}

struct State {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    waiting: VecDeque<Transfer>,
    fixed: Fixed,
    parked: bool,
    closing: bool,
}

struct Slot {
    transfer: Transfer,
    /// The kernel may read it until the completion. A moved `Vec` keeps its elements' addresses.
    _vectors: Vec<Vector>,
}

#[repr(transparent)]
struct Vector(libc::iovec);

// SAFETY: it is a copy of a `Segment`, which is Send.
unsafe impl Send for Vector {}

impl From<&Segment> for Vector {
    fn from(segment: &Segment) -> Self {
        Self(libc::iovec {
            iov_base: segment.start().as_ptr().cast(),
            iov_len: segment.len(),
        })
    }
}

impl Ring {
    /// Fails where the kernel has no `io_uring`, forbids it, or is older than Linux 5.11 (waiting
    /// with a timeout).
    fn start(target: &Arc<Target>, depth: u32) -> io::Result<Self> {
        // One more wakes the reaper.
        let entries = depth
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two);
        let entries = entries.ok_or(io::ErrorKind::InvalidInput)?;
        let ring: IoUring = IoUring::builder().dontfork().build(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Readv::CODE,
            opcode::Writev::CODE,
            opcode::Fsync::CODE,
            opcode::Nop::CODE,
        ];
        let params = ring.params();
        let features = params.is_feature_ext_arg() && params.is_feature_nodrop();
        if !features || !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let depth = depth as usize;
        let shared = Arc::new(Shared {
            ring,
            target: target.clone(),
            depth,
            state: Mutex::new(State {
                slots: (0..depth).map(|_| None).collect(),
                free: (0..depth).rev().collect(),
                waiting: VecDeque::new(),
                fixed: Fixed::new(&probe),
                parked: false,
                closing: false,
            }),
            work: Condvar::new(),
            reaper: OnceLock::new(),
            unsent: AtomicBool::new(false),
        });
        let own = shared.clone();
        let builder = std::thread::Builder::new().name("pagewell-ring".to_owned());
        let reaper = builder.spawn(move || own.reap())?;
        Ok(Self {
            shared,
            reaper: Some(reaper),
        })
    }

    pub(super) fn submit(&self, transfers: Vec<Transfer>) {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        state.waiting.extend(transfers);
        let is_reaper = self.is_completing_here();
        let pushed = shared.fill(&mut state);
        if state.parked {
            state.parked = false;
            shared.work.notify_one();
        }
        drop(state);
        if pushed && is_reaper {
            // The reaper's next system call submits them.
            shared.unsent.store(true, Ordering::Relaxed);
        } else if pushed {
            shared.offer();
        }
    }

    pub(super) fn is_completing_here(&self) -> bool {
        self.shared.reaper.get() == Some(&std::thread::current().id())
    }

    pub(super) fn register(&self, memory: &Memory) {
        let mut state = self.shared.state.lock();
        let submitter = self.shared.ring.submitter();
        state
            .fixed
            .register(&submitter, memory, &self.shared.target.name);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closing = true;
        if state.parked {
            state.parked = false;
            self.shared.work.notify_one();
        } else {
            let wake = opcode::Nop::new().build().user_data(WAKE);
            self.shared.push(&mut state, &wake);
        }
        drop(state);
        self.shared.offer();
        // A reaper with the last reference keeps the ring until its last request is complete.
        join_others(self.reaper.take());
    }
}

impl Shared {
    /// The submission queue has room: each slot has at most one entry, and one is left for waking.
    fn push(&self, _state: &mut State, entry: &squeue::Entry) -> bool {
        // SAFETY: the queue's only use; `_state` shows that the lock is held, so there is no second
        // handle. The slot keeps what the entry points to until the completion.
        unsafe { self.ring.submission_shared().push(entry) }.is_ok()
    }

    /// Moves waiting transfers into free slots and the submission queue; true: there were any.
    fn fill(&self, state: &mut State) -> bool {
        let mut pushed = false;
        while !state.free.is_empty()
            && let Some(mut transfer) = state.waiting.pop_front()
            && let Some(index) = state.free.pop()
        {
            let (offset, segments) = transfer.attempt(&self.target);
            let vectors: Vec<Vector> = segments.iter().map(Vector::from).collect();
            let file = Fd(transfer.descriptor(&self.target).as_raw_fd());
            let call = transfer.call;
            let entry = state.fixed.entry(call, file, offset, &segments, &vectors);
            let entry = entry.inspect(|_| DEVICE_FIXED_TRANSFERS.add(1));
            let entry = entry.unwrap_or_else(|| plain(call, file, offset, &vectors));
            let slot = Slot {
                transfer,
                _vectors: vectors,
            };
            if let Some(place) = state.slots.get_mut(index) {
                *place = Some(slot);
            }
            if self.push(state, &entry.user_data(index as u64)) {
                pushed = true;
                continue;
            }
            // Against all accounting: it waits for a completion.
            if let Some(slot) = state.slots.get_mut(index).and_then(Option::take) {
                state.waiting.push_front(slot.transfer);
            }
            state.free.push(index);
            break;
        }
        pushed
    }

    /// The reaper submits again what the kernel does not take.
    fn offer(&self) {
        loop {
            match self.ring.submit() {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn offer_unsent(&self) {
        if self.unsent.swap(false, Ordering::Relaxed) {
            self.offer();
        }
    }

    fn reap(&self) {
        let _ = self.reaper.set(std::thread::current().id());
        let mut complete_now = Vec::new();
        let mut quiet = true;
        while self.has_work(quiet) {
            self.wait();
            // SAFETY: only this thread uses the completion queue.
            let entries = unsafe { self.ring.completion_shared() };
            let answers: Vec<(u64, i32)> = entries
                .map(|entry| (entry.user_data(), entry.result()))
                .collect();
            quiet = answers.is_empty();
            self.take_back(&answers, &mut complete_now);
            self.complete_all(&mut complete_now);
        }
    }

    fn complete_all(&self, complete_now: &mut Vec<(Request, Outcome)>) {
        let burst = Burst::begin();
        let (mut portion, mut offer_at) = (OFFER_FIRST, OFFER_FIRST);
        for (count, (request, outcome)) in (1..).zip(complete_now.drain(..)) {
            complete(request, outcome);
            if count == offer_at {
                self.offer_unsent();
                portion *= 2;
                offer_at += portion;
            }
        }
        self.offer_unsent();
        drop(burst);
    }

    /// Waits for work; parks after a quiet period. False: none will come.
    fn has_work(&self, quiet: bool) -> bool {
        let mut state = self.state.lock();
        loop {
            let idle = state.free.len() == self.depth && state.waiting.is_empty();
            if idle && state.closing {
                return false;
            }
            if !idle || !quiet {
                return true;
            }
            state.parked = true;
            while state.parked {
                state = self.work.wait(state);
            }
        }
    }

    /// Submits new requests and sleeps in the kernel until a completion, at most [`PATIENCE`].
    fn wait(&self) {
        self.unsent.store(false, Ordering::Relaxed);
        let patience = Timespec::from(PATIENCE);
        let arguments = SubmitArgs::new().timespec(&patience);
        let Err(error) = self.ring.submitter().submit_with_args(1, &arguments) else {
            return;
        };
        match Errno::from_io_error(&error) {
            Some(Errno::TIME | Errno::INTR) => {}
            // No memory; there may be completions all the same.
            _ => {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Frees the slots of completed transfers and refills them.
    fn take_back(&self, answers: &[(u64, i32)], complete_now: &mut Vec<(Request, Outcome)>) {
        if answers.is_empty() {
            return;
        }
        let mut back = Vec::with_capacity(answers.len());
        let mut state = self.state.lock();
        for (mark, answer) in answers {
            let index = usize::try_from(*mark).unwrap_or(usize::MAX);
            if let Some(slot) = state.slots.get_mut(index).and_then(Option::take) {
                state.free.push(index);
                back.push((slot.transfer, *answer));
            }
        }
        drop(state);
        let mut again = Vec::new();
        for (transfer, answer) in back {
            let answer = usize::try_from(answer)
                .map_err(|_| Errno::from_raw_os_error(answer.saturating_neg()));
            match transfer.advance(&self.target, answer) {
                Progress::Again(transfer) => again.push(transfer),
                Progress::Finished(request, outcome) => complete_now.push((request, outcome)),
            }
        }
        let mut state = self.state.lock();
        for transfer in again.into_iter().rev() {
            state.waiting.push_front(transfer);
        }
        let pushed = self.fill(&mut state);
        drop(state);
        if pushed {
            self.offer();
        }
    }
}

/// A flush, or a transfer in unregistered memory.
fn plain(call: Call, file: Fd, offset: u64, vectors: &[Vector]) -> squeue::Entry {
    let start = vectors.as_ptr().cast();
    let count = vectors.len() as u32; // at most VECTORS_MAX
    let flags = flags(call);
    match (call, vectors) {
        (Call::Flush, _) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        (Call::Read, [Vector(one)]) => {
            opcode::Read::new(file, one.iov_base.cast(), one.iov_len as u32)
                .offset(offset)
                .build()
        }
        (Call::Write | Call::DurableWrite, [Vector(one)]) => {
            opcode::Write::new(file, one.iov_base.cast(), one.iov_len as u32)
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        (Call::Read, _) => opcode::Readv::new(file, start, count)
            .offset(offset)
            .build(),
        (Call::Write | Call::DurableWrite, _) => opcode::Writev::new(file, start, count)
            .offset(offset)
            .rw_flags(flags)
            .build(),
    }
}

fn flags(call: Call) -> i32 {
    match call {
        Call::DurableWrite => libc::RWF_DSYNC,
        Call::Read | Call::Write | Call::Flush => 0,
    }
}

/// Of one region, in the kernel.
const REGION_BYTES_MAX: usize = 1 << 30;
/// For 256 GiB; each costs the kernel a pointer.
const REGIONS_MAX: u16 = 256;

struct Fixed {
    regions: Vec<Region>,
    table: Table,
    /// Has `READV_FIXED` and `WRITEV_FIXED`.
    vectored: bool,
}

#[derive(PartialEq, Eq)]
enum Table {
    Missing,
    Ready,
    Refused,
}

struct Region {
    start: usize,
    end: usize,
    index: u16,
    /// Keeps the memory mapped: else the kernel would write to pinned pages behind other memory.
    _memory: Memory,
}

impl Fixed {
    pub(super) fn new(probe: &Probe) -> Self {
        let vectored = [opcode::ReadvFixed::CODE, opcode::WritevFixed::CODE];
        Self {
            regions: Vec::new(),
            table: Table::Missing,
            vectored: vectored.iter().all(|code| probe.is_supported(*code)),
        }
    }

    pub(super) fn register(&mut self, submitter: &Submitter<'_>, memory: &Memory, device: &str) {
        if self.table == Table::Refused {
            return;
        }
        if let Err(error) = self.try_register(submitter, memory) {
            static ONCE: Once = Once::new();
            let bytes = memory.segment().len();
            let text = format!("{device}: {bytes} bytes of memory are not registered: {error}");
            warn_once(&ONCE, &text);
        }
    }

    fn try_register(&mut self, submitter: &Submitter<'_>, memory: &Memory) -> std::io::Result<()> {
        let mut rest = memory.segment();
        let first = rest.start().as_ptr() as usize;
        if self.regions.iter().any(|region| region.start == first) {
            // By another user of the device.
            return Ok(());
        }
        if self.table == Table::Missing {
            self.table = Table::Refused;
            submitter.register_buffers_sparse(REGIONS_MAX.into())?;
            self.table = Table::Ready;
        }
        while !rest.is_empty() {
            let index = u16::try_from(self.regions.len()).unwrap_or(u16::MAX);
            if index >= REGIONS_MAX {
                return Err(std::io::ErrorKind::QuotaExceeded.into());
            }
            let (part, later) = rest.split_at(rest.len().min(REGION_BYTES_MAX));
            rest = later;
            let vector = Vector::from(&part).0;
            // SAFETY: mapped while the memory's keeper lives, which the region holds until `Fixed`
            // is dropped with the ring, after the last completion.
            unsafe { submitter.register_buffers_update(index.into(), &[vector], None)? };
            let start = part.start().as_ptr() as usize;
            self.regions.push(Region {
                start,
                end: start + part.len(),
                index,
                _memory: memory.clone(),
            });
        }
        Ok(())
    }

    /// For a transfer within one region, if the kernel can.
    pub(super) fn entry(
        &self,
        call: Call,
        file: Fd,
        offset: u64,
        segments: &[Segment],
        vectors: &[Vector],
    ) -> Option<squeue::Entry> {
        let first = segments.first()?.start().as_ptr() as usize;
        let contains = |region: &&Region| region.start <= first && first < region.end;
        let region = self.regions.iter().find(contains)?;
        let inside = segments.iter().all(|segment| {
            let start = segment.start().as_ptr() as usize;
            region.start <= start && start + segment.len() <= region.end
        });
        if !inside || (vectors.len() > 1 && !self.vectored) {
            return None;
        }
        let index = region.index;
        let start = vectors.as_ptr().cast();
        let count = vectors.len() as u32; // at most VECTORS_MAX
        Some(match (call, vectors) {
            (Call::Read, [Vector(one)]) => {
                let length = one.iov_len as u32; // at most 1 GiB
                opcode::ReadFixed::new(file, one.iov_base.cast(), length, index)
                    .offset(offset)
                    .build()
            }
            (Call::Flush, _) => return None,
            (Call::Write | Call::DurableWrite, [Vector(one)]) => {
                let length = one.iov_len as u32; // at most 1 GiB
                opcode::WriteFixed::new(file, one.iov_base.cast(), length, index)
                    .offset(offset)
                    .rw_flags(flags(call))
                    .build()
            }
            (Call::Read, _) => opcode::ReadvFixed::new(file, start, count, index)
                .offset(offset)
                .build(),
            (Call::Write | Call::DurableWrite, _) => {
                opcode::WritevFixed::new(file, start, count, index)
                    .offset(offset)
                    .rw_flags(flags(call))
                    .build()
            }
        })
    }
}

const PROCESSORS_PER_RING: usize = 8;
pub(super) const RINGS_MAX: u32 = 8;

pub(super) struct Rings {
    rings: Vec<Ring>,
    next: AtomicUsize,
}

pub(super) fn usual_count() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let count = u32::try_from(processors / PROCESSORS_PER_RING);
    count.unwrap_or(RINGS_MAX).clamp(1, RINGS_MAX)
}

impl Rings {
    /// Fails when the first ring does.
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

    pub(super) fn register(&self, memory: &Memory) {
        for ring in &self.rings {
            ring.register(memory);
        }
    }
}
