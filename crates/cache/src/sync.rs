//! The atomics of the lock-free structures; loom's under `--cfg loom`, so that every order of
//! their operations can be tried.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere cannot leave what these mutexes guard half changed: nothing foreign
/// is called under them.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
