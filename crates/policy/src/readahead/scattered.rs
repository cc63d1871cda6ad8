//! Reads at random of an object at the end of a long path.
//!
//! **Problem.** Each waits for one answer: 200 in an object of 100 MiB, 50 ms away, take ten
//! seconds, enough for all of it many times.
//!
//! **Rule.** They bring the rest of the object along, in order:
//!
//! ```text
//!   reads of no stream   1 2 3 4 5 6 7 8   9    10    11     12
//!   pieces               . . . . . . . [#] [##] [####] [########] [################] --> the end
//! ```
//!
//! - A piece is as long as all before, the reads included: few reads cost little, and less than 30
//!   bring all of 100 MiB.
//! - A piece is requested when no read-ahead is on its way: a narrow path carries one beside the
//!   reads.
//! - The rest must fit into the memory for pieces. What was evicted unread ends it for its object;
//!   of the objects read last nothing is fetched twice.
//! - Nearer than [`LATENCY_MIN`] a read costs less than its share of the pieces.
//!
//! Weaknesses: reads in one part of an object bring all of it. Where bytes cost money and requests
//! do not, this is dearer. All objects together have one piece on its way.

use std::ops::Range;
use std::time::Duration;

use super::settings::{Settings, down, up};
use super::stream::Touch;

const LATENCY_MIN: Duration = Duration::from_millis(1);
/// Fewer reads are taken for chance.
const READS_MIN: u32 = 8;
const OBJECTS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Object {
    start: u64,
    reads: u32,
    came_bytes: u64,
    /// Where the next piece begins.
    position: u64,
    is_over: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scattered {
    /// In the order of their last reads.
    objects: Vec<Object>,
}

impl Scattered {
    /// A read of no stream missed. Returns the piece to fetch.
    pub(super) fn miss(
        &mut self,
        touch: &Touch,
        spare_bytes: u64,
        settings: &Settings,
    ) -> Option<Range<u64>> {
        touch.latency.filter(|latency| *latency >= LATENCY_MIN)?;
        let bounds = touch.bounds?;
        let mut object = self.take(down(bounds.start, settings.unit_bytes));
        let page = settings.page_bytes;
        let read = up(touch.end, page) - down(touch.offset, page);
        object.reads = object.reads.saturating_add(1);
        object.came_bytes = object.came_bytes.saturating_add(read);
        let rest = bounds.end.saturating_sub(object.position);
        let fits = object.reads >= READS_MIN && rest <= spare_bytes && !object.is_over;
        let most = rest.min(down(touch.budget_bytes, page));
        let length = if fits { object.came_bytes.min(most) } else { 0 };
        let start = object.position;
        object.position += length;
        object.came_bytes = object.came_bytes.saturating_add(length);
        self.objects.push(object);
        (length > 0).then_some(start..start + length)
    }

    pub(super) fn wasted(&mut self, offset: u64) {
        let below = self.objects.iter_mut().filter(|one| one.start <= offset);
        if let Some(object) = below.max_by_key(|one| one.start)
            && offset < object.position
        {
            object.is_over = true;
        }
    }

    /// The object that begins at `start` is gone; another may begin there.
    pub(super) fn gone(&mut self, start: u64) {
        self.objects.retain(|one| one.start != start);
    }

    /// Takes out the object that begins at `start`, or a new one.
    fn take(&mut self, start: u64) -> Object {
        if let Some(index) = self.objects.iter().position(|one| one.start == start) {
            return self.objects.remove(index);
        }
        if self.objects.len() == OBJECTS_MAX {
            self.objects.remove(0);
        }
        Object {
            start,
            reads: 0,
            came_bytes: 0,
            position: start,
            is_over: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::{AccessKind, Bounds};

    const PAGE: u64 = 64 << 10;
    const ROOM: u64 = 1 << 30;

    /// Where objects of a store begin.
    fn object(number: u64, length: u64) -> Bounds {
        let start = number << 40;
        let end = start + length;
        Bounds { start, end }
    }

    struct Reads {
        scattered: Scattered,
        latency: Duration,
        spare_bytes: u64,
        budget_bytes: u64,
    }

    impl Reads {
        fn new() -> Self {
            Self {
                scattered: Scattered::default(),
                latency: LATENCY_MIN,
                spare_bytes: ROOM,
                budget_bytes: ROOM,
            }
        }

        /// One of each of `count` pages, from the first on.
        fn read(&mut self, bounds: Bounds, count: u64) -> Vec<Range<u64>> {
            let settings = Settings::flash(u64::MAX);
            let touch = |page: u64| Touch {
                offset: bounds.start + page * PAGE + 100,
                end: bounds.start + page * PAGE + 108,
                kind: AccessKind::Miss,
                budget_bytes: self.budget_bytes,
                now: Duration::ZERO,
                previous: Duration::ZERO,
                bounds: Some(bounds),
                latency: Some(self.latency),
                learnt: 0,
            };
            let touches: Vec<_> = (0..count).map(touch).collect();
            let pieces = touches.iter();
            pieces
                .filter_map(|touch| self.scattered.miss(touch, self.spare_bytes, &settings))
                .collect()
        }
    }

    #[test]
    fn each_piece_is_as_long_as_all_before_until_the_object_has_come_once() {
        let mut reads = Reads::new();
        let bounds = object(3, 100 << 20);
        assert_eq!(reads.read(bounds, 7), []);
        let pieces = reads.read(bounds, 40);
        assert!(pieces.len() < 10, "{pieces:?}");
        assert_eq!(pieces[0], bounds.start..bounds.start + 8 * PAGE);
        assert_eq!(pieces[1].end - pieces[1].start, (8 + 8 + 1) * PAGE);
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(pieces.last().unwrap().end, bounds.end);
    }

    #[test]
    fn nothing_comes_along_without_room_or_on_a_short_path() {
        let mut full = Reads::new();
        full.spare_bytes = 100 << 20;
        assert_eq!(full.read(object(0, (100 << 20) + 1), 100), []);
        assert_ne!(full.read(object(1, 100 << 20), 100), []);
        let mut near = Reads::new();
        near.latency = LATENCY_MIN - Duration::from_nanos(1);
        assert_eq!(near.read(object(0, 100 << 20), 100), []);
    }

    #[test]
    fn a_piece_keeps_to_the_budget_in_whole_pages() {
        let mut reads = Reads::new();
        reads.budget_bytes = 3 * PAGE + 1;
        let pieces = reads.read(object(0, 100 << 20), 20);
        assert_eq!(pieces.len(), 13);
        let is_cut = |piece: &Range<u64>| piece.end - piece.start == 3 * PAGE;
        assert!(pieces.iter().all(is_cut), "{pieces:?}");
        reads.budget_bytes = PAGE - 1;
        assert_eq!(reads.read(object(0, 100 << 20), 20), []);
    }

    #[test]
    fn a_piece_on_its_way_is_waited_for() {
        let mut reads = Reads::new();
        let bounds = object(0, 100 << 20);
        reads.read(bounds, 20);
        reads.spare_bytes = 0;
        assert_eq!(reads.read(bounds, 20), []);
    }

    #[test]
    fn bytes_evicted_unread_end_it_for_their_object_alone() {
        let mut reads = Reads::new();
        let (one, other) = (object(4, 100 << 20), object(5, 100 << 20));
        assert_ne!(reads.read(one, 10), []);
        assert_ne!(reads.read(other, 10), []);
        // Bytes that a stream has fetched, and no piece.
        reads.scattered.wasted(one.start + (90 << 20));
        assert_ne!(reads.read(one, 1), []);
        reads.scattered.wasted(one.start + PAGE);
        assert_eq!(reads.read(one, 100), []);
        assert_ne!(reads.read(other, 1), []);
        // Another object begins there.
        reads.scattered.gone(one.start);
        assert_ne!(reads.read(one, 10), []);
    }

    #[test]
    fn the_objects_read_last_are_remembered() {
        let mut reads = Reads::new();
        for number in 0..1000 {
            assert_eq!(reads.read(object(number, 1 << 20), 7), []);
        }
        assert_eq!(reads.scattered.objects.len(), OBJECTS_MAX);
        assert_ne!(reads.read(object(999, 1 << 20), 1), []);
        assert_eq!(reads.read(object(0, 1 << 20), 7), []);
    }
}
