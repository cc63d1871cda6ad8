//! The objects of a mount that something is known of.
//!
//! An object is forgotten when it was not used for long and nothing depends on it: no program has
//! it open, none of its data is in memory, and all that was written to it is safe at the server.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell_base::shards::{self, Shards};
use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::{Change, CompactId, FileId, Result};
use pagewell_sunrpc::nfs3::{FileAttributes, WccData};

use super::attributes::{Moment, Stamp};
use super::calls::Calls;
use super::convert;
use super::node::Node;

/// Objects of one mount that may be forgotten. With [`super::names::NAMES_MAX`] names and
/// [`super::pages::BYTES_MAX`] of listings they take less than the 64 MiB that a mount may
/// have beside its cache.
pub(super) const NODES_MAX: usize = 30_000;

/// Files with an error that was not reported which are kept for that.
const FAILED_MAX: usize = 1000;

/// So many forgotten objects are worth telling the allocator.
const FORGOTTEN_MANY: usize = NODES_MAX / 2;

/// See the module's text.
pub(super) struct Files {
    calls: Arc<Calls>,
    nodes: Shards<Generations<CompactId, Arc<Node>>>,
    hasher: RandomState,
    /// Since the allocator was told.
    forgotten: AtomicUsize,
    next_number: AtomicU64,
    /// Those that mean another object by now, as long as something of the old one is in memory:
    /// what was written to it is still to be sent.
    replaced: Mutex<Vec<Arc<Node>>>,
    /// Those with an error that was not reported, or [`FAILED_MAX`] of them: the error of another
    /// is told as long as its file is remembered.
    failed: Mutex<HashMap<u64, Arc<Node>>>,
}

impl Files {
    pub(super) fn new(calls: Arc<Calls>, nodes_max: usize) -> Self {
        Self {
            calls,
            nodes: Shards::new(|| Generations::new(nodes_max / shards::COUNT)),
            hasher: RandomState::new(),
            forgotten: AtomicUsize::new(0),
            next_number: AtomicU64::new(1),
            replaced: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    fn nodes(&self, key: &CompactId) -> MutexGuard<'_, Generations<CompactId, Arc<Node>>> {
        self.nodes.lock(self.hasher.hash_one(key))
    }

    /// The object of an identifier.
    pub(super) fn node(&self, id: &FileId) -> Arc<Node> {
        let key = CompactId::new(id);
        let mut nodes = self.nodes(&key);
        if let Some(node) = nodes.get(&key) {
            return node.clone();
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node::new(*id, number));
        // A thread that has it besides the table needs it to stay the only one of its identifier.
        let may_go = |node: &Arc<Node>| Arc::strong_count(node) == 1 && node.may_be_forgotten();
        let forgotten = nodes.put(key, node.clone(), may_go);
        drop(nodes);
        if forgotten > 0
            && self.forgotten.fetch_add(forgotten, Ordering::Relaxed) + forgotten >= FORGOTTEN_MANY
        {
            self.forgotten.store(0, Ordering::Relaxed);
            // Of what lies between them much is free as well.
            pagewell_fs::trim::give_back();
        }
        node
    }

    /// The object is gone, or another.
    pub(super) fn forget(&self, node: &Node) {
        let key = CompactId::new(node.id());
        let mut nodes = self.nodes(&key);
        if nodes
            .get(&key)
            .is_some_and(|known| known.number() == node.number())
        {
            let replaced = nodes.remove(&key);
            drop(nodes);
            let mut all = self.replaced.lock();
            all.extend(replaced);
            let ended = all.extract_if(.., |node| node.may_be_forgotten());
            let ended: Vec<_> = ended.collect();
            drop(all);
            drop(ended);
        }
    }

    /// Takes attributes that came with the answer to a call that changed nothing. An object that is
    /// another now is forgotten.
    pub(super) fn look(
        &self,
        node: &Node,
        attributes: Option<&FileAttributes>,
        sent: Moment,
    ) -> Result<()> {
        let Some(attributes) = attributes else {
            return Ok(());
        };
        let looked = node.look(&self.calls.reported(node.id(), attributes, sent));
        looked.inspect_err(|_| self.forget(node))
    }

    /// Takes what an answer says of an object that the call has changed. Besides the stamp of then.
    pub(super) fn end_change(&self, node: &Node, wcc: &WccData, sent: Moment) -> (Change, Stamp) {
        let reported = wcc
            .after
            .map(|after| self.calls.reported(node.id(), &after, sent));
        let before = wcc.before.map(convert::wcc);
        let (after, stamp) = node.end_change(before, reported.as_ref(), self.calls.now());
        let after = after.inspect_err(|_| self.forget(node));
        let after = after.unwrap_or_default();
        (Change { before, after }, stamp)
    }

    /// A file has an error that was not reported.
    pub(super) fn note_failed(&self, node: &Arc<Node>) {
        let mut failed = self.failed.lock();
        if failed.len() < FAILED_MAX {
            failed.insert(node.number(), node.clone());
        }
    }

    /// It was reported to a program.
    pub(super) fn was_reported(&self, node: &Node) {
        self.failed.lock().remove(&node.number());
    }

    /// Those whose error was not reported.
    pub(super) fn failed(&self) -> Vec<Arc<Node>> {
        self.failed.lock().values().cloned().collect()
    }
}

/// A bounded map that forgets what was not used for long.
///
/// **Rule.** There are two maps, the young and the old. What is put in or found goes to the young
/// one. When that holds half of the limit, the old one is forgotten and the young one becomes old.
/// So whatever was used within the last half of the limit's insertions is there, at the cost of one
/// map operation and without lists. What may not be forgotten is carried over, and does not count:
/// until the next time half of the limit has to come anew, so that each is paid for.
///
/// ```text
///   put, found ──> young ──half full──> old ──half full──> forgotten
///                    ^                   │ found, or may not go
///                    └───────────────────┘
/// ```
///
/// **Known weakness.** Forgetting is done at once for half of all entries, and those that may not
/// go are moved each time.
#[derive(Debug)]
pub(super) struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
    /// Those of the young ones that may not go and were carried over.
    carried: usize,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// At most so many entries, those that may not go left out.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            half: (entries_max / 2).max(1),
            carried: 0,
        }
    }

    /// Entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Finds an entry, which stays for longer now.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some((key, value)) = self.old.remove_entry(key) {
            // It takes a place that an entry of its own had: nothing grows.
            self.young.insert(key, value);
        }
        self.young.get_mut(key)
    }

    /// Puts an entry in; those of the old generation for which `may_go` are forgotten when there
    /// are too many. Returns how many were.
    pub(super) fn put(&mut self, key: K, value: V, may_go: impl Fn(&V) -> bool) -> usize {
        self.old.remove(&key);
        let mut forgotten = 0;
        if self.young.len() >= self.half + self.carried {
            let aged = std::mem::take(&mut self.young);
            let before = std::mem::replace(&mut self.old, aged);
            forgotten = before.len();
            let kept = before.into_iter().filter(|(_, value)| !may_go(value));
            self.young.extend(kept);
            self.carried = self.young.len();
            forgotten -= self.carried;
        }
        self.young.insert(key, value);
        forgotten
    }

    /// Takes an entry out.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NAMES_MAX, Remembered};
    use crate::node::Granted;
    use crate::testing::calls;

    /// A map's place for an entry, with one free place for each that is taken at most.
    fn place_bytes<K, V>() -> usize {
        2 * (size_of::<(K, V)>() + 1)
    }

    #[test]
    fn what_is_known_fits_into_memory() {
        // One user of each, the counts of an Arc, and what an allocation costs.
        let node = size_of::<Node>() + size_of::<Granted>() + 48;
        let node = node + place_bytes::<CompactId, Arc<Node>>();
        // A name of usual length.
        let name = place_bytes::<Box<[u8]>, Remembered>() + 64;
        let total = NODES_MAX * node + NAMES_MAX * name + crate::pages::BYTES_MAX;
        assert!(total < 43 << 20, "{node} {name} {total}");
    }

    fn id(number: u32) -> FileId {
        FileId::new(&number.to_ne_bytes()).unwrap()
    }

    #[test]
    fn what_is_in_use_stays_the_only_one() {
        let files = Files::new(calls().0, 10_000);
        let used = files.node(&id(0));
        let written = files.node(&id(1)).number();
        files.node(&id(1)).lock().length_mut().wrote(5);
        for number in 2..200_000 {
            files.node(&id(number));
        }
        assert_eq!(files.node(&id(0)).number(), used.number());
        assert_eq!(files.node(&id(1)).number(), written);
        let kept: usize = files.nodes.each().map(|part| part.len()).sum();
        assert!((5_000..=10_100).contains(&kept), "{kept}");
        files.forget(&used);
        assert_ne!(files.node(&id(0)).number(), used.number());
        assert_eq!(files.replaced.lock().len(), 0, "nothing of it is in memory");
        // What was written to it is still to be sent.
        files.forget(&files.node(&id(1)));
        assert_eq!(files.replaced.lock().len(), 1);
    }

    #[test]
    fn files_with_errors_that_nobody_asks_for_are_bounded() {
        let files = Files::new(calls().0, 100);
        for number in 0..3_000 {
            files.note_failed(&files.node(&id(number)));
        }
        assert_eq!(files.failed().len(), 1_000);
        files.was_reported(&files.failed()[0]);
        files.note_failed(&files.node(&id(5_000)));
        assert_eq!(files.failed().len(), 1_000);
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut map = Generations::new(100);
        for number in 0..1000u32 {
            map.put(number, number, |_| true);
            assert!(map.len() <= 100);
            assert_eq!(map.get(&0), Some(&mut 0), "{number}");
            assert!(map.get(&number.saturating_sub(20)).is_some());
        }
        assert_eq!(map.get(&500), None);
        assert_eq!(map.remove(&0), Some(0));
        assert_eq!(map.get(&0), None);
    }

    /// Else each new one would move all of them, once half of the limit may not go.
    #[test]
    fn those_that_may_not_go_are_seldom_moved() {
        let mut map = Generations::new(100);
        for number in 0..200u32 {
            map.put(number, number, |_| false);
        }
        let asked = std::cell::Cell::new(0);
        for number in 200..300u32 {
            map.put(number, number, |_| {
                asked.set(asked.get() + 1);
                false
            });
        }
        assert_eq!(map.len(), 300);
        assert!(asked.get() <= 500, "{}", asked.get());
    }

    #[test]
    fn what_may_not_go_stays() {
        let mut map = Generations::new(10);
        for number in 0..1000u32 {
            map.put(number, number, |number| number % 100 != 0);
        }
        for number in (0..1000).step_by(100) {
            assert_eq!(map.get(&number), Some(&mut { number }));
        }
        assert!(map.len() <= 30, "{}", map.len());
    }
}
