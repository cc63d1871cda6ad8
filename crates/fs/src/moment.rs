//! Moments: calls that were received together.
//!
//! A server receives many calls with one system call. All of them were sent before the first of
//! them is answered, so all of them may be told how a file is at one and the same time: one look
//! at it serves them all. The calls of a thread between [`begin`] and the drop of what it returns
//! are a *moment*; a call among them that changes something begins another one ([`change`]).
//!
//! A source that remembers what it saw does so for the thread alone, beside the number of the
//! moment, and looks again where that is another one. What other threads change meanwhile they
//! change at the same time as the calls of the moment are answered: either order is right.

use std::cell::Cell;
use std::num::NonZeroU64;

thread_local! {
    static NOW: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// A moment of this thread; dropping it ends the moment.
#[derive(Debug)]
pub struct Moment {
    /// It is of the thread that began it.
    _not_sent: std::marker::PhantomData<*const ()>,
}

/// Begins a moment of this thread.
#[must_use]
pub fn begin() -> Moment {
    NOW.set(Some(next()));
    Moment {
        _not_sent: std::marker::PhantomData,
    }
}

/// What this thread has seen in this moment may not be true any more.
pub fn change() {
    if NOW.get().is_some() {
        NOW.set(Some(next()));
    }
}

/// The number of the moment that this thread is in; another one for each moment of a thread.
#[must_use]
pub fn current() -> Option<NonZeroU64> {
    NOW.get()
}

fn next() -> NonZeroU64 {
    let next = NonZeroU64::MIN.saturating_add(LAST.get());
    LAST.set(next.get());
    next
}

impl Drop for Moment {
    fn drop(&mut self) {
        NOW.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_has_a_number_of_its_own() {
        assert_eq!(current(), None);
        change();
        assert_eq!(current(), None, "there is none to end");
        let moment = begin();
        let first = current().unwrap();
        assert_eq!(current(), Some(first));
        change();
        let second = current().unwrap();
        drop(moment);
        assert_eq!(current(), None);
        let _moment = begin();
        let third = current().unwrap();
        assert!(first < second && second < third);
        let other = std::thread::spawn(current).join().unwrap();
        assert_eq!(other, None);
    }
}
