//! Making other requests of one: copies for other devices, and pieces.
//!
//! A copy is for the same bytes and memory; the request itself waits until all copies are complete.
//!
//! Pieces are dealt to *groups*; the pieces of one group, in order, become one request with
//! scattered memory. A stripe deals chunks to its devices:
//!
//! ```text
//!   whole      | 0 | 1 | 2 | 3 | 4 | 5 |      pieces
//!   group 0    | 0 | 2 | 4 |                  one request
//!   group 1    | 1 | 3 | 5 |                  one request
//! ```
//!
//! The whole completes when all groups have. What counts as transferred is what is there without
//! a gap from its start: group 1 ending in the middle of piece 3 ends the whole there, even though
//! piece 4 has come.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use super::{Completion, Operation, Outcome, Request, Segment};
use crate::Error;

/// A part of a request, for [`Request::deal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes.
    pub length: usize,
    /// Which of the new requests it becomes part of.
    pub group: usize,
}

impl Request {
    /// A request for the same bytes and memory, without a completion. The caller gives it one that
    /// keeps `self`: the memory is ours until `self` is completed.
    fn copy(&self) -> Self {
        Self {
            operation: self.operation,
            offset: self.offset,
            issuer: self.issuer,
            segments: self.segments.clone(),
            length: self.length,
            durable: self.durable,
            completion: None,
        }
    }

    /// A request for the same bytes and memory. When it is complete, `then` gets this one back
    /// together with the outcome, and completes it or sends it elsewhere.
    #[must_use]
    pub fn relay(self, then: impl FnOnce(Self, Outcome) + Send + 'static) -> Self {
        let mut copy = self.copy();
        // Nobody can reach `self` before this is called.
        copy.completion = Some(Box::new(move |outcome| then(self, outcome)));
        copy
    }

    /// `count` requests that write the same memory to the same place, or as many flushes; at least
    /// one. When all are complete, `then` gets this one back and the outcomes in order.
    ///
    /// # Panics
    /// When it is a read: several devices may not fill the same memory.
    pub(crate) fn fan_out(
        self,
        count: usize,
        then: impl FnOnce(Self, Vec<Outcome>) + Send + 'static,
    ) -> Vec<Self> {
        assert_ne!(self.operation, Operation::Read, "operation");
        let mut copies: Vec<_> = (0..count).map(|_| self.copy()).collect();
        // `self` is kept until the last of them is complete. A write is only read (`slices`), so
        // several may be on their way.
        let completions = gather(count, move |outcomes| then(self, outcomes));
        for (copy, completion) in copies.iter_mut().zip(completions) {
            copy.completion = Some(completion);
        }
        copies
    }

    /// Cuts it into pieces of these lengths, whose sum must be its length. Its completion runs
    /// when all pieces are complete, and knows the first piece, in order, that failed.
    ///
    /// # Panics
    /// When the sum is another.
    #[must_use]
    pub fn split(self, lengths: &[usize]) -> Vec<Self> {
        let mut offset = self.offset;
        let mut offsets = Vec::with_capacity(lengths.len());
        let mut pieces = Vec::with_capacity(lengths.len());
        for (group, length) in lengths.iter().copied().enumerate() {
            offsets.push(offset);
            pieces.push(Piece { length, group });
            offset += length as u64;
        }
        self.deal(pieces, &offsets)
    }

    /// Deals its pieces, in order, to groups: one request for each, at the group's offset. Its
    /// completion runs when all of them are complete; what was transferred is what is there
    /// without a gap from the start, and the result is that of the group which ended it.
    ///
    /// # Panics
    /// When the sum of the lengths is not its length, or a piece's group has no offset. When it is
    /// a flush: pieces without bytes could not tell that one of them failed.
    #[must_use]
    pub fn deal(mut self, pieces: Vec<Piece>, offsets: &[u64]) -> Vec<Self> {
        assert_ne!(self.operation, Operation::Flush, "operation");
        let sum: usize = pieces.iter().map(|piece| piece.length).sum();
        assert_eq!(sum, self.length, "lengths");
        let known = pieces.iter().all(|piece| piece.group < offsets.len());
        assert!(known, "a piece of no group");
        let Some(completion) = self.completion.take() else {
            return Vec::new();
        };
        let mut groups = vec![(Vec::new(), 0); offsets.len()];
        let mut rest = std::mem::take(&mut self.segments).into_iter();
        let mut current = None;
        for piece in &pieces {
            if let Some((segments, length)) = groups.get_mut(piece.group) {
                take_segments(&mut current, &mut rest, piece.length, segments);
                *length += piece.length;
            }
        }
        if offsets.is_empty() {
            completion(whole(&pieces, Vec::new()));
            return Vec::new();
        }
        let completions = gather(offsets.len(), move |outcomes| {
            completion(whole(&pieces, outcomes));
        });
        let dealt = groups.into_iter().zip(offsets).zip(completions);
        dealt
            .map(|(((segments, length), offset), completion)| Self {
                operation: self.operation,
                offset: *offset,
                issuer: self.issuer,
                segments,
                length,
                durable: self.durable,
                completion: Some(completion),
            })
            .collect()
    }
}

/// Lengths of the pieces of so many bytes: as long as allowed, the last one with the rest.
pub(crate) fn pieces(length: usize, longest: usize) -> impl Iterator<Item = usize> {
    let starts = (0..length).step_by(longest);
    starts.map(move |start| longest.min(length - start))
}

/// Completions for `count` requests. When all of them have been called, `then` gets the outcomes,
/// in the order of the requests. To be used up and dropped before the first of them is called.
fn gather<T>(count: usize, then: T) -> impl Iterator<Item = Completion>
where
    T: FnOnce(Vec<Outcome>) + Send + 'static,
{
    // Of one that is dropped instead of called.
    let missing = Outcome {
        transferred_bytes: 0,
        result: Err(Error::Abandoned { offset: 0 }),
    };
    let all = Arc::new(Mutex::new((vec![missing; count], then)));
    (0..count).map(move |index| -> Completion {
        let all = all.clone();
        Box::new(move |outcome| {
            if let Some(slot) = all.lock().0.get_mut(index) {
                *slot = outcome;
            }
            // Each completion has it until it was called: this was the last one.
            if let Some(all) = Arc::into_inner(all) {
                let (outcomes, then) = all.into_inner();
                then(outcomes);
            }
        })
    })
}

fn take_segments(
    current: &mut Option<Segment>,
    rest: &mut impl Iterator<Item = Segment>,
    mut length: usize,
    taken: &mut Vec<Segment>,
) {
    while length > 0 {
        let Some(segment) = current.take().or_else(|| rest.next()) else {
            return;
        };
        let (now, later) = segment.split_at(segment.len().min(length));
        length -= now.len();
        taken.push(now);
        if !later.is_empty() {
            *current = Some(later);
        }
    }
}

/// How a request went whose pieces were dealt to groups that went like this.
fn whole(pieces: &[Piece], mut outcomes: Vec<Outcome>) -> Outcome {
    let mut transferred_bytes = 0;
    for piece in pieces {
        let Some(outcome) = outcomes.get_mut(piece.group) else {
            continue;
        };
        let came = outcome.transferred_bytes.min(piece.length);
        transferred_bytes += came;
        outcome.transferred_bytes -= came;
        if came < piece.length {
            let result = outcome.result.clone();
            return Outcome {
                transferred_bytes,
                result,
            };
        }
    }
    Outcome {
        transferred_bytes,
        result: Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Issuer};
    use proptest::prelude::*;
    use std::sync::mpsc;

    fn lost(offset: u64) -> Error {
        Error::Abandoned { offset }
    }

    fn request(length: usize) -> (Request, mpsc::Receiver<(Outcome, Buffer)>) {
        let (sender, receiver) = mpsc::channel();
        let request = Request::owned(
            Operation::Read,
            4096,
            Buffer::new(length, 512),
            Issuer::Reader,
            move |outcome, buffer| sender.send((outcome, buffer)).unwrap(),
        );
        (request, receiver)
    }

    #[test]
    fn nothing_dealt_to_nobody_is_complete() {
        let (sender, receiver) = mpsc::channel();
        // SAFETY: it has no memory.
        let request = unsafe {
            Request::new(
                Operation::Read,
                0,
                Vec::new(),
                Issuer::Reader,
                move |outcome| {
                    sender.send(outcome).unwrap();
                },
            )
        };
        assert!(request.split(&[]).is_empty());
        assert_eq!(receiver.try_recv().unwrap().result, Ok(()));
    }

    proptest! {
        /// Each group fills its memory with what the device would have at its place; the whole
        /// must look as if it had come in one, up to the first gap.
        #[test]
        fn dealt_pieces_land_in_order_and_a_gap_ends_the_whole(
            pieces in proptest::collection::vec((1usize..50, 0usize..4), 1..30),
            came in proptest::collection::vec(0usize..400, 4),
            order in Just([0usize, 1, 2, 3]).prop_shuffle(),
        ) {
            let pieces: Vec<Piece> =
                pieces.iter().map(|&(length, group)| Piece { length, group }).collect();
            let length = pieces.iter().map(|piece| piece.length).sum();
            let (whole, receiver) = request(length);
            let mut expected = 0;
            let mut left = came.clone();
            let mut ended_by = None;
            for piece in &pieces {
                let take = left[piece.group].min(piece.length);
                left[piece.group] -= take;
                expected += take;
                if take < piece.length {
                    ended_by = Some(piece.group);
                    break;
                }
            }
            let dealt = whole.deal(pieces.clone(), &[0, 1000, 2000, 3000]);
            let mut dealt: Vec<Option<Request>> = dealt.into_iter().map(Some).collect();
            for group in order {
                prop_assert!(receiver.try_recv().is_err());
                let mut request = dealt[group].take().unwrap();
                prop_assert_eq!(request.offset(), 1000 * group as u64);
                let mut count = 0u8;
                for slice in request.slices_mut() {
                    for byte in slice {
                        *byte = (group as u8) << 6 | (count & 63);
                        count = count.wrapping_add(1);
                    }
                }
                if came[group] >= request.len() {
                    request.succeed();
                } else {
                    request.fail(came[group], lost(group as u64));
                }
            }
            let (outcome, buffer) = receiver.try_recv().unwrap();
            prop_assert_eq!(outcome.transferred_bytes, expected);
            let error = ended_by.map(|group| lost(group as u64));
            prop_assert_eq!(outcome.result.err(), error);
            let mut counts = [0u8; 4];
            let mut at = 0;
            for piece in &pieces {
                for _ in 0..piece.length {
                    let count = &mut counts[piece.group];
                    prop_assert_eq!(buffer[at], (piece.group as u8) << 6 | (*count & 63));
                    *count = count.wrapping_add(1);
                    at += 1;
                }
            }
        }
    }
}
