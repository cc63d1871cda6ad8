//! Some bytes of a device, as a device: a partition, or a track of 2048-byte sectors.
//!
//! Where the first byte lies on a block of the device below, requests only move; else each reads a
//! block more, and takes a copy.

use std::sync::Arc;

use pagewell_device::{Device, Error, Geometry, Memory, Operation, Request, check, pieces};
use rustix::io::Errno;

use crate::fetch;

/// Longer requests are cut where bytes are copied, which bounds the memory of one.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;

pub(crate) struct Window {
    inner: Arc<dyn Device>,
    start: u64,
    length_bytes: u64,
    /// Whether requests only move.
    is_aligned: bool,
}

impl Window {
    /// At most `length_bytes` from `start`, up to the end of the device.
    pub(crate) fn new(inner: Arc<dyn Device>, start: u64, length_bytes: u64) -> Self {
        let there = inner.length_bytes().saturating_sub(start);
        let block = u64::from(inner.geometry().logical_block_bytes.max(1));
        Self {
            start,
            length_bytes: length_bytes.min(there),
            is_aligned: start.is_multiple_of(block),
            inner,
        }
    }

    /// Sends the request to where its bytes are. It may reach past the end by less than a block.
    fn relay(&self, mut request: Request) {
        let there = request.bytes_there(self.length_bytes);
        if there < request.len() {
            let error = Error::past_end(self.name(), request.offset(), request.len());
            request.observe(move |outcome| {
                if outcome.transferred_bytes >= there {
                    outcome.transferred_bytes = there;
                    outcome.result = Err(error);
                }
            });
        }
        request.redirect(self.start + request.offset());
        self.inner.submit(request);
    }
}

impl Device for Window {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn geometry(&self) -> Geometry {
        let inner = self.inner.geometry();
        match self.is_aligned {
            true => inner,
            false => copying(inner),
        }
    }

    fn submit(&self, request: Request) {
        let Some(request) = readable(self, request) else {
            return;
        };
        if self.is_aligned {
            return self.relay(request);
        }
        for piece in cut(request) {
            let offset = self.start + piece.offset();
            fetch::answer(&*self.inner, offset, piece);
        }
    }

    fn register_memory(&self, memory: &Memory) {
        if self.is_aligned {
            self.inner.register_memory(memory);
        }
    }
}

/// The geometry of a device that copies: nothing has to be aligned.
pub(crate) fn copying(inner: Geometry) -> Geometry {
    Geometry {
        logical_block_bytes: 1,
        memory_alignment_bytes: 1,
        transfer_bytes_max: PIECE_BYTES_MAX as u32,
        ..inner
    }
}

/// A read with bytes, within the device; other requests are answered.
pub(crate) fn readable(device: &dyn Device, request: Request) -> Option<Request> {
    if let Err(error) = check(device, &request) {
        request.fail(0, error);
        return None;
    }
    match request.operation() {
        Operation::Read if !request.is_empty() => return Some(request),
        Operation::Read | Operation::Flush => request.succeed(),
        Operation::Write => {
            let error = Error::failed(device.name(), request.offset(), Errno::ROFS);
            request.fail(0, error);
        }
    }
    None
}

pub(crate) fn cut(request: Request) -> Vec<Request> {
    let lengths: Vec<usize> = pieces(request.len(), PIECE_BYTES_MAX).collect();
    match lengths.len() {
        1 => vec![request],
        _ => request.split(&lengths),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{Faulty, flush, pattern, read, write};

    fn window(block: u32, start: u64, length: u64) -> (Arc<Faulty>, Window, Vec<u8>) {
        let bytes = pattern(10_000);
        let mut faulty = Faulty::new("below", 10_000);
        faulty.ram = RamDevice::holding("below", &bytes);
        faulty.geometry.logical_block_bytes = block;
        let below = Arc::new(faulty);
        let window = Window::new(below.clone(), start, length);
        (below, window, bytes)
    }

    #[test]
    fn aligned_windows_move_requests() {
        let (below, window, bytes) = window(512, 1024, 5000);
        assert_eq!(window.geometry().logical_block_bytes, 512);
        let (outcome, buffer) = read(&window, 512, 1024);
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(buffer[..], bytes[1536..2560]);
        assert_eq!(below.seen.lock().unwrap()[0].1, 1536);
        // The last block: bytes behind the window are not its own.
        let (outcome, buffer) = read(&window, 4608, 512);
        assert_eq!(outcome.transferred_bytes, 5000 - 4608);
        assert!(matches!(outcome.result, Err(Error::PastEnd { .. })));
        assert_eq!(buffer[..392], bytes[1024 + 4608..1024 + 5000]);
        assert!(read(&window, 5120, 512).0.result.is_err());
    }

    #[test]
    fn other_windows_copy() {
        let (below, window, bytes) = window(512, 1000, 8000);
        for (offset, length) in [(0, 1), (23, 600), (24, 512), (7999, 1), (0, 8000)] {
            let (outcome, buffer) = read(&window, offset, length);
            assert_eq!(outcome.result, Ok(()), "{offset} {length}");
            let start = 1000 + usize::try_from(offset).unwrap();
            assert_eq!(buffer[..], bytes[start..start + length]);
        }
        assert!(read(&window, 7999, 2).0.result.is_err());
        let seen = below.seen.lock().unwrap().len();
        assert_eq!(seen, 5, "one request each");
    }

    #[test]
    fn an_error_below_costs_what_it_touches() {
        let (below, window, bytes) = window(512, 1000, 8000);
        *below.bad.lock().unwrap() = vec![(Operation::Read, 3000..3001)];
        let (outcome, buffer) = read(&window, 1500, 1000);
        assert_eq!(outcome.transferred_bytes, 500);
        assert_eq!(buffer[..500], bytes[2500..3000]);
        assert!(matches!(outcome.result, Err(Error::Failed { .. })));
        assert_eq!(read(&window, 2560, 1000).0.result, Ok(()));
    }

    #[test]
    fn nothing_is_written_and_nothing_is_behind_the_end() {
        let (_, window, _) = window(1, 9000, u64::MAX);
        assert_eq!(window.length_bytes(), 1000);
        assert!(write(&window, 0, b"x").result.is_err());
        assert_eq!(flush(&window).result, Ok(()));
        let (_, behind, _) = self::window(1, 20_000, 10);
        assert_eq!(behind.length_bytes(), 0);
        assert!(read(&behind, 0, 1).0.result.is_err());
    }
}
