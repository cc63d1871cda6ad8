//! Calls that may wait: which threads do them, and when.
//!
//! ```text
//!   reader ── would wait ──> pool, or listings ──> a thread does the call to its end
//!                              ↑      │
//!                              │      └─ storage holds its object ──> waits without a thread
//!                              └────── free again, or long enough ───────────┘  (watcher)
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;

use crate::pool::{Flow, Pool};
use crate::service::call::{Job, WaitingCall};
use crate::service::{Decision, Service};
use crate::share::Address;
use crate::slow::{Kind, Subject};

/// Where a thread that lists and another both want a processor, the former gets a quarter of it
/// (`sched(7)`), and waits when the other has something to do again.
const LISTING_NICENESS: i32 = 5;

/// An export has so many times fewer threads for listings than for other calls.
const LISTING_THREADS_PART: usize = 4;

/// Space for so many calls that wait without a thread is kept when there are fewer.
const DEFERRED_KEPT: usize = 64;

/// How often calls are looked at of which it is not known yet whether they are new. What is waited
/// for is mostly an acknowledgement, which comes within 40 ms.
const UNDECIDED_PERIOD: Duration = Duration::from_millis(10);

/// So many of them are looked at in a round: each look asks the kernel, under one lock for all.
const UNDECIDED_MAX: usize = 256;

/// How long a stopping server lets clients fetch the replies to what was begun.
pub const DRAIN_FOR: Duration = Duration::from_secs(10);

/// The threads that may wait, and the calls for them.
pub struct Dispatcher {
    /// What answers calls.
    pub service: Arc<Service>,
    pool: Arc<Pool<Job>>,
    /// For listings, see [`LISTING_NICENESS`].
    listings: Arc<Pool<Job>>,
    /// Calls that are undecided ([`Service::decide`]), and those for objects that storage holds, in
    /// the order in which they came. They must neither
    /// take a thread, which would be held too, nor be answered "ask again" at once: clients do ask
    /// again, hundreds of thousands of times. What each connection may have under way bounds them.
    deferred: Mutex<Vec<Job>>,
    /// Whether the watcher looks often, as of some it is not known yet whether they are new. It
    /// changes under the lock of `deferred`.
    watches_closely: AtomicBool,
    watcher: OnceLock<Thread>,
    stopping: AtomicBool,
}

impl Dispatcher {
    /// With so many threads for each export at most.
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
                deferred: Mutex::default(),
                listings: Pool::polite(listing_threads, LISTING_NICENESS, run.clone()),
                pool: Pool::new(threads, run),
                watches_closely: AtomicBool::new(false),
                watcher: OnceLock::new(),
                stopping: AtomicBool::new(false),
                service,
            }
        })
    }

    /// Whether the server is to stop.
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
        self.enqueue(job);
    }

    fn enqueue(&self, job: Job) {
        let lists = job.state.listing_bytes_max > 0;
        let pool = if lists { &self.listings } else { &self.pool };
        let flow = Flow {
            export: job.state.subject.export,
            address: Address::of(job.charge.connection.peer.ip()),
            token: job.charge.connection.waker.token,
        };
        pool.queue(&flow, job);
    }

    fn run(&self, mut job: Job) {
        let connection = job.charge.connection.clone();
        let is_stopping = self.is_stopping();
        let work = AssertUnwindSafe(|| self.service.decide(&mut job, is_stopping));
        let decision = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            connection.close();
            Decision::Done
        });
        match decision {
            Decision::Do => self.run_decided(job),
            Decision::Done => {}
            Decision::LookAgain => self.look_again(job),
        }
    }

    /// Has a call looked at again soon of which it is not known yet whether it is new.
    fn look_again(&self, job: Job) {
        let mut deferred = self.deferred.lock();
        deferred.push(job);
        let is_awake = self.watches_closely.swap(true, Ordering::AcqRel);
        drop(deferred);
        if let Some(watcher) = self.watcher.get().filter(|_| !is_awake) {
            watcher.unpark();
        }
        if self.is_stopping() {
            self.resume(|_| true);
        }
    }

    fn run_decided(&self, job: Job) {
        names::CALLS_RUNNING.add(1);
        let (connection, state) = (job.charge.connection.clone(), job.state.clone());
        let may_wait = !self.is_stopping() && !has_waited(&state, self.delay(), Instant::now());
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
        if let Some(job) = left {
            self.defer(job);
        }
    }

    /// How long a call waits without a thread at most.
    fn delay(&self) -> Duration {
        self.service.slow.limit / 2
    }

    /// Has a call wait without a thread, because storage holds others for its object.
    fn defer(&self, mut job: Job) {
        if job.state.waits_since.is_none() {
            names::CALLS_PARKED.add(1);
            job.state.waits_since = Some(Instant::now());
        }
        self.deferred.lock().push(job);
        if self.is_stopping() {
            self.resume(|_| true);
        }
    }

    /// Has threads do those calls that waited without one and are due.
    fn resume(&self, is_due: impl Fn(&WaitingCall) -> bool) {
        let mut deferred = self.deferred.lock();
        let mut undecided = 0;
        let may_go = |job: &mut Job| {
            undecided += usize::from(job.state.undecided.is_some());
            let is_in_turn = job.state.undecided.is_none() || undecided <= UNDECIDED_MAX;
            is_in_turn && is_due(&job.state)
        };
        let due: Vec<Job> = deferred.extract_if(.., may_go).collect();
        deferred.shrink_to(DEFERRED_KEPT); // there may have been tens of thousands
        self.watches_closely.store(undecided > 0, Ordering::Release);
        drop(deferred);
        due.into_iter().for_each(|job| self.enqueue(job));
    }

    /// Answers calls that storage holds, until the server stops: what the watcher does.
    pub fn watch(&self) {
        let slow = &self.service.slow;
        // It is called when a call is undecided.
        let _ = self.watcher.set(std::thread::current());
        while !self.is_stopping() {
            let period = if self.watches_closely.load(Ordering::Acquire) {
                UNDECIDED_PERIOD
            } else {
                slow.period()
            };
            std::thread::park_timeout(period);
            let now = Instant::now();
            self.service.locks.tick(now);
            let held = self.service.answer_held(now);
            self.pool.set_held(&held);
            self.listings.set_held(&held);
            let is_held = |subject, kind| slow.is_held(subject, kind);
            self.resume(|state| is_due(state, self.delay(), now, is_held));
        }
        self.resume(|_| true);
    }
}

/// Whether a call has waited for long enough.
fn has_waited(state: &WaitingCall, delay: Duration, now: Instant) -> bool {
    let since = state.waits_since;
    since.is_some_and(|since| now.saturating_duration_since(since) >= delay)
}

/// Whether a call need not wait any more: for long enough, or its object is free.
fn is_due(
    state: &WaitingCall,
    delay: Duration,
    now: Instant,
    is_held: impl Fn(Subject, Kind) -> bool,
) -> bool {
    state.undecided.is_some()
        || has_waited(state, delay, now)
        || !is_held(state.subject, state.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::FileId;

    #[test]
    fn calls_leave_in_order_when_free_or_when_they_have_waited() {
        let delay = Duration::from_secs(2);
        let start = Instant::now();
        let second = start + Duration::from_secs(1);
        let call = |(number, object, since): (usize, u8, Instant)| WaitingCall {
            reply_bytes_max: number,
            subject: Subject {
                object: Some(FileId::of(&[object])),
                export: 0,
            },
            waits_since: Some(since),
            ..WaitingCall::default()
        };
        let mut calls: Vec<_> = [
            (1, 10, start),
            (2, 20, start),
            (3, 20, second),
            (4, 10, second),
        ]
        .map(call)
        .into();
        let is_held = |subject: Subject, _| subject.object == Some(FileId::of(&[10]));
        let mut due = |now| -> Vec<usize> {
            let due = calls.extract_if(.., |state| is_due(state, delay, now, is_held));
            due.map(|state| state.reply_bytes_max).collect()
        };
        assert_eq!(due(second), [2, 3]);
        assert!(due(second).is_empty());
        let over = start + delay;
        assert_eq!(due(over), [1]);
        assert_eq!(calls.len(), 1, "the other has not waited for long enough");
        assert!(!has_waited(&calls[0], delay, over));
        assert!(!has_waited(&WaitingCall::default(), delay, over));
    }
}
