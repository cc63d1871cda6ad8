//! The elevator ([`pagewell_policy::elevator`]) at work, before a store.
//!
//! A thread that brings or completes a request sends what may go (*pumps*), one at a time, never
//! from inside `submit`: devices that answer at once cannot make it recurse.
//!
//! The pieces of a merged request that failed are made again one by one; until they have ended, the
//! elevator holds back what overlaps them.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_DEADLINE_PICKS, CACHE_FETCH_REQUESTS, CACHE_FETCHED_BYTES, CACHE_MERGED_REQUESTS,
    CACHE_REQUESTS_IN_QUEUE, CACHE_WRAPS,
};
use pagewell_device::{Buffer, Error, Issuer, Object, Operation, Outcome, Request, Segment, Store};
use pagewell_policy::elevator::{
    Class, Dispatch, DispatchId, Elevator, Extent, Reason, RequestId, Settings,
};
use pagewell_policy::readahead::LeastLatency;

use crate::sync::{Mutex, Rank};

/// Gets the bytes transferred, and the error when not all were.
pub(crate) type Completion = Box<dyn FnOnce(usize, Result<(), Error>) + Send>;

#[derive(Clone)]
pub(crate) struct Destination {
    pub number: u32,
    pub length_bytes: u64,
    pub object: Arc<dyn Object>,
}

pub(crate) struct Transfer {
    pub destination: Destination,
    pub extent: Extent,
    pub operation: Operation,
    pub durable: bool,
    /// The memory; together as long as the extent.
    pub segments: Vec<Segment>,
    pub issuer: Issuer,
    /// Owns what keeps the memory valid.
    pub completion: Completion,
}

pub(crate) struct IoQueue {
    store: Arc<dyn Store>,
    memory_alignment_bytes: usize,
    state: Mutex<State>,
    named: AtomicU64,
    /// [`State::latency`] in nanoseconds; 0 before it is known.
    least_latency: AtomicU64,
    origin: Instant,
}

/// Pieces of a dispatch made again: the last one ends it.
struct Unended {
    queue: Arc<IoQueue>,
    id: DispatchId,
}

impl Drop for Unended {
    fn drop(&mut self) {
        self.queue.end(self.id);
        if !std::thread::panicking() {
            self.queue.pump();
        }
    }
}

struct Pumping<'a>(&'a IoQueue);

impl Drop for Pumping<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().pumping = false;
        }
    }
}

type Batch = (Arc<dyn Object>, Vec<Request>);

struct State {
    elevator: Elevator,
    waiting: HashMap<RequestId, Transfer>,
    latency: LeastLatency,
    pumping: bool,
}

impl IoQueue {
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        Self {
            memory_alignment_bytes: store.geometry().memory_alignment_bytes.max(1) as usize,
            store,
            state: Mutex::new(
                Rank::Leaf,
                State {
                    elevator: Elevator::new(settings),
                    waiting: HashMap::new(),
                    latency: LeastLatency::default(),
                    pumping: false,
                },
            ),
            named: AtomicU64::new(0),
            least_latency: AtomicU64::new(0),
            origin: Instant::now(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.store.name()
    }

    pub(crate) fn memory_alignment_bytes(&self) -> usize {
        self.memory_alignment_bytes
    }

    pub(crate) fn short(&self, offset: u64) -> Error {
        Error::past_end(self.store.name(), offset, 1)
    }

    pub(crate) fn timed_out(&self, offset: u64, time: Duration) -> Error {
        Error::TimedOut {
            device: self.name().to_owned(),
            offset,
            seconds: time.as_secs(),
        }
    }

    pub(crate) fn least_latency(&self) -> Option<Duration> {
        let nanoseconds = self.least_latency.load(Ordering::Relaxed);
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
    }

    pub(crate) fn name_request(&self) -> RequestId {
        RequestId(self.named.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Queues requests and sends what may go.
    ///
    /// # Safety
    /// The segments of each must be valid, and used by nothing else, until its completion has run.
    pub(crate) unsafe fn submit(self: &Arc<Self>, transfers: Vec<(RequestId, Transfer)>) {
        let now = self.origin.elapsed();
        let mut refused = Vec::new();
        let mut state = self.state.lock();
        for (id, transfer) in transfers {
            let class = match (transfer.operation, transfer.issuer) {
                (Operation::Write, _) => Class::AsynchronousWrite,
                (_, Issuer::ReadAhead) => Class::AsynchronousRead,
                _ => Class::SynchronousRead,
            };
            let bytes = (transfer.destination.number, transfer.extent);
            if state.elevator.insert(id, bytes, class, now) {
                state.waiting.insert(id, transfer);
                CACHE_REQUESTS_IN_QUEUE.add(1);
            } else {
                refused.push(transfer);
            }
        }
        drop(state);
        for transfer in refused {
            let offset = transfer.extent.offset;
            (transfer.completion)(0, Err(Error::Abandoned { offset }));
        }
        self.pump();
    }

    pub(crate) fn promote(self: &Arc<Self>, requests: &[RequestId]) {
        if requests.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for id in requests {
            state.elevator.promote(*id, Class::SynchronousRead);
        }
        drop(state);
        // These may go where guesses could not.
        self.pump();
    }

    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.pumping, true) {
            return;
        }
        drop(state);
        let _guard = Pumping(self);
        while let Some(batches) = self.next_requests() {
            for (object, requests) in batches {
                object.submit_many(requests);
            }
        }
    }

    /// `None`: the pumping has ended.
    fn next_requests(self: &Arc<Self>) -> Option<Vec<Batch>> {
        let mut state = self.state.lock();
        let mut batches: Vec<Batch> = Vec::new();
        let mut last = None;
        loop {
            let now = self.origin.elapsed();
            let Some(dispatch) = state.elevator.dispatch(now) else {
                break;
            };
            count(&dispatch);
            let number = dispatch.object;
            let Some((object, request)) = self.request(&mut state.waiting, dispatch, now) else {
                continue;
            };
            match batches.last_mut() {
                Some((_, requests)) if last == Some(number) => requests.push(request),
                _ => batches.push((object, vec![request])),
            }
            last = Some(number);
        }
        state.pumping = !batches.is_empty();
        state.pumping.then_some(batches)
    }

    fn request(
        self: &Arc<Self>,
        waiting: &mut HashMap<RequestId, Transfer>,
        dispatch: Dispatch,
        sent: Duration,
    ) -> Option<(Arc<dyn Object>, Request)> {
        let mut segments = Vec::new();
        let mut gaps = Vec::new();
        let mut transfers = Vec::with_capacity(dispatch.members.len());
        let mut at = dispatch.extent.offset;
        for member in dispatch.members {
            let Some(transfer) = waiting.remove(&member.id) else {
                debug_assert!(false, "{member:?} was never queued");
                continue;
            };
            CACHE_REQUESTS_IN_QUEUE.add(-1);
            if member.extent.offset > at {
                // At most the widest hole that is read over.
                let length = usize::try_from(member.extent.offset - at).unwrap_or(0);
                let mut gap = Buffer::new(length, self.memory_alignment_bytes);
                segments.push(gap.as_segment());
                gaps.push(gap);
            }
            at = member.extent.end();
            for part in &transfer.segments {
                append(&mut segments, *part);
            }
            transfers.push(transfer);
        }
        let object = transfers.first()?.destination.object.clone();
        let issuer = issuer_of(&transfers);
        let this = self.clone();
        let (id, offset) = (dispatch.id, dispatch.extent.offset);
        let is_write = dispatch.class.is_write();
        debug_assert!(!is_write || gaps.is_empty(), "a write has no holes");
        let operation = if is_write {
            Operation::Write
        } else {
            Operation::Read
        };
        let durable = transfers.iter().any(|transfer| transfer.durable);
        // SAFETY: the memory of the members by the contract of `submit`, as their completions run
        // in this one or after it; that of the gaps is owned by it.
        let mut request = unsafe {
            Request::new(operation, offset, segments, issuer, move |outcome| {
                drop(gaps);
                this.complete((id, sent), offset, transfers, &outcome);
            })
        };
        if durable {
            request.set_durable();
        }
        Some((object, request))
    }

    fn complete(
        self: &Arc<Self>,
        (id, sent): (DispatchId, Duration),
        offset: u64,
        transfers: Vec<Transfer>,
        outcome: &Outcome,
    ) {
        let mut operations = transfers.iter().map(|transfer| transfer.operation);
        let is_write = operations.any(|operation| operation == Operation::Write);
        if !is_write && outcome.transferred_bytes > 0 {
            self.note_latency(self.origin.elapsed().saturating_sub(sent));
        }
        if !is_write {
            CACHE_FETCHED_BYTES.add(outcome.transferred_bytes as u64);
        }
        let end = offset + outcome.transferred_bytes as u64;
        let alone = transfers.len() == 1;
        let (ended, again): (Vec<_>, Vec<_>) = transfers.into_iter().partition(|transfer| {
            // The end of the device is no failure, and no thread waits for a guess.
            alone
                || transfer.issuer == Issuer::ReadAhead
                || end >= transfer.destination.length_bytes
                || transfer.extent.end() <= end
        });
        if again.is_empty() {
            self.end(id);
        }
        for transfer in ended {
            let Extent { offset, length } = transfer.extent;
            let there = end.saturating_sub(offset).min(length);
            let result = match there == length {
                true => Ok(()),
                false => outcome.result.clone(),
            };
            #[allow(clippy::cast_possible_truncation)] // at most the length of memory
            (transfer.completion)(there as usize, result);
        }
        self.again(id, again);
        self.pump();
    }

    pub(crate) fn note_latency(&self, took: Duration) {
        let mut state = self.state.lock();
        state.latency.note(took, self.origin.elapsed());
        let least = state.latency.least().unwrap_or_default().as_nanos();
        let least = u64::try_from(least).unwrap_or(u64::MAX);
        self.least_latency.store(least, Ordering::Relaxed);
    }

    fn again(self: &Arc<Self>, id: DispatchId, pieces: Vec<Transfer>) {
        if pieces.is_empty() {
            return;
        }
        let unended = Arc::new(Unended {
            queue: self.clone(),
            id,
        });
        for transfer in pieces {
            let object = transfer.destination.object.clone();
            object.submit(single(transfer, unended.clone()));
        }
    }

    fn end(&self, id: DispatchId) {
        let known = self.state.lock().elevator.complete(id);
        CACHE_REQUESTS_IN_QUEUE.add(-1);
        // Else the device gets more requests at a time than it takes.
        assert!(known, "{id:?} completed twice");
    }
}

fn single(transfer: Transfer, unended: Arc<Unended>) -> Request {
    let completion = transfer.completion;
    let (offset, segments, issuer) = (transfer.extent.offset, transfer.segments, transfer.issuer);
    // SAFETY: the memory is valid by the contract of `IoQueue::submit`.
    let mut request = unsafe {
        Request::new(
            transfer.operation,
            offset,
            segments,
            issuer,
            move |outcome| {
                // Before the panic goes on: others wait.
                let complete = || completion(outcome.transferred_bytes, outcome.result);
                let completed = catch_unwind(AssertUnwindSafe(complete));
                drop(unended);
                if let Err(panic) = completed {
                    resume_unwind(panic);
                }
            },
        )
    };
    if transfer.durable {
        request.set_durable();
    }
    request
}

fn count(dispatch: &Dispatch) {
    CACHE_REQUESTS_IN_QUEUE.add(1);
    if !dispatch.class.is_write() {
        CACHE_FETCH_REQUESTS.add(1);
    }
    CACHE_MERGED_REQUESTS.add(dispatch.members.len() as u64 - 1);
    match dispatch.reason {
        Reason::Order => {}
        Reason::Wrap => CACHE_WRAPS.add(1),
        Reason::Deadline => CACHE_DEADLINE_PICKS.add(1),
    }
}

fn append(segments: &mut Vec<Segment>, part: Segment) {
    if let Some(last) = segments.last_mut() {
        let end = last.start().as_ptr().wrapping_add(last.len());
        if std::ptr::eq(end, part.start().as_ptr()) {
            *last = Segment::new(last.start(), last.len() + part.len());
            return;
        }
    }
    segments.push(part);
}

fn issuer_of(transfers: &[Transfer]) -> Issuer {
    use Issuer::{Flusher, Metadata, ReadAhead, Reader};
    let is_one = |issuer: &Issuer| transfers.iter().any(|transfer| transfer.issuer == *issuer);
    let mut issuers = [Reader, Metadata, ReadAhead, Flusher].into_iter();
    issuers.find(is_one).unwrap_or(Reader)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
