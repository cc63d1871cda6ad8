//! A few threads for work that waits or computes, on behalf of callers that may not.
//!
//! A store whose bytes are computed from those of another has its requests served here: reading the
//! other may wait, which the thread of the request must not.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_device::completion_panicked;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    is_ended: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// See the module's text. When it is dropped, its threads end after what they do, and what waits is
/// dropped.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// At most `threads` threads of this name; without any, work is dropped.
    #[must_use]
    pub fn new(name: &str, threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let start = |_| {
            let shared = shared.clone();
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn(move || shared.serve()).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self { shared, threads }
    }

    /// Has a thread do this, after what was given before.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        if self.threads.is_empty() {
            return;
        }
        self.shared.queue.lock().waiting.push_back(Box::new(work));
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn serve(&self) {
        while let Some(work) = self.next() {
            // What it was about was dropped with it.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                completion_panicked();
            }
        }
    }

    /// Waits for work; `None`: there will be none.
    fn next(&self) -> Option<Work> {
        let mut queue = self.queue.lock();
        loop {
            if queue.is_ended {
                return None;
            }
            if let Some(work) = queue.waiting.pop_front() {
                return Some(work);
            }
            queue = self.changed.wait(queue);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let waiting = {
            let mut queue = self.shared.queue.lock();
            queue.is_ended = true;
            std::mem::take(&mut queue.waiting)
        };
        self.shared.changed.notify_all();
        drop(waiting);
        // Work may have the last reference to what owns this.
        let own = thread::current().id();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
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
        workers.run(|| panic!("expected in this test"));
        for number in 0..100 {
            let sender = sender.clone();
            workers.run(move || sender.send(number).unwrap());
        }
        drop(sender);
        let mut done: Vec<u32> = receiver.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn what_waits_at_the_end_is_dropped() {
        let (sender, receiver) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let workers = Workers::new("test", 1);
        let (release, released) = mpsc::channel::<()>();
        workers.run(move || {
            begun.send(()).unwrap();
            let _ = released.recv();
        });
        has_begun.recv().unwrap();
        workers.run(move || sender.send(()).unwrap());
        let ending = thread::spawn(move || drop(workers));
        // Disconnected without a message: the work was dropped, not run.
        assert!(receiver.recv().is_err());
        drop(release);
        ending.join().unwrap();
        Workers::new("test", 0).run(|| panic!("has no thread"));
    }

    #[test]
    fn the_last_reference_may_go_in_a_thread_of_its_own() {
        let (sender, receiver) = mpsc::channel();
        let workers = Arc::new(Workers::new("test", 1));
        let own = workers.clone();
        let (release, released) = mpsc::channel::<()>();
        workers.run(move || {
            let _ = released.recv();
            drop(own);
            sender.send(()).unwrap();
        });
        drop(workers);
        drop(release);
        receiver.recv().unwrap();
    }
}
