//! Which pages of an object are in memory, in order.
//!
//! **Problem.** The table finds a page by its name; it cannot say which pages of a range it has.
//! Asking for each page number of a range costs its length, looking at every place the size of the
//! cache. A client that discards 50,000 small files one after the other can afford neither.
//!
//! **Rule.** Objects that ask for it (their numbers say so) have their pages in a list that is kept
//! in order. A page is counted before it comes into the table, and taken off after it has left: one
//! that is there is always in the list, and one that is in the list may just have gone. Counts,
//! as the name may be given anew before the page that left was taken off. Of other objects every
//! place is looked at, while no page changes its own.
//!
//! **Weakness.** One lock for all listed pages of a cache, taken for a moment whenever one comes
//! or goes.

use std::collections::BTreeMap;
use std::ops::Range;

use pagewell_policy::eviction::FrameIndex;

use crate::page::{device_of, key_of, page_of};
use crate::residency::pages::Core;
use crate::sync::{Moves, Mutex};
use crate::table::state::{DIRTY, FULL, PRESENT};

/// The bit of the number of an object whose pages are listed.
pub(crate) const LISTED: u32 = 1 << 23;

/// The list: how often each page is in the table, or about to come or go.
#[derive(Default)]
pub(crate) struct Resident {
    listed: Mutex<BTreeMap<u64, u32>>,
    /// Held by who gives the name of a page to another place, all of them together, and alone by
    /// who looks at every place: else the one may do it just behind the eyes of the other.
    moves: Moves,
}

impl Core {
    /// To be held while a page changes its place: the name is nowhere for a moment.
    pub(crate) fn moving(&self) -> impl Sized + '_ {
        self.resident.moves.moving()
    }

    /// A page is about to come.
    pub(crate) fn list(&self, key: u64) {
        if device_of(key) & LISTED != 0 {
            *self.resident.listed.lock().entry(key).or_default() += 1;
        }
    }

    /// A page has left, or has not come after all.
    pub(crate) fn unlist(&self, key: u64) {
        if device_of(key) & LISTED == 0 {
            return;
        }
        let mut pages = self.resident.listed.lock();
        if let Some(count) = pages.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                pages.remove(&key);
            }
        }
    }

    /// The pages of a range that are in memory, and perhaps some that have just left.
    pub(crate) fn resident(&self, number: u32, pages: Range<u64>) -> Vec<u64> {
        if number & LISTED != 0 {
            let keys = key_of(number, pages.start)..=key_of(number, pages.end - 1);
            let listed = self.resident.listed.lock();
            return listed.range(keys).map(|(key, _)| page_of(*key)).collect();
        }
        if pages.end - pages.start <= u64::from(self.arena.frames()) {
            return pages.collect();
        }
        let mut found = Vec::new();
        let _still = self.resident.moves.still();
        for index in 0..self.arena.frames() {
            let slot = self.owner(FrameIndex(index));
            let (key, state) = (self.table.key(slot), self.table.state(slot));
            let is_here = state.has(PRESENT) && state.frame().0 == index;
            if is_here && device_of(key) == number && pages.contains(&page_of(key)) {
                found.push(page_of(key));
            }
        }
        found
    }

    /// Takes the flag of dirty pages from all pages of an object. The caller has the lock under
    /// which they get it.
    pub(crate) fn clean_all(&self, number: u32) {
        for index in 0..self.arena.frames() {
            let slot = self.owner(FrameIndex(index));
            // A page with the flag stays where it is; what is not its own may be another's by now.
            let key = self.table.key(slot);
            if self.table.state(slot).has(DIRTY) && device_of(key) == number {
                self.table.clear_of(key, DIRTY);
            }
        }
    }

    /// Pages that hold something now, and those that hold all of it.
    pub(crate) fn residency(&self, number: u32) -> (u64, u64) {
        let (mut pages, mut full) = (0, 0);
        for index in 0..self.arena.frames() {
            let slot = self.owner(FrameIndex(index));
            let state = self.table.state(slot);
            let mine = device_of(self.table.key(slot)) == number;
            if mine && state.has(PRESENT) && state.frame().0 == index {
                pages += 1;
                full += u64::from(state.has(FULL));
            }
        }
        (pages, full)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use pagewell_device::RamDevice;

    use crate::{Cache, CacheOptions, ReadMode, WriteMode};

    const MOVES: u32 = 2000;
    /// Who looks keeps those who move from it: not more often for each move, so that they come to
    /// it.
    const LOOKS: u32 = 500;

    /// A page that somebody holds moves at each write. It is in memory all the time.
    #[test]
    fn a_page_that_moves_is_always_found() {
        let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
        let device = cache.open(Arc::new(RamDevice::new("ram", 64 << 20)));
        let object = device.object.clone();
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        device.write_at(0, &[1; 65_536], WriteMode::WAIT).unwrap();
        let missed = std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                for moves in 1..=MOVES {
                    let lent = device.lend(0, 65_536, ReadMode::WAIT).unwrap();
                    begun.store(moves, Ordering::Release);
                    device.write_at(0, &[2; 16], WriteMode::WAIT).unwrap();
                    ended.store(moves, Ordering::Release);
                    drop(lent);
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
                    let found = object.core.resident(object.number, 0..1 << 20);
                    missed += usize::from(found.is_empty());
                }
            }
            missed
        });
        assert_eq!(missed, 0);
    }
}
