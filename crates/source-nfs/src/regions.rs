//! Where each file lies in the address space of the mount.
//!
//! **Problem.** The page cache knows devices, and a device for each remote file would have a queue,
//! a dirty limit and a read-ahead budget each. So all files of a mount share one device, a space of
//! 2^56 bytes of which nothing is stored, and each file with cached data has a *region* of it: its
//! byte 0 lies at the region's first.
//!
//! **Rule.** The space has 65,536 slots of 1 TiB. A region is a run of slots, one for nearly every
//! file; the last MiB of a region belongs to no file, so that nothing adjacent ever belongs to two.
//! Bytes have an owner only when all of them lie in one region and before that MiB: what begins in
//! one region and ends in another, or lies between, is nobody's, and to ask for it is an error.
//! When no slot is free, a clock hand goes round: regions that were used since it came by last are
//! skipped once, the others are offered for reuse. A run of several slots is sought from the
//! beginning, and found where they are free; only then neighbours are offered, too.
//!
//! ```text
//!   slot  0        1        2        3        4
//!         | file a | file b |     file c      | free ...
//!                               > 1 TiB
//! ```
//!
//! **Known weakness.** Files over 1 TiB need neighbouring free slots; with tens of thousands of
//! files between, a mount that has used all its slots may have none and refuses such a file.

use std::collections::BTreeMap;

/// Bytes of a slot: 2^40.
pub(super) const SLOT_BITS: u32 = 40;
/// Slots.
pub(super) const SLOTS_MAX: u32 = 1 << 16;
/// Bytes of the address space.
pub(super) const SPACE_BYTES: u64 = (SLOTS_MAX as u64) << SLOT_BITS;
/// Bytes at the end of a region that no file reaches: the longest request of a cache.
const GUARD_BYTES: u64 = 1 << 20;
/// The largest file: a quarter of the space.
pub(super) const FILE_BYTES_MAX: u64 = SPACE_BYTES / 4 - GUARD_BYTES;

/// A run of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    first: u32,
    slots: u32,
}

impl Region {
    /// Address of byte 0 of the file.
    pub(super) fn start(self) -> u64 {
        u64::from(self.first) << SLOT_BITS
    }

    /// Bytes of the address space that nobody else has.
    pub(super) fn length(self) -> u64 {
        u64::from(self.slots) << SLOT_BITS
    }

    /// The longest file that fits.
    pub(super) fn capacity(self) -> u64 {
        self.length() - GUARD_BYTES
    }
}

/// Regions and whose they are.
#[derive(Debug)]
pub(super) struct Regions<T> {
    /// By their first slots.
    taken: BTreeMap<u32, (Region, T)>,
    slots_max: u32,
    /// Where the clock hand goes on.
    hand: u32,
    /// No slot below this one is free.
    free_from: u32,
}

impl<T> Regions<T> {
    pub(super) fn new(slots_max: u32) -> Self {
        Self {
            taken: BTreeMap::new(),
            slots_max: slots_max.min(SLOTS_MAX),
            hand: 0,
            free_from: 0,
        }
    }

    /// A region for a file of `length` bytes; `None` when no run of free slots is long enough.
    pub(super) fn take(&mut self, length: u64, owner: T) -> Option<Region> {
        let slots = u32::try_from((length + GUARD_BYTES).div_ceil(1 << SLOT_BITS)).ok()?;
        let first = self.find(slots)?;
        if first == self.free_from {
            self.free_from = first + slots;
        }
        let region = Region { first, slots };
        self.taken.insert(first, (region, owner));
        Some(region)
    }

    /// The first of so many free slots.
    fn find(&self, slots: u32) -> Option<u32> {
        let mut first = self.free_from;
        for (region, _) in self.taken.range(first..).map(|(_, taken)| taken) {
            if region.first - first >= slots {
                break;
            }
            first = region.first + region.slots;
        }
        (slots <= self.slots_max.saturating_sub(first)).then_some(first)
    }

    /// Gives a region back.
    pub(super) fn give_back(&mut self, region: Region) -> Option<T> {
        let (_, owner) = self.taken.remove(&region.first)?;
        self.free_from = self.free_from.min(region.first);
        Some(owner)
    }

    /// Whose bytes of the address space these are, all of them, and the region.
    pub(super) fn owner(&self, address: u64, length: u64) -> Option<(&T, Region)> {
        let slot = u32::try_from(address >> SLOT_BITS).ok()?;
        let (_, (region, owner)) = self.taken.range(..=slot).next_back()?;
        let end = address.checked_add(length)?;
        (end <= region.start() + region.capacity()).then_some((owner, *region))
    }

    /// Whose region is the next to be reused: the first that `may_go`, which takes away the mark
    /// that the region was used since the hand passed. It stays taken.
    pub(super) fn offer(&mut self, may_go: impl Fn(&T) -> bool) -> Option<&T> {
        // Twice round: the first time may only take marks away.
        for _ in 0..2 * self.taken.len() {
            let next = self.taken.range(self.hand..).next();
            let (_, (region, owner)) = next.or_else(|| self.taken.first_key_value())?;
            self.hand = region.first + region.slots;
            if may_go(owner) {
                return Some(owner);
            }
        }
        None
    }

    /// Whose regions there are.
    #[cfg(test)]
    pub(super) fn owners(&self) -> impl Iterator<Item = &T> {
        self.taken.values().map(|(_, owner)| owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::HashMap;

    const TEBIBYTE: u64 = 1 << 40;

    #[test]
    fn a_region_is_as_long_as_the_file_needs() {
        let mut regions = Regions::new(SLOTS_MAX);
        let small = regions.take(0, 'a').unwrap();
        let full = regions.take(TEBIBYTE - GUARD_BYTES, 'b').unwrap();
        let over = regions.take(TEBIBYTE - GUARD_BYTES + 1, 'c').unwrap();
        assert_eq!((small.start(), small.length()), (0, TEBIBYTE));
        assert_eq!(
            (full.start(), full.capacity()),
            (TEBIBYTE, TEBIBYTE - GUARD_BYTES)
        );
        assert_eq!((over.start(), over.length()), (2 * TEBIBYTE, 2 * TEBIBYTE));
        let last = 4 * TEBIBYTE - GUARD_BYTES - 1;
        assert_eq!(regions.owner(last, 1), Some((&'c', over)));
        assert_eq!(
            regions.owner(2 * TEBIBYTE, over.capacity()),
            Some((&'c', over))
        );
        assert_eq!(regions.owner(3 * TEBIBYTE - 5, 10), Some((&'c', over)));
        assert_eq!(regions.owner(last, 2), None, "what follows is nobody's");
        assert_eq!(regions.owner(4 * TEBIBYTE - 1, 1), None);
        assert_eq!(regions.owner(4 * TEBIBYTE, 1), None);
        assert_eq!(regions.owner(TEBIBYTE - 4096, 4096), None, "below a file");
        assert_eq!(
            regions.owner(TEBIBYTE - 4096, 8192),
            None,
            "from one to another"
        );
        assert_eq!(regions.owner(TEBIBYTE, TEBIBYTE + 1), None);
        assert_eq!(regions.owner(u64::MAX, 1), None);
        assert_eq!(regions.owner(5, u64::MAX), None);
        assert!(regions.take(FILE_BYTES_MAX, 'd').is_some());
        assert!(regions.take(SPACE_BYTES, 'e').is_none());
        assert_eq!(regions.give_back(over), Some('c'));
        assert_eq!(regions.give_back(over), None);
        assert_eq!(regions.owner(3 * TEBIBYTE, 1), None);
        assert_eq!(regions.take(1, 'f').unwrap().start(), 2 * TEBIBYTE);
        assert_eq!(regions.owners().collect::<String>(), "abfd");
    }

    #[test]
    fn the_hand_passes_over_what_was_used() {
        let mut regions = Regions::new(3);
        let marked = |name| (name, Cell::new(true));
        let taken: Vec<Region> = ('a'..='c')
            .map(|name| regions.take(1, marked(name)).unwrap())
            .collect();
        assert!(regions.take(1, marked('d')).is_none());
        let unused = |(_, was_used): &(char, Cell<bool>)| !was_used.take();
        assert_eq!(regions.offer(unused).unwrap().0, 'a');
        assert_eq!(regions.offer(unused).unwrap().0, 'b');
        let (owner, _) = regions.owner(taken[2].start(), 1).unwrap();
        owner.1.set(true);
        assert_eq!(regions.offer(unused).unwrap().0, 'a');
        let is_c = |owner: &_| unused(owner) && owner.0 == 'c';
        assert_eq!(regions.offer(is_c).unwrap().0, 'c');
        assert!(regions.offer(|_| false).is_none());
    }

    proptest! {
        #[test]
        fn no_two_files_share_a_byte(
            steps in proptest::collection::vec(
                (0u64..3 * TEBIBYTE, any::<bool>(), 0usize..20),
                1..200,
            ),
        ) {
            let mut regions = Regions::new(24);
            let mut model: HashMap<usize, Region> = HashMap::new();
            for (number, (length, give_back, which)) in steps.into_iter().enumerate() {
                if give_back {
                    if let Some(key) = model.keys().copied().nth(which) {
                        let region = model.remove(&key).unwrap();
                        prop_assert_eq!(regions.give_back(region), Some(key));
                    }
                } else if let Some(region) = regions.take(length, number) {
                    prop_assert!(length <= region.capacity());
                    for other in model.values() {
                        let apart = region.start() >= other.start() + other.length()
                            || other.start() >= region.start() + region.length();
                        prop_assert!(apart);
                    }
                    model.insert(number, region);
                } else {
                    let used: u64 = model.values().map(|region| region.length()).sum();
                    prop_assert!(used > 0);
                }
                for (owner, region) in &model {
                    let (start, capacity) = (region.start(), region.capacity());
                    let last = start + capacity - 1;
                    for (address, length) in [(start, 1), (last, 1), (start, capacity)] {
                        prop_assert_eq!(regions.owner(address, length), Some((owner, *region)));
                    }
                    prop_assert_eq!(regions.owner(last, 2), None);
                    prop_assert_eq!(regions.owner(start.wrapping_sub(1), 2), None);
                }
                prop_assert_eq!(regions.owners().count(), model.len());
            }
        }
    }
}
