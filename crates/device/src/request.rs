//! One transfer between memory and a device, or a flush.
//!
//! A [`Request`] travels down through layers; each may observe its outcome, split, redirect or
//! answer it; the last calls [`Request::complete`]. A dropped request completes with
//! [`Error::Abandoned`].
//!
//! ```text
//!   new ──> layer ──> layer ──> device
//!                                 │ complete(Outcome)
//!   completion <── observer <── observer
//! ```
//!
//! A complete write may be lost at a power failure until a later [flush](Request::flush) is
//! complete; a [durable](Request::set_durable) one is not.
//!
//! A completion runs on any thread, must be short and must not wait. It may submit requests.
//!
//! Requests are derived from one, which waits for them: a copy for another device, with the same
//! bytes and memory; and pieces, which follow each other: its transferred bytes are those before
//! the first gap.
//!
//! # Completions from threads that others depend on
//!
//! A disk may answer all its requests at once, a *burst*, and is then idle until the next request.
//! A completion (marking pages, waking readers) takes several times as long as choosing the next
//! request. So completions defer what the device need not wait for ([`after_burst`]) until the
//! burst's new requests are submitted:
//!
//! ```text
//!  burst:  complete  complete  complete ──> submit ──> deferred  deferred  deferred
//! ```
//!
//! On other threads nothing is deferred.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::Mutex;
use pagewell_counters::names::PANICS;

use crate::{Buffer, Error, Result};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// From the device to memory.
    Read,
    /// From memory to the device.
    Write,
    /// No transfer: see [`Request::flush`].
    Flush,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Issuer {
    /// A caller waits for the bytes.
    Reader,
    /// Read-ahead.
    ReadAhead,
    /// Write-back.
    Flusher,
    /// Structure of a file system: directories, descriptors.
    Metadata,
}

impl Issuer {
    /// All, in display order.
    pub const ALL: [Self; 4] = [Self::Reader, Self::ReadAhead, Self::Flusher, Self::Metadata];

    /// For messages and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::ReadAhead => "read-ahead",
            Self::Flusher => "flusher",
            Self::Metadata => "metadata",
        }
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// From the first. The memory behind them is undefined.
    pub transferred_bytes: usize,
    /// `Ok` if and only if all bytes were transferred; an empty request may fail, too.
    pub result: Result<()>,
}

/// Memory of a request, safe to use by the contract of [`Request::new`].
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: an address and a length; code that makes a reference of it owes the argument.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// `length` bytes at `start`.
    #[must_use]
    pub fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn split_at(self, length: usize) -> (Self, Self) {
        assert!(length <= self.length, "{length} of {}", self.length);
        // SAFETY: at most one past the end of the same memory.
        let rest = unsafe { self.start.add(length) };
        (
            Self::new(self.start, length),
            Self::new(rest, self.length - length),
        )
    }
}

type Completion = Box<dyn FnOnce(Outcome) + Send>;

/// See the module.
pub struct Request {
    operation: Operation,
    offset: u64,
    issuer: Issuer,
    segments: Vec<Segment>,
    length: usize,
    durable: bool,
    completion: Option<Completion>,
}

impl Request {
    /// A transfer between the device's bytes from `offset` and `segments`, in order.
    ///
    /// # Safety
    /// Until `completion` is called, every segment must be valid for reads and writes and free of
    /// other accesses; during an [`Operation::Write`] others may read it.
    pub unsafe fn new(
        operation: Operation,
        offset: u64,
        segments: Vec<Segment>,
        issuer: Issuer,
        completion: impl FnOnce(Outcome) + Send + 'static,
    ) -> Self {
        let length = segments.iter().map(Segment::len).sum();
        Self {
            operation,
            offset,
            issuer,
            segments,
            length,
            durable: false,
            completion: Some(Box::new(completion)),
        }
    }

    /// Makes every write durable that was *complete before this was submitted*; concurrent writes
    /// may be durable or not.
    ///
    /// When it fails, every non-durable write since the last good flush may be lost, and a later
    /// flush says nothing about them.
    pub fn flush(issuer: Issuer, completion: impl FnOnce(Outcome) + Send + 'static) -> Self {
        // SAFETY: it has no memory.
        unsafe { Self::new(Operation::Flush, 0, Vec::new(), issuer, completion) }
    }

    /// With its own memory, which the completion gets back.
    pub fn owned(
        operation: Operation,
        offset: u64,
        mut buffer: Buffer,
        issuer: Issuer,
        completion: impl FnOnce(Outcome, Buffer) + Send + 'static,
    ) -> Self {
        let segment = buffer.as_segment();
        // SAFETY: the completion owns the buffer, and no other code can reach it.
        unsafe {
            Self::new(operation, offset, vec![segment], issuer, move |outcome| {
                completion(outcome, buffer);
            })
        }
    }

    /// Its kind.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// First byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that exist on a device of this length.
    #[must_use]
    pub fn bytes_there(&self, length_bytes: u64) -> usize {
        let there = length_bytes.saturating_sub(self.offset);
        usize::try_from(there).map_or(self.length, |there| there.min(self.length))
    }

    /// Its origin.
    #[must_use]
    pub fn issuer(&self) -> Issuer {
        self.issuer
    }

    /// Makes a write, with its pieces and copies, durable at its completion, without a flush (FUA).
    /// Reads and flushes are not affected.
    pub fn set_durable(&mut self) {
        self.durable = self.operation == Operation::Write;
    }

    /// See [`Request::set_durable`].
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// The memory, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// For a read to fill, in order.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.segments.iter().map(|segment| {
            // SAFETY: by the contract of `new` the memory is valid and exclusive until the
            // completion, which consumes `self`.
            unsafe { std::slice::from_raw_parts_mut(segment.start.as_ptr(), segment.length) }
        })
    }

    /// Shared, in order: a write's memory may have other readers.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| {
            // SAFETY: by the contract of `new` the memory is valid and has no writer until the
            // completion, which consumes `self`.
            unsafe { std::slice::from_raw_parts(segment.start.as_ptr(), segment.length) }
        })
    }

    /// Changes the offset.
    pub fn redirect(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// `look` sees and may change the outcome before earlier observers.
    pub fn observe(&mut self, look: impl FnOnce(&mut Outcome) + Send + 'static) {
        if let Some(completion) = self.completion.take() {
            self.completion = Some(Box::new(move |mut outcome| {
                look(&mut outcome);
                completion(outcome);
            }));
        }
    }

    /// Ends the request.
    pub fn complete(mut self, outcome: Outcome) {
        debug_assert!(
            self.length == 0
                || outcome.result.is_err() == (outcome.transferred_bytes < self.length),
            "{outcome:?} of {} bytes",
            self.length
        );
        if let Some(completion) = self.completion.take() {
            completion(outcome);
        }
    }

    /// With all bytes transferred.
    pub fn succeed(self) {
        let transferred_bytes = self.length;
        self.complete(Outcome {
            transferred_bytes,
            result: Ok(()),
        });
    }

    /// With only the first bytes transferred.
    pub fn fail(self, transferred_bytes: usize, error: Error) {
        self.complete(Outcome {
            transferred_bytes,
            result: Err(error),
        });
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            completion(Outcome {
                transferred_bytes: 0,
                result: Err(Error::Abandoned {
                    offset: self.offset,
                }),
            });
        }
    }
}

impl Request {
    /// A copy with the same bytes and memory. At its completion `then` gets this request and the
    /// outcome, and completes or submits it.
    #[must_use]
    pub fn relay(self, then: impl FnOnce(Self, Outcome) + Send + 'static) -> Self {
        Self {
            operation: self.operation,
            offset: self.offset,
            issuer: self.issuer,
            segments: self.segments.clone(),
            length: self.length,
            durable: self.durable,
            // Keeps `self`, and so the memory.
            completion: Some(Box::new(move |outcome| then(self, outcome))),
        }
    }

    /// Splits it at these lengths. Completes after all pieces, with the error of the first, in
    /// order, that failed.
    ///
    /// # Panics
    /// When the lengths do not add up to its own.
    #[must_use]
    pub fn split(mut self, lengths: &[usize]) -> Vec<Self> {
        let sum: usize = lengths.iter().sum();
        assert_eq!(sum, self.length, "lengths");
        let Some(completion) = self.completion.take() else {
            return Vec::new();
        };
        if lengths.is_empty() {
            completion(whole(&[], Vec::new()));
            return Vec::new();
        }
        let known = lengths.to_vec();
        let completions = gather(lengths.len(), move |outcomes| {
            completion(whole(&known, outcomes));
        });
        let mut rest = std::mem::take(&mut self.segments).into_iter();
        let mut current = None;
        let mut offset = self.offset;
        let mut pieces = Vec::with_capacity(lengths.len());
        for (&length, completion) in lengths.iter().zip(completions) {
            pieces.push(Self {
                operation: self.operation,
                offset,
                issuer: self.issuer,
                segments: take_segments(&mut current, &mut rest, length),
                length,
                durable: self.durable,
                completion: Some(completion),
            });
            offset += length as u64;
        }
        pieces
    }
}

/// Lengths of pieces: `longest` each, and the rest.
pub fn pieces(length: usize, longest: usize) -> impl Iterator<Item = usize> {
    let starts = (0..length).step_by(longest);
    starts.map(move |start| longest.min(length - start))
}

/// Completions for `count` requests; after the last, `then` gets the outcomes in order. Drop the
/// iterator before the first completion runs.
fn gather<T>(count: usize, then: T) -> impl Iterator<Item = Completion>
where
    T: FnOnce(Vec<Outcome>) + Send + 'static,
{
    // Of a completion that is dropped, not called.
    let missing = Outcome {
        transferred_bytes: 0,
        result: Err(Error::Abandoned { offset: 0 }),
    };
    let all = Arc::new(Mutex::new((vec![missing; count], then)));
    (0..count).map(move |index| -> Completion {
        let all = all.clone();
        Box::new(move |outcome| {
            if let Some(slot) = all.lock().0.get_mut(index) {
                *slot = outcome;
            }
            // The last completion.
            if let Some(all) = Arc::into_inner(all) {
                let (outcomes, then) = all.into_inner();
                then(outcomes);
            }
        })
    })
}

/// The next `length` bytes; `current` is the rest of a split segment.
fn take_segments(
    current: &mut Option<Segment>,
    rest: &mut impl Iterator<Item = Segment>,
    mut length: usize,
) -> Vec<Segment> {
    let mut taken = Vec::new();
    while length > 0 {
        let Some(segment) = current.take().or_else(|| rest.next()) else {
            break;
        };
        let (now, later) = segment.split_at(segment.len().min(length));
        length -= now.len();
        taken.push(now);
        if !later.is_empty() {
            *current = Some(later);
        }
    }
    taken
}

/// Joins the outcomes of pieces.
fn whole(lengths: &[usize], outcomes: Vec<Outcome>) -> Outcome {
    let mut transferred_bytes = 0;
    for (&length, outcome) in lengths.iter().zip(outcomes) {
        transferred_bytes += outcome.transferred_bytes.min(length);
        if outcome.transferred_bytes < length {
            return Outcome {
                transferred_bytes,
                result: outcome.result,
            };
        }
    }
    Outcome {
        transferred_bytes,
        result: Ok(()),
    }
}

type Work = Box<dyn FnOnce()>;

thread_local! {
    /// By the burst of this thread.
    static DEFERRED: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

/// Completes a request; counts a panic of its completion and goes on.
pub fn complete(request: Request, outcome: Outcome) {
    // The request is gone afterwards: nothing is left half-changed.
    contain(|| request.complete(outcome));
}

fn contain(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        completion_panicked();
    }
}

/// Counts a completion that panicked.
pub fn completion_panicked() {
    PANICS.add(1);
}

/// Runs `work` on this thread after the burst and its new requests, before the device is dropped;
/// outside a burst, at once.
pub fn after_burst(work: impl FnOnce() + 'static) {
    let mut work: Option<Work> = Some(Box::new(work));
    // An ending thread has no burst.
    let _ = DEFERRED.try_with(|deferred| {
        if let Some(later) = &mut *deferred.borrow_mut() {
            later.extend(work.take());
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// A burst on this thread, whose end runs the deferred work.
pub(crate) struct Burst(());

impl Burst {
    /// Does not nest.
    pub(crate) fn begin() -> Self {
        DEFERRED.with_borrow_mut(|deferred| *deferred = Some(Vec::new()));
        Self(())
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // What this work defers runs at once.
        let later = DEFERRED.with_borrow_mut(Option::take);
        for work in later.into_iter().flatten() {
            contain(work);
        }
    }
}

/// Joins threads, except this one: a completion may drop the last reference to their owner.
pub(crate) fn join_others(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let own = std::thread::current().id();
    for thread in threads {
        if thread.thread().id() != own {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn request(length: usize) -> (Request, mpsc::Receiver<(Outcome, Buffer)>) {
        let (sender, receiver) = mpsc::channel();
        let buffer = Buffer::new(length, 512);
        let request = Request::owned(
            Operation::Read,
            4096,
            buffer,
            Issuer::Reader,
            move |outcome, buffer| sender.send((outcome, buffer)).unwrap(),
        );
        (request, receiver)
    }

    fn lost(offset: u64) -> Error {
        Error::Abandoned { offset }
    }

    #[test]
    fn pieces_complete_in_any_order_and_the_whole_once() {
        let (whole, receiver) = request(1000);
        let mut pieces = whole.split(&[100, 400, 500]);
        assert_eq!(
            pieces.iter().map(Request::offset).collect::<Vec<_>>(),
            [4096, 4196, 4596]
        );
        for (fill, piece) in pieces.iter_mut().enumerate() {
            for slice in piece.slices_mut() {
                slice.fill(u8::try_from(fill).unwrap() + 1);
            }
        }
        pieces.remove(1).succeed();
        pieces.remove(1).succeed();
        assert!(receiver.try_recv().is_err());
        pieces.remove(0).succeed();
        let (outcome, buffer) = receiver.recv().unwrap();
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(outcome.transferred_bytes, 1000);
        assert_eq!((buffer[0], buffer[100], buffer[999]), (1, 2, 3));
    }

    #[test]
    fn the_first_failed_piece_ends_what_was_transferred() {
        let (whole, receiver) = request(1000);
        let mut pieces = whole.split(&[100, 400, 500]);
        pieces.pop().unwrap().fail(499, lost(2));
        pieces.pop().unwrap().fail(7, lost(1));
        pieces.pop().unwrap().succeed();
        let (outcome, _) = receiver.recv().unwrap();
        assert_eq!(outcome.transferred_bytes, 107);
        assert_eq!(outcome.result, Err(lost(1)));
    }

    #[test]
    fn a_flush_has_no_bytes_and_may_fail() {
        let (sender, receiver) = mpsc::channel();
        let done = move |outcome| sender.send(outcome).unwrap();
        let mut flush = Request::flush(Issuer::Flusher, done);
        flush.set_durable();
        assert_eq!(flush.operation(), Operation::Flush);
        assert!(flush.is_empty() && flush.segments().is_empty() && !flush.is_durable());
        flush.fail(0, lost(0));
        assert_eq!(receiver.recv().unwrap().result, Err(lost(0)));
    }

    #[test]
    fn all_that_a_durable_write_becomes_is_durable() {
        let write = |durable: bool| {
            let buffer = Buffer::new(1000, 512);
            let done = |_, _| ();
            let mut write = Request::owned(Operation::Write, 0, buffer, Issuer::Flusher, done);
            if durable {
                write.set_durable();
            }
            write
        };
        for durable in [false, true] {
            assert_eq!(write(durable).is_durable(), durable);
            let pieces = write(durable).split(&[100, 900]);
            assert!(pieces.iter().all(|one| one.is_durable() == durable));
            let copy = write(durable).relay(|whole, outcome| whole.complete(outcome));
            assert_eq!(copy.is_durable(), durable);
        }
        let (mut read, receiver) = request(8);
        read.set_durable();
        assert!(!read.is_durable());
        read.succeed();
        assert_eq!(receiver.recv().unwrap().0.result, Ok(()));
    }

    #[test]
    fn a_dropped_request_is_abandoned_and_observers_see_it_first() {
        let (mut whole, receiver) = request(8);
        whole.observe(|outcome| outcome.result = Err(lost(77)));
        drop(whole);
        let (outcome, _) = receiver.recv().unwrap();
        assert_eq!(outcome.result, Err(lost(77)));
    }
}

#[cfg(test)]
mod split_tests {
    use super::*;
    use crate::{Buffer, Issuer, Operation};
    use proptest::prelude::*;
    use std::sync::mpsc;

    fn lost(offset: u64) -> Error {
        Error::Abandoned { offset }
    }

    fn request(length: usize) -> (Request, mpsc::Receiver<(Outcome, Buffer)>) {
        let (sender, receiver) = mpsc::channel();
        let request = Request::owned(
            Operation::Read,
            4096,
            Buffer::new(length, 512),
            Issuer::Reader,
            move |outcome, buffer| sender.send((outcome, buffer)).unwrap(),
        );
        (request, receiver)
    }

    #[test]
    fn no_pieces_of_nothing_are_complete() {
        let (sender, receiver) = mpsc::channel();
        // SAFETY: it has no memory.
        let request = unsafe {
            Request::new(
                Operation::Read,
                0,
                Vec::new(),
                Issuer::Reader,
                move |outcome| {
                    sender.send(outcome).unwrap();
                },
            )
        };
        assert!(request.split(&[]).is_empty());
        assert_eq!(receiver.try_recv().unwrap().result, Ok(()));
    }

    proptest! {
        /// Each piece fills its memory with its number; the whole must look as if it had come in
        /// one, up to the first gap, whatever the order in which the pieces complete.
        #[test]
        fn pieces_land_in_order_and_a_gap_ends_the_whole(
            pieces in proptest::collection::vec((1usize..50, 0usize..60), 1..30),
            seed in any::<u64>(),
        ) {
            let lengths: Vec<usize> = pieces.iter().map(|&(length, _)| length).collect();
            let (whole, receiver) = request(lengths.iter().sum());
            let first_short = pieces.iter().position(|&(length, came)| came < length);
            let whole_ones = &lengths[..first_short.unwrap_or(lengths.len())];
            let part = first_short.map_or(0, |at| pieces[at].1);
            let mut offset = 4096;
            let mut cut: Vec<(usize, Request)> =
                whole.split(&lengths).into_iter().enumerate().collect();
            for (number, piece) in &mut cut {
                prop_assert_eq!(piece.offset(), offset);
                prop_assert_eq!(piece.len(), lengths[*number]);
                offset += piece.len() as u64;
                piece.slices_mut().for_each(|slice| slice.fill(*number as u8));
            }
            let mut state = seed;
            while !cut.is_empty() {
                prop_assert!(receiver.try_recv().is_err());
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let (number, piece) = cut.swap_remove((state >> 33) as usize % cut.len());
                match pieces[number] {
                    (length, came) if came >= length => piece.succeed(),
                    (_, came) => piece.fail(came, lost(number as u64)),
                }
            }
            let (outcome, buffer) = receiver.try_recv().unwrap();
            prop_assert_eq!(outcome.transferred_bytes, whole_ones.iter().sum::<usize>() + part);
            prop_assert_eq!(outcome.result.err(), first_short.map(|at| lost(at as u64)));
            let mut at = 0;
            for (number, length) in lengths.iter().enumerate() {
                prop_assert!(buffer[at..at + length].iter().all(|byte| *byte == number as u8));
                at += length;
            }
        }
    }
}

#[cfg(test)]
mod burst_tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_put_off_runs_after_the_burst_in_order_whatever_panics() {
        let ran = Rc::new(RefCell::new(Vec::new()));
        let push = |number: u32| {
            let ran = ran.clone();
            move || ran.borrow_mut().push(number)
        };
        after_burst(push(1));
        assert_eq!(*ran.borrow(), [1], "no burst");
        let burst = Burst::begin();
        let panics = PANICS.get();
        after_burst(|| panic!("expected in this test"));
        let inner = push(3);
        let outer = push(2);
        after_burst(move || {
            outer();
            after_burst(inner);
        });
        after_burst(push(4));
        assert_eq!(*ran.borrow(), [1], "in the burst");
        drop(burst);
        assert_eq!(*ran.borrow(), [1, 2, 3, 4]);
        assert!(PANICS.get() > panics);
    }
}
