//! One transfer between memory and a device, or the wish that what was written stays.
//!
//! A [`Request`] names bytes of a device, the memory for them, the origin, and what to call when it
//! is done. It travels down through layers, each of which may look at its outcome, cut it into
//! pieces, send it elsewhere or answer it; at the end the last of them calls [`Request::complete`].
//! Nobody can forget to: a request that is dropped completes with [`Error::Abandoned`].
//!
//! ```text
//!   new ──> layer ──> layer ──> device
//!                                 │ complete(Outcome)
//!   completion <── observer <── observer
//! ```
//!
//! A write that is complete may be lost when the power fails, until a [flush](Request::flush)
//! that was submitted later is complete; unless it was [durable](Request::set_durable) itself.
//!
//! A completion runs on whatever thread the device has, must be short and must not wait. It may
//! submit further requests.

mod split;

use std::ptr::NonNull;

pub use split::pieces;

use crate::{Buffer, Error, Result};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Bytes go from the device to memory.
    Read,
    /// Bytes go from memory to the device.
    Write,
    /// No bytes go anywhere: see [`Request::flush`].
    Flush,
}

/// Where a request comes from. Statistics are split by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Issuer {
    /// A caller waits for these bytes.
    Reader,
    /// A guess that they will be wanted.
    ReadAhead,
    /// Write-back.
    Flusher,
    /// The structure of a file system: directories, descriptors.
    Metadata,
}

impl Issuer {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Reader, Self::ReadAhead, Self::Flusher, Self::Metadata];

    /// A word for people and for JSON.
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

/// How a request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first so many bytes were transferred. What is behind them in memory is undefined.
    pub transferred_bytes: usize,
    /// `Ok` when, and only when, all bytes were. A request without bytes may fail as well.
    pub result: Result<()>,
}

/// A piece of memory of a request. What makes it safe to use is the contract of [`Request::new`].
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address and a length; the code that turns it into a reference owes the argument.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// `length` bytes at `start`.
    #[must_use]
    pub fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
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

/// One transfer. See the module's text.
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
    /// A transfer between the device's bytes from `offset` and `segments`, one after the other.
    ///
    /// # Safety
    /// Until `completion` is called, every segment must be valid for reads and writes and nobody
    /// else may touch its bytes; for [`Operation::Write`] others may read them.
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

    /// Makes writes durable: it is complete when every write that was *complete before it was
    /// submitted* survives a power failure. Writes that are on their way at the same time may be
    /// durable afterwards or not. It has no offset and no memory.
    ///
    /// When it fails, every write since the last good flush that was not durable by itself may be
    /// lost, and a later flush that succeeds says nothing about them.
    pub fn flush(issuer: Issuer, completion: impl FnOnce(Outcome) + Send + 'static) -> Self {
        // SAFETY: it has no memory.
        unsafe { Self::new(Operation::Flush, 0, Vec::new(), issuer, completion) }
    }

    /// A transfer with memory of its own, which comes back at the end.
    pub fn owned(
        operation: Operation,
        offset: u64,
        mut buffer: Buffer,
        issuer: Issuer,
        completion: impl FnOnce(Outcome, Buffer) + Send + 'static,
    ) -> Self {
        let segment = buffer.as_segment();
        // SAFETY: the buffer is owned by the completion and nobody else can reach it.
        unsafe {
            Self::new(operation, offset, vec![segment], issuer, move |outcome| {
                completion(outcome, buffer);
            })
        }
    }

    /// What is to be done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// First byte on the device.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many of its bytes a device of this length has.
    #[must_use]
    pub fn bytes_there(&self, length_bytes: u64) -> usize {
        let there = length_bytes.saturating_sub(self.offset);
        usize::try_from(there).map_or(self.length, |there| there.min(self.length))
    }

    /// Where it comes from.
    #[must_use]
    pub fn issuer(&self) -> Issuer {
        self.issuer
    }

    /// Has a write survive a power failure as soon as it is complete, without a flush (FUA). All
    /// that it is cut into, and all copies, are durable too. It says nothing about other writes.
    /// For reads and flushes it means nothing.
    pub fn set_durable(&mut self) {
        self.durable = self.operation == Operation::Write;
    }

    /// Whether it is a write that survives a power failure as soon as it is complete.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.durable
    }

    /// The memory, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The memory as slices, in order, for filling it by a read.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.segments.iter().map(|segment| {
            // SAFETY: by the contract of `new` the memory is valid and ours alone until the
            // completion is called, which takes `self` away.
            unsafe { std::slice::from_raw_parts_mut(segment.start.as_ptr(), segment.length) }
        })
    }

    /// The memory for reading it, in order: the only way to look at the bytes of a write, whose
    /// memory others may be reading too.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| {
            // SAFETY: by the contract of `new` the memory is valid and nobody writes to it until
            // the completion is called, which takes `self` away.
            unsafe { std::slice::from_raw_parts(segment.start.as_ptr(), segment.length) }
        })
    }

    /// Sends it to another place of the device.
    pub fn redirect(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Has `look` see, and perhaps change, the outcome before all that asked earlier.
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

    /// Ends the request: everything was transferred.
    pub fn succeed(self) {
        let transferred_bytes = self.length;
        self.complete(Outcome {
            transferred_bytes,
            result: Ok(()),
        });
    }

    /// Ends the request: only the first `transferred_bytes` came, fewer than were asked for.
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
