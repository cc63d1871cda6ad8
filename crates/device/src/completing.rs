//! Calling completions from threads that others depend on.
//!
//! **Problem.** A disk may answer all that it had at once, and is then idle until it is given
//! something new. What a completion does for its own requester (marking pages, waking readers)
//! takes several times as long as choosing the next request, and all of a *burst* would come before
//! the last new request.
//!
//! **Rule.** Completions put off what the device need not wait for ([`after_burst`]). The thread
//! that carries requests runs that when all completions of the burst have run and what they
//! submitted was handed over:
//!
//! ```text
//!  burst:  complete  complete  complete ──> hand over ──> put off  put off  put off
//! ```
//!
//! On any other thread nothing is put off.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use pagewell_counters::names::PANICS;

use crate::{Outcome, Request};

type Work = Box<dyn FnOnce()>;

thread_local! {
    /// What was put off by the burst that this thread is in.
    static PUT_OFF: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

/// Completes the request. A completion that panics must not end a thread which carries the
/// requests of others: the panic is reported by its hook, counted, and goes no further.
pub fn complete(request: Request, outcome: Outcome) {
    // The request is gone afterwards; nothing that could be half changed is left here.
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

/// Runs a part of a completion when the other completions of the burst that it is part of have
/// run, and what they submitted is on its way; where there is no burst, at once. For what the
/// device need not wait for. It runs on this thread, before the device is gone.
pub fn after_burst(work: impl FnOnce() + 'static) {
    let mut work: Option<Work> = Some(Box::new(work));
    // A thread that is ending has no burst.
    let _ = PUT_OFF.try_with(|put_off| {
        if let Some(later) = &mut *put_off.borrow_mut() {
            later.extend(work.take());
        }
    });
    if let Some(work) = work {
        work();
    }
}

/// A burst of completions on this thread. Its end runs what was put off.
pub(crate) struct Burst(());

impl Burst {
    /// Begins one; bursts do not nest.
    pub(crate) fn begin() -> Self {
        PUT_OFF.with_borrow_mut(|put_off| *put_off = Some(Vec::new()));
        Self(())
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        // What this work puts off in turn runs at once.
        let later = PUT_OFF.with_borrow_mut(Option::take);
        for work in later.into_iter().flatten() {
            contain(work);
        }
    }
}

/// Waits for the end of threads. A completion may drop the last reference to what has them: a
/// thread does not wait for itself.
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
