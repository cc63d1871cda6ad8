//! Locks of the standard library that ignore poisoning.
//!
//! After a panic other threads go on: no code in this program panics between two parts of a change,
//! and a server that lost one request is better than one whose locks refuse.
//!
//! The page cache has its own, with ranks and for loom (`cache/sync.rs`).

use std::cell::RefCell;
use std::sync::{PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// See [`std::sync::Mutex`].
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        note(&self.0);
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Self::lock`], unless it would wait.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        note(&self.0);
        at_once(self.0.try_lock())
    }
}

/// See [`std::sync::RwLock`].
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        note(&self.0);
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        note(&self.0);
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Self::read`], unless it would wait.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        note(&self.0);
        at_once(self.0.try_read())
    }

    /// [`Self::write`], unless it would wait.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        note(&self.0);
        at_once(self.0.try_write())
    }
}

/// See [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Without a waiting thread.
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Waits for a notification, or less.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for at most `most`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while `condition` holds, for at most `most`.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout_while(guard, most, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

thread_local! {
    static TAKEN: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// For tests: the addresses of locks that this thread takes in `work`, in order. None in a release
/// build.
pub fn locks_taken(work: impl FnOnce()) -> Vec<usize> {
    TAKEN.set(Some(Vec::new()));
    work();
    TAKEN.take().unwrap_or_default()
}

/// Notes a lock that this thread takes or tries. Locks of other crates call it, too.
#[inline]
pub fn note<T: ?Sized>(lock: &T) {
    if cfg!(debug_assertions) {
        let address = std::ptr::from_ref(lock).cast::<()>().addr();
        // A thread that ends has no list.
        let _ = TAKEN.try_with(|taken| {
            if let Some(taken) = taken.borrow_mut().as_mut() {
                taken.push(address);
            }
        });
    }
}

fn at_once<Guard>(tried: TryLockResult<Guard>) -> Option<Guard> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_close_a_lock() {
        let lock = Mutex::new(1);
        let both = RwLock::new(2);
        std::thread::scope(|scope| {
            let died = scope.spawn(|| {
                let _locked = (lock.lock(), both.write());
                panic!("meant");
            });
            assert!(died.join().is_err());
        });
        let changed = Condvar::new();
        let guard = changed.wait_timeout(lock.lock(), Duration::ZERO);
        let guard = changed.wait_timeout_while(guard, Duration::MAX, |value| *value != 1);
        assert_eq!(*guard + *both.read(), 3);
        *both.write() += 1;
        drop(guard);
        assert_eq!(both.try_write().map(|guard| *guard), Some(3));
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(1));
        let _held = lock.lock();
        assert!(lock.try_lock().is_none());
        let _read = both.try_read();
        assert!(both.try_read().is_some());
        assert!(both.try_write().is_none());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn locks_that_are_taken_are_told_apart() {
        let locks = [Mutex::new(1), Mutex::new(2)];
        let taken = locks_taken(|| {
            for at in [0, 1, 0] {
                drop(locks[at].lock());
            }
        });
        assert!(taken[0] == taken[2] && taken[0] != taken[1] && taken.len() == 3);
        drop(locks[0].lock());
        assert_eq!(locks_taken(|| ()), []);
    }
}
