//! The held objects, with a bound on descriptors.
//!
//! A map from key to object in each of 16 shards evicts unused objects ([`Clock`]; the objects have
//! the marks, as lookups find an object without its shard, too). Objects in use stay: one inode
//! must not be two objects. A second map from inode to object serves lookups: while the object is
//! held, its number means no other.
//!
//! ```text
//!   key ──> shard: clock [o][o*][o] <── weak reference ── node
//! ```
//!
//! Unsynced data keeps an object from eviction: without a descriptor the kernel would report an
//! error of its writing to none. A thread that finds no other object to evict syncs one, if it may
//! wait; a later one evicts it.
//!
//! The bound counts the descriptors of all exports. A descriptor above the bound, or one that the
//! system refuses, evicts two objects.
//!
//! Weakness: objects in use, at most one for each server thread, may exceed the bound.

use super::durability::Durability;
use super::object::{Node, Object};
use pagewell_base::clock::Clock;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Error, FileId, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

const SHARDS: usize = 16;
/// For one eviction: two rounds of a small shard, a bound for a large one.
const STEPS_MAX: usize = 128;

type Shard = Clock<FileId, Arc<Object>>;

pub(super) struct Table {
    shards: Vec<Mutex<Shard>>,
    nodes: Vec<Mutex<HashMap<Node, Weak<Object>>>>,
    shard_objects_max: usize,
    descriptors_max: i64,
    next_shard: AtomicUsize,
    durability: Arc<Durability>,
}

impl Table {
    pub(super) fn new(
        objects_max: usize,
        descriptors_max: usize,
        durability: &Arc<Durability>,
    ) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            nodes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_objects_max: objects_max.div_ceil(SHARDS).max(1),
            descriptors_max: i64::try_from(descriptors_max).unwrap_or(i64::MAX),
            next_shard: AtomicUsize::new(0),
            durability: Arc::clone(durability),
        }
    }

    fn shard(&self, key: &FileId) -> &Mutex<Shard> {
        // The last bytes vary most: generation or inode number.
        let sum = key.as_bytes().iter().fold(0usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        &self.shards[sum % SHARDS]
    }

    #[allow(clippy::cast_possible_truncation)] // only the low bits count
    fn node_shard(&self, node: Node) -> &Mutex<HashMap<Node, Weak<Object>>> {
        &self.nodes[node.inode as usize % SHARDS]
    }

    pub(super) fn get(&self, key: &FileId) -> Option<Arc<Object>> {
        let shard = self.shard(key).lock();
        let object = shard.peek(key)?;
        object.mark();
        Some(Arc::clone(object))
    }

    pub(super) fn get_node(&self, node: Node) -> Option<Arc<Object>> {
        let object = self.node_shard(node).lock().get(&node)?.upgrade()?;
        object.mark();
        Some(object)
    }

    pub(super) fn insert(&self, object: Object, may_wait: bool) -> Arc<Object> {
        let (key, node) = (*object.key(), object.node());
        // Closed outside the lock.
        let mut evicted = Vec::new();
        let mut unsynced = None;
        let mut shard = self.shard(&key).lock();
        if let Some(held) = shard.peek(&key) {
            held.mark();
            let held = Arc::clone(held);
            drop(shard);
            return held;
        }
        let object = Arc::new(object);
        // In use here, so it cannot be evicted.
        shard.insert(key, Arc::clone(&object), 1);
        self.node_shard(node)
            .lock()
            .insert(node, Arc::downgrade(&object));
        // An insertion never pays for many others.
        for _ in 0..2 {
            let crowded = shard.len() > self.shard_objects_max || self.is_crowded();
            if !crowded {
                break;
            }
            match self.evict_from(&mut shard) {
                Ok(out) => evicted.push(out),
                Err(other) => {
                    unsynced = other;
                    break;
                }
            }
        }
        drop(shard);
        if let Some(unsynced) = unsynced.filter(|_| may_wait) {
            self.durability.sync_unused(&unsynced);
        }
        object
    }

    fn is_crowded(&self) -> bool {
        names::DIR_OPEN_DESCRIPTORS.get() > self.descriptors_max
    }

    /// Without any, returns one that a sync would free.
    fn evict_some(&self) -> Option<Arc<Object>> {
        let first = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        // Closed outside the lock.
        let mut evicted = Vec::new();
        let mut unsynced = None;
        for shard in self.shards.iter().cycle().skip(first).take(SHARDS) {
            match self.evict_from(&mut shard.lock()) {
                Ok(out) => evicted.push(out),
                Err(other) => unsynced = unsynced.or(other),
            }
            if evicted.len() == 2 {
                break;
            }
        }
        unsynced.filter(|_| evicted.is_empty())
    }

    fn evict_from(&self, shard: &mut Shard) -> Result<Object, Option<Arc<Object>>> {
        let out = evict(shard)?;
        self.node_shard(out.node()).lock().remove(&out.node());
        Ok(out)
    }

    pub(super) fn hold(&self, key: &FileId) -> Option<Arc<Object>> {
        let shard = self.shard(key).lock();
        let object = shard.peek(key)?;
        object.hold();
        Some(Arc::clone(object))
    }

    /// Drops an object without names; its last user frees its space. False while a program has it
    /// open.
    pub(super) fn remove(&self, key: &FileId) -> bool {
        let mut shard = self.shard(key).lock();
        if shard.peek(key).is_some_and(|object| object.is_held()) {
            return false;
        }
        if let Some(object) = shard.remove(key) {
            self.node_shard(object.node()).lock().remove(&object.node());
            drop(shard);
        }
        true
    }

    /// Shard by shard; the objects of one shard are in use meanwhile.
    pub(super) fn each(&self, mut visit: impl FnMut(&Object)) {
        for shard in &self.shards {
            let objects: Vec<_> = shard.lock().values().cloned().collect();
            for object in objects {
                visit(&object);
            }
        }
    }

    /// Evicts objects for their descriptors; after a sync where none is free, if the caller may
    /// wait.
    pub(super) fn make_room(&self, may_wait: bool) {
        if let Some(unsynced) = self.evict_some()
            && may_wait
        {
            self.durability.sync_unused(&unsynced);
            drop(unsynced);
            self.evict_some();
        }
    }

    /// Opens a descriptor; evicts objects first when there are too many, or when the system
    /// refuses. [`Error::WouldBlock`] where that fails and the caller must not wait. `open` must
    /// not return [`Error::TryLater`] for another reason.
    pub(super) fn with_room<T>(&self, may_wait: bool, open: impl Fn() -> Result<T>) -> Result<T> {
        if self.is_crowded() {
            self.make_room(may_wait);
        }
        let opened = match open() {
            Err(Error::TryLater) => {
                self.make_room(may_wait);
                open()
            }
            opened => opened,
        };
        opened.map_err(|error| match error {
            Error::TryLater if !may_wait => Error::WouldBlock,
            error => error,
        })
    }
}

/// Evicts an object that is unused and synced, or returns one that only lacks a sync, if any.
fn evict(shard: &mut Shard) -> Result<Object, Option<Arc<Object>>> {
    let turns_max = (shard.len() * 2).min(STEPS_MAX);
    let mut unsynced = None;
    let met = shard.evict(turns_max, |object| {
        if object.unmark() || Arc::strong_count(object) > 1 {
            return false;
        }
        if object.is_unsynced() {
            unsynced.get_or_insert_with(|| Arc::clone(object));
            return false;
        }
        true
    });
    let (key, object) = met.ok_or(unsynced)?;
    Arc::try_unwrap(object).map_err(|object| {
        // A lookup found it by its inode just now.
        shard.insert(key, object, 1);
        None
    })
}
