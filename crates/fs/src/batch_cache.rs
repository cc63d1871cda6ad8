//! What calls that were received together may share.
//!
//! A server receives many calls with one system call. All of them were sent before the first of
//! them is answered, so one look at a file serves them all. Such a *receive batch* has a
//! [`BatchCache`], in which a source keeps what it found for the calls behind: the thread need not
//! touch again what all threads share, a lock or a count of references.
//!
//! A call has the cache only through [`Batched`](crate::Batched), which discards its content before
//! each change. So nothing stale can come of a front that forgets: without it there is no cache.
//! What other threads change meanwhile they change at the same time as the calls of the batch are
//! answered: either order is right. That holds, too, for a change of the batch that is made later
//! in a pool: its client has no reply to it yet.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;

use crate::FileId;

/// Entries at once, the latest; calls that come together are for few objects.
const ENTRIES_MAX: usize = 8;

struct CacheEntry {
    /// The address of the source that keeps it.
    source: usize,
    id: FileId,
    value: Rc<dyn Any>,
}

thread_local! {
    /// The last number of a cache of this thread.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// What sources found for the calls of one receive batch. It stays on the thread that made it.
pub struct BatchCache {
    number: Cell<NonZeroU64>,
    entries: RefCell<[Option<CacheEntry>; ENTRIES_MAX]>,
    /// The entry that the next one replaces.
    oldest: Cell<usize>,
}

impl BatchCache {
    /// An empty one. It allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            number: Cell::new(next_number()),
            entries: RefCell::new([const { None }; ENTRIES_MAX]),
            oldest: Cell::new(0),
        }
    }

    /// Another one for each cache of a thread, and after each change: what a source keeps by thread
    /// beside this number is as good as if it were in the cache.
    #[must_use]
    pub fn number(&self) -> NonZeroU64 {
        self.number.get()
    }

    /// Keeps what `source` has found for `id`.
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

    /// What `source` has kept for `id`.
    pub fn get<S, T: 'static>(&self, source: &S, id: &FileId) -> Option<Rc<T>> {
        let source = address_of(source);
        let entries = self.entries.borrow();
        let mut entries = entries.iter().flatten();
        let entry = entries.find(|entry| entry.source == source && entry.id == *id)?;
        Rc::clone(&entry.value).downcast().ok()
    }

    /// Discards everything: it may not be so any more.
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
