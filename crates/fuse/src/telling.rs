//! What the kernel is told by a thread of its own, because that may wait for pages which others
//! have to bring.

use std::collections::BTreeSet;

use pagewell_base::sync::{Condvar, Mutex};

/// What is to be told.
#[derive(Default)]
pub(crate) struct ToTell<T> {
    state: Mutex<State<T>>,
    change: Condvar,
}

#[derive(Default)]
struct State<T> {
    wanted: BTreeSet<T>,
    stopping: bool,
}

impl<T: Ord> ToTell<T> {
    /// A thing is told once, however often it was asked for meanwhile.
    pub(crate) fn want(&self, what: T) {
        if self.state.lock().wanted.insert(what) {
            self.change.notify_one();
        }
    }

    /// Waits for the next; none comes when the mount ends.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        while !state.stopping {
            // Out of the set before the kernel is told: what comes from then on is told again.
            if let Some(what) = state.wanted.pop_first() {
                return Some(what);
            }
            state = self.change.wait(state);
        }
        None
    }

    /// The mount ends.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.change.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_and_nothing_after_the_end() {
        let to_tell = ToTell::default();
        for what in [7, 3, 7] {
            to_tell.want(what);
        }
        assert_eq!((to_tell.next(), to_tell.next()), (Some(3), Some(7)));
        to_tell.want(7);
        assert_eq!(to_tell.next(), Some(7));
        to_tell.want(9);
        to_tell.stop();
        assert_eq!(to_tell.next(), None);
    }
}
