//! Objects held open, bounded, found by identifier or by inode.
//!
//! Problem: an object must be found for each request without opening it again, with a bound on
//! descriptors, and no descriptor may be used after it was closed.
//!
//! Rule: a map from identifier to slot in each of 16 shards, evicted by CLOCK: a hit sets the
//! object's mark, the hand clears marks and takes the first slot without one. Users hold an `Arc`,
//! so eviction only lets go of the object; what is in use is not evicted at all, which
//! keeps one inode from being two objects (its change counters must be one). A second map from
//! inode to object lets a lookup that just looked at an inode find its object, and with it its
//! identifier, without asking the kernel for a handle: while the object is held, its inode number
//! cannot mean anything else.
//!
//! ```text
//!   id ──> shard: map ──> slots [o][o*][ ][o]      node ──> weak reference ──┐
//!                                 ^hand       <──────────────────────────────┘
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
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::FileId;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

const SHARDS: usize = 16;
/// Slots the hand passes for one eviction: two rounds of a small shard, a bound for a large one.
const STEPS_MAX: usize = 128;

struct Slot {
    key: FileId,
    object: Arc<Object>,
}

#[derive(Default)]
struct Shard {
    places: HashMap<FileId, usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    hand: usize,
}

/// The objects held open.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    nodes: Vec<Mutex<HashMap<Node, Weak<Object>>>>,
    shard_objects_max: usize,
    descriptors_max: i64,
}

/// What an insertion pushed out; to be dropped (and synced) outside of all locks.
pub(super) type Evicted = Vec<Object>;

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
        &self.nodes[node.inode as usize % SHARDS]
    }

    /// The object of this key, if it is held.
    pub(super) fn get(&self, key: &FileId) -> Option<Arc<Object>> {
        let mut shard = self.shard(key).lock();
        let place = *shard.places.get(key)?;
        let slot = shard.slots.get_mut(place)?.as_mut()?;
        slot.object.mark();
        Some(Arc::clone(&slot.object))
    }

    /// The object at this node, if it is held.
    pub(super) fn get_node(&self, node: Node) -> Option<Arc<Object>> {
        let object = self.node_shard(node).lock().get(&node)?.upgrade()?;
        object.mark();
        Some(object)
    }

    /// Holds `object` under `key`, unless one is held there already: returns the one that is.
    /// With `may_wait`, objects that need a sync may be among the evicted.
    pub(super) fn insert(
        &self,
        key: FileId,
        object: Object,
        may_wait: bool,
    ) -> (Arc<Object>, Evicted) {
        let node = object.node;
        let mut evicted = Vec::new();
        let mut shard = self.shard(&key).lock();
        if let Some(slot) = shard.slot(&key) {
            slot.object.mark();
            let held = Arc::clone(&slot.object);
            drop(shard);
            evicted.push(object); // not needed: closed by the caller, outside the lock
            return (held, evicted);
        }
        let object = Arc::new(object);
        // while `object` is also held here, the hand cannot take it
        shard.add(key, Arc::clone(&object));
        self.node_shard(node)
            .lock()
            .insert(node, Arc::downgrade(&object));
        // two at most: an insertion never pays for a long queue of others
        for _ in 0..2 {
            let crowded = shard.places.len() > self.shard_objects_max
                || names::DIR_OPEN_DESCRIPTORS.get() > self.descriptors_max;
            if !crowded {
                break;
            }
            let Some(out) = shard.evict(may_wait) else {
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
        let place = shard.places.remove(key)?;
        let slot = shard.slots.get_mut(place)?.take()?;
        shard.free.push(place);
        let mut nodes = self.node_shard(slot.object.node).lock();
        let same = |weak: &Weak<Object>| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(&slot.object));
        if nodes.get(&slot.object.node).is_some_and(same) {
            nodes.remove(&slot.object.node);
        }
        Some(slot.object)
    }

    /// All objects held now, shard by shard: those of one shard are in use while they are
    /// visited.
    pub(super) fn each(&self, mut visit: impl FnMut(&Object)) {
        for shard in &self.shards {
            let shard = shard.lock();
            let held = shard.slots.iter().flatten();
            let objects: Vec<_> = held.map(|slot| Arc::clone(&slot.object)).collect();
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

impl Shard {
    fn slot(&mut self, key: &FileId) -> Option<&mut Slot> {
        let place = *self.places.get(key)?;
        self.slots.get_mut(place)?.as_mut()
    }

    fn add(&mut self, key: FileId, object: Arc<Object>) {
        let slot = Some(Slot { key, object });
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        if let Some(free) = self.slots.get_mut(place) {
            *free = slot;
            self.places.insert(key, place);
        }
    }

    /// Takes out an object that nobody uses; `None` when the hand met none.
    fn evict(&mut self, may_wait: bool) -> Option<Object> {
        let steps = (self.slots.len() * 2).min(STEPS_MAX);
        for _ in 0..steps {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len().max(1);
            let Some(held) = self.slots.get_mut(place) else {
                continue;
            };
            let Some(slot) = held else { continue };
            if slot.object.unmark() || (slot.object.is_unsynced() && !may_wait) {
                continue;
            }
            let Some(Slot { key, object }) = held.take() else {
                continue;
            };
            match Arc::try_unwrap(object) {
                Ok(object) => {
                    self.places.remove(&key);
                    self.free.push(place);
                    return Some(object);
                }
                Err(object) => *held = Some(Slot { key, object }),
            }
        }
        None
    }
}
