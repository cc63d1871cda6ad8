//! The threads that may wait for storage.
//!
//! A call that waits for a disk must not delay other calls of its connection, nor a busy client
//! another, nor a slow export another. Each export has a lane of threads. In a lane addresses take
//! turns, and at an address its connections. A connection may use three quarters of the lane, an
//! address seven eighths. Listings, which cost most processor time, have a pool of their own
//! ([`Pool::low_priority`]).
//!
//! ```text
//!   lane 1 ─┬─ address A ─┬─ connection 1: 200 calls
//!           │             └─ connection 2:   3 calls
//!           └─ address B ─── connection 3:   2 calls      taken: A1, B3, A2, B3, A1, A2, ...
//!   lane 2 ─── ...                                        lanes take turns too
//! ```
//!
//! A thread starts when more calls are ready than threads are free. ("Is one free" is not enough: a
//! woken thread counts as free until it takes its call.) A lane with stalled calls gets up to three
//! times its threads, so that a dead file does not stop its export.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use pagewell_counters::names;

use crate::share::Address;

/// Threads, and jobs that wait for one.
pub struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    niceness: i32,
    run: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    /// Of exports, in them of addresses, in these of connections.
    turns: Turns<(Flow, J)>,
    threads: usize,
    /// Without a first job yet.
    starting: usize,
    free: usize,
    lane_threads_max: usize,
    /// Of lanes with stalled calls.
    extra: HashMap<u32, usize>,
    stopping: bool,
}

/// The jobs of one connection at one export.
#[derive(Clone, Copy)]
pub struct Flow {
    /// The export.
    pub export: u32,
    /// The client.
    pub address: Address,
    /// The connection.
    pub token: u64,
}

impl<J: Send + 'static> Pool<J> {
    /// At most `lane_threads_max` threads of a lane call `run`.
    pub fn new(lane_threads_max: usize, run: impl Fn(J) + Send + Sync + 'static) -> Arc<Self> {
        Self::low_priority(lane_threads_max, 0, run)
    }

    /// At a niceness (`sched(7)`) above that of the process.
    pub fn low_priority(
        lane_threads_max: usize,
        niceness: i32,
        run: impl Fn(J) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                turns: Turns::new(usize::MAX),
                threads: 0,
                starting: 0,
                free: 0,
                lane_threads_max: lane_threads_max.max(1),
                extra: HashMap::new(),
                stopping: false,
            }),
            work: Condvar::new(),
            niceness,
            run: Box::new(run),
        })
    }

    /// Queues a job.
    pub fn queue(self: &Arc<Self>, flow: &Flow, job: J) {
        let mut state = self.state.lock();
        let path = state.path(flow);
        state.turns.put(&path, (*flow, job));
        self.call_thread(state);
    }

    /// Sets the number of stalled calls of each lane; unnamed lanes have none.
    pub fn set_stalled(self: &Arc<Self>, stalled: &HashMap<u32, usize>) {
        let mut state = self.state.lock();
        state.set_stalled(stalled);
        while state.wants_thread() {
            if !self.start_thread(state) {
                return;
            }
            state = self.state.lock();
        }
        let has_ready = state.turns.ready() > 0;
        drop(state);
        if has_ready {
            self.work.notify_all();
        }
    }

    /// For the next ready job.
    fn call_thread(self: &Arc<Self>, state: MutexGuard<'_, State<J>>) {
        if state.wants_thread() {
            self.start_thread(state);
        } else if state.turns.ready() > 0 {
            drop(state);
            self.work.notify_one();
        }
    }

    fn start_thread(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) -> bool {
        state.threads += 1;
        state.starting += 1;
        drop(state);
        let pool = self.clone();
        // A new thread inherits this thread's user.
        pagewell_fs::identity::act_for_server();
        let started = std::thread::Builder::new()
            .name("pagewell-pool".into())
            .stack_size(256 << 10)
            .spawn(move || pool.serve());
        if started.is_err() {
            let mut state = self.state.lock();
            state.threads -= 1;
            state.starting -= 1;
        }
        started.is_ok()
    }

    /// Threads end once every queue is empty.
    pub fn stop(&self) {
        self.state.lock().stopping = true;
        self.work.notify_all();
    }

    fn serve(self: &Arc<Self>) {
        if self.niceness > 0 {
            // On Linux of this thread alone. A refusal only costs the priority.
            let _ = rustix::process::nice(self.niceness);
        }
        let mut state = self.state.lock();
        state.starting -= 1;
        loop {
            if let Some((flow, job)) = state.turns.take() {
                // Another thread must find the remaining jobs.
                self.call_thread(state);
                // No panic is intended. One costs only its job.
                if catch_unwind(AssertUnwindSafe(|| (self.run)(job))).is_err() {
                    names::PANICS.add(1);
                }
                state = self.state.lock();
                let path = state.path(&flow);
                state.turns.end(&path);
            } else if state.stopping || state.free >= state.lane_threads_max {
                break;
            } else {
                state.free += 1;
                state = self.work.wait(state);
                state.free -= 1;
            }
        }
        assert!(
            state.free < state.threads,
            "a thread ends that is free or was not counted"
        );
        state.threads -= 1;
    }
}

impl<J> State<J> {
    fn wants_thread(&self) -> bool {
        self.turns.ready() > self.free + self.starting
    }

    fn path(&self, flow: &Flow) -> Path {
        let [lane, address, connection] = self.limits(flow.export);
        [
            (flow.export.into(), lane),
            (flow.address.bits(), address),
            (flow.token.into(), connection),
        ]
    }

    fn limits(&self, export: u32) -> [usize; 3] {
        let most = self.lane_threads_max;
        let extra = self.extra.get(&export).copied().unwrap_or(0);
        [most, most - most / 8, most - most / 4].map(|limit| limit + extra)
    }

    fn set_stalled(&mut self, stalled: &HashMap<u32, usize>) {
        let most = self.lane_threads_max;
        let extra = |stalled: usize| {
            // Calls that only get "try later" need threads, too.
            let more = if stalled >= 2 * most { most } else { 0 };
            stalled.min(2 * most) + more
        };
        let extra = stalled
            .iter()
            .map(|(export, stalled)| (*export, extra(*stalled)));
        let before = std::mem::replace(&mut self.extra, extra.collect());
        if before == self.extra {
            return;
        }
        let exports = before.keys().chain(self.extra.keys());
        // Its ready jobs count by the new limits.
        let changed = exports.filter(|export| before.get(export) != self.extra.get(export));
        for export in changed {
            let limits = self.limits(*export);
            if let Some(lane) = self.turns.branches.get_mut(&u128::from(*export)) {
                lane.set_limits(&limits);
            }
        }
        self.turns.count();
    }
}

/// The key and the limit of each branch to a queue.
type Path = [(u128, usize); 3];

/// A queue, or a fork whose branches take turns. All queues have the same depth.
struct Turns<J> {
    limit: usize,
    jobs: VecDeque<J>,
    branches: HashMap<u128, Turns<J>>,
    /// Exactly the branches with ready jobs.
    ring: VecDeque<u128>,
    running: usize,
    /// Up to the limits of the branches.
    waiting: usize,
}

impl<J> Turns<J> {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            jobs: VecDeque::new(),
            branches: HashMap::new(),
            ring: VecDeque::new(),
            running: 0,
            waiting: 0,
        }
    }

    /// Jobs that may begin now.
    fn ready(&self) -> usize {
        self.waiting.min(self.limit.saturating_sub(self.running))
    }

    fn is_empty(&self) -> bool {
        self.running == 0 && self.jobs.is_empty() && self.branches.is_empty()
    }

    fn put(&mut self, path: &[(u128, usize)], job: J) {
        if let Some(((key, limit), path)) = path.split_first() {
            let branch = self.branches.entry(*key);
            branch.or_insert_with(|| Self::new(*limit));
            self.change(*key, |branch| branch.put(path, job));
        } else {
            self.jobs.push_back(job);
            self.waiting = self.jobs.len();
        }
    }

    /// The job runs until [`Turns::end`].
    fn take(&mut self) -> Option<J> {
        if self.ready() == 0 {
            return None;
        }
        let job = if let Some(key) = self.ring.pop_front() {
            let (job, has_more) = self.change(key, |branch| (branch.take(), branch.ready() > 0))?;
            if has_more {
                self.ring.push_back(key);
            }
            job?
        } else {
            let job = self.jobs.pop_front()?;
            self.waiting = self.jobs.len();
            job
        };
        self.running += 1;
        Some(job)
    }

    fn end(&mut self, path: &[(u128, usize)]) {
        assert!(self.running > 0, "a job has ended that was not begun");
        self.running -= 1;
        if let Some(((key, _), path)) = path.split_first() {
            self.change(*key, |branch| branch.end(path));
        }
    }

    fn set_limits(&mut self, limits: &[usize]) {
        if let Some((limit, limits)) = limits.split_first() {
            self.limit = *limit;
            let branches = self.branches.values_mut();
            branches.for_each(|branch| branch.set_limits(limits));
            self.count();
        }
    }

    fn count(&mut self) {
        let ready = self
            .branches
            .iter()
            .filter(|(_, branch)| branch.ready() > 0);
        self.ring = ready.map(|(key, _)| *key).collect();
        let branches = self.branches.values().map(Self::ready);
        self.waiting = self.jobs.len() + branches.sum::<usize>();
    }

    fn change<T>(&mut self, key: u128, change: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let branch = self.branches.get_mut(&key)?;
        let before = branch.ready();
        let result = change(branch);
        let ready = branch.ready();
        self.waiting = self.waiting + ready - before;
        if before == 0 && ready > 0 {
            self.ring.push_back(key);
        }
        if branch.is_empty() {
            self.branches.remove(&key);
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests;
