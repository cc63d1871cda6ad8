//! Memory of the caller that a call borrows: the data of a WRITE, and where that of a READ goes.
//!
//! Data travels between the socket and its memory without a copy in between, so the memory is
//! not the client's. Code that makes a [`DataSegments`] or a [`Sink`] promises that it stays and is
//! left alone *until the completion of the call has been called*. The client promises in turn not
//! to touch it afterwards:
//!
//! - A WRITE's data is read by the thread that sends. A completion waits until that thread has
//!   left the memory, even when the reply is there before (a hostile server can do that).
//! - A READ's memory is written by the one receiving thread of the call's connection, which is
//!   also the one that makes the next connection. So there are never two that write to it.

use super::outgoing::Locate;
use std::io::{IoSlice, IoSliceMut};
use std::ptr::NonNull;

/// An address and a length. What makes it safe to use is the promise of [`DataSegments::new`] or
/// [`Sink::new`].
#[derive(Clone, Copy, Debug)]
pub struct BorrowedSlice {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address and a length; the code that turns it into a reference owes the argument.
unsafe impl Send for BorrowedSlice {}
// SAFETY: as above.
unsafe impl Sync for BorrowedSlice {}

impl BorrowedSlice {
    /// `length` bytes at `start`.
    #[must_use]
    pub const fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length }
    }
}

fn total_bytes(slices: &[BorrowedSlice]) -> usize {
    slices
        .iter()
        .fold(0, |sum: usize, slice| sum.saturating_add(slice.length))
}

/// The parts of `slices` behind their first `skip` bytes, as pointers and lengths.
fn behind(slices: &[BorrowedSlice], mut skip: usize) -> impl Iterator<Item = (*mut u8, usize)> {
    slices.iter().filter_map(move |slice| {
        let skipped = skip.min(slice.length);
        skip -= skipped;
        let left = slice.length - skipped;
        // SAFETY: `skipped` is at most the length, so the result is in the slice or one behind it.
        (left > 0).then(|| (unsafe { slice.start.add(skipped) }.as_ptr(), left))
    })
}

/// Borrowed memory whose bytes follow the encoded arguments of a call.
#[derive(Debug)]
pub struct DataSegments {
    slices: Vec<BorrowedSlice>,
    length: usize,
}

impl DataSegments {
    /// The bytes of `slices`, one after the other.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be valid for reads and
    /// nothing may write to it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>) -> Self {
        let length = total_bytes(&slices);
        Self { slices, length }
    }

    /// Bytes in all.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends what is behind the first `skip` bytes, as long as there are less than `slices_max`.
    ///
    /// # Safety
    /// The completion of the call has not been called, and is not called as long as `target` is
    /// in use.
    pub(super) unsafe fn gather<'a>(
        &'a self,
        skip: usize,
        target: &mut Vec<IoSlice<'a>>,
        slices_max: usize,
    ) {
        for (start, length) in behind(&self.slices, skip) {
            if target.len() == slices_max {
                break;
            }
            // SAFETY: valid for reads and not written to until the completion has been called, by
            // the promise of `new`; that it is not called is the promise of our caller.
            target.push(IoSlice::new(unsafe {
                std::slice::from_raw_parts(start, length)
            }));
        }
    }
}

/// Borrowed memory for the data of a reply.
#[derive(Debug)]
pub struct Sink {
    slices: Vec<BorrowedSlice>,
    length: usize,
    locate: fn(&[u8]) -> Locate,
}

impl Sink {
    /// Memory for as many bytes as `slices` have, filled one after the other. `locate` finds the
    /// data in a reply.
    ///
    /// # Safety
    /// Until the completion of the call has been called, every slice must be initialised, valid
    /// for reads and writes, and nothing else may touch it.
    #[must_use]
    pub unsafe fn new(slices: Vec<BorrowedSlice>, locate: fn(&[u8]) -> Locate) -> Self {
        let length = total_bytes(&slices);
        Self {
            slices,
            length,
            locate,
        }
    }

    /// The most bytes it takes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it takes none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn locate(&self, results: &[u8]) -> Locate {
        (self.locate)(results)
    }

    /// Copies `bytes` behind the first `skip` bytes; what does not fit is left out.
    ///
    /// # Safety
    /// The caller is the receiving thread of the call's connection, and the completion has not
    /// been called.
    pub(super) unsafe fn put(&self, skip: usize, mut bytes: &[u8]) {
        for (start, length) in behind(&self.slices, skip) {
            let (now, rest) = bytes.split_at(length.min(bytes.len()));
            // SAFETY: valid for writes and touched by nothing else, by the promise of `new`, until
            // the completion has been called, which it is not, by the promise of our caller.
            // `bytes` is not in it, since nothing else may have a reference to it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), start, now.len()) };
            bytes = rest;
            if bytes.is_empty() {
                break;
            }
        }
    }

    /// Appends the `length` bytes behind the first `skip` bytes, cut at `slices_max` slices.
    ///
    /// # Safety
    /// As for [`Sink::put`], as long as `target` is in use; and `target` holds nothing else of
    /// this sink.
    pub(super) unsafe fn scatter<'a>(
        &'a self,
        skip: usize,
        mut length: usize,
        target: &mut Vec<IoSliceMut<'a>>,
        slices_max: usize,
    ) {
        for (start, space) in behind(&self.slices, skip) {
            let now = space.min(length);
            if now == 0 || target.len() == slices_max {
                break;
            }
            length -= now;
            // SAFETY: initialised, valid for reads and writes, and touched by nothing else, by the
            // promise of `new`, until the completion has been called, which it is not, by the
            // promise of our caller.
            target.push(IoSliceMut::new(unsafe {
                std::slice::from_raw_parts_mut(start, now)
            }));
        }
    }
}
