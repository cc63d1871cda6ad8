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

/// Lets a moment pass while another thread ends what takes only a moment.
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
