//! Checksums of the bytes that a record promises, one for each MiB of the object.
//!
//! Sums of parts not written since the last record are kept, so that a `journal` of few changes
//! reads little.

use std::collections::BTreeMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher13 as WideHasher};

use crate::places::Part;

/// Of the object.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// Of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Its number.
    pub chunk: u64,
    /// Over places and bytes.
    pub checksum: u128,
}

/// Known sums.
#[derive(Default)]
pub(crate) struct Sums(BTreeMap<u64, Known>);

struct Known {
    /// Hash of the summed spans.
    spans: u64,
    checksum: u128,
}

impl Sums {
    /// Bytes are being written.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        if start >= end || self.0.is_empty() {
            return;
        }
        let chunks = start / CHUNK_BYTES..=(end - 1) / CHUNK_BYTES;
        self.0.extract_if(chunks, |_, _| true).for_each(drop);
    }

    /// The sum of a chunk, if it is of these bytes.
    pub(crate) fn find(&self, chunk: u64, parts: &[Part]) -> Option<u128> {
        let known = self.0.get(&chunk)?;
        (known.spans == spans_hash(parts)).then_some(known.checksum)
    }

    pub(crate) fn keep(&mut self, chunk: u64, parts: &[Part], checksum: u128) {
        let spans = spans_hash(parts);
        self.0.insert(chunk, Known { spans, checksum });
    }
}

fn spans_hash(parts: &[Part]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write_u64(part.span.0);
        hasher.write_u64(part.span.1);
    }
    hasher.finish()
}

/// The chunks of ascending parts, with what each has of them.
pub(crate) fn chunks(parts: &[Part]) -> Vec<(u64, Vec<Part>)> {
    let mut chunks: Vec<(u64, Vec<Part>)> = Vec::new();
    for part in parts {
        let (mut start, end) = part.span;
        while start < end {
            let chunk = start / CHUNK_BYTES;
            let until = (chunk + 1).saturating_mul(CHUNK_BYTES).min(end);
            let piece = Part {
                span: (start, until),
                home: part.home,
            };
            match chunks.last_mut() {
                Some((last, pieces)) if *last == chunk => pieces.push(piece),
                _ => chunks.push((chunk, vec![piece])),
            }
            start = until;
        }
    }
    chunks
}

/// The sum of a chunk's parts, which `read` reads.
pub(crate) fn checksum<E>(
    parts: &[Part],
    mut read: impl FnMut(&Part, &mut [u8]) -> Result<(), E>,
) -> Result<u128, E> {
    let mut hasher = WideHasher::new();
    let mut bytes = Vec::new();
    for part in parts {
        let (start, end) = part.span;
        hasher.write_u64(start.to_le());
        hasher.write_u64(end.to_le());
        // At most a chunk.
        bytes.resize((end - start) as usize, 0);
        read(part, &mut bytes)?;
        hasher.write(&bytes);
    }
    Ok(hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, end: u64) -> Part {
        let span = (start, end);
        Part { span, home: 0 }
    }

    #[test]
    fn a_sum_is_of_places_and_bytes() {
        let sum = |parts: &[Part], byte: u8| {
            let read = |_: &Part, bytes: &mut [u8]| -> Result<(), ()> {
                bytes.fill(byte);
                Ok(())
            };
            checksum(parts, read).unwrap()
        };
        let one = sum(&[part(0, 10)], 1);
        assert_ne!(one, sum(&[part(0, 10)], 2));
        assert_ne!(one, sum(&[part(1, 11)], 1));
        assert_ne!(one, sum(&[part(0, 5), part(5, 10)], 1));
    }

    #[test]
    fn chunks_are_cut_at_their_ends_and_forgotten_by_bytes() {
        let parts = [part(5, 6), part(100, 2 * CHUNK_BYTES + 1)];
        let found = chunks(&parts);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].1, [part(5, 6), part(100, CHUNK_BYTES)]);
        assert_eq!(found[2].1, [part(2 * CHUNK_BYTES, 2 * CHUNK_BYTES + 1)]);
        let mut sums = Sums::default();
        for (chunk, parts) in &found {
            sums.keep(*chunk, parts, u128::from(*chunk));
        }
        assert_eq!(sums.find(1, &found[1].1), Some(1));
        assert_eq!(sums.find(1, &found[0].1), None, "of other bytes");
        sums.forget(CHUNK_BYTES, CHUNK_BYTES);
        sums.forget(CHUNK_BYTES - 1, CHUNK_BYTES);
        let known = |chunk: usize| sums.find(chunk as u64, &found[chunk].1).is_some();
        assert_eq!([0, 1, 2].map(known), [false, true, true]);
    }
}
