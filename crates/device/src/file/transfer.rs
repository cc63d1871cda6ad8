//! One transfer between a request and a file, in *attempts*: [`Transfer::attempt`] gives the bytes
//! to transfer, [`Transfer::advance`] takes the kernel's answer.
//!
//! ```text
//!   |<-- done -->|
//!   |XXXXXXXXXXXX|.................................|   request
//!   |         |<----- attempt ----->|                  starts on a block
//! ```
//!
//! - An attempt starts on a block, as a direct transfer must. A block in which a short read ended
//!   is read again; if that brings nothing new, the file was truncated there.
//! - It has at most [`VECTORS_MAX`] segments and a whole number of blocks.
//! - `EINTR`, `EAGAIN`, and `ECANCELED` and `EFAULT` (the submitting thread has ended) are retried,
//!   [`TRIES_IN_VAIN_MAX`] times without progress.
//! - Writes of the *tail* of a file whose last block is partial use the buffered descriptor, cut at
//!   the end, so that the file does not grow. The tail is the file system's whole last block: the
//!   page cache writes whole blocks, and would bring back older bytes after a direct write.
//!
//! ```text
//!   |   direct   |   direct   |........ tail ..... |end       blocks of the file system
//!                             | 512 | 512 | 512 | 3|         blocks of direct transfers
//! ```
//!
//! - A durable write has `RWF_DSYNC`; where the system has none, a flush follows it. Its open file
//!   is not that of plain flushes: the kernel reports a failed write-back once to each open file.
//!   Pieces of one write share one, and fail together. Of concurrent flushes only one gets the
//!   error; the cache sends one at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pagewell_counters::names::{
    DEVICE_DURABLE_WRITES, DEVICE_FLUSH_ERRORS, DEVICE_FLUSHES, DEVICE_READ_BYTES,
    DEVICE_READ_ERRORS, DEVICE_READS, DEVICE_WRITE_BYTES, DEVICE_WRITE_ERRORS, DEVICE_WRITES,
};
use rustix::io::Errno;

use super::lock::release;
use crate::{Error, Operation, Outcome, Request, Segment};

/// Of one system call (`UIO_MAXIOV`).
pub(super) const VECTORS_MAX: usize = 1024;
/// The kernel may be short of memory for a moment, and signals may come.
const TRIES_IN_VAIN_MAX: u32 = 1000;

pub(super) struct Target {
    pub(super) name: String,
    /// Uses the kernel's page cache.
    pub(super) buffered: OwnedFd,
    /// Bypasses it.
    pub(super) direct: Option<OwnedFd>,
    /// For durable writes through the page cache, if writable and opened again.
    pub(super) durable: Option<OwnedFd>,
    pub(super) length_bytes: u64,
    pub(super) block_bytes: u64,
    /// From here on writes are buffered; the length, unless the last block is partial.
    pub(super) tail_start: u64,
    /// And claimed.
    pub(super) writable: bool,
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.writable {
            release(&self.buffered);
        }
    }
}

pub(super) struct Transfer {
    request: Request,
    /// Bytes that exist on the device.
    there: usize,
    done: usize,
    start: usize,
    asked: usize,
    tries_in_vain: u32,
    through_cache: bool,
    /// Of the attempt.
    pub(super) call: Call,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// `preadv`.
    Read,
    /// `pwritev`.
    Write,
    /// `pwritev2` with `RWF_DSYNC`.
    DurableWrite,
    /// `fdatasync`.
    Flush,
}

pub(super) enum Progress {
    Again(Transfer),
    Finished(Request, Outcome),
}

impl Transfer {
    /// `request` satisfies [`crate::check`]; it is not empty, or a flush.
    pub(super) fn new(request: Request, target: &Target) -> Self {
        let there = request.bytes_there(target.length_bytes);
        let end = request.offset().saturating_add(there as u64);
        let is_tail = request.operation() == Operation::Write && end > target.tail_start;
        let call = match request.operation() {
            Operation::Read => Call::Read,
            Operation::Write if request.is_durable() => Call::DurableWrite,
            Operation::Write => Call::Write,
            Operation::Flush => Call::Flush,
        };
        Self {
            there,
            done: 0,
            start: 0,
            asked: 0,
            tries_in_vain: 0,
            through_cache: is_tail || target.direct.is_none(),
            call,
            request,
        }
    }

    pub(super) fn descriptor<'a>(&self, target: &'a Target) -> BorrowedFd<'a> {
        match (&target.direct, &target.durable) {
            (Some(direct), _) if !self.through_cache && self.call != Call::Flush => direct.as_fd(),
            (_, Some(durable)) if self.request.is_durable() => durable.as_fd(),
            _ => target.buffered.as_fd(),
        }
    }

    /// Starts an attempt: the first byte on the device and the memory. None, but for a flush, means
    /// that a block is in too many segments: `advance` then fails.
    pub(super) fn attempt(&mut self, target: &Target) -> (u64, Vec<Segment>) {
        if self.call == Call::Flush {
            return (0, Vec::new());
        }
        let (block, length) = if self.through_cache {
            (1, self.there)
        } else {
            (target.block_bytes as usize, self.request.len())
        };
        self.start = self.done - self.done % block;
        let vectors = part(self.request.segments(), self.start, length, block);
        self.asked = vectors.iter().map(Segment::len).sum();
        (self.request.offset() + self.start as u64, vectors)
    }

    pub(super) fn advance(mut self, target: &Target, answer: Result<usize, Errno>) -> Progress {
        if self.call == Call::Flush {
            return self.advance_flush(target, answer);
        }
        if self.asked == 0 {
            // A block in too many segments.
            return self.refused(target, Errno::INVAL);
        }
        match answer {
            Ok(count) if self.start + count > self.done => {
                self.done = self.start + count;
                self.tries_in_vain = 0;
                if self.done >= self.there {
                    if self.call == Call::Write && self.request.is_durable() {
                        self.call = Call::Flush;
                        return Progress::Again(self);
                    }
                    return self.finish_whole(target);
                }
            }
            Ok(_) if self.request.operation() == Operation::Read => {
                let error = self.past_end(target);
                return self.finish(Err(error), true);
            }
            Ok(_) => return self.refused(target, Errno::IO),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.call == Call::DurableWrite => {
                self.call = Call::Write;
            }
            Err(errno @ (Errno::INTR | Errno::AGAIN | Errno::CANCELED | Errno::FAULT)) => {
                self.tries_in_vain += 1;
                if self.tries_in_vain > TRIES_IN_VAIN_MAX {
                    return self.refused(target, errno);
                }
            }
            Err(errno) => return self.refused(target, errno),
        }
        Progress::Again(self)
    }

    /// Retries an interrupted flush, not a failed one: the next would succeed.
    fn advance_flush(mut self, target: &Target, answer: Result<usize, Errno>) -> Progress {
        match answer {
            Ok(_) => return self.finish_whole(target),
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED)
                if self.tries_in_vain < TRIES_IN_VAIN_MAX =>
            {
                self.tries_in_vain += 1;
            }
            Err(errno) => {
                // Of a durable write no byte counts.
                self.done = 0;
                return self.refused(target, errno);
            }
        }
        Progress::Again(self)
    }

    fn refused(self, target: &Target, errno: Errno) -> Progress {
        let offset = self.request.offset() + self.done as u64;
        let error = Error::failed(&target.name, offset, errno);
        self.finish(Err(error), true)
    }

    fn finish_whole(self, target: &Target) -> Progress {
        let is_all = self.there == self.request.len();
        let result = if is_all {
            Ok(())
        } else {
            Err(self.past_end(target))
        };
        self.finish(result, false)
    }

    fn past_end(&self, target: &Target) -> Error {
        Error::past_end(&target.name, self.request.offset(), self.request.len())
    }

    fn finish(self, result: Result<(), Error>, failed: bool) -> Progress {
        let transferred_bytes = self.done.min(self.there);
        let (requests, transferred, errors) = match self.request.operation() {
            Operation::Read => (&DEVICE_READS, Some(&DEVICE_READ_BYTES), &DEVICE_READ_ERRORS),
            Operation::Write => (
                &DEVICE_WRITES,
                Some(&DEVICE_WRITE_BYTES),
                &DEVICE_WRITE_ERRORS,
            ),
            Operation::Flush => (&DEVICE_FLUSHES, None, &DEVICE_FLUSH_ERRORS),
        };
        requests.add(1);
        if let Some(transferred) = transferred {
            transferred.add(transferred_bytes as u64);
        }
        if self.request.is_durable() {
            DEVICE_DURABLE_WRITES.add(1);
        }
        if failed {
            errors.add(1);
        }
        let outcome = Outcome {
            transferred_bytes,
            result,
        };
        Progress::Finished(self.request, outcome)
    }
}

/// The memory of the bytes from `start` to `end`: at most [`VECTORS_MAX`] segments and a multiple
/// of `block` bytes. Empty when so many segments do not fill a block.
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
mod tests;
