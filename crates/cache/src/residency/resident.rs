//! What is in memory of an object. Where its pages are not [listed](super::objects), every frame is
//! looked at, while no page changes its frame.

use std::ops::Range;

use pagewell_policy::eviction::FrameIndex;

use crate::page::{key_of, object_of, page_of};
use crate::residency::objects::LISTED;
use crate::residency::pages::Pages;
use crate::table::lines::{DIRTY, FULL, PRESENT, State};

impl Pages {
    /// The pages of an object that have a frame, and the state of each.
    fn of_object(&self, number: u32) -> impl Iterator<Item = (u64, State)> {
        (0..self.arena.frames).filter_map(move |index| {
            let slot = self.owner(FrameIndex(index));
            let (key, state) = (self.table.key(slot), self.table.state(slot));
            let is_here = state.has(PRESENT) && state.frame().0 == index;
            (is_here && object_of(key) == number).then(|| (page_of(key), state))
        })
    }

    /// The pages of a range that are in memory, and perhaps some that have just left.
    pub(crate) fn resident(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        if number & LISTED != 0 {
            return self.objects.pages(number, range);
        }
        if range.end - range.start <= u64::from(self.arena.frames) {
            return range.collect();
        }
        // Else a page may change its frame just behind the eyes of this thread.
        let _still = self.moves.still();
        let pages = self.of_object(number).map(|(page, _)| page);
        pages.filter(|page| range.contains(page)).collect()
    }

    /// Takes the flag of dirty pages from all pages of an object. The caller has the lock under
    /// which they get it.
    pub(crate) fn clean_all(&self, number: u32) {
        if number & LISTED != 0 {
            for page in self.objects.pages(number, 0..u64::MAX) {
                self.table.clear_of(key_of(number, page), DIRTY);
            }
            return;
        }
        for index in 0..self.arena.frames {
            let slot = self.owner(FrameIndex(index));
            // A page with the flag stays where it is; another may be another object's by now.
            let key = self.table.key(slot);
            if self.table.state(slot).has(DIRTY) && object_of(key) == number {
                self.table.clear_of(key, DIRTY);
            }
        }
    }

    /// Pages that hold something now, and those that hold all of it.
    pub(crate) fn residency(&self, number: u32) -> (u64, u64) {
        let states = self.of_object(number).map(|(_, state)| state);
        states.fold((0, 0), |(pages, full), state| {
            (pages + 1, full + u64::from(state.has(FULL)))
        })
    }

    /// Whether an object has pages: of one that lists them.
    pub(crate) fn has_pages(&self, number: u32) -> bool {
        self.objects.has_pages(number)
    }

    /// Forgets an object and all its pages, so that its number is free. Nobody has a pin on one of
    /// them.
    pub(crate) fn forget(&self, number: u32) {
        if number & LISTED != 0 {
            for page in self.objects.pages(number, 0..u64::MAX) {
                // A reader that looked for another page in its slot may have a pin for a moment.
                let key = key_of(number, page);
                while let Some((slot, state)) = self.table.locate(key)
                    && !self.release(slot, state.frame(), 0)
                {
                    std::thread::yield_now();
                }
            }
            // A thread that evicts one may have taken it from the table, and not from the list yet.
            while self.objects.has_pages(number) {
                std::thread::yield_now();
            }
        } else {
            self.forget_unlisted(number);
        }
        self.objects.remove(number);
    }

    fn forget_unlisted(&self, number: u32) {
        for index in 0..self.arena.frames {
            let frame = FrameIndex(index);
            let slot = self.owner(frame);
            // As above.
            while object_of(self.table.key(slot)) == number
                && self.table.state(slot).has(PRESENT)
                && !self.release(slot, frame, 0)
                && self.table.state(slot).frame() == frame
            {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use pagewell_device::RamDevice;

    use crate::{Cache, CacheOptions, ReadMode, WriteMode};

    const MOVES: u32 = 2000;
    /// A thread that looks keeps others from moving: not more often for each move, so that they
    /// come to it.
    const LOOKS: u32 = 500;

    /// A page that is pinned moves at each write. It is in memory all the time.
    #[test]
    fn a_page_that_moves_is_always_found() {
        let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
        let device = cache.open(Arc::new(RamDevice::new("ram", 64 << 20)));
        let own = device.reader.own.clone();
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        device.write_at(0, &[1; 65_536], WriteMode::WAIT).unwrap();
        let missed = std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                for moves in 1..=MOVES {
                    let pinned = device.pin_all(0, 65_536, ReadMode::WAIT).unwrap();
                    begun.store(moves, Ordering::Release);
                    device.write_at(0, &[2; 16], WriteMode::WAIT).unwrap();
                    ended.store(moves, Ordering::Release);
                    drop(pinned);
                }
            });
            let (mut missed, mut seen) = (0, 0);
            while seen < MOVES && !mover.is_finished() {
                let moves = begun.load(Ordering::Acquire);
                if moves == seen {
                    std::thread::yield_now();
                    continue;
                }
                seen = moves;
                let mut looks = 0;
                while looks < LOOKS && ended.load(Ordering::Acquire) < seen {
                    looks += 1;
                    let found = own.pages.resident(own.layout.number, 0..1 << 20);
                    missed += usize::from(found.is_empty());
                }
            }
            missed
        });
        assert_eq!(missed, 0);
    }
}
