//! Which thread does what may wait.
//!
//! Problem: a call that waits for storage is best made by the thread that received it (there is
//! nothing to hand over, and the data of a write need not be copied), but somebody must always be
//! receiving: the kernel can take back a request that nobody has received, and a killed program
//! waits for its last requests, such as the closing of its files.
//!
//! Rule: of the R readers at most R - 1 wait at a time. The last one hands what would wait to
//! workers, which are started as they are needed, up to a bound; what is too much for them waits
//! in a queue. Each entry is one waiting program or one request of the kernel's read-ahead, both
//! of which the kernel bounds. Only the data of writes is worth counting: when the queue and the
//! workers hold [`QUEUED_BYTES_MAX`] of it the last reader waits after all.
//!
//! Weakness: then nothing is received until one of those writes is done.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pagewell_counters::names;

/// Data of writes that may be in the queue and with workers.
const QUEUED_BYTES_MAX: usize = 16 << 20;

/// Something to be done by a worker.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// See the top of the file.
pub(crate) struct Dispatch {
    readers: usize,
    waiting_readers: AtomicUsize,
    workers_max: usize,
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(usize, Job)>,
    bytes: usize,
    workers: usize,
    idle: usize,
    stopping: bool,
}

/// A reader that may wait; until it is dropped.
pub(crate) struct Here<'a>(&'a AtomicUsize);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Dispatch {
    pub(crate) fn new(readers: usize, workers_max: usize) -> Self {
        Self {
            readers,
            waiting_readers: AtomicUsize::new(0),
            workers_max: workers_max.max(1),
            queue: Mutex::default(),
            ready: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the reader that asks may wait.
    pub(crate) fn here(&self) -> Option<Here<'_>> {
        let before = self.waiting_readers.fetch_add(1, Ordering::AcqRel);
        let here = Here(&self.waiting_readers);
        (before + 1 < self.readers).then_some(here)
    }

    /// Has `job`, which holds `bytes` of data, done by a worker.
    pub(crate) fn hand_over(self: &Arc<Self>, bytes: usize, job: Job) {
        let mut queue = self.lock();
        if queue.bytes + bytes > QUEUED_BYTES_MAX || queue.stopping {
            drop(queue);
            return job();
        }
        names::FUSE_HANDED_OVER.add(1);
        queue.bytes += bytes;
        queue.jobs.push_back((bytes, job));
        if queue.idle >= queue.jobs.len() {
            drop(queue);
            return self.ready.notify_one();
        }
        if queue.workers < self.workers_max {
            let dispatch = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name("fuse-worker".to_owned())
                .spawn(move || dispatch.work());
            match started {
                Ok(_) => queue.workers += 1,
                // Without any worker nobody would ever do it.
                Err(_) if queue.workers == 0 => {
                    let job = queue.jobs.pop_back();
                    queue.bytes -= bytes;
                    drop(queue);
                    if let Some((_, job)) = job {
                        job();
                    }
                }
                Err(_) => {}
            }
        }
    }

    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if let Some((bytes, job)) = queue.jobs.pop_front() {
                drop(queue);
                // A defect costs the request, not the worker of all that come later.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    names::PANICS.add(1);
                }
                queue = self.lock();
                queue.bytes -= bytes;
            } else if queue.stopping {
                return;
            } else {
                queue.idle += 1;
                queue = self
                    .ready
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }

    /// Nothing more will come: the workers end when they are done.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_last_reader_never_waits() {
        let dispatch = Dispatch::new(3, 1);
        let (one, two) = (dispatch.here(), dispatch.here());
        assert!(one.is_some() && two.is_some());
        assert!(dispatch.here().is_none());
        drop(one);
        assert!(dispatch.here().is_some());
        drop(two);
    }

    #[test]
    fn handed_over_jobs_are_done_also_when_workers_are_few() {
        let dispatch = Arc::new(Dispatch::new(1, 2));
        let (done, results) = channel();
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for number in 0..2 {
            let (done, gate) = (done.clone(), Arc::clone(&gate));
            let job = move || {
                let _ = gate.lock().unwrap().recv();
                done.send(number).unwrap();
            };
            dispatch.hand_over(1, Box::new(job));
        }
        // Both workers wait; what comes now stays in the queue.
        for number in 2..10 {
            let done = done.clone();
            dispatch.hand_over(1 << 20, Box::new(move || done.send(number).unwrap()));
        }
        // What the queue cannot hold is done here.
        let (other, here) = (done.clone(), std::thread::current().id());
        let job = move || {
            assert_eq!(std::thread::current().id(), here);
            other.send(99).unwrap();
        };
        dispatch.hand_over(QUEUED_BYTES_MAX, Box::new(job));
        assert_eq!(results.recv(), Ok(99));
        drop(open);
        let mut numbers: Vec<i32> = (0..10).map(|_| results.recv().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        dispatch.stop();
    }
}
