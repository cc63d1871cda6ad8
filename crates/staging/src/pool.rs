//! A few threads that carry requests to the disk.
//!
//! A turn is one request of a file. A thread starts when none is idle, up to the limit, and ends
//! with the pool, after all turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::{Condvar, Mutex};

/// More would only wait for the same disk.
pub const THREADS_MAX: usize = 4;

/// What has turns.
pub(crate) trait Turns: Send + Sync {
    /// Does one thing; returns itself if another follows.
    fn run(self: Arc<Self>) -> Option<Arc<dyn Turns>>;
}

/// See the module.
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
    /// Waiting for work, or notified and about to take some.
    idle: usize,
    is_closing: bool,
}

impl Pool {
    /// Has a turn run, after earlier ones.
    pub(crate) fn push(&self, turns: Arc<dyn Turns>) {
        let mut state = self.0.state.lock();
        state.queue.push_back(turns);
        self.0.work.notify_one();
        if state.queue.len() > state.idle && state.threads.len() < THREADS_MAX {
            let shared = self.0.clone();
            let builder = std::thread::Builder::new().name("pagewell-staging".to_owned());
            // On failure the others go on alone.
            state.threads.extend(builder.spawn(move || shared.work()));
        }
        if !state.threads.is_empty() {
            return;
        }
        // Without any thread the caller does the work.
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
        // A turn may drop the last file, and so the pool.
        for thread in threads.into_iter().filter(|it| it.thread().id() != own) {
            let _ = thread.join();
        }
    }
}
