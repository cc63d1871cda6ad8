//! The threads that may wait for storage.
//!
//! Problem: a call that waits for a disk must not hold up the other calls of its connection, a
//! client with a thousand calls queued must not hold up a client with one, and an export whose
//! disk is slow must not hold up another. Rule: each export has a lane, in which so many calls are
//! done at once as are configured; in a lane each connection has its own queue, and connections
//! with queued calls stand in a ring. A free thread takes one call of the connection at the ring's
//! head, which then goes to the ring's tail. A connection may have three quarters of its lane.
//!
//! ```text
//!   lane 1  ring:  (A: 3 calls) -> (B: 1 call) -> (C: 200 calls) ->
//!           taken: A1, B1, C1, A2, C2, A3, C3, C4, ...
//!   lane 2  ring:  (B: 7 calls) ->               lanes take turns too
//! ```
//!
//! Threads are started when more calls may be done than threads are free. (A free thread that was
//! called stays counted as free until it has taken its call, so "is one free" is the wrong
//! question: of two calls queued at once the second would wait behind the first, however long
//! storage holds that.) A lane in which storage has held calls for long gets more threads, up to
//! three times as many: a dead file must not take its export with it. How many can be held beyond
//! that is bounded where calls are begun (see `slow`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Work for a connection, found by the connection's token.
pub struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
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
    clients: HashMap<u64, Client<J>>,
    /// Clients with jobs to be begun.
    ring: VecDeque<u64>,
    running: usize,
    /// Jobs to be begun, as far as their clients may have them done.
    client_ready: usize,
    /// Threads on top, because storage holds calls.
    extra: usize,
}

struct Client<J> {
    queue: VecDeque<J>,
    running: usize,
    in_ring: bool,
}

/// A job that was taken, and where it counts.
struct Taken<J> {
    job: J,
    lane: u32,
    token: u64,
}

impl<J: Send + 'static> Pool<J> {
    /// For each lane at most `lane_threads_max` threads that call `run`.
    #[must_use]
    pub fn new(lane_threads_max: usize, run: impl Fn(J) + Send + Sync + 'static) -> Arc<Self> {
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
            run: Box::new(run),
        })
    }

    /// Queues one job of a connection in a lane.
    pub fn queue(self: &Arc<Self>, lane: u32, token: u64, job: J) {
        let mut state = self.lock();
        state.put(lane, token, job);
        self.call_thread(state);
    }

    /// Says how many calls storage holds in each lane at the moment; other lanes have none.
    pub fn set_held(self: &Arc<Self>, held: &HashMap<u32, usize>) {
        let mut state = self.lock();
        state.set_held(held);
        while state.wants_thread() {
            if !self.start_thread(state) {
                return;
            }
            state = self.lock();
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
            let mut state = self.lock();
            state.threads -= 1;
            state.starting -= 1;
        }
        started.is_ok()
    }

    /// Lets the threads end once every queue is empty.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.work.notify_all();
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.lock();
        state.starting -= 1;
        loop {
            if let Some(taken) = state.next() {
                // What this one leaves, another must find.
                self.call_thread(state);
                (self.run)(taken.job);
                state = self.lock();
                state.end(taken.lane, taken.token);
            } else if state.stopping || state.free >= state.lane_threads_max {
                break;
            } else {
                state.free += 1;
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.free -= 1;
            }
        }
        state.threads -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Client<J> {
    /// How many of its queued jobs may be begun when `limit` of it may be under way.
    fn ready(&self, limit: usize) -> usize {
        self.queue.len().min(limit.saturating_sub(self.running))
    }
}

impl<J> Lane<J> {
    fn new() -> Self {
        Self {
            clients: HashMap::new(),
            ring: VecDeque::new(),
            running: 0,
            client_ready: 0,
            extra: 0,
        }
    }

    /// How many of the queued jobs may be begun now.
    fn ready(&self, threads_max: usize) -> usize {
        let limit = threads_max + self.extra;
        self.client_ready.min(limit.saturating_sub(self.running))
    }

    /// Changes a client, and keeps count of what may be begun.
    fn change<T>(
        &mut self,
        threads_max: usize,
        token: u64,
        change: impl FnOnce(&mut Client<J>) -> T,
    ) -> T {
        let limit = threads_max - threads_max / 4 + self.extra;
        let client = self.clients.entry(token).or_insert_with(|| Client {
            queue: VecDeque::new(),
            running: 0,
            in_ring: false,
        });
        self.client_ready -= client.ready(limit);
        let result = change(client);
        let ready = client.ready(limit);
        self.client_ready += ready;
        if ready > 0 && !client.in_ring {
            client.in_ring = true;
            self.ring.push_back(token);
        }
        if client.queue.is_empty() && client.running == 0 && !client.in_ring {
            self.clients.remove(&token);
        }
        result
    }

    fn take(&mut self, threads_max: usize) -> Option<(u64, J)> {
        if self.ready(threads_max) == 0 {
            return None;
        }
        let token = self.ring.pop_front()?;
        let job = self.change(threads_max, token, |client| {
            client.in_ring = false;
            let job = client.queue.pop_front();
            client.running += usize::from(job.is_some());
            job
        })?;
        self.running += 1;
        Some((token, job))
    }

    /// Has `extra` threads on top from now on.
    fn set_extra(&mut self, threads_max: usize, extra: usize) {
        if self.extra == extra {
            return;
        }
        self.extra = extra;
        self.client_ready = 0;
        self.ring.clear();
        let limit = threads_max - threads_max / 4 + extra;
        for (token, client) in &mut self.clients {
            let ready = client.ready(limit);
            self.client_ready += ready;
            client.in_ring = ready > 0;
            if client.in_ring {
                self.ring.push_back(*token);
            }
        }
    }
}

impl<J> State<J> {
    fn put(&mut self, lane: u32, token: u64, job: J) {
        let entry = self.lanes.entry(lane).or_insert_with(Lane::new);
        entry.change(self.lane_threads_max, token, |client| {
            client.queue.push_back(job);
        });
        self.call(lane);
    }

    /// Puts a lane with jobs to be begun into the ring.
    fn call(&mut self, lane: u32) {
        let has_ready = self
            .lanes
            .get(&lane)
            .is_some_and(|lane| lane.client_ready > 0);
        if has_ready && !self.ring.contains(&lane) {
            self.ring.push_back(lane);
        }
    }

    /// How many jobs may be begun now.
    fn ready(&self) -> usize {
        let lanes = self.ring.iter().filter_map(|lane| self.lanes.get(lane));
        lanes.map(|lane| lane.ready(self.lane_threads_max)).sum()
    }

    /// Whether there are jobs that no free thread will take.
    fn wants_thread(&self) -> bool {
        self.ready() > self.free + self.starting
    }

    fn next(&mut self) -> Option<Taken<J>> {
        for _ in 0..self.ring.len() {
            let number = self.ring.pop_front()?;
            let lane = self.lanes.get_mut(&number);
            let taken = lane.and_then(|lane| lane.take(self.lane_threads_max));
            self.call(number);
            if let Some((token, job)) = taken {
                return Some(Taken {
                    job,
                    lane: number,
                    token,
                });
            }
        }
        None
    }

    fn end(&mut self, lane: u32, token: u64) {
        if let Some(entry) = self.lanes.get_mut(&lane) {
            entry.running -= 1;
            entry.change(self.lane_threads_max, token, |client| client.running -= 1);
            if entry.clients.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        self.call(lane);
    }

    fn set_held(&mut self, held: &HashMap<u32, usize>) {
        let threads_max = self.lane_threads_max;
        let lanes: Vec<u32> = self.lanes.keys().copied().collect();
        for number in lanes {
            let held = held.get(&number).copied().unwrap_or(0);
            // Those that only say "ask again later" need threads too.
            let spare = if held >= 2 * threads_max {
                threads_max
            } else {
                0
            };
            if let Some(lane) = self.lanes.get_mut(&number) {
                lane.set_extra(threads_max, held.min(2 * threads_max) + spare);
            }
            self.call(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
                gate.lock().unwrap().recv().unwrap();
            }
            seen.lock().unwrap().push(job);
            finished.send(()).unwrap();
        });
        pool.queue(1, 0, "first");
        begin.recv().unwrap();
        for job in ["a1", "a2", "a3"] {
            pool.queue(1, 1, job);
        }
        pool.queue(1, 2, "b1");
        release.send(()).unwrap();
        for _ in 0..5 {
            end.recv().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["first", "a1", "b1", "a2", "a3"]);
        pool.stop();
    }

    #[test]
    fn no_job_waits_behind_a_held_one_while_there_may_be_another_thread() {
        let (started, begin) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = Pool::new(2, move |job: &'static str| {
            started.send(job).unwrap();
            if job == "held" {
                gate.lock().unwrap().recv().unwrap();
            }
        });
        pool.queue(1, 0, "quick");
        begin.recv().unwrap();
        while pool.lock().free == 0 {
            std::thread::yield_now();
        }
        pool.queue(1, 0, "held");
        pool.queue(1, 1, "held");
        assert_eq!(begin.recv(), Ok("held"));
        assert_eq!(begin.recv(), Ok("held"));
        pool.queue(1, 2, "quick");
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
                gate.lock().unwrap().recv().unwrap();
            }
        });
        for _ in 0..20 {
            pool.queue(1, 7, "held");
        }
        for _ in 0..3 {
            assert_eq!(begin.recv(), Ok("held"));
        }
        pool.queue(2, 7, "other lane");
        assert_eq!(begin.recv(), Ok("other lane"));
        pool.queue(1, 8, "other client");
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
        while pool.lock().threads > 0 {
            std::thread::yield_now();
        }
        assert!(pool.lock().lanes.is_empty());
    }

    #[test]
    fn every_job_is_done_once_by_many_threads() {
        let (done, results) = mpsc::channel();
        let pool = Pool::new(4, move |job: u64| done.send(job).unwrap());
        for job in 0..1000 {
            pool.queue((job % 3) as u32, job % 7, job);
        }
        let mut seen: Vec<u64> = results.iter().take(1000).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        pool.stop();
        while pool.lock().threads > 0 {
            std::thread::yield_now();
        }
    }
}
