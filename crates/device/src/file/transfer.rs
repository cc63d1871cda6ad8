//! One transfer between a request and a file, until it is whole or cannot go on.
//!
//! An engine makes *attempts*: [`Transfer::attempt`] says which bytes to ask the kernel for,
//! [`Transfer::advance`] takes its answer.
//!
//! ```text
//!   |<-- done -->|
//!   |XXXXXXXXXXXX|.................................|   request
//!   |         |<----- attempt ----->|                  starts on a block
//! ```
//!
//! - An attempt starts on a block, because a direct transfer must. When `done` is in the middle
//!   of a block, because a short read ended there, that block is read again. If the attempt then
//!   brings nothing new, the file ends there: it was truncated.
//! - An attempt has at most [`VECTORS_MAX`] pieces of memory and a whole number of blocks.
//! - `EINTR` and `EAGAIN`, and `ECANCELED` and `EFAULT` (the thread that handed a request to the
//!   ring has ended) are tried again, [`TRIES_IN_VAIN_MAX`] times without progress, so that
//!   nothing hangs.
//! - A write of the partial last block goes through the buffered descriptor, cut at the end, so
//!   that the file does not grow.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pagewell_counters::names::{
    DEVICE_CONTINUED, DEVICE_READ_BYTES, DEVICE_READ_ERRORS, DEVICE_READS, DEVICE_TAIL_WRITES,
    DEVICE_TRUNCATED, DEVICE_WRITE_BYTES, DEVICE_WRITE_ERRORS, DEVICE_WRITES,
};
use rustix::io::Errno;

use crate::bounds::{bytes_there, past_end};
use crate::{Error, Operation, Outcome, Request, Segment};

/// Pieces of memory of one system call (`UIO_MAXIOV`).
pub(super) const VECTORS_MAX: usize = 1024;
/// The kernel may be out of memory for a moment, and a signal may come; more than this is a
/// failure.
const TRIES_IN_VAIN_MAX: u32 = 1000;

/// What is transferred to and from.
pub(super) struct Target {
    pub(super) name: String,
    /// Through the kernel's page cache.
    pub(super) buffered: OwnedFd,
    /// Past it.
    pub(super) direct: Option<OwnedFd>,
    pub(super) length_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) writable: bool,
}

impl Target {
    /// The system refused at byte `offset`.
    pub(super) fn failed(&self, offset: u64, errno: Errno) -> Error {
        Error::Failed {
            device: self.name.clone(),
            offset,
            errno,
        }
    }
}

/// A request on its way.
pub(super) struct Transfer {
    request: Request,
    /// How much of it the device has.
    there: usize,
    /// The first so many bytes are transferred.
    done: usize,
    /// Where the running attempt begins.
    start: usize,
    /// Bytes that it asks for.
    asked: usize,
    tries_in_vain: u32,
    through_cache: bool,
}

/// What is to be done after an attempt.
pub(super) enum Progress {
    /// Make another one.
    Again(Transfer),
    /// Complete the request.
    Finished(Request, Outcome),
}

impl Transfer {
    /// `request` has passed [`crate::bounds::check`] and is not empty.
    pub(super) fn new(request: Request, target: &Target) -> Self {
        let there = bytes_there(target.length_bytes, &request);
        let is_write = request.operation() == Operation::Write;
        let cut = is_write && there < request.len();
        if cut {
            DEVICE_TAIL_WRITES.add(1);
        }
        Self {
            there,
            done: 0,
            start: 0,
            asked: 0,
            tries_in_vain: 0,
            through_cache: cut || target.direct.is_none(),
            request,
        }
    }

    pub(super) fn operation(&self) -> Operation {
        self.request.operation()
    }

    /// The descriptor to use.
    pub(super) fn descriptor<'a>(&self, target: &'a Target) -> BorrowedFd<'a> {
        match &target.direct {
            Some(direct) if !self.through_cache => direct.as_fd(),
            _ => target.buffered.as_fd(),
        }
    }

    /// Starts an attempt: the first byte of the device and the memory for what follows it. No
    /// memory when it is in too many pieces; then `advance` refuses whatever the answer is.
    pub(super) fn attempt(&mut self, target: &Target) -> (u64, Vec<Segment>) {
        #[allow(clippy::cast_possible_truncation)] // at most 1 MiB, see open.rs
        let block = if self.through_cache {
            1
        } else {
            target.block_bytes as usize
        };
        self.start = self.done - self.done % block;
        let length = if self.through_cache {
            self.there
        } else {
            self.request.len()
        };
        let vectors = part(self.request.segments(), self.start, length, block);
        self.asked = vectors.iter().map(Segment::len).sum();
        (self.request.offset() + self.start as u64, vectors)
    }

    /// Takes the kernel's answer to the attempt: how many bytes it transferred.
    pub(super) fn advance(mut self, target: &Target, answer: Result<usize, Errno>) -> Progress {
        if self.asked == 0 {
            // Memory in too many pieces for one block.
            return self.refused(target, Errno::INVAL);
        }
        match answer {
            Ok(count) if self.start + count > self.done => {
                self.done = self.start + count;
                self.tries_in_vain = 0;
                if self.done >= self.there {
                    return self.finish_whole(target);
                }
            }
            Ok(_) if self.operation() == Operation::Read => {
                DEVICE_TRUNCATED.add(1);
                let error = past_end(&target.name, &self.request);
                return self.finish_early(error);
            }
            Ok(_) => return self.refused(target, Errno::IO),
            Err(errno @ (Errno::INTR | Errno::AGAIN | Errno::CANCELED | Errno::FAULT)) => {
                self.tries_in_vain += 1;
                if self.tries_in_vain > TRIES_IN_VAIN_MAX {
                    return self.refused(target, errno);
                }
            }
            Err(errno) => return self.refused(target, errno),
        }
        DEVICE_CONTINUED.add(1);
        Progress::Again(self)
    }

    fn refused(self, target: &Target, errno: Errno) -> Progress {
        let error = target.failed(self.request.offset() + self.done as u64, errno);
        self.finish_early(error)
    }

    fn finish_whole(self, target: &Target) -> Progress {
        self.count(self.there, false);
        let result = if self.there == self.request.len() {
            Ok(())
        } else {
            Err(past_end(&target.name, &self.request))
        };
        let outcome = Outcome {
            transferred_bytes: self.there,
            result,
        };
        Progress::Finished(self.request, outcome)
    }

    fn finish_early(self, error: Error) -> Progress {
        self.count(self.done, true);
        let outcome = Outcome {
            transferred_bytes: self.done,
            result: Err(error),
        };
        Progress::Finished(self.request, outcome)
    }

    fn count(&self, bytes: usize, failed: bool) {
        let (requests, transferred, errors) = match self.operation() {
            Operation::Read => (&DEVICE_READS, &DEVICE_READ_BYTES, &DEVICE_READ_ERRORS),
            Operation::Write => (&DEVICE_WRITES, &DEVICE_WRITE_BYTES, &DEVICE_WRITE_ERRORS),
        };
        requests.add(1);
        transferred.add(bytes as u64);
        if failed {
            errors.add(1);
        }
    }
}

/// The memory of the bytes from `start` to `end`, at most [`VECTORS_MAX`] pieces and a multiple
/// of `block` bytes. Empty when so many pieces do not fill a block.
fn part(segments: &[Segment], start: usize, end: usize, block: usize) -> Vec<Segment> {
    let mut vectors = Vec::with_capacity(segments.len().min(VECTORS_MAX));
    let mut position = 0;
    let mut total = 0;
    for segment in segments {
        let next = position + segment.len();
        if next > start && position < end && vectors.len() < VECTORS_MAX {
            let (_, segment) = segment.split_at(start.saturating_sub(position));
            let left = end - position.max(start);
            let (segment, _) = segment.split_at(segment.len().min(left));
            total += segment.len();
            vectors.push(segment);
        }
        position = next;
    }
    let mut surplus = total % block;
    while surplus > 0 {
        let Some(last) = vectors.pop() else { break };
        if last.len() > surplus {
            vectors.push(last.split_at(last.len() - surplus).0);
            break;
        }
        surplus -= last.len();
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Issuer};

    fn target(length_bytes: u64, block_bytes: u64) -> Target {
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        Target {
            name: "file".to_owned(),
            buffered: null(),
            direct: Some(null()),
            length_bytes,
            block_bytes,
            writable: true,
        }
    }

    fn transfer(target: &Target, operation: Operation, offset: u64, length: usize) -> Transfer {
        let buffer = Buffer::new(length, 512);
        let request = Request::owned(operation, offset, buffer, Issuer::Reader, |_, _| ());
        Transfer::new(request, target)
    }

    /// Answers attempts until the end; what was asked for as (offset, bytes).
    fn run(
        target: &Target,
        mut transfer: Transfer,
        answers: &[Result<usize, Errno>],
    ) -> (Vec<(u64, usize)>, Option<Outcome>) {
        let mut asked = Vec::new();
        for answer in answers {
            let (offset, vectors) = transfer.attempt(target);
            asked.push((offset, vectors.iter().map(Segment::len).sum()));
            match transfer.advance(target, *answer) {
                Progress::Again(again) => transfer = again,
                Progress::Finished(_, outcome) => return (asked, Some(outcome)),
            }
        }
        (asked, None)
    }

    #[test]
    fn short_and_interrupted_transfers_go_on_from_a_block() {
        let target = target(1 << 20, 512);
        let answers = [
            Ok(1024),
            Err(Errno::INTR),
            Ok(700),
            Err(Errno::AGAIN),
            Ok(2560),
        ];
        let one = transfer(&target, Operation::Read, 4096, 4096);
        let (asked, outcome) = run(&target, one, &answers);
        let expected = [
            (4096, 4096),
            (5120, 3072),
            (5120, 3072),
            (5632, 2560),
            (5632, 2560),
        ];
        assert_eq!(asked, expected);
        assert_eq!(outcome.unwrap().result, Ok(()));
    }

    #[test]
    fn the_tail_is_what_is_there_and_less_is_truncated() {
        let target = target(4096 + 700, 512);
        let tail = || transfer(&target, Operation::Read, 4096, 1024);
        let (_, outcome) = run(&target, tail(), &[Ok(700)]);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.transferred_bytes, 700);
        assert!(matches!(
            outcome.result,
            Err(Error::PastEnd { offset: 4096, .. })
        ));
        // Grown since it was opened: only what it had counts.
        let (_, outcome) = run(&target, tail(), &[Ok(1024)]);
        assert_eq!(outcome.unwrap().transferred_bytes, 700);
        for (answers, transferred) in [
            (vec![Ok(0)], 0),
            (vec![Ok(512), Ok(0)], 512),
            (vec![Ok(600), Ok(88)], 600),
        ] {
            let before = DEVICE_TRUNCATED.get();
            let (_, outcome) = run(&target, tail(), &answers);
            let outcome = outcome.unwrap();
            assert_eq!(outcome.transferred_bytes, transferred);
            assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
            assert!(DEVICE_TRUNCATED.get() > before);
        }
    }

    #[test]
    fn errors_name_the_exact_byte_and_endless_interruption_ends() {
        let target = target(1 << 20, 512);
        let one = transfer(&target, Operation::Write, 8192, 4096);
        let (_, outcome) = run(&target, one, &[Ok(1536), Err(Errno::NOSPC)]);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.transferred_bytes, 1536);
        let error = target.failed(8192 + 1536, Errno::NOSPC);
        assert_eq!(outcome.result, Err(error));
        let one = transfer(&target, Operation::Read, 0, 512);
        let (asked, outcome) = run(&target, one, &vec![Err(Errno::AGAIN); 2000]);
        assert!(asked.len() <= 1001 && outcome.is_some());
        let one = transfer(&target, Operation::Write, 0, 512);
        let (_, outcome) = run(&target, one, &[Ok(0)]);
        assert_eq!(outcome.unwrap().result, Err(target.failed(0, Errno::IO)));
    }

    #[test]
    fn a_write_of_the_tail_is_cut_and_goes_through_the_cache() {
        let target = target(4096 + 700, 512);
        let one = transfer(&target, Operation::Write, 4096, 1024);
        assert!(one.through_cache);
        let (asked, outcome) = run(&target, one, &[Ok(100), Ok(600)]);
        assert_eq!(asked, [(4096, 700), (4196, 600)]);
        assert_eq!(outcome.unwrap().transferred_bytes, 700);
        assert!(!transfer(&target, Operation::Write, 0, 4096).through_cache);
    }

    #[test]
    fn an_attempt_has_few_pieces_and_whole_blocks() {
        let mut buffer = Buffer::new(100 * 3000, 512);
        let (mut rest, mut segments) = (buffer.as_segment(), Vec::new());
        for _ in 0..3000 {
            let (now, later) = rest.split_at(100);
            segments.push(now);
            rest = later;
        }
        let sum = |vectors: &[Segment]| vectors.iter().map(Segment::len).sum::<usize>();
        let vectors = part(&segments, 0, 300_000, 512);
        assert_eq!(sum(&vectors), 102_400);
        let vectors = part(&segments, 512, 300_000, 4096);
        assert_eq!(vectors[0].len(), 88);
        assert_eq!(vectors[0].start(), segments[5].split_at(12).1.start());
        assert_eq!(sum(&vectors), 102_388 / 4096 * 4096);
        assert_eq!(sum(&part(&segments, 250, 333, 1)), 83);
        assert!(part(&segments[..1], 0, 100, 512).is_empty());
    }
}
