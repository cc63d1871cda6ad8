//! What the objects of one store share: how much of memory their pages take, how much is under
//! write-out, and how fast the store is.
//!
//! **Problem.** What is dirty is known by object, as a commit, a flush and a purge are of one. But
//! memory and bandwidth are those of the store: a thousand files with one dirty page each are as
//! much as one file with a thousand, and a file that is written for the first time is not to be
//! taken for one at an unknown server.
//!
//! **Rule.** Each [`super::WriteBack`] counts its pages here as they come and go, and asks here for
//! limits, for pauses and for a place under write-out. So whatever is decided by *how much* is
//! decided for the store, and *which bytes* by object.
//!
//! When a place under write-out is free, an object that a commit waits for goes before one that is
//! only written because of age or memory; after four of the longest writes of such objects another
//! has one. An object that found no place, or whose writer was refused, is noted: when there is
//! place again, the caller has to look at all objects ([`super::WriteBack::take_waiting`]).
//!
//! **Known weaknesses.** Whole pages come first within an object only: a page with gaps of one
//! object may go before a whole page of another. Which object goes next is up to the caller.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_base::sync::{Mutex, MutexGuard};

use super::Settings;
use super::pacing::Pacing;

/// After tagged bytes of so many of the longest writes the others have one.
pub(super) const TAG_WRITES: u64 = 4;

/// See the module. Cloning shares it.
#[derive(Clone, Debug)]
pub struct StoreShare(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    totals: Totals,
    gate: Mutex<Gate>,
}

/// Pages and bytes of all objects.
#[derive(Debug, Default)]
pub(super) struct Totals {
    /// Pages with a byte that is dirty, under write-out or kept.
    pub(super) held: Total,
    /// Those with a dirty byte.
    pub(super) unwritten: Total,
    /// Those that are only kept.
    pub(super) only_kept: Total,
    /// Bytes under write-out.
    pub(super) flight_bytes: Total,
    /// Writes under way.
    pub(super) flights: Total,
}

/// A number that several objects change.
#[derive(Debug, Default)]
pub(super) struct Total(AtomicU64);

impl Total {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}

/// What is decided for the store.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) pacing: Pacing,
    /// Enough is under write-out; until it is 2/3 of that.
    pub(super) flight_stopped: bool,
    /// Pages with gaps are written, as there was no room.
    pub(super) thinning: bool,
    next_object: u64,
    /// Objects with tagged bytes that found no place.
    unplaced: BTreeSet<u64>,
    /// Tagged bytes handed out since others had their turn.
    tag_bytes: u64,
    /// An object has found no place, or its writer no room.
    is_waiting: bool,
}

impl StoreShare {
    /// Of a store of which nothing is dirty.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let gate = Gate {
            pacing: Pacing::new(&settings.normalised()),
            flight_stopped: false,
            thinning: false,
            next_object: 0,
            unplaced: BTreeSet::new(),
            tag_bytes: 0,
            is_waiting: false,
        };
        Self(Arc::new(Shared {
            totals: Totals::default(),
            gate: Mutex::new(gate),
        }))
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.0.totals
    }

    pub(super) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.0.gate.lock()
    }
}

impl Gate {
    /// A number for one more object.
    pub(super) fn add_object(&mut self) -> u64 {
        self.next_object += 1;
        self.next_object
    }

    /// Whether an object has to let others go first, that commits wait for.
    pub(super) fn yields(&mut self, object: u64, has_tagged: bool, cluster_bytes: u64) -> bool {
        if !has_tagged {
            self.leave(object);
        }
        if has_tagged || self.unplaced.is_empty() {
            return false;
        }
        let is_turn = self.tag_bytes >= cluster_bytes.saturating_mul(TAG_WRITES);
        if is_turn {
            self.tag_bytes = 0;
        }
        !is_turn
    }

    /// An object has found no place.
    pub(super) fn wait(&mut self, object: u64, has_tagged: bool) {
        self.is_waiting = true;
        if has_tagged {
            self.unplaced.insert(object);
        }
    }

    /// A writer was refused.
    pub(super) fn refuse(&mut self) {
        self.is_waiting = true;
    }

    /// Bytes of an object are handed out, or it has none to hand out.
    pub(super) fn serve(&mut self, object: u64, tag_bytes: u64) {
        self.leave(object);
        self.tag_bytes = self.tag_bytes.saturating_add(tag_bytes);
    }

    /// No commit waits any more for bytes of an object that are to be handed out.
    pub(super) fn leave(&mut self, object: u64) {
        self.unplaced.remove(&object);
    }

    /// Whether an object waits, and there is place again. It is said once.
    pub(super) fn take_waiting(&mut self) -> bool {
        let is_free = !self.flight_stopped && self.unplaced.is_empty();
        is_free && std::mem::take(&mut self.is_waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Admission, Extent, Tag, TagState, WriteBack};
    use super::*;

    const PAGE: u64 = 65_536;
    const NOW: Duration = Duration::from_secs(1);

    fn bytes(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    /// Objects of a store that may have so many pages dirty.
    fn objects(count: usize, pages: u64) -> Vec<WriteBack> {
        let settings = Settings::new(pages * PAGE);
        let share = StoreShare::new(settings);
        let object = |_| WriteBack::of_store(settings, &share);
        (0..count).map(object).collect()
    }

    #[test]
    fn many_objects_together_have_the_memory_of_one() {
        let mut objects = objects(100, 16);
        let mut admitted = 0;
        for object in &mut objects {
            if object.admit(bytes(0, 10), true, NOW) != Admission::Refused {
                object.wrote(bytes(0, 10), NOW);
                admitted += 1;
            }
        }
        assert_eq!(admitted, 16);
        assert_eq!(objects[0].store_memory_bytes(), 16 * PAGE);
        // What of others is clean makes room.
        objects[99].admit(bytes(0, 10), true, NOW);
        let write = objects[3].next(NOW).unwrap();
        objects[3].finished(write.id, true, NOW);
        assert!(objects[3].take_waiting() && !objects[3].take_waiting());
        assert_ne!(
            objects[99].admit(bytes(0, 10), true, NOW),
            Admission::Refused
        );
        // So does what is given up.
        objects.drain(..50);
        assert!(objects[0].store_memory_bytes() <= 8 * PAGE);
        drop(objects.drain(1..));
        objects[0].forget();
        assert_eq!(objects[0].store_memory_bytes(), 0);
    }

    #[test]
    fn a_commit_of_one_object_goes_before_what_another_has_in_plenty() {
        let mut objects = objects(2, 4096);
        let most = objects[0].limits().flight_bytes_max;
        objects[0].wrote(bytes(0, 2048 * PAGE), NOW);
        let mut flying = Vec::new();
        while let Some(write) = objects[0].next(NOW) {
            flying.push(write);
        }
        let length = flying.iter().map(|write| write.extent.length).sum::<u64>();
        assert!(length <= most && length > most / 2);
        objects[1].wrote(bytes(0, 10), NOW);
        let tag = objects[1].tag(bytes(0, 10), NOW);
        assert_eq!(objects[1].next(NOW), None, "no place");
        for write in flying.split_off(flying.len() / 2) {
            objects[0].finished(write.id, true, NOW);
        }
        assert_eq!(objects[0].next(NOW), None, "lets it go first");
        let write = objects[1].next(NOW).unwrap();
        assert!(objects[1].next(NOW).is_none());
        assert!(objects[0].take_waiting());
        assert!(objects[0].next(NOW).is_some());
        objects[1].finished(write.id, true, NOW);
        assert_eq!(objects[1].tag_state(tag), TagState::Written);
    }

    #[test]
    fn an_object_for_which_no_commit_waits_any_more_keeps_no_other_from_going() {
        let ends: [fn(&mut Vec<WriteBack>, Tag); 4] = [
            |objects, _| objects.truncate(1),
            |objects, tag| objects[1].untag(tag),
            |objects, _| assert_eq!(objects[1].discard(bytes(0, PAGE)), 10),
            |objects, _| assert_eq!(objects[1].forget(), 10),
        ];
        for end in ends {
            let mut objects = objects(2, 4096);
            objects[0].wrote(bytes(0, 2048 * PAGE), NOW);
            let flying: Vec<_> = std::iter::from_fn(|| objects[0].next(NOW)).collect();
            objects[1].wrote(bytes(0, 10), NOW);
            let tag = objects[1].tag(bytes(0, 10), NOW);
            assert_eq!(objects[1].next(NOW), None);
            end(&mut objects, tag);
            for write in flying {
                objects[0].finished(write.id, true, NOW);
            }
            assert!(objects[0].take_waiting());
            assert!(objects[0].next(NOW).is_some());
        }
    }
}
