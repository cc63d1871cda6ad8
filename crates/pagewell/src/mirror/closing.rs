//! The end of the program waits until the records of mirrors say that they were closed.
//!
//! A mirror marks its legs clean when the last one that uses it lets go. That may be the thread
//! of a device, which has just completed the last request and still holds what completed it. When
//! the program ends meanwhile, the thread ends with it, and the mirror is taken for one that was
//! cut off: all its bytes would have to be compared.

use std::time::Duration;

use pagewell_base::sync::{Condvar, Mutex};

/// Longer than records take. What takes longer hangs, and is not worth a program that never ends:
/// the mirror stays marked as in use, which is safe.
const LIMIT: Duration = Duration::from_secs(10);

/// Records that are in use.
pub(super) struct Open {
    count: Mutex<usize>,
    closed: Condvar,
}

/// Those of this program.
pub(super) static OPEN: Open = Open::new();

/// Records that are in use as long as it lives.
pub(super) struct InUse(&'static Open);

impl Open {
    pub(super) const fn new() -> Self {
        Self {
            count: Mutex::new(0),
            closed: Condvar::new(),
        }
    }

    pub(super) fn begin(&'static self) -> InUse {
        *self.count.lock() += 1;
        InUse(self)
    }

    /// Waits until none is in use, but not longer; whether none is.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        let count = self.count.lock();
        let in_use = self
            .closed
            .wait_timeout_while(count, limit, |count| *count > 0);
        *in_use == 0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.closed.notify_all();
    }
}

/// Waits for the mirrors that this program has opened, which nobody may be using any more. False
/// when they take too long.
pub(crate) fn wait_until_closed() -> bool {
    OPEN.wait(LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_the_last_and_not_for_ever() {
        static OPEN: Open = Open::new();
        assert!(OPEN.wait(Duration::ZERO));
        let (first, second) = (OPEN.begin(), OPEN.begin());
        assert!(!OPEN.wait(Duration::ZERO));
        drop(first);
        assert!(!OPEN.wait(Duration::from_millis(1)));
        let waiting = std::thread::spawn(|| OPEN.wait(Duration::from_secs(60)));
        drop(second);
        assert!(waiting.join().unwrap());
    }
}
