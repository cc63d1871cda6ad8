//! The threads that may wait for storage.
//!
//! Problem: a call that waits for a disk must not hold up the other calls of its connection, a
//! client with a thousand calls queued, or with a hundred connections, must not hold up a client
//! with one call, and an export whose disk is slow must not hold up another. Rule: each export has
//! a lane, in which so many calls are done at once as are configured. In a lane addresses take
//! turns, and at an address its connections. A connection may have three quarters of its lane at
//! once, an address seven eighths. Listings, which take far more of a processor than other calls,
//! have a pool of their own with fewer threads, which let others go first ([`Pool::polite`]).
//!
//! ```text
//!   lane 1 ─┬─ address A ─┬─ connection 1: 200 calls
//!           │             └─ connection 2:   3 calls
//!           └─ address B ─── connection 3:   2 calls      taken: A1, B3, A2, B3, A1, A2, ...
//!   lane 2 ─── ...                                        lanes take turns too
//! ```
//!
//! Threads are started when more calls may be done than threads are free. (A free thread that was
//! called stays counted as free until it has taken its call, so "is one free" is the wrong
//! question: of two calls queued at once the second would wait behind the first, however long
//! storage holds that.) A lane in which storage has held calls for long gets more threads, up to
//! three times as many: a dead file must not take its export with it. How many can be held beyond
//! that is bounded where calls are begun (see `slow`).

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use pagewell_counters::names;

use crate::share::Address;

/// Threads and the jobs that wait for one.
pub struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    niceness: i32,
    run: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    /// Exports take turns, then addresses, then connections.
    turns: Turns<(Flow, J)>,
    threads: usize,
    /// Threads that have not taken their first job yet.
    starting: usize,
    free: usize,
    lane_threads_max: usize,
    /// Threads that lanes have on top, because storage holds calls.
    extra: HashMap<u32, usize>,
    stopping: bool,
}

/// The jobs among which one is queued: those of one connection at one export.
#[derive(Clone, Copy)]
pub struct Flow {
    /// The export's number.
    pub export: u32,
    /// Of the client.
    pub address: Address,
    /// Of the connection.
    pub token: u64,
}

impl<J: Send + 'static> Pool<J> {
    /// For each lane at most `lane_threads_max` threads that call `run`.
    pub fn new(lane_threads_max: usize, run: impl Fn(J) + Send + Sync + 'static) -> Arc<Self> {
        Self::polite(lane_threads_max, 0, run)
    }

    /// The same, of threads that have so much niceness (`sched(7)`) more than the process.
    pub fn polite(
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

    /// Queues one job.
    pub fn queue(self: &Arc<Self>, flow: &Flow, job: J) {
        let mut state = self.state.lock();
        let path = state.path(flow);
        state.turns.put(&path, (*flow, job));
        self.call_thread(state);
    }

    /// Says how many calls storage holds in each lane at the moment; other lanes have none.
    pub fn set_held(self: &Arc<Self>, held: &HashMap<u32, usize>) {
        let mut state = self.state.lock();
        state.set_held(held);
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

    /// Sees to it that a thread takes the next job, if there is one to be begun.
    fn call_thread(self: &Arc<Self>, state: MutexGuard<'_, State<J>>) {
        if state.wants_thread() {
            self.start_thread(state);
        } else if state.turns.ready() > 0 {
            drop(state);
            self.work.notify_one();
        }
    }

    /// Starts one more thread; returns whether the system lets us.
    fn start_thread(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) -> bool {
        state.threads += 1;
        state.starting += 1;
        drop(state);
        let pool = self.clone();
        // The new thread inherits the user that this one acts for.
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

    /// Lets the threads end once every queue is empty.
    pub fn stop(&self) {
        self.state.lock().stopping = true;
        self.work.notify_all();
    }

    fn serve(self: &Arc<Self>) {
        if self.niceness > 0 {
            // On Linux of this thread alone. Where it is refused the thread is only less polite.
            let _ = rustix::process::nice(self.niceness);
        }
        let mut state = self.state.lock();
        state.starting -= 1;
        loop {
            if let Some((flow, job)) = state.turns.take() {
                // What this one leaves, another must find.
                self.call_thread(state);
                // Nothing panics by intention. If something does, it costs that job alone.
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
    /// Whether there are jobs that no free thread will take.
    fn wants_thread(&self) -> bool {
        self.turns.ready() > self.free + self.starting
    }

    /// Where a flow is, and how many jobs of its lane, its address and its connection may be under
    /// way.
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

    fn set_held(&mut self, held: &HashMap<u32, usize>) {
        let most = self.lane_threads_max;
        let extra = |held: usize| {
            // Calls that are only answered "ask again later" need threads too.
            let more = if held >= 2 * most { most } else { 0 };
            held.min(2 * most) + more
        };
        let extra = held.iter().map(|(export, held)| (*export, extra(*held)));
        let before = std::mem::replace(&mut self.extra, extra.collect());
        if before == self.extra {
            return;
        }
        let exports = before.keys().chain(self.extra.keys());
        // The turns of a lane begin anew when its limits change.
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

/// The way to a line of jobs: the key of each branch, and how many jobs of it may be under way.
type Path = [(u128, usize); 3];

/// A line of jobs, or a fork whose branches take turns. All lines are behind equally many forks.
struct Turns<J> {
    /// How many jobs may be under way at once.
    limit: usize,
    /// Of a line.
    jobs: VecDeque<J>,
    /// Of a fork.
    branches: HashMap<u128, Turns<J>>,
    /// The branches with jobs that may be begun, and no others.
    ring: VecDeque<u128>,
    running: usize,
    /// Jobs in line, as far as the limits of the branches let them be begun.
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

    /// How many jobs may be begun now.
    fn ready(&self) -> usize {
        self.waiting.min(self.limit.saturating_sub(self.running))
    }

    /// Whether no job is in line or under way.
    fn is_empty(&self) -> bool {
        self.running == 0 && self.jobs.is_empty() && self.branches.is_empty()
    }

    /// Puts a job at the end of a line.
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

    /// Takes the job whose turn it is; it is under way until [`Turns::end`].
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

    /// A job of a line has come to its end.
    fn end(&mut self, path: &[(u128, usize)]) {
        assert!(self.running > 0, "a job has ended that was not begun");
        self.running -= 1;
        if let Some(((key, _), path)) = path.split_first() {
            self.change(*key, |branch| branch.end(path));
        }
    }

    /// Other limits hold from now on, here and behind.
    fn set_limits(&mut self, limits: &[usize]) {
        if let Some((limit, limits)) = limits.split_first() {
            self.limit = *limit;
            let branches = self.branches.values_mut();
            branches.for_each(|branch| branch.set_limits(limits));
            self.count();
        }
    }

    /// Counts what may be begun, after branches have changed.
    fn count(&mut self) {
        let ready = self
            .branches
            .iter()
            .filter(|(_, branch)| branch.ready() > 0);
        self.ring = ready.map(|(key, _)| *key).collect();
        let branches = self.branches.values().map(Self::ready);
        self.waiting = self.jobs.len() + branches.sum::<usize>();
    }

    /// Changes a branch and keeps count of it.
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
