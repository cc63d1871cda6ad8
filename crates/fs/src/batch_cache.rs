//! Results that the calls of a receive batch share.
//!
//! Calls received with one system call were sent before the first reply, so one look at a file
//! serves all. Such a *receive batch* has a [`BatchCache`] for results of sources: later calls need
//! not touch what threads share.
//!
//! A call has the cache only through [`Batched`](crate::Batched), which empties it before each
//! change. Changes of other threads are concurrent with the batch, so either order is right; so is
//! one that a pool makes later, as its client has no reply yet.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;

use crate::FileId;

/// Calls that come together are for few objects.
const ENTRIES_MAX: usize = 8;

struct CacheEntry {
    /// Its address.
    source: usize,
    id: FileId,
    value: Rc<dyn Any>,
}

thread_local! {
    /// Of the latest cache.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// The results of one receive batch, on the thread that made it.
pub struct BatchCache {
    number: Cell<NonZeroU64>,
    entries: RefCell<[Option<CacheEntry>; ENTRIES_MAX]>,
    /// The entry to replace next.
    oldest: Cell<usize>,
}

impl BatchCache {
    /// Empty, without an allocation.
    #[must_use]
    pub fn new() -> Self {
        Self {
            number: Cell::new(next_number()),
            entries: RefCell::new([const { None }; ENTRIES_MAX]),
            oldest: Cell::new(0),
        }
    }

    /// Changes with each cache of a thread and each change: a source may keep results by thread
    /// beside it.
    #[must_use]
    pub fn number(&self) -> NonZeroU64 {
        self.number.get()
    }

    /// Keeps the result of `source` for `id`.
    pub fn put<S, T: 'static>(&self, source: &S, id: &FileId, value: &Rc<T>) {
        let at = self.oldest.get();
        self.oldest.set((at + 1) % ENTRIES_MAX);
        let entry = CacheEntry {
            source: address_of(source),
            id: *id,
            value: Rc::clone(value) as Rc<dyn Any>,
        };
        let mut entries = self.entries.borrow_mut();
        let replaced = entries.get_mut(at).and_then(|slot| slot.replace(entry));
        drop(entries);
        drop(replaced); // which may call other code
    }

    /// The result of `source` for `id`.
    pub fn get<S, T: 'static>(&self, source: &S, id: &FileId) -> Option<Rc<T>> {
        let source = address_of(source);
        let entries = self.entries.borrow();
        let mut entries = entries.iter().flatten();
        let entry = entries.find(|entry| entry.source == source && entry.id == *id)?;
        Rc::clone(&entry.value).downcast().ok()
    }

    /// Discards all results.
    pub fn invalidate(&self) {
        self.number.set(next_number());
        drop(self.entries.take()); // which may call other code
    }
}

impl Default for BatchCache {
    fn default() -> Self {
        Self::new()
    }
}

fn next_number() -> NonZeroU64 {
    let next = NonZeroU64::MIN.saturating_add(LAST.get());
    LAST.set(next.get());
    next
}

fn address_of<S>(source: &S) -> usize {
    std::ptr::from_ref(source).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_keeps_what_is_of_one_source_and_object_until_a_change() {
        let cache = BatchCache::new();
        let first = cache.number();
        let id = FileId::new(b"an object").unwrap();
        let other_id = FileId::new(b"another").unwrap();
        let (source, other_source) = (1, 2);
        cache.put(&source, &id, &Rc::new(5));
        assert_eq!(cache.get(&source, &id), Some(Rc::new(5)));
        assert_eq!(cache.get::<_, i32>(&source, &other_id), None);
        assert_eq!(cache.get::<_, i32>(&other_source, &id), None);
        assert_eq!(cache.get::<_, u64>(&source, &id), None, "of another type");
        assert_eq!(BatchCache::new().get::<_, i32>(&source, &id), None);
        for number in 0..=ENTRIES_MAX {
            let id = FileId::new(&number.to_be_bytes()).unwrap();
            cache.put(&source, &id, &Rc::new(number));
            assert_eq!(cache.get(&source, &id), Some(Rc::new(number)));
        }
        assert_eq!(cache.get::<_, i32>(&source, &id), None, "replaced");
        let last = FileId::new(&ENTRIES_MAX.to_be_bytes()).unwrap();
        cache.invalidate();
        assert_eq!(cache.get::<_, usize>(&source, &last), None);
        assert!(cache.number() > first && BatchCache::new().number() > cache.number());
    }
}
