//! What is read soon, in the order in which it lies.
//!
//! A directory names objects in another order than the image holds them. So that not each costs a
//! request, their places are sorted, and joined where little lies between:
//!
//! ```text
//! wanted    a: 40..44   b: 10..12   c: 12..20   d: 90..95
//! requests              10───────────────────44        90..95
//! ```

use std::ops::Range;

use crate::Bytes;

/// Bytes between two parts that take less time than a request.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// Bytes of one file.
pub const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// A damaged image can say that a file has many more.
const PARTS_MAX: usize = 1024;

impl Bytes {
    /// Begins to read the first 1024 of these parts, as memory allows; waits for none. Returns them
    /// in order, joined where at most 32 KiB lie between.
    pub fn read_ahead(&self, parts: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let parts = joined(parts.take(PARTS_MAX).collect());
        for part in &parts {
            let length = part.end.saturating_sub(part.start);
            self.object().prefetch(part.start, length);
        }
        parts
    }
}

fn joined(mut parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    parts.sort_unstable_by_key(|part| part.start);
    parts.dedup_by(|next, last| {
        let is_near = next.start <= last.end.saturating_add(GAP_BYTES_MAX);
        if is_near {
            last.end = last.end.max(next.end);
        }
        is_near
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_parts_are_joined_in_order() {
        let far = 10 + GAP_BYTES_MAX;
        let last = far + 22 + GAP_BYTES_MAX + 1;
        let parts = vec![
            last..last + 1,
            far + 21..far + 22,
            4..9,
            0..10,
            far..far + 20,
        ];
        assert_eq!(joined(parts), [0..far + 22, last..last + 1]);
        let parts = vec![far + 1..far + 9, 0..10, u64::MAX - 1..u64::MAX];
        let apart = [0..10, far + 1..far + 9, u64::MAX - 1..u64::MAX];
        assert_eq!(joined(parts), apart);
        assert_eq!(joined(Vec::new()), []);
    }

    #[test]
    fn what_was_asked_for_ahead_is_in_memory() {
        let bytes = Bytes::of_memory((0..1 << 20).map(|at: u32| at as u8).collect());
        let parts = [500_000..500_100, 10_000..20_000];
        assert_eq!(bytes.read_ahead(parts.into_iter()).len(), 2);
        let outside = [1 << 20..1 << 21, 9..9, 2 << 40..3 << 40];
        assert_eq!(bytes.read_ahead(outside.into_iter()).len(), 3);
        assert_eq!(
            bytes
                .read_ahead((0..).map(|at| at << 20..1 + (at << 20)))
                .len(),
            PARTS_MAX
        );
        for part in [500_000..500_100, 10_000..20_000] {
            let mut target = [0; 100];
            let read = bytes.read(part.start, &mut target, false);
            assert_eq!(read, Ok(()), "without a wait");
            assert_eq!(u64::from(target[7]), (part.start + 7) % 256);
        }
    }
}
