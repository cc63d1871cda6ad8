//! Calls that may wait: which threads do them, and when.
//!
//! ```text
//!   reader ── would wait ──> pool, or listings ──> a thread does the call to its end
//!                              ↑      │
//!                              │      └─ storage holds its object ──> waits without a thread
//!                              └────── free again, or long enough ───────────┘  (watcher)
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewell_counters::names;

use crate::held::deferred::Deferred;
use crate::service::Service;
use crate::service::call::Job;
use crate::share::Address;
use crate::workers::pool::{Flow, Pool};

/// Where a thread that lists and another both want a processor, the former gets a quarter of it
/// (`sched(7)`), and waits when the other has something to do again.
const LISTING_NICENESS: i32 = 5;

/// An export has so many times fewer threads for listings than for other calls.
const LISTING_THREADS_PART: usize = 4;

/// The threads that may wait, and the calls for them.
pub struct Dispatcher {
    service: Arc<Service>,
    pool: Arc<Pool<Job>>,
    /// For listings, see [`LISTING_NICENESS`].
    listings: Arc<Pool<Job>>,
    deferred: Deferred<Job>,
    stopping: AtomicBool,
}

impl Dispatcher {
    /// With so many threads for each export at most.
    #[must_use]
    pub fn new(service: Arc<Service>, threads: usize) -> Arc<Self> {
        Arc::new_cyclic(|dispatcher| {
            let dispatcher = dispatcher.clone();
            let run = move |job: Job| {
                let dispatcher: Option<Arc<Self>> = dispatcher.upgrade();
                if let Some(dispatcher) = dispatcher {
                    dispatcher.run(job);
                }
            };
            let listing_threads = threads.div_ceil(LISTING_THREADS_PART);
            Self {
                deferred: Deferred::new(service.slow_calls().limit() / 2),
                listings: Pool::polite(listing_threads, LISTING_NICENESS, run.clone()),
                pool: Pool::new(threads, run),
                stopping: AtomicBool::new(false),
                service,
            }
        })
    }

    /// What answers calls.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Whether the server is to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The server is to stop; says whether that was known.
    pub fn set_stopping(&self) -> bool {
        self.stopping.swap(true, Ordering::AcqRel)
    }

    /// The threads end when nothing is left to do.
    pub fn stop_threads(&self) {
        self.pool.stop();
        self.listings.stop();
    }

    /// Has a thread do a call.
    pub fn queue(&self, job: Job) {
        names::CALLS_POOLED.add(1);
        let (bytes, reply_bytes) = job.charged_bytes();
        job.connection.begin_call(bytes, reply_bytes);
        self.enqueue(job);
    }

    fn enqueue(&self, job: Job) {
        let lists = job.state.listing_bytes_max > 0;
        let pool = if lists { &self.listings } else { &self.pool };
        let flow = Flow {
            export: job.state.subject.export,
            address: Address::of(job.connection.peer()),
            token: job.connection.token(),
        };
        pool.queue(&flow, job);
    }

    fn run(&self, job: Job) {
        names::CALLS_RUNNING.add(1);
        let (connection, state) = (job.connection.clone(), job.state);
        let (bytes, reply_bytes) = job.charged_bytes();
        let may_wait =
            !self.is_stopping() && !self.deferred.is_over(state.waits_since, Instant::now());
        // Nothing panics by intention. If something does, it costs its client the connection and
        // no other client anything.
        let work = AssertUnwindSafe(|| self.service.answer_waiting(job, may_wait));
        let left = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            self.service.give_up(&state);
            connection.close();
            None
        });
        names::CALLS_RUNNING.add(-1);
        match left {
            None => connection.end_call(bytes, reply_bytes),
            Some(job) => self.defer(job),
        }
    }

    /// Has a call wait without a thread, because storage holds others for its object.
    fn defer(&self, mut job: Job) {
        let since = *job.state.waits_since.get_or_insert_with(|| {
            names::CALLS_PARKED.add(1);
            Instant::now()
        });
        let (subject, kind) = (job.state.subject, job.state.kind);
        self.deferred.defer(job, (subject, kind), since);
        if self.is_stopping() {
            self.resume_all();
        }
    }

    fn resume_all(&self) {
        for job in self.deferred.all() {
            self.enqueue(job);
        }
    }

    /// Answers calls that storage holds, until the server stops: what the watcher does.
    pub fn watch(&self) {
        let slow = self.service.slow_calls();
        let period = slow.period();
        while !self.is_stopping() {
            std::thread::park_timeout(period);
            let now = Instant::now();
            self.service.locks().tick(now);
            let held = self.service.answer_held(now);
            self.pool.set_held(&held);
            self.listings.set_held(&held);
            let is_held = |subject, kind| slow.is_held(subject, kind);
            for job in self.deferred.due(now, is_held) {
                self.enqueue(job);
            }
        }
        self.resume_all();
    }
}
