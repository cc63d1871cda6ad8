//! Parts of requests, between memory and a data file.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;

use pagewell_base::spans::Span;
use pagewell_device::Request;
use rustix::io::Errno;

/// Of one system call (`UIO_MAXIOV`).
const VECTORS_MAX: usize = 1024;

/// Bytes transferred, and why not all.
type Transferred = (usize, Result<(), Errno>);

/// Writes what of a request is in `span`.
pub(super) fn write(file: &File, request: &Request, span: Span) -> Transferred {
    each(request.offset(), span, |range, offset| {
        let mut slices = Vec::new();
        let mut start = 0;
        for slice in request.slices() {
            let part = part_of(start, slice.len(), &range);
            start += slice.len();
            slices.extend(
                slice
                    .get(part)
                    .filter(|part| !part.is_empty())
                    .map(IoSlice::new),
            );
        }
        slices.truncate(VECTORS_MAX);
        rustix::io::pwritev(file, &slices, offset)
    })
}

/// Reads what of a request is in `span`.
pub(super) fn read(file: &File, request: &mut Request, span: Span) -> Transferred {
    each(request.offset(), span, |range, offset| {
        let mut slices = Vec::new();
        let mut start = 0;
        for slice in request.slices_mut() {
            let length = slice.len();
            let part = slice.get_mut(part_of(start, length, &range));
            start += length;
            slices.extend(part.filter(|part| !part.is_empty()).map(IoSliceMut::new));
        }
        slices.truncate(VECTORS_MAX);
        rustix::io::preadv(file, &mut slices, offset)
    })
}

/// Transfers all: `call` gets the bytes of the request and their place in the file.
fn each(
    request_offset: u64,
    (start, end): Span,
    mut call: impl FnMut(Range<usize>, u64) -> Result<usize, Errno>,
) -> Transferred {
    // A part of the request, whose length fits.
    let first = (start - request_offset) as usize;
    let length = (end - start) as usize;
    let mut done = 0;
    while done < length {
        match call(first + done..first + length, start + done as u64) {
            // Others cut the file, or the disk takes nothing.
            Ok(0) => return (done, Err(Errno::IO)),
            Ok(bytes) => done += bytes.min(length - done),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return (done, Err(errno)),
        }
    }
    (done, Ok(()))
}

/// What of a slice, which begins at `start`, is in `range` of a request.
fn part_of(start: usize, length: usize, range: &Range<usize>) -> Range<usize> {
    let from = range.start.saturating_sub(start).min(length);
    let to = range.end.saturating_sub(start).min(length);
    from..to
}

pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
