//! Which thread does what may wait.
//!
//! Problem: the thread that received a call is the best one to wait for storage (no hand-over, no
//! copy of a write's data), but one thread must always receive: the kernel can take back a request
//! only before that, and a killed program waits for its closes.
//!
//! Rule: of the R readers at most R - 1 wait at a time. The last one hands what would wait to
//! workers, which start as needed, up to a bound; the rest waits in a queue.
//!
//! ```text
//!  reader --+-- one of R - 1: waits here
//!           +-- the last: queue --+-- no data --------------------------> worker
//!                                 +-- read, once it has a lease --------> worker
//!                                 +-- write, at most 16 MiB at a time --> worker
//! ```
//!
//! A read that gets no lease, and a write while workers hold [`HELD_BYTES_MAX`], stay in the queue
//! in their order; what needs no memory passes them. The requests of a killed program leave the
//! queue.
//!
//! The kernel may have 64 requests of 1 MiB in flight, and each program one more; the cache lends
//! only so many pages to answers, and the rest is copied. So a read that is to wait takes a lease
//! of its size until the answer is sent. Read-ahead goes on meanwhile, so [`READ_BYTES_MAX`] need
//! only be what programs can take.
//!
//! For writes beyond [`HELD_BYTES_MAX`] (16 MiB) the last reader waits until one of them ends. When
//! none has ended for [`PATIENCE`] (1 s), it takes more, up to [`OVERDUE_BYTES_MAX`] (256 MiB): 256
//! programs in a write of 1 MiB to a silent server leave a mount that answers, and each can be
//! killed.
//!
//! Weaknesses: beyond that the mount receives nothing until a write ends or its program is killed.
//! Programs that read a little wait behind those that read a lot.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use pagewell_counters::names;

/// Most data of reads that wait.
const READ_BYTES_MAX: usize = 16 << 20;
/// Most data of writes in the queue and with workers while storage answers.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The same when storage does not answer.
const OVERDUE_BYTES_MAX: usize = 256 << 20;
/// Storage counts as not answering when no write has ended for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The right to hold so much data of a read.
pub(crate) struct ReadLease {
    dispatch: Arc<Dispatch>,
    bytes: usize,
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        let mut queue = self.dispatch.queue.lock();
        queue.lent_bytes -= self.bytes;
        // Reads may wait for it.
        self.dispatch.wake(&mut queue);
    }
}

pub(crate) type Work = Box<dyn FnOnce(Option<ReadLease>) + Send>;

/// Whether the caller of a job still waits.
pub(crate) type Wanted = Box<dyn Fn() -> bool + Send>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Memory {
    None,
    Lease(usize),
    /// A write, which holds so many bytes.
    Data(usize),
}

impl Memory {
    fn data(self) -> usize {
        match self {
            Memory::Data(bytes) => bytes,
            Memory::None | Memory::Lease(_) => 0,
        }
    }
}

struct Job {
    memory: Memory,
    wanted: Option<Wanted>,
    work: Work,
}

impl Job {
    fn is_wanted(&self) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted())
    }
}

pub(crate) struct Dispatch {
    readers: usize,
    waiting_readers: AtomicUsize,
    workers_max: usize,
    queue: Mutex<Queue>,
    ready: Condvar,
    released: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    lent_bytes: usize,
    /// Data of writes here and with workers, and only with workers.
    bytes: usize,
    working_bytes: usize,
    /// When a write ended last, or the first one of several began.
    moved: Option<Instant>,
    workers: usize,
    /// Workers that have not reached the queue yet.
    starting: usize,
    idle: usize,
    stopping: bool,
}

impl Queue {
    /// The positions of the jobs that workers could begin now. No read overtakes a read, and no
    /// write a write.
    fn startable(&self) -> impl Iterator<Item = usize> {
        let (mut left, mut working) = (READ_BYTES_MAX - self.lent_bytes, self.working_bytes);
        let (mut leases_are_left, mut data_may_go) = (true, true);
        let may_begin = move |(index, job): (usize, &Job)| {
            let may_begin = match job.memory {
                Memory::None => true,
                Memory::Lease(bytes) => {
                    let bytes = bytes.min(READ_BYTES_MAX);
                    leases_are_left &= bytes <= left;
                    left = left.saturating_sub(bytes);
                    leases_are_left
                }
                Memory::Data(bytes) => {
                    data_may_go &= working == 0 || working + bytes <= HELD_BYTES_MAX;
                    working += bytes;
                    data_may_go
                }
            };
            may_begin.then_some(index)
        };
        self.jobs.iter().enumerate().filter_map(may_begin)
    }
}

pub(crate) struct Here<'a>(&'a Dispatch);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.waiting_readers.fetch_sub(1, Ordering::AcqRel);
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
            released: Condvar::new(),
        }
    }

    /// Whether this reader may wait, with the lease of a read.
    pub(crate) fn here(self: &Arc<Self>, memory: Memory) -> Option<(Here<'_>, Option<ReadLease>)> {
        let before = self.waiting_readers.fetch_add(1, Ordering::AcqRel);
        let here = Here(self);
        if before + 1 >= self.readers {
            return None;
        }
        let Memory::Lease(bytes) = memory else {
            return Some((here, None));
        };
        let mut queue = self.queue.lock();
        let bytes = bytes.min(READ_BYTES_MAX);
        let is_read = |job: &Job| matches!(job.memory, Memory::Lease(_));
        // Earlier reads go first.
        if queue.lent_bytes + bytes > READ_BYTES_MAX || queue.jobs.iter().any(is_read) {
            return None;
        }
        let lease = self.lend(&mut queue, bytes);
        Some((here, Some(lease)))
    }

    fn lend(self: &Arc<Self>, queue: &mut Queue, bytes: usize) -> ReadLease {
        queue.lent_bytes += bytes;
        ReadLease {
            dispatch: Arc::clone(self),
            bytes,
        }
    }

    /// Wakes an idle worker for the jobs that can begin, and starts one if those are too few.
    fn wake(self: &Arc<Self>, queue: &mut Queue) {
        if queue.jobs.is_empty() {
            return;
        }
        let startable = queue.startable().count();
        if startable > 0 && queue.idle > 0 {
            self.ready.notify_one();
        }
        // One worker at least, in case no thread can be started later.
        let is_short = queue.idle + queue.starting < startable || queue.workers == 0;
        if is_short && queue.workers < self.workers_max {
            let dispatch = Arc::clone(self);
            let worker = std::thread::Builder::new().name("fuse-worker".to_owned());
            let started = worker.spawn(move || dispatch.work());
            queue.workers += usize::from(started.is_ok());
            queue.starting += usize::from(started.is_ok());
        }
    }

    fn hold<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, bytes: usize) -> MutexGuard<'a, Queue> {
        if queue.bytes == 0 {
            queue.moved = Some(Instant::now());
        }
        while queue.bytes > 0 && queue.bytes + bytes > HELD_BYTES_MAX && !queue.stopping {
            let still = queue.moved.map_or(PATIENCE, |moved| moved.elapsed());
            let rest = PATIENCE.saturating_sub(still);
            if !rest.is_zero() {
                queue = self.released.wait_timeout(queue, rest);
            } else if queue.bytes + bytes <= OVERDUE_BYTES_MAX {
                names::FUSE_WRITES_OVERDUE.add(1);
                break;
            } else {
                queue = self.released.wait(queue);
            }
        }
        queue
    }

    /// Leaves `work` to a worker, which drops it if its caller does not wait any more.
    pub(crate) fn hand_over(self: &Arc<Self>, memory: Memory, wanted: Option<Wanted>, work: Work) {
        let mut queue = self.queue.lock();
        if memory.data() > 0 {
            queue = self.hold(queue, memory.data());
        }
        if queue.stopping {
            drop(queue);
            return work(None);
        }
        queue.bytes += memory.data();
        queue.jobs.push_back(Job {
            memory,
            wanted,
            work,
        });
        self.wake(&mut queue);
        if queue.workers == 0
            && let Some(job) = queue.jobs.pop_back()
        {
            queue.bytes -= memory.data();
            drop(queue);
            (job.work)(None);
        }
    }

    fn work(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.starting -= 1;
        loop {
            if let Some((job, lease)) = self.next(&mut queue) {
                let data = job.memory.data();
                drop(queue);
                // A defect costs the request, not the worker.
                let work = || job.is_wanted().then(|| (job.work)(lease));
                if catch_unwind(AssertUnwindSafe(work)).is_err() {
                    names::PANICS.add(1);
                }
                queue = self.queue.lock();
                queue.working_bytes -= data;
                self.release(&mut queue, data);
            } else if queue.stopping {
                return;
            } else {
                queue.idle += 1;
                queue = self.ready.wait(queue);
                queue.idle -= 1;
            }
        }
    }

    fn next(self: &Arc<Self>, queue: &mut Queue) -> Option<(Job, Option<ReadLease>)> {
        let index = queue.startable().next()?;
        let job = queue.jobs.remove(index)?;
        let lease = match job.memory {
            Memory::Lease(bytes) => Some(self.lend(queue, bytes.min(READ_BYTES_MAX))),
            Memory::None | Memory::Data(_) => None,
        };
        queue.working_bytes += job.memory.data();
        // The end of one job may let several begin.
        self.wake(queue);
        Some((job, lease))
    }

    fn release(&self, queue: &mut Queue, bytes: usize) {
        if bytes > 0 {
            queue.bytes -= bytes;
            queue.moved = Some(Instant::now());
            self.released.notify_all();
        }
    }

    /// Drops the jobs in the queue whose callers were killed.
    pub(crate) fn drop_unwanted(&self) {
        let mut queue = self.queue.lock();
        let jobs = std::mem::take(&mut queue.jobs);
        let (wanted, unwanted): (VecDeque<Job>, VecDeque<Job>) =
            jobs.into_iter().partition(Job::is_wanted);
        queue.jobs = wanted;
        queue.bytes -= unwanted.iter().map(|job| job.memory.data()).sum::<usize>();
        if !unwanted.is_empty() {
            self.released.notify_all();
            self.ready.notify_all();
        }
        drop(queue);
        drop(unwanted);
    }

    pub(crate) fn stop(&self) {
        self.queue.lock().stopping = true;
        self.ready.notify_all();
        self.released.notify_all();
    }
}

#[cfg(test)]
mod tests;
