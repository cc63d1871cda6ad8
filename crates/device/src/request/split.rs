//! Deriving requests from one: a copy for another device, and pieces.
//!
//! A copy has the same bytes and memory; the request waits for it. Pieces follow each other, and
//! the request completes after all of them; its transferred bytes are those before the first gap.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use super::{Completion, Outcome, Request, Segment};
use crate::Error;

impl Request {
    /// A copy with the same bytes and memory. At its completion `then` gets this request and the
    /// outcome, and completes the request or submits it elsewhere.
    #[must_use]
    pub fn relay(self, then: impl FnOnce(Self, Outcome) + Send + 'static) -> Self {
        Self {
            operation: self.operation,
            offset: self.offset,
            issuer: self.issuer,
            segments: self.segments.clone(),
            length: self.length,
            durable: self.durable,
            // Keeps `self`, and so the memory, until the copy is complete.
            completion: Some(Box::new(move |outcome| then(self, outcome))),
        }
    }

    /// Splits it into pieces of these lengths. It completes when all pieces have, with the error of
    /// the first piece, in order, that failed.
    ///
    /// # Panics
    /// When the lengths do not add up to its own.
    #[must_use]
    pub fn split(mut self, lengths: &[usize]) -> Vec<Self> {
        let sum: usize = lengths.iter().sum();
        assert_eq!(sum, self.length, "lengths");
        let Some(completion) = self.completion.take() else {
            return Vec::new();
        };
        if lengths.is_empty() {
            completion(whole(&[], Vec::new()));
            return Vec::new();
        }
        let known = lengths.to_vec();
        let completions = gather(lengths.len(), move |outcomes| {
            completion(whole(&known, outcomes));
        });
        let mut rest = std::mem::take(&mut self.segments).into_iter();
        let mut current = None;
        let mut offset = self.offset;
        let mut pieces = Vec::with_capacity(lengths.len());
        for (&length, completion) in lengths.iter().zip(completions) {
            pieces.push(Self {
                operation: self.operation,
                offset,
                issuer: self.issuer,
                segments: take_segments(&mut current, &mut rest, length),
                length,
                durable: self.durable,
                completion: Some(completion),
            });
            offset += length as u64;
        }
        pieces
    }
}

/// Lengths of the pieces of `length` bytes: `longest` each, and the rest.
pub fn pieces(length: usize, longest: usize) -> impl Iterator<Item = usize> {
    let starts = (0..length).step_by(longest);
    starts.map(move |start| longest.min(length - start))
}

/// Completions for `count` requests; after the last, `then` gets the outcomes in the requests'
/// order. The iterator must be drained and dropped before the first completion runs.
fn gather<T>(count: usize, then: T) -> impl Iterator<Item = Completion>
where
    T: FnOnce(Vec<Outcome>) + Send + 'static,
{
    // The outcome of a completion that is dropped, not called.
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
            // The last completion has the last reference.
            if let Some(all) = Arc::into_inner(all) {
                let (outcomes, then) = all.into_inner();
                then(outcomes);
            }
        })
    })
}

/// The next `length` bytes; `current` is the rest of a split segment.
fn take_segments(
    current: &mut Option<Segment>,
    rest: &mut impl Iterator<Item = Segment>,
    mut length: usize,
) -> Vec<Segment> {
    let mut taken = Vec::new();
    while length > 0 {
        let Some(segment) = current.take().or_else(|| rest.next()) else {
            break;
        };
        let (now, later) = segment.split_at(segment.len().min(length));
        length -= now.len();
        taken.push(now);
        if !later.is_empty() {
            *current = Some(later);
        }
    }
    taken
}

/// Joins the outcomes of pieces.
fn whole(lengths: &[usize], outcomes: Vec<Outcome>) -> Outcome {
    let mut transferred_bytes = 0;
    for (&length, outcome) in lengths.iter().zip(outcomes) {
        transferred_bytes += outcome.transferred_bytes.min(length);
        if outcome.transferred_bytes < length {
            return Outcome {
                transferred_bytes,
                result: outcome.result,
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
    use crate::{Buffer, Issuer, Operation};
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
    fn no_pieces_of_nothing_are_complete() {
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
        /// Each piece fills its memory with its number; the whole must look as if it had come in
        /// one, up to the first gap, whatever the order in which the pieces complete.
        #[test]
        fn pieces_land_in_order_and_a_gap_ends_the_whole(
            pieces in proptest::collection::vec((1usize..50, 0usize..60), 1..30),
            seed in any::<u64>(),
        ) {
            let lengths: Vec<usize> = pieces.iter().map(|&(length, _)| length).collect();
            let (whole, receiver) = request(lengths.iter().sum());
            let first_short = pieces.iter().position(|&(length, came)| came < length);
            let whole_ones = &lengths[..first_short.unwrap_or(lengths.len())];
            let part = first_short.map_or(0, |at| pieces[at].1);
            let mut offset = 4096;
            let mut cut: Vec<(usize, Request)> =
                whole.split(&lengths).into_iter().enumerate().collect();
            for (number, piece) in &mut cut {
                prop_assert_eq!(piece.offset(), offset);
                prop_assert_eq!(piece.len(), lengths[*number]);
                offset += piece.len() as u64;
                piece.slices_mut().for_each(|slice| slice.fill(*number as u8));
            }
            let mut state = seed;
            while !cut.is_empty() {
                prop_assert!(receiver.try_recv().is_err());
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                let (number, piece) = cut.swap_remove((state >> 33) as usize % cut.len());
                match pieces[number] {
                    (length, came) if came >= length => piece.succeed(),
                    (_, came) => piece.fail(came, lost(number as u64)),
                }
            }
            let (outcome, buffer) = receiver.try_recv().unwrap();
            prop_assert_eq!(outcome.transferred_bytes, whole_ones.iter().sum::<usize>() + part);
            prop_assert_eq!(outcome.result.err(), first_short.map(|at| lost(at as u64)));
            let mut at = 0;
            for (number, length) in lengths.iter().enumerate() {
                prop_assert!(buffer[at..at + length].iter().all(|byte| *byte == number as u8));
                at += length;
            }
        }
    }
}
