//! Locks that have a rank, and atomics; loom's with the feature `loom`.

#[cfg(feature = "loom")]
use loom::sync as primitives;
#[cfg(not(feature = "loom"))]
use std::sync as primitives;

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

pub(crate) use primitives::atomic::{AtomicU32, AtomicU64, Ordering};

/// A thread takes only what comes after all that it has; see `lib.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Page,
    Insertion,
    Move,
    InFlight,
    Dirty,
    Leaf,
}

/// A lock with a rank, never poisoned: nothing foreign is called under it.
pub(crate) struct Mutex<T> {
    rank: Rank,
    inner: primitives::Mutex<T>,
}

pub(crate) struct Guard<'a, T> {
    inner: primitives::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Mutex<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: primitives::Mutex::new(value),
        }
    }

    /// A debug build panics where this could wait for ever.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = Held::new(self.rank);
        pagewell_base::sync::note(self);
        Guard {
            inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner),
            held,
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(Rank::Leaf, T::default())
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

pub(crate) struct Condvar(primitives::Condvar);

impl Default for Condvar {
    fn default() -> Self {
        Self(primitives::Condvar::new())
    }
}

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: Guard<'a, T>, most: Duration) -> Guard<'a, T> {
        let Guard { inner, held } = guard;
        let waited = self.0.wait_timeout(inner, most);
        let inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        Guard { inner, held }
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

pub(crate) struct Shards<T>(Box<[Mutex<T>]>);

impl<T: Default> Shards<T> {
    const COUNT: usize = if cfg!(feature = "loom") { 1 } else { 64 };

    pub(crate) fn new(rank: Rank) -> Self {
        const { assert!(Self::COUNT.is_power_of_two()) };
        let shard = |_| Mutex::new(rank, T::default());
        Self((0..Self::COUNT).map(shard).collect())
    }

    #[allow(clippy::cast_possible_truncation)] // any bits will do
    pub(crate) fn lock(&self, number: u64) -> Guard<'_, T> {
        // A power of two, so that it is not a division.
        self.0[number as usize & (self.0.len() - 1)].lock()
    }
}

/// Threads that move things, together, against one that looks at all of them.
pub(crate) struct Moves(primitives::RwLock<()>);

impl Default for Moves {
    fn default() -> Self {
        Self(primitives::RwLock::new(()))
    }
}

impl Moves {
    pub(crate) fn moving(&self) -> impl Sized + '_ {
        let held = Held::new(Rank::Move);
        (self.0.read().unwrap_or_else(PoisonError::into_inner), held)
    }

    pub(crate) fn still(&self) -> impl Sized + '_ {
        let held = Held::new(Rank::Move);
        (self.0.write().unwrap_or_else(PoisonError::into_inner), held)
    }
}

#[derive(Default)]
pub(crate) struct Tally(std::sync::atomic::AtomicU64);

impl Tally {
    #[inline]
    pub(crate) fn add(&self, amount: u64) -> u64 {
        self.0.fetch_add(amount, Ordering::Relaxed) + amount
    }

    #[inline]
    pub(crate) fn remove(&self, amount: u64) {
        let before = self.0.fetch_sub(amount, Ordering::Relaxed);
        // Else the rest of a budget would be wrong from now on.
        assert!(before >= amount, "{amount} of {before} in use");
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const IS_CHECKED: bool = cfg!(all(debug_assertions, not(feature = "loom")));

struct Held(Rank);

thread_local! {
    static RANKS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Held {
    fn new(rank: Rank) -> Self {
        if IS_CHECKED {
            let held = RANKS.get();
            assert!(held >> rank as u32 == 0, "{rank:?} after {held:#b}");
            RANKS.set(held | 1 << rank as u32);
        }
        Self(rank)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if IS_CHECKED {
            RANKS.set(RANKS.get() & !(1 << self.0 as u32));
        }
    }
}

pub(crate) fn relax(round: u32) {
    #[cfg(feature = "loom")]
    {
        let _ = round;
        loom::thread::yield_now();
    }
    #[cfg(not(feature = "loom"))]
    if round < SPINS {
        std::hint::spin_loop();
    } else {
        // It may have lost its processor.
        std::thread::yield_now();
    }
}

/// Rounds of [`relax`] that stay on the processor: some microseconds.
#[cfg(not(feature = "loom"))]
pub(crate) const SPINS: u32 = 200;

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order() {
        let (page, dirty) = (Mutex::new(Rank::Page, 1), Mutex::new(Rank::Dirty, 2));
        let (first, second) = (page.lock(), dirty.lock());
        assert_eq!(*first + *second, 3);
        // In any order back.
        drop(first);
        drop(second);
        drop((page.lock(), Mutex::new(Rank::Leaf, ()).lock()));
    }

    #[test]
    #[should_panic(expected = "Insertion after")]
    fn a_lock_that_comes_before_is_refused() {
        let (page, dirty) = (Mutex::new(Rank::Insertion, ()), Mutex::new(Rank::Dirty, ()));
        let _dirty = dirty.lock();
        let _page = page.lock();
    }

    #[test]
    #[should_panic(expected = "Page after")]
    fn no_two_of_a_rank_are_taken() {
        let locks = [Mutex::new(Rank::Page, ()), Mutex::new(Rank::Page, ())];
        let _both = [locks[0].lock(), locks[1].lock()];
    }
}
