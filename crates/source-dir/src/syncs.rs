//! Syncs of one object: one at a time, and those that come meanwhile share the next.
//!
//! The kernel reports lost data once for each open descriptor, and all syncs of an object use the
//! same one. Before the reporting sync has changed the verifier, another thread could sync, see
//! success, and answer a COMMIT with the verifier of the lost writes. So the next sync begins only
//! after the consequences of one. All threads that waited get its outcome; each starts writing
//! first.
//!
//! ```text
//!   A  ├─ sync 1 ─┤
//!   B     ├ waits ├─ sync 2 ─┤
//!   C        ├ waits ────────┤ shares sync 2
//! ```
//!
//! Weakness: a hanging sync stalls all others of its object.

use pagewell_base::sync::{Condvar, Mutex};
use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Data and the metadata needed to read it back.
    Data,
    All,
}

#[derive(Default)]
struct State {
    /// The last syncs that began and ended: equal when none runs.
    begun: u64,
    ended: u64,
    /// A waiting thread needs more than the data.
    next_is_of_all: bool,
    failed: Option<(u64, Errno)>,
}

#[derive(Default)]
pub(super) struct Syncs {
    state: Mutex<State>,
    ended: Condvar,
}

/// A running sync. Without an outcome its thread has panicked.
struct Running<'a> {
    syncs: &'a Syncs,
    outcome: Option<Result<(), Errno>>,
}

impl Syncs {
    /// Returns after a sync that began after this call. `sync` runs one with its consequences;
    /// `start` only starts writing.
    pub(super) fn sync(
        &self,
        extent: Extent,
        start: impl FnOnce(),
        sync: impl FnOnce(Extent) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut start = Some(start);
        let mut state = self.state.lock();
        let wanted = state.begun + 1;
        state.next_is_of_all |= extent == Extent::All;
        while state.ended < wanted {
            if state.begun == state.ended {
                state.begun += 1;
                let (syncs, outcome) = (self, None);
                let mut running = Running { syncs, outcome };
                let extent = match std::mem::take(&mut state.next_is_of_all) {
                    true => Extent::All,
                    false => Extent::Data,
                };
                drop(state);
                let outcome = sync(extent);
                running.outcome = Some(outcome);
                return outcome;
            }
            if let Some(start) = start.take() {
                drop(state);
                start();
                state = self.state.lock();
            } else {
                state = self.ended.wait(state);
            }
        }
        // A later sync may have ended, too: its failure counts as well.
        match state.failed {
            Some((number, errno)) if number >= wanted => Err(errno),
            _ => Ok(()),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.syncs.state.lock();
        state.ended = state.begun;
        if let Err(errno) = self.outcome.unwrap_or(Err(Errno::IO)) {
            state.failed = Some((state.ended, errno));
        }
        self.syncs.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Has `count` threads ask while a sync is at work, which ends when all of them wait. Returns
    /// their outcomes, and the extents of the syncs after it.
    fn ask_meanwhile(
        count: usize,
        extent: impl Fn(usize) -> Extent + Sync,
        outcome: Result<(), Errno>,
    ) -> (Vec<Result<(), Errno>>, Vec<Extent>) {
        let syncs = Syncs::default();
        let (begun, waiting) = (Barrier::new(count + 1), AtomicUsize::new(0));
        let made = Mutex::new(Vec::new());
        let ask = |index| {
            begun.wait();
            let start = || {
                waiting.fetch_add(1, Ordering::SeqCst);
            };
            syncs.sync(extent(index), start, |extent| {
                made.lock().push(extent);
                outcome
            })
        };
        let first = |extent| {
            assert_eq!(extent, Extent::Data);
            begun.wait();
            while waiting.load(Ordering::SeqCst) < count {
                std::thread::yield_now();
            }
            Ok(())
        };
        let outcomes = std::thread::scope(|scope| {
            let ask = &ask;
            let threads: Vec<_> = (0..count)
                .map(|index| scope.spawn(move || ask(index)))
                .collect();
            let alone = || unreachable!("nothing is at work");
            assert_eq!(syncs.sync(Extent::Data, alone, first), Ok(()));
            let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
            outcomes.collect()
        });
        (outcomes, made.into_inner())
    }

    #[test]
    fn those_that_come_meanwhile_share_the_next_one_and_its_failure() {
        for outcome in [Ok(()), Err(Errno::IO)] {
            let (outcomes, made) = ask_meanwhile(8, |_| Extent::Data, outcome);
            assert_eq!(outcomes, [outcome; 8]);
            assert_eq!(made, [Extent::Data]);
        }
    }

    #[test]
    fn the_next_one_is_of_as_much_as_any_needs() {
        let extent = |index| [Extent::Data, Extent::All][usize::from(index == 3)];
        let (_, made) = ask_meanwhile(8, extent, Ok(()));
        assert_eq!(made, [Extent::All]);
    }

    #[test]
    fn a_panic_is_a_failure_and_ends_the_sync() {
        let syncs = Syncs::default();
        let defect = || syncs.sync(Extent::Data, || (), |_| panic!("a defect"));
        catch_unwind(AssertUnwindSafe(defect)).unwrap_err();
        assert_eq!(syncs.state.lock().failed, Some((1, Errno::IO)));
        assert_eq!(syncs.sync(Extent::Data, || (), |_| Ok(())), Ok(()));
    }
}
