//! What a request may ask of a device.

use rustix::io::Errno;

use crate::{Device, Error, Operation, Request, Result};

/// Whether the request keeps to the alignment of the device's geometry (`EINVAL`) and to its
/// length, rounded up to a block ([`Error::PastEnd`]). A flush always does.
pub fn check(device: &dyn Device, request: &Request) -> Result<()> {
    let geometry = device.geometry();
    let block = u64::from(geometry.logical_block_bytes.max(1));
    let alignment = geometry.memory_alignment_bytes.max(1) as usize;
    let length = request.len() as u64;
    let ends = device.length_bytes().checked_next_multiple_of(block);
    let end = request.offset().checked_add(length);
    if end.is_none() || end > Some(ends.unwrap_or(u64::MAX)) {
        return Err(past_end(device.name(), request));
    }
    let aligned = request.segments().iter().all(|segment| {
        let address = segment.start().as_ptr() as usize;
        address.is_multiple_of(alignment) && segment.len().is_multiple_of(alignment)
    });
    if aligned && request.offset().is_multiple_of(block) && length.is_multiple_of(block) {
        return Ok(());
    }
    Err(Error::failed(device.name(), request.offset(), Errno::INVAL))
}

/// The request to a device that can only be read, if it is a read that has to be made; all others
/// are answered.
pub(crate) fn only_read(device: &dyn Device, request: Request) -> Option<Request> {
    let offset = request.offset();
    let checked = match request.operation() {
        Operation::Read => check(device, &request),
        Operation::Write => Err(Error::failed(device.name(), offset, Errno::ROFS)),
        Operation::Flush => {
            request.succeed();
            return None;
        }
    };
    match checked {
        Ok(()) => Some(request),
        Err(error) => {
            request.fail(0, error);
            None
        }
    }
}

/// Lengths of the pieces of so many bytes: as long as allowed, the last one with the rest.
pub(crate) fn pieces(length: usize, longest: usize) -> impl Iterator<Item = usize> {
    let starts = (0..length).step_by(longest);
    starts.map(move |start| longest.min(length - start))
}

/// How many bytes of the request a device of this length has.
#[must_use]
pub fn bytes_there(length_bytes: u64, request: &Request) -> usize {
    let there = length_bytes.saturating_sub(request.offset());
    usize::try_from(there).map_or(request.len(), |there| there.min(request.len()))
}

/// The request reaches past the last byte of `device`.
#[must_use]
pub fn past_end(device: &str, request: &Request) -> Error {
    Error::past_end(device, request.offset(), request.len())
}
