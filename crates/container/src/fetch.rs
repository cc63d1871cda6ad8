//! One read of a device whatever its alignment, and bytes into the memory of a request.

use pagewell_device::{Buffer, Device, Error, Issuer, Operation, Request, Result};

/// Reads `length` bytes from `offset` with one request, and gives `then` those that were read; the
/// result is an error unless that is all. The range must be on the device.
pub(crate) fn fetch(
    device: &dyn Device,
    issuer: Issuer,
    (offset, length): (u64, usize),
    then: impl FnOnce(&[u8], Result<()>) + Send + 'static,
) {
    let geometry = device.geometry();
    let block = u64::from(geometry.logical_block_bytes.max(1));
    let alignment = geometry.memory_alignment_bytes.max(1) as usize;
    // Less than a block, which is less than 4 GiB.
    let skipped = (offset % block) as usize;
    let whole = (skipped + length).next_multiple_of(block as usize);
    let buffer = Buffer::new(whole, alignment);
    let done = move |outcome: pagewell_device::Outcome, buffer: Buffer| {
        let there = outcome
            .transferred_bytes
            .saturating_sub(skipped)
            .min(length);
        let bytes = buffer.get(skipped..skipped + there).unwrap_or_default();
        let result = match there == length {
            true => Ok(()),
            false => Err(outcome.result.err().unwrap_or(Error::Abandoned { offset })),
        };
        then(bytes, result);
    };
    let start = offset - skipped as u64;
    device.submit(Request::owned(Operation::Read, start, buffer, issuer, done));
}

/// Answers a request with as many bytes of the device from `offset` on, as [`fetch`] reads them.
pub(crate) fn answer(device: &dyn Device, offset: u64, mut request: Request) {
    let (issuer, range) = (request.issuer(), (offset, request.len()));
    fetch(device, issuer, range, move |bytes, result| {
        Scatter::new(request.slices_mut()).put(bytes);
        match result {
            Ok(()) => request.succeed(),
            Err(error) => request.fail(bytes.len(), error),
        }
    });
}

/// Puts bytes into the memory of a request, from its first byte on.
pub(crate) struct Scatter<'a, I> {
    slices: I,
    current: &'a mut [u8],
    filled: usize,
}

impl<'a, I: Iterator<Item = &'a mut [u8]>> Scatter<'a, I> {
    pub(crate) fn new(slices: I) -> Self {
        Self {
            slices,
            current: &mut [],
            filled: 0,
        }
    }

    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// Puts bytes behind those of before; those without room are dropped.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.current.is_empty() {
                match self.slices.next() {
                    Some(slice) => self.current = slice,
                    None => return,
                }
            }
            let count = bytes.len().min(self.current.len());
            let (now, later) = std::mem::take(&mut self.current).split_at_mut(count);
            let (put, rest) = bytes.split_at(count);
            now.copy_from_slice(put);
            self.current = later;
            bytes = rest;
            self.filled += count;
        }
    }
}
