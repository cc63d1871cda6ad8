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
use std::sync::Arc;

use pagewell_base::sync::{Condvar, Mutex, MutexGuard};

use crate::share::Address;
use crate::workers::turns::Turns;

/// Threads and the jobs that wait for one.
pub struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    niceness: i32,
    run: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    lanes: HashMap<u32, Lane<J>>,
    /// Lanes with jobs to be begun.
    ring: VecDeque<u32>,
    threads: usize,
    /// Threads that have not taken their first job yet.
    starting: usize,
    free: usize,
    lane_threads_max: usize,
    stopping: bool,
}

/// The jobs of one export.
struct Lane<J> {
    turns: Turns<(Flow, J)>,
    threads_max: usize,
    /// Threads on top, because storage holds calls.
    extra: usize,
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

impl Flow {
    /// Where it is in a lane.
    fn path(&self) -> [u128; 2] {
        [self.address.bits(), self.token.into()]
    }
}

impl<J: Send + 'static> Pool<J> {
    /// For each lane at most `lane_threads_max` threads that call `run`.
    #[must_use]
    pub fn new(lane_threads_max: usize, run: impl Fn(J) + Send + Sync + 'static) -> Arc<Self> {
        Self::polite(lane_threads_max, 0, run)
    }

    /// The same, of threads that have so much niceness (`sched(7)`) more than the process.
    #[must_use]
    pub fn polite(
        lane_threads_max: usize,
        niceness: i32,
        run: impl Fn(J) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                lanes: HashMap::new(),
                ring: VecDeque::new(),
                threads: 0,
                starting: 0,
                free: 0,
                lane_threads_max: lane_threads_max.max(1),
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
        state.put(flow, job);
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
        let has_ready = state.ready() > 0;
        drop(state);
        if has_ready {
            self.work.notify_all();
        }
    }

    /// Sees to it that a thread takes the next job, if there is one to be begun.
    fn call_thread(self: &Arc<Self>, state: MutexGuard<'_, State<J>>) {
        if state.wants_thread() {
            self.start_thread(state);
        } else if state.ready() > 0 {
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
            if let Some((flow, job)) = state.next() {
                // What this one leaves, another must find.
                self.call_thread(state);
                (self.run)(job);
                state = self.state.lock();
                state.end(&flow);
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

impl<J> Lane<J> {
    fn new(threads_max: usize) -> Self {
        Self {
            turns: Turns::default(),
            threads_max,
            extra: 0,
        }
    }

    /// How many jobs of an address and of a connection may be under way.
    fn limits(&self) -> [usize; 2] {
        let of_address = self.threads_max - self.threads_max / 8;
        let of_connection = self.threads_max - self.threads_max / 4;
        [of_address + self.extra, of_connection + self.extra]
    }

    /// How many of the queued jobs may be begun now.
    fn ready(&self) -> usize {
        self.turns.ready(self.threads_max + self.extra)
    }
}

impl<J> State<J> {
    fn put(&mut self, flow: &Flow, job: J) {
        let lane = self.lanes.entry(flow.export);
        let lane = lane.or_insert_with(|| Lane::new(self.lane_threads_max));
        let limits = lane.limits();
        lane.turns.put(&flow.path(), &limits, (*flow, job));
        self.call(flow.export);
    }

    /// Puts a lane with jobs to be begun into the ring.
    fn call(&mut self, lane: u32) {
        let is_ready = |lane: &Lane<J>| lane.ready() > 0;
        if self.lanes.get(&lane).is_some_and(is_ready) && !self.ring.contains(&lane) {
            self.ring.push_back(lane);
        }
    }

    /// How many jobs may be begun now.
    fn ready(&self) -> usize {
        let lanes = self.ring.iter().filter_map(|lane| self.lanes.get(lane));
        lanes.map(Lane::ready).sum()
    }

    /// Whether there are jobs that no free thread will take.
    fn wants_thread(&self) -> bool {
        self.ready() > self.free + self.starting
    }

    fn next(&mut self) -> Option<(Flow, J)> {
        for _ in 0..self.ring.len() {
            let number = self.ring.pop_front()?;
            let ready = self.lanes.get_mut(&number);
            let taken = ready
                .filter(|lane| lane.ready() > 0)
                .and_then(|lane| lane.turns.take(&lane.limits()));
            self.call(number);
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    fn end(&mut self, flow: &Flow) {
        if let Some(lane) = self.lanes.get_mut(&flow.export) {
            let limits = lane.limits();
            lane.turns.end(&flow.path(), &limits);
            if lane.turns.is_empty() {
                self.lanes.remove(&flow.export);
            }
        }
        self.call(flow.export);
    }

    fn set_held(&mut self, held: &HashMap<u32, usize>) {
        let threads_max = self.lane_threads_max;
        let lanes: Vec<u32> = self.lanes.keys().copied().collect();
        for number in lanes {
            let held = held.get(&number).copied().unwrap_or(0);
            // Calls that are only answered "ask again later" need threads too.
            let more = if held >= 2 * threads_max {
                threads_max
            } else {
                0
            };
            let extra = held.min(2 * threads_max) + more;
            if let Some(lane) = self.lanes.get_mut(&number)
                && lane.extra != extra
            {
                lane.extra = extra;
                lane.turns.set_limits(&lane.limits());
            }
            self.call(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::mpsc;

    /// Of a connection at an address of its own.
    fn queue<J: Send + 'static>(pool: &Arc<Pool<J>>, export: u32, token: u64, job: J) {
        let host = u32::try_from(token).unwrap();
        queue_at(pool, export, (host, token), job);
    }

    fn queue_at<J: Send + 'static>(
        pool: &Arc<Pool<J>>,
        export: u32,
        (host, token): (u32, u64),
        job: J,
    ) {
        let address = Address::of(IpAddr::V4(Ipv4Addr::from_bits(host)));
        let flow = Flow {
            export,
            address,
            token,
        };
        pool.queue(&flow, job);
    }

    #[test]
    fn connections_take_turns() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        let (finished, end) = mpsc::channel();
        let pool = Pool::new(1, move |job: &'static str| {
            if job == "first" {
                started.send(()).unwrap();
                gate.lock().recv().unwrap();
            }
            seen.lock().push(job);
            finished.send(()).unwrap();
        });
        queue(&pool, 1, 0, "first");
        begin.recv().unwrap();
        for job in ["a1", "a2", "a3"] {
            queue(&pool, 1, 1, job);
        }
        queue(&pool, 1, 2, "b1");
        release.send(()).unwrap();
        for _ in 0..5 {
            end.recv().unwrap();
        }
        assert_eq!(*order.lock(), ["first", "a1", "b1", "a2", "a3"]);
        pool.stop();
    }

    #[test]
    fn addresses_take_turns_however_many_connections_they_have() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = Pool::new(1, move |job: u64| {
            started.send(job).unwrap();
            gate.lock().recv().unwrap();
        });
        queue(&pool, 1, 0, 0);
        assert_eq!(begin.recv(), Ok(0));
        for token in 1..=100 {
            queue_at(&pool, 1, (7, token), token);
        }
        for job in [201, 202] {
            queue_at(&pool, 1, (8, 200), job);
        }
        for _ in 0..5 {
            release.send(()).unwrap();
        }
        let order: Vec<u64> = begin.iter().take(5).collect();
        assert_eq!(order, [1, 201, 2, 202, 3]);
        drop(release);
    }

    #[test]
    fn an_address_leaves_threads_to_others_however_many_connections_it_has() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = Pool::new(16, move |job: u64| {
            started.send(job).unwrap();
            let _ = gate.lock().recv();
        });
        for token in 1..=50 {
            queue_at(&pool, 1, (7, token), token);
        }
        for _ in 0..14 {
            assert!(begin.recv().unwrap() <= 50);
        }
        queue_at(&pool, 1, (8, 200), 200);
        assert_eq!(begin.recv(), Ok(200));
        assert!(begin.try_recv().is_err());
        drop(release);
    }

    #[test]
    fn no_job_waits_behind_a_held_one_while_there_may_be_another_thread() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = Pool::new(2, move |job: &'static str| {
            started.send(job).unwrap();
            if job == "held" {
                gate.lock().recv().unwrap();
            }
        });
        queue(&pool, 1, 0, "quick");
        begin.recv().unwrap();
        while pool.state.lock().free == 0 {
            std::thread::yield_now();
        }
        queue(&pool, 1, 0, "held");
        queue(&pool, 1, 1, "held");
        assert_eq!(begin.recv(), Ok("held"));
        assert_eq!(begin.recv(), Ok("held"));
        queue(&pool, 1, 2, "quick");
        pool.set_held(&HashMap::from([(1, 2)]));
        assert_eq!(begin.recv(), Ok("quick"));
        release.send(()).unwrap();
        release.send(()).unwrap();
        pool.stop();
    }

    #[test]
    fn a_lane_that_is_stuck_holds_up_no_other_and_a_client_not_its_lane() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = Pool::new(4, move |job: &'static str| {
            started.send(job).unwrap();
            if job == "held" {
                gate.lock().recv().unwrap();
            }
        });
        for _ in 0..20 {
            queue(&pool, 1, 7, "held");
        }
        for _ in 0..3 {
            assert_eq!(begin.recv(), Ok("held"));
        }
        queue(&pool, 2, 7, "other lane");
        assert_eq!(begin.recv(), Ok("other lane"));
        queue(&pool, 1, 8, "other client");
        assert_eq!(begin.recv(), Ok("other client"));
        assert!(begin.try_recv().is_err(), "no more of one client");
        pool.set_held(&HashMap::from([(1, 3)]));
        for _ in 0..3 {
            assert_eq!(begin.recv(), Ok("held"));
        }
        for _ in 0..20 {
            release.send(()).unwrap();
        }
        for _ in 0..14 {
            assert_eq!(begin.recv(), Ok("held"));
        }
        pool.stop();
        while pool.state.lock().threads > 0 {
            std::thread::yield_now();
        }
        assert!(pool.state.lock().lanes.is_empty());
    }

    #[test]
    fn every_job_is_done_once_by_many_threads() {
        let (done, results) = mpsc::channel();
        let pool = Pool::new(4, move |job: u64| done.send(job).unwrap());
        for job in 0..1000 {
            queue(&pool, (job % 3) as u32, job % 7, job);
        }
        let mut seen: Vec<u64> = results.iter().take(1000).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        pool.stop();
        while pool.state.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
