//! Calls that storage holds: answered NFS3ERR_JUKEBOX, so that clients wait and not threads.
//!
//! Problem: a disk or a remote store that stalls keeps one thread per call. The clients ask
//! again, more threads are kept, and soon files that are not slow are not served either. Rule
//! (RFC 1813 section 2.6, `NFS3ERR_JUKEBOX`: the server cannot complete the request in a timely
//! fashion, the client should wait and try again): a watcher looks at the running calls. A call
//! that only reads and has been held for longer than the limit is answered JUKEBOX; its thread
//! is let go when storage answers, the result is dropped. Calls for an object with such a call
//! are answered JUKEBOX before they take a thread. Calls that change something are never
//! answered early, because they may still happen.
//!
//! When an export has twice as many held calls as the server is configured to have threads (one
//! file that is read by many can hold as many as there are threads, not more), its storage as a
//! whole is taken to be slow: every further call for it is answered JUKEBOX until some of them
//! end. Threads that are held are bounded by that, and there are always threads for the other
//! exports, because the pool starts one more for each that is held.
//!
//! Known weakness: until the limit has passed, calls for a slow object do take threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call that is being worked on.
pub struct Running<C> {
    /// What is needed to answer it.
    pub context: C,
    object: u64,
    export: u32,
    since: Instant,
    may_be_asked_again: bool,
    answered: AtomicBool,
}

impl<C> Running<C> {
    /// Takes the right to answer; true exactly once.
    #[must_use]
    pub fn claim(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }
}

/// A call under the eyes of the watcher.
pub struct Watched<'a, C> {
    calls: &'a SlowCalls<C>,
    number: u64,
    running: Arc<Running<C>>,
}

impl<C> Watched<'_, C> {
    /// [`Running::claim`].
    #[must_use]
    pub fn claim(&self) -> bool {
        self.running.claim()
    }
}

impl<C> Drop for Watched<'_, C> {
    fn drop(&mut self) {
        self.calls.lock().running.remove(&self.number);
    }
}

/// The running calls of a server.
pub struct SlowCalls<C> {
    limit: Duration,
    held_per_export_max: usize,
    state: Mutex<State<C>>,
}

struct State<C> {
    next: u64,
    running: HashMap<u64, Arc<Running<C>>>,
    /// Objects with calls that were held too long, and how many.
    held: HashMap<u64, usize>,
    /// The same by export.
    held_exports: HashMap<u32, usize>,
}

impl<C> SlowCalls<C> {
    /// Calls may take `limit`; so many of one export may be held longer before all of it is taken
    /// to be slow.
    #[must_use]
    pub fn new(limit: Duration, held_per_export_max: usize) -> Self {
        let state = State {
            next: 0,
            running: HashMap::new(),
            held: HashMap::new(),
            held_exports: HashMap::new(),
        };
        Self {
            limit,
            held_per_export_max: held_per_export_max.max(1),
            state: Mutex::new(state),
        }
    }

    /// Whether calls for `object` are held at the moment, or too many of its export.
    #[must_use]
    pub fn is_held(&self, object: u64, export: u32) -> bool {
        let state = self.lock();
        let of_export = state.held_exports.get(&export).copied().unwrap_or(0);
        of_export >= self.held_per_export_max || state.held.contains_key(&object)
    }

    /// Whether any call of an export is held.
    #[must_use]
    pub fn holds(&self, export: u32) -> bool {
        self.lock().held_exports.contains_key(&export)
    }

    /// Notes a call as running, until what is returned is dropped.
    pub fn begin(
        &self,
        (object, export): (u64, u32),
        may_be_asked_again: bool,
        context: C,
        now: Instant,
    ) -> Watched<'_, C> {
        let answered = AtomicBool::new(false);
        let running = Arc::new(Running {
            context,
            object,
            export,
            since: now,
            may_be_asked_again,
            answered,
        });
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.running.insert(number, running.clone());
        Watched {
            calls: self,
            number,
            running,
        }
    }

    /// Finds the calls that are held too long: those to be answered now (the caller must
    /// [`Running::claim`] each), and how many threads are held.
    pub fn watch(&self, now: Instant) -> (Vec<Arc<Running<C>>>, usize) {
        let mut state = self.lock();
        let old: Vec<_> = state
            .running
            .values()
            .filter(|running| now.duration_since(running.since) > self.limit)
            .cloned()
            .collect();
        state.held.clear();
        state.held_exports.clear();
        for running in &old {
            *state.held.entry(running.object).or_default() += 1;
            *state.held_exports.entry(running.export).or_default() += 1;
        }
        let count = old.len();
        let due = old.into_iter().filter(|running| running.may_be_asked_again);
        (due.collect(), count)
    }

    /// Whether nothing runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.lock().running.is_empty()
    }

    /// How often [`SlowCalls::watch`] should be called.
    #[must_use]
    pub fn period(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_calls_are_found_and_answered_once() {
        let slow = SlowCalls::new(Duration::from_secs(5), 4);
        let start = Instant::now();
        let read = slow.begin((1, 0), true, "read", start);
        let _write = slow.begin((2, 0), false, "write", start);
        let fresh = slow.begin((1, 0), true, "fresh", start + Duration::from_secs(4));
        assert_eq!(slow.watch(start + Duration::from_secs(5)).0.len(), 0);
        let (due, held) = slow.watch(start + Duration::from_secs(6));
        assert_eq!(held, 2);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].context, "read");
        assert!(due[0].claim() && !due[0].claim());
        assert!(slow.is_held(1, 0) && slow.is_held(2, 0) && !slow.is_held(3, 0));
        assert!(fresh.claim());
        drop(read);
        slow.watch(start + Duration::from_secs(6));
        assert!(!slow.is_held(1, 0));
    }

    #[test]
    fn an_export_with_many_held_calls_is_slow_as_a_whole() {
        let slow = SlowCalls::new(Duration::from_secs(5), 2);
        let start = Instant::now();
        let late = start + Duration::from_secs(6);
        let _first = slow.begin((1, 7), true, (), start);
        slow.watch(late);
        assert!(!slow.is_held(3, 7));
        let second = slow.begin((2, 7), false, (), start);
        slow.watch(late);
        assert!(slow.is_held(3, 7) && !slow.is_held(3, 8));
        drop(second);
        slow.watch(late);
        assert!(!slow.is_held(3, 7));
    }
}
