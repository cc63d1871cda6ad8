//! A few threads that carry requests to the disk.
//!
//! What is to be done is a turn of a file: one request of it. A thread starts when a turn comes and
//! none is idle, up to the limit, and ends when the pool is dropped, after all turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::{Condvar, Mutex};

/// Threads at most: more would only wait for the same disk.
pub const THREADS_MAX: usize = 4;

/// What has turns.
pub(crate) trait Turns: Send + Sync {
    /// Does one thing, and gives back itself if another is to follow.
    fn run(self: Arc<Self>) -> Option<Arc<dyn Turns>>;
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<dyn Turns>>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for work, or were notified and are about to take it.
    idle: usize,
    is_closing: bool,
}

impl Pool {
    /// Has a turn run, after those that were given before.
    pub(crate) fn push(&self, turns: Arc<dyn Turns>) {
        let mut state = self.0.state.lock();
        state.queue.push_back(turns);
        self.0.work.notify_one();
        if state.queue.len() > state.idle && state.threads.len() < THREADS_MAX {
            let shared = self.0.clone();
            let builder = std::thread::Builder::new().name("pagewell-staging".to_owned());
            // On failure the threads that run go on alone.
            state.threads.extend(builder.spawn(move || shared.work()));
        }
        if !state.threads.is_empty() {
            return;
        }
        // The system gives no thread at all: the caller does the work.
        let mut orphans = std::mem::take(&mut state.queue);
        drop(state);
        while let Some(turns) = orphans.pop_front() {
            orphans.extend(turns.run());
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(turns) = state.queue.pop_front() {
                drop(state);
                let next = turns.run();
                state = self.state.lock();
                state.queue.extend(next);
                continue;
            }
            if state.is_closing {
                return;
            }
            state.idle += 1;
            state = self.work.wait(state);
            state.idle -= 1;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closing = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.work.notify_all();
        let own = std::thread::current().id();
        // A turn may drop the last file, and with it the pool.
        for thread in threads.into_iter().filter(|it| it.thread().id() != own) {
            let _ = thread.join();
        }
    }
}
