//! How long a thread has waited for devices.
//!
//! Code waits in [`timed`], and gets the time from [`begin`] to [`taken`]. A wait costs two
//! readings of the clock.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Resets the time.
pub fn begin() {
    WAITED.set(Duration::ZERO);
}

/// What this thread waited since [`begin`].
#[must_use]
pub fn taken() -> Duration {
    WAITED.get()
}

/// Runs a wait.
pub fn timed<T>(wait: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = wait();
    WAITED.set(WAITED.get().saturating_add(began.elapsed()));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_add_up_by_thread() {
        begin();
        let slept = Duration::from_millis(2);
        timed(|| std::thread::sleep(slept));
        let once = taken();
        assert!(once >= slept);
        timed(|| std::thread::sleep(slept));
        assert!(taken() >= once + slept);
        assert_eq!(std::thread::spawn(taken).join().unwrap(), Duration::ZERO);
        begin();
        assert_eq!(taken(), Duration::ZERO);
    }
}
