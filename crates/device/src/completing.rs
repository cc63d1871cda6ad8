//! Calling completions from threads that others depend on.
//!
//! **Problem.** A disk may answer all its requests at once, and is then idle until the next
//! request. The part of a completion that serves its own requester (marking pages, waking readers)
//! takes several times as long as choosing the next request, and for all of a *burst* would come
//! before the last new request.
//!
//! **Rule.** Completions defer the part that the device need not wait for ([`after_burst`]). The
//! thread that carries requests runs it when all completions of the burst have run and the new
//! requests are submitted:
//!
//! ```text
//!  burst:  complete  complete  complete ──> submit ──> deferred  deferred  deferred
//! ```
//!
//! On any other thread nothing is deferred.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use pagewell_counters::names::PANICS;

use crate::{Outcome, Request};

type Work = Box<dyn FnOnce()>;

thread_local! {
    /// Deferred by the current burst of this thread.
    static DEFERRED: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

/// Completes the request. A panic of its completion is counted and goes no further: this thread
/// carries the requests of others.
pub fn complete(request: Request, outcome: Outcome) {
    // The request is gone afterwards: no state is left half-changed here.
    contain(|| request.complete(outcome));
}

fn contain(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        completion_panicked();
    }
}

/// Counts a completion that panicked.
pub fn completion_panicked() {
    PANICS.add(1);
}

/// Runs `work` on this thread when all completions of the current burst have run and their new
/// requests are submitted, before the device is dropped; outside a burst, at once.
pub fn after_burst(work: impl FnOnce() + 'static) {
    let mut work: Option<Work> = Some(Box::new(work));
    // An ending thread has no burst.
    let _ = DEFERRED.try_with(|deferred| {
        if let Some(later) = &mut *deferred.borrow_mut() {
            later.extend(work.take());
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// A burst of completions on this thread. Its end runs the deferred work.
pub(crate) struct Burst(());

impl Burst {
    /// Bursts do not nest.
    pub(crate) fn begin() -> Self {
        DEFERRED.with_borrow_mut(|deferred| *deferred = Some(Vec::new()));
        Self(())
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // Work that this work defers runs at once.
        let later = DEFERRED.with_borrow_mut(Option::take);
        for work in later.into_iter().flatten() {
            contain(work);
        }
    }
}

/// Waits for the end of threads, except the caller: a completion may drop the last reference to
/// their owner.
pub(crate) fn join_others(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let own = std::thread::current().id();
    for thread in threads {
        if thread.thread().id() != own {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_is_put_off_runs_after_the_burst_in_order_whatever_panics() {
        let ran = Rc::new(RefCell::new(Vec::new()));
        let push = |number: u32| {
            let ran = ran.clone();
            move || ran.borrow_mut().push(number)
        };
        after_burst(push(1));
        assert_eq!(*ran.borrow(), [1], "no burst");
        let burst = Burst::begin();
        let panics = PANICS.get();
        after_burst(|| panic!("expected in this test"));
        let inner = push(3);
        let outer = push(2);
        after_burst(move || {
            outer();
            after_burst(inner);
        });
        after_burst(push(4));
        assert_eq!(*ran.borrow(), [1], "in the burst");
        drop(burst);
        assert_eq!(*ran.borrow(), [1, 2, 3, 4]);
        assert!(PANICS.get() > panics);
    }
}
