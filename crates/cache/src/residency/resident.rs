//! What is in memory of a device. Where its pages are not [listed](super::devices), every frame is
//! looked at, while no page changes its frame.

use std::ops::Range;

use pagewell_policy::eviction::FrameIndex;

use crate::page::{device_of, page_of};
use crate::residency::devices::LISTED;
use crate::residency::pages::Pages;
use crate::table::lines::{DIRTY, FULL, PRESENT, State};

impl Pages {
    /// The pages of a device that have a frame, and the state of each.
    fn of_device(&self, number: u32) -> impl Iterator<Item = (u64, State)> {
        (0..self.arena.frames).filter_map(move |index| {
            let slot = self.owner(FrameIndex(index));
            let (key, state) = (self.table.key(slot), self.table.state(slot));
            let is_here = state.has(PRESENT) && state.frame().0 == index;
            (is_here && device_of(key) == number).then(|| (page_of(key), state))
        })
    }

    /// The pages of a range that are in memory, and perhaps some that have just left.
    pub(crate) fn resident(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        if number & LISTED != 0 {
            return self.listed.pages(number, range);
        }
        if range.end - range.start <= u64::from(self.arena.frames) {
            return range.collect();
        }
        // Else a page may change its frame just behind the eyes of this thread.
        let _still = self.moves.still();
        let pages = self.of_device(number).map(|(page, _)| page);
        pages.filter(|page| range.contains(page)).collect()
    }

    /// Takes the flag of dirty pages from all pages of a device. The caller has the lock under
    /// which they get it.
    pub(crate) fn clean_all(&self, number: u32) {
        for index in 0..self.arena.frames {
            let slot = self.owner(FrameIndex(index));
            // A page with the flag stays where it is; another may be another device's by now.
            let key = self.table.key(slot);
            if self.table.state(slot).has(DIRTY) && device_of(key) == number {
                self.table.clear_of(key, DIRTY);
            }
        }
    }

    /// Pages that hold something now, and those that hold all of it.
    pub(crate) fn residency(&self, number: u32) -> (u64, u64) {
        let states = self.of_device(number).map(|(_, state)| state);
        states.fold((0, 0), |(pages, full), state| {
            (pages + 1, full + u64::from(state.has(FULL)))
        })
    }

    /// Forgets a device and all its pages. Nobody has a pin on one of them.
    pub(crate) fn forget(&self, number: u32) {
        self.devices.remove(number);
        for index in 0..self.arena.frames {
            let frame = FrameIndex(index);
            let slot = self.owner(frame);
            // A reader that looked for another page in this slot may have a pin for a moment.
            while device_of(self.table.key(slot)) == number
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
