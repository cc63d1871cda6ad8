//! A few threads for work that waits or computes, for callers that may not.
//!
//! ```text
//!  run ──> queue ──> thread, idle or started now ──> the next in the queue
//! ```
//!
//! Work begins in order. A thread starts when none is idle, up to the limit. Work that panics costs
//! itself.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use pagewell_base::sync::{Condvar, Mutex};

use crate::request::{completion_panicked, join_others};

/// For a thread.
pub type Work = Box<dyn FnOnce() + Send>;

/// See the module. Dropping it waits for all work, except for that which drops it.
pub struct Workers {
    name: &'static str,
    threads_max: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    threads: Vec<JoinHandle<()>>,
    /// Waiting for work, or notified and about to take some.
    idle: usize,
    is_closing: bool,
}

impl Workers {
    /// At most `threads_max` threads.
    #[must_use]
    pub fn new(name: &'static str, threads_max: usize) -> Self {
        Self {
            name,
            threads_max,
            shared: Arc::default(),
        }
    }

    /// Has a thread do this.
    ///
    /// # Errors
    /// The work, when the system gives no thread at all.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Work> {
        let mut state = self.shared.state.lock();
        if state.queue.len() >= state.idle && state.threads.len() < self.threads_max {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name(self.name.to_owned());
            // On failure the others go on alone.
            state.threads.extend(thread.spawn(move || shared.serve()));
        }
        if state.threads.is_empty() {
            return Err(Box::new(work));
        }
        state.queue.push_back(Box::new(work));
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                // What it was about was dropped with it.
                if catch_unwind(AssertUnwindSafe(work)).is_err() {
                    completion_panicked();
                }
                state = self.state.lock();
                continue;
            }
            if state.is_closing {
                return;
            }
            state.idle += 1;
            state = self.changed.wait(state);
            state.idle -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closing = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.changed.notify_all();
        join_others(threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn all_work_is_done_whatever_panics() {
        let workers = Workers::new("test", 2);
        let (sender, receiver) = mpsc::channel();
        assert!(workers.run(|| panic!("expected in this test")).is_ok());
        for number in 0..100 {
            let sender = sender.clone();
            let work = move || sender.send(number).unwrap();
            assert!(workers.run(work).is_ok());
        }
        drop(sender);
        let mut done: Vec<u32> = receiver.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn threads_start_as_work_needs_them() {
        let workers = Workers::new("test", 2);
        let threads = || workers.shared.state.lock().threads.len();
        assert_eq!(threads(), 0);
        let (sender, receiver) = mpsc::channel();
        let releases: Vec<mpsc::Sender<()>> = (1..=3)
            .map(|number| {
                let (release, released) = mpsc::channel();
                let sender = sender.clone();
                let work = move || {
                    let _ = released.recv();
                    sender.send(()).unwrap();
                };
                assert!(workers.run(work).is_ok());
                assert_eq!(threads(), number.min(2));
                release
            })
            .collect();
        drop(releases);
        (0..3).for_each(|_| receiver.recv().unwrap());
    }

    #[test]
    fn what_waits_at_the_end_is_done() {
        let workers = Workers::new("test", 1);
        let (sender, receiver) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let waits = move || {
            let _ = released.recv();
        };
        assert!(workers.run(waits).is_ok());
        assert!(workers.run(move || sender.send(7).unwrap()).is_ok());
        let ending = thread::spawn(move || drop(workers));
        drop(release);
        ending.join().unwrap();
        assert_eq!(receiver.try_recv(), Ok(7));
    }

    #[test]
    fn without_a_thread_the_work_comes_back() {
        let (sender, receiver) = mpsc::channel();
        let work = Workers::new("test", 0).run(move || sender.send(7).unwrap());
        work.unwrap_err()();
        assert_eq!(receiver.try_recv(), Ok(7));
    }

    #[test]
    fn the_last_reference_may_go_in_a_thread_of_its_own() {
        let (sender, receiver) = mpsc::channel();
        let workers = Arc::new(Workers::new("test", 1));
        let own = workers.clone();
        let (release, released) = mpsc::channel::<()>();
        let work = move || {
            let _ = released.recv();
            drop(own);
            sender.send(()).unwrap();
        };
        assert!(workers.run(work).is_ok());
        drop(workers);
        drop(release);
        receiver.recv().unwrap();
    }
}
