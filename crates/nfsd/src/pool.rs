//! The threads that may wait for storage.
//!
//! Problem: a call that waits for a disk must not hold up the other calls of its connection, and
//! a client with a thousand calls queued must not hold up a client with one. Rule: each
//! connection has its own queue; connections with queued calls stand in a ring; a free thread
//! takes one call of the connection at the ring's head, which then goes to the ring's tail.
//!
//! ```text
//!   ring:  (A: 3 calls) -> (B: 1 call) -> (C: 200 calls) ->
//!   taken: A1, B1, C1, A2, C2, A3, C3, C4, ...
//! ```
//!
//! Threads are started when more calls are queued than threads are free, up to the number
//! configured. (A free thread that was called stays counted as free until it has taken its call,
//! so "is one free" is the wrong question: of two calls queued at once the second would wait
//! behind the first, however long storage holds that.) A thread that storage has held for long
//! does not count against the number: a dead disk must not take the server with it. How many
//! can be held is bounded where calls are begun (see `slow`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Work for a connection, found by the connection's token.
pub struct Pool<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    run: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    ring: VecDeque<u64>,
    queues: HashMap<u64, VecDeque<J>>,
    /// Jobs in all queues.
    queued: usize,
    threads: usize,
    free: usize,
    threads_max: usize,
    held: usize,
    stopping: bool,
}

impl<J: Send + 'static> Pool<J> {
    /// At most `threads_max` threads that call `run`.
    #[must_use]
    pub fn new(threads_max: usize, run: impl Fn(J) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                ring: VecDeque::new(),
                queues: HashMap::new(),
                queued: 0,
                threads: 0,
                free: 0,
                threads_max: threads_max.max(1),
                held: 0,
                stopping: false,
            }),
            work: Condvar::new(),
            run: Box::new(run),
        })
    }

    /// Queues one job of a connection.
    pub fn queue(self: &Arc<Self>, token: u64, job: J) {
        let mut state = self.lock();
        let queue = state.queues.entry(token).or_default();
        queue.push_back(job);
        if queue.len() == 1 {
            state.ring.push_back(token);
        }
        state.queued += 1;
        if state.wants_thread() {
            self.start_thread(state);
        } else {
            drop(state);
            self.work.notify_one();
        }
    }

    /// Says how many threads storage holds at the moment.
    pub fn set_held(self: &Arc<Self>, held: usize) {
        let mut state = self.lock();
        state.held = held;
        while state.wants_thread() {
            if !self.start_thread(state) {
                return;
            }
            state = self.lock();
        }
    }

    /// Starts one more thread; returns whether the system lets us.
    fn start_thread(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) -> bool {
        state.threads += 1;
        drop(state);
        let pool = self.clone();
        let started = std::thread::Builder::new()
            .name("pagewell-pool".into())
            .stack_size(256 << 10)
            .spawn(move || pool.serve());
        if started.is_err() {
            self.lock().threads -= 1;
        }
        started.is_ok()
    }

    /// Lets the threads end once every queue is empty.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.work.notify_all();
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.next() {
                drop(state);
                (self.run)(job);
                state = self.lock();
                if state.threads > state.limit() {
                    break;
                }
            } else if state.stopping {
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

impl<J> State<J> {
    /// How many threads there may be now.
    fn limit(&self) -> usize {
        self.threads_max.saturating_add(self.held)
    }

    /// Whether there are jobs that no free thread will take, and another thread may be started.
    fn wants_thread(&self) -> bool {
        self.queued > self.free && self.threads < self.limit()
    }

    fn next(&mut self) -> Option<J> {
        let token = self.ring.pop_front()?;
        let queue = self.queues.get_mut(&token)?;
        let job = queue.pop_front();
        self.queued -= usize::from(job.is_some());
        if queue.is_empty() {
            self.queues.remove(&token);
        } else {
            self.ring.push_back(token);
        }
        job
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
        pool.queue(0, "first");
        begin.recv().unwrap();
        for job in ["a1", "a2", "a3"] {
            pool.queue(1, job);
        }
        pool.queue(2, "b1");
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
        pool.queue(0, "quick");
        begin.recv().unwrap();
        while pool.lock().free == 0 {
            std::thread::yield_now();
        }
        pool.queue(0, "held");
        pool.queue(1, "held");
        assert_eq!(begin.recv(), Ok("held"));
        assert_eq!(begin.recv(), Ok("held"));
        pool.queue(2, "quick");
        pool.set_held(2);
        assert_eq!(begin.recv(), Ok("quick"));
        release.send(()).unwrap();
        release.send(()).unwrap();
        pool.stop();
    }

    #[test]
    fn every_job_is_done_once_by_many_threads() {
        let (done, results) = mpsc::channel();
        let pool = Pool::new(4, move |job: u64| done.send(job).unwrap());
        for job in 0..1000 {
            pool.queue(job % 7, job);
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
