//! Memory for what is on its way to a device: a copy, so that the page can be read and written
//! meanwhile, and so that all that get the request see the same bytes.
//!
//! How much there is at a time is the policy's limit for bytes under write-back. Large buffers are
//! kept for the next request: fresh memory costs more than the copy.

use pagewell_counters::names::CACHE_STAGING_BYTES;
use pagewell_device::{Buffer, Segment};

use crate::sync::Mutex;

/// Smaller ones are not worth keeping.
const KEPT_BYTES_MIN: usize = 128 << 10;
/// Bytes kept in all.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Buffers that were used and will be.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    buffers: Vec<Staged>,
    bytes: usize,
}

/// A buffer.
pub(crate) struct Staged {
    buffer: Buffer,
    alignment_bytes: usize,
    in_use: Option<InUse>,
}

/// Bytes counted as in use for as long as this lives.
struct InUse(i64);

impl InUse {
    fn new(length: usize) -> Self {
        let bytes = i64::try_from(length).unwrap_or(i64::MAX);
        CACHE_STAGING_BYTES.add(bytes);
        Self(bytes)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        CACHE_STAGING_BYTES.add(-self.0);
    }
}

impl Staging {
    /// A buffer for at least `length` bytes; what is in it is anything.
    pub(crate) fn take(&self, length: usize, alignment_bytes: usize) -> Staged {
        let mut kept = self.0.lock();
        let fits = |staged: &Staged| {
            let alignment = staged.alignment_bytes;
            staged.buffer.len() >= length && alignment.is_multiple_of(alignment_bytes)
        };
        let large = length >= KEPT_BYTES_MIN;
        let found = kept.buffers.iter().position(|staged| large && fits(staged));
        if let Some(index) = found {
            let mut staged = kept.buffers.swap_remove(index);
            kept.bytes -= staged.buffer.len();
            staged.in_use = Some(InUse::new(staged.buffer.len()));
            return staged;
        }
        drop(kept);
        // Lengths that are powers of two fit more often.
        let length = if large {
            length.next_power_of_two()
        } else {
            length
        };
        Staged {
            buffer: Buffer::new(length, alignment_bytes),
            alignment_bytes,
            in_use: Some(InUse::new(length)),
        }
    }

    /// Keeps a buffer for the next, if it is worth it.
    pub(crate) fn give(&self, mut staged: Staged) {
        staged.in_use = None;
        let length = staged.buffer.len();
        let mut kept = self.0.lock();
        if length >= KEPT_BYTES_MIN && kept.bytes + length <= KEPT_BYTES_MAX {
            kept.bytes += length;
            kept.buffers.push(staged);
        }
    }
}

impl Staged {
    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The first `length` bytes as memory of a request; the caller sees to it that this
    /// outlives it.
    pub(crate) fn segment(&mut self, length: usize) -> Segment {
        assert!(length <= self.buffer.len());
        Segment::new(self.buffer.as_segment().start(), length)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_kept_and_aligned() {
        let staging = Staging::default();
        let mut first = staging.take(200_000, 512);
        let address = first.bytes().as_ptr();
        staging.give(first);
        let address_of_other = staging.take(200_000, 4096).bytes().as_ptr() as usize;
        assert!(address_of_other.is_multiple_of(4096));
        let mut again = staging.take(150_000, 512);
        assert_eq!(again.bytes().as_ptr(), address);
        staging.give(staging.take(4096, 512));
        let kept: Vec<_> = (0..100).map(|_| staging.take(1 << 20, 1)).collect();
        kept.into_iter().for_each(|staged| staging.give(staged));
        assert_eq!(staging.0.lock().bytes, KEPT_BYTES_MAX);
    }
}
