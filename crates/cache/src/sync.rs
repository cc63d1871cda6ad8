//! The atomics of the lock-free structures; loom's with the feature `loom`, so that every order of
//! their operations can be tried.

#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere cannot leave what these mutexes guard half changed: nothing foreign
/// is called under them.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
