//! Keeps requests that overlap in the order in which they came.
//!
//! Problem: the elevator reorders, but a read must see the write before it and not the one after
//! it, and of two writes to one byte the later one must win. Reads may pass each other.
//!
//! Rule: two requests of one object *conflict* when they overlap and at least one of them writes.
//! The *active* requests (queued for dispatch, or at the device) never conflict with each other.
//! One that conflicts with an active request, or with one that waits, stands in a single line; when
//! an active request is done, the line moves up until its head conflicts again.
//!
//! To find an overlap without walking, [`Spans`] keeps extents by the power of two of their
//! length. Of one such group, only extents that begin less than twice that power below the
//! extent in question can reach it, and those that begin within the power below do. What lies
//! between is narrower than each of its extents, so it holds one extent, or several that overlap
//! each other. At most [`PROBES`] of them are looked at; if none of these reaches the extent, the
//! rest is taken for a conflict.
//!
//! Weaknesses: the line lets a request wait for another that it does not overlap, and more than
//! [`PROBES`] overlapping reads make a write wait that need not. Both cost time, never order. A
//! read that waits for a write does not make the write more urgent. All three are rare: the owner
//! of a page cache does not read what it is writing.

use std::collections::BTreeMap;

use super::Extent;
use super::queue::Request;

/// Extents of a group that are looked at.
const PROBES: usize = 16;

/// A set of extents that answers whether one overlaps any of them. Unlike `pagewell_base::spans`,
/// it keeps extents apart that overlap each other: each goes when its request is done. The value is
/// the end.
#[derive(Debug, Default)]
struct Spans(BTreeMap<Key, u64>);

/// Object, group, first byte and sequence.
type Key = (u32, u32, u64, u64);

fn key(object: u32, extent: Extent, sequence: u64) -> Key {
    let group = extent.length.max(1).ilog2();
    (object, group, extent.offset, sequence)
}

impl Spans {
    fn insert(&mut self, object: u32, extent: Extent, sequence: u64) {
        self.0.insert(key(object, extent, sequence), extent.end());
    }

    fn remove(&mut self, object: u32, extent: Extent, sequence: u64) {
        self.0.remove(&key(object, extent, sequence));
    }

    fn overlaps(&self, object: u32, extent: Extent) -> bool {
        let after = |group| self.0.range((object, group, 0, 0)..).next();
        let mut next = after(0);
        while let Some((&(of, group, ..), _)) = next.filter(|((of, ..), _)| *of == object) {
            let length_max = u64::MAX >> (u64::BITS - 1 - group);
            let lowest = extent.offset.saturating_sub(length_max - 1);
            let near = (of, group, lowest, 0)..(of, group, extent.end(), 0);
            let near = self.0.range(near);
            for (probe, (_, end)) in near.rev().enumerate() {
                if *end > extent.offset || probe + 1 == PROBES {
                    return true;
                }
            }
            next = after(group + 1);
        }
        false
    }
}

/// Requests by direction.
#[derive(Debug, Default)]
struct Directions {
    reads: Spans,
    writes: Spans,
}

impl Directions {
    fn of(&mut self, request: &Request) -> &mut Spans {
        if request.class.is_write() {
            &mut self.writes
        } else {
            &mut self.reads
        }
    }

    fn insert(&mut self, request: &Request) {
        let (object, extent) = (request.object, request.extent);
        self.of(request).insert(object, extent, request.sequence);
    }

    fn remove(&mut self, request: &Request) {
        let (object, extent) = (request.object, request.extent);
        self.of(request).remove(object, extent, request.sequence);
    }

    fn conflict(&self, request: &Request) -> bool {
        let (object, extent) = (request.object, request.extent);
        self.writes.overlaps(object, extent)
            || request.class.is_write() && self.reads.overlaps(object, extent)
    }
}

/// The active requests and the line.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    active: Directions,
    waiting: Directions,
    /// Keyed by sequence.
    line: BTreeMap<u64, Request>,
}

impl Overlap {
    /// Makes a new request active, or puts it in line and says false.
    pub(super) fn admit(&mut self, request: &Request) -> bool {
        if self.active.conflict(request) || self.waiting.conflict(request) {
            self.waiting.insert(request);
            self.line.insert(request.sequence, *request);
            return false;
        }
        self.active.insert(request);
        true
    }

    /// An active request is done.
    pub(super) fn release(&mut self, request: &Request) {
        self.active.remove(request);
    }

    /// The next of the line, if it may become active now; it does. To be called until `None`
    /// after each [`Overlap::release`].
    pub(super) fn next_ready(&mut self) -> Option<Request> {
        let (_, request) = self.line.first_key_value()?;
        if self.active.conflict(request) {
            return None;
        }
        let (_, request) = self.line.pop_first()?;
        self.waiting.remove(&request);
        self.active.insert(&request);
        Some(request)
    }

    /// The request in line, to be changed in what does not matter here; `None` when it is not in
    /// it.
    pub(super) fn in_line(&mut self, sequence: u64) -> Option<&mut Request> {
        self.line.get_mut(&sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    #[test]
    fn every_overlap_is_found_and_nothing_else() {
        for length in 1..20 {
            for offset in 0..60 {
                let mut spans = Spans::default();
                spans.insert(1, extent(offset, length), 1);
                for other_length in 1..20 {
                    for other in 0..60 {
                        let expected = offset < other + other_length && other < offset + length;
                        let found = spans.overlaps(1, extent(other, other_length));
                        assert_eq!(found, expected, "{offset}+{length} {other}+{other_length}");
                        for object in [0, 2] {
                            assert!(!spans.overlaps(object, extent(other, other_length)));
                        }
                    }
                }
                spans.remove(1, extent(offset, length), 1);
                assert!(!spans.overlaps(1, extent(0, u64::MAX)));
                assert!(spans.0.is_empty());
            }
        }
    }

    #[test]
    fn the_ends_of_the_addresses_are_no_exception() {
        let mut spans = Spans::default();
        spans.insert(1, extent(u64::MAX - 1, 1), 1);
        assert!(spans.overlaps(1, extent(0, u64::MAX)));
        assert!(!spans.overlaps(1, extent(0, u64::MAX - 1)));
        spans.insert(1, extent(0, u64::MAX), 2);
        assert!(spans.overlaps(1, extent(5, 1)));
    }

    #[test]
    fn many_overlapping_extents_are_taken_for_a_conflict() {
        let mut spans = Spans::default();
        for sequence in 0..PROBES as u64 {
            spans.insert(1, extent(0, 16), sequence);
            let few = sequence + 1 < PROBES as u64;
            assert_eq!(!spans.overlaps(1, extent(20, 1)), few);
        }
    }
}
