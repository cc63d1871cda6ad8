//! Memory aligned for direct transfers.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::request::Segment;

/// Zeroed bytes at an aligned address.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    layout: Layout,
}

// SAFETY: it owns its memory, as a boxed slice does.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `length` bytes at a multiple of `alignment`.
    ///
    /// # Panics
    /// When the alignment is no power of two or the length is beyond the address space.
    #[must_use]
    pub fn new(length: usize, alignment: usize) -> Self {
        let layout = Layout::from_size_align(length.max(1), alignment);
        #[allow(clippy::expect_used)] // documented
        let layout = layout.expect("alignment is a power of two");
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            start,
            length,
            layout,
        }
    }

    /// All of it; the caller keeps the buffer until the request is complete.
    pub fn as_segment(&mut self) -> Segment {
        Segment::new(self.start, self.length)
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: allocated with this size, initialised, owned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_zeroed() {
        let mut buffer = Buffer::new(4096, 4096);
        assert_eq!(buffer.start.as_ptr() as usize % 4096, 0);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer[4095] = 1;
        assert_eq!(buffer[4095], 1);
        assert!(Buffer::new(0, 512).is_empty());
    }
}
