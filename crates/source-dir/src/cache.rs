//! Objects held open, bounded, found by identifier or by inode.
//!
//! Problem: an object must be found for each request without opening it again, with a bound on
//! descriptors, and no descriptor may be used after it was closed.
//!
//! Rule: a map from identifier to object in each of 16 shards, from which what was not used goes
//! first ([`Clock`]; the marks are the objects' own, as an object is found without its shard, too).
//! Users hold an `Arc`, so eviction only lets go of the object; what is in use is not evicted at
//! all, which keeps one inode from being two objects (its change counters must be one). A second
//! map from inode to object lets a lookup that just looked at an inode find its object, and with it
//! its identifier, without asking the kernel for a handle: while the object is held, its inode
//! number cannot mean anything else.
//!
//! ```text
//!   id ──> shard: clock [o][o*][o] <── weak reference ── node
//! ```
//!
//! Data that no sync has covered keeps an object from eviction by a thread that may not wait; one
//! that may wait syncs it first, because an error that the kernel reports after the last
//! descriptor is closed would be lost.
//!
//! Weakness: the bound may be exceeded by the number of objects in use at one moment, which the
//! number of server threads bounds.

use super::object::Object;
use super::status::Node;
use pagewell_base::clock::Clock;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::FileId;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

const SHARDS: usize = 16;
/// Objects looked at for one eviction: two rounds of a small shard, a bound for a large one.
const STEPS_MAX: usize = 128;

type Shard = Clock<FileId, Arc<Object>>;

/// The objects held open.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    nodes: Vec<Mutex<HashMap<Node, Weak<Object>>>>,
    shard_objects_max: usize,
    descriptors_max: i64,
}

impl Cache {
    /// A cache of about this many objects and descriptors.
    pub(super) fn new(objects_max: usize, descriptors_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            nodes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_objects_max: objects_max.div_ceil(SHARDS).max(1),
            descriptors_max: i64::try_from(descriptors_max).unwrap_or(i64::MAX),
        }
    }

    fn shard(&self, key: &FileId) -> &Mutex<Shard> {
        // the last bytes vary most: generation or inode number
        let sum = key.as_bytes().iter().fold(0usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        &self.shards[sum % SHARDS]
    }

    #[allow(clippy::cast_possible_truncation)] // only the low bits count
    fn node_shard(&self, node: Node) -> &Mutex<HashMap<Node, Weak<Object>>> {
        &self.nodes[node.inode.number as usize % SHARDS]
    }

    /// The object of this key, if it is held.
    pub(super) fn get(&self, key: &FileId) -> Option<Arc<Object>> {
        let shard = self.shard(key).lock();
        let object = shard.peek(key)?;
        object.mark();
        Some(Arc::clone(object))
    }

    /// The object at this node, if it is held.
    pub(super) fn get_node(&self, node: Node) -> Option<Arc<Object>> {
        let object = self.node_shard(node).lock().get(&node)?.upgrade()?;
        object.mark();
        Some(object)
    }

    /// Holds `object` under `key`, unless one is held there already: returns the one that is.
    /// And what that pushed out, to be dropped (and synced) outside of all locks: with `may_wait`
    /// also objects that need a sync.
    pub(super) fn insert(
        &self,
        key: FileId,
        object: Object,
        may_wait: bool,
    ) -> (Arc<Object>, Vec<Object>) {
        let node = object.node;
        let mut evicted = Vec::new();
        let mut shard = self.shard(&key).lock();
        if let Some(held) = shard.peek(&key) {
            held.mark();
            let held = Arc::clone(held);
            drop(shard);
            evicted.push(object); // not needed: closed by the caller, outside the lock
            return (held, evicted);
        }
        let object = Arc::new(object);
        // while `object` is also held here, it cannot be evicted
        shard.insert(key, Arc::clone(&object), 1);
        self.node_shard(node)
            .lock()
            .insert(node, Arc::downgrade(&object));
        // two at most: an insertion never pays for a long queue of others
        for _ in 0..2 {
            let crowded = shard.len() > self.shard_objects_max
                || names::DIR_OPEN_DESCRIPTORS.get() > self.descriptors_max;
            if !crowded {
                break;
            }
            let Some(out) = evict(&mut shard, may_wait) else {
                break;
            };
            self.forget_node(&out);
            evicted.push(out);
        }
        names::DIR_OBJECTS_EVICTED.add(evicted.len() as u64);
        (object, evicted)
    }

    /// Lets go of an object whose inode has no names any more. Its space is freed when its last
    /// user is done.
    pub(super) fn remove(&self, key: &FileId) -> Option<Arc<Object>> {
        let mut shard = self.shard(key).lock();
        let object = shard.remove(key)?;
        let mut nodes = self.node_shard(object.node).lock();
        let same = |weak: &Weak<Object>| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(&object));
        if nodes.get(&object.node).is_some_and(same) {
            nodes.remove(&object.node);
        }
        drop(nodes);
        Some(object)
    }

    /// All objects held now, shard by shard: those of one shard are in use while they are
    /// visited.
    pub(super) fn each(&self, mut visit: impl FnMut(&Object)) {
        for shard in &self.shards {
            let shard = shard.lock();
            let objects: Vec<_> = shard.values().cloned().collect();
            drop(shard);
            for object in objects {
                visit(&object);
            }
        }
    }

    fn forget_node(&self, object: &Object) {
        let mut nodes = self.node_shard(object.node).lock();
        if nodes
            .get(&object.node)
            .is_some_and(|weak| weak.strong_count() == 0)
        {
            nodes.remove(&object.node);
        }
    }
}

/// Takes out an object that nobody uses; `None` when none was met.
fn evict(shard: &mut Shard, may_wait: bool) -> Option<Object> {
    let turns_max = (shard.len() * 2).min(STEPS_MAX);
    let (key, object) = shard.evict(turns_max, |object| {
        let may_go = !object.unmark() && (may_wait || !object.is_unsynced());
        may_go && Arc::strong_count(object) == 1
    })?;
    Arc::try_unwrap(object)
        // It was found by its inode just now.
        .inspect_err(|object| shard.insert(key, Arc::clone(object), 1))
        .ok()
}
