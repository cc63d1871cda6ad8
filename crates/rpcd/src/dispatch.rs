//! Calls that may wait: which threads do them, and when.
//!
//! ```text
//!   reader ── would wait ──> pool, or listings ──> a thread does the call to its end
//!                              ↑      │
//!                              │      └─ storage holds its object ──> waits without a thread
//!                              └────── free again, or long enough ───────────┘  (watcher)
//! ```

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_base::waits;
use pagewell_counters::names;
use pagewell_policy::reply_cache::Place;
use pagewell_sunrpc::rpc;

use crate::bounds::{Bounds, HeldCall};
use crate::call::{CallName, Class, Job, Request, WaitingCall};
use crate::connection::Connection;
use crate::pool::{Flow, Pool};
use crate::program::{Decision, Later, Program};
use crate::reply::batch::Batch;
use crate::share::Address;
use crate::slow::{Kind, Subjects};

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
pub struct Dispatcher<P: Program> {
    /// What answers calls.
    pub program: Arc<P>,
    /// What bounds them.
    pub bounds: Arc<Bounds>,
    pool: Arc<Pool<Job<P::Pending>>>,
    /// For listings, see [`LISTING_NICENESS`].
    listings: Arc<Pool<Job<P::Pending>>>,
    /// Calls that are undecided ([`Program::decide`]), and those for objects that storage holds, in
    /// the order in which they came. They must neither
    /// take a thread, which would be held too, nor be answered "ask again" at once: clients do ask
    /// again, hundreds of thousands of times. What each connection may have under way bounds them.
    deferred: Mutex<Vec<Job<P::Pending>>>,
    /// Whether the watcher looks often, as of some it is not known yet whether they are new. It
    /// changes under the lock of `deferred`.
    watches_closely: AtomicBool,
    watcher: OnceLock<Thread>,
    stopping: AtomicBool,
}

impl<P: Program> Dispatcher<P> {
    /// With so many threads for each export at most.
    pub fn new(program: Arc<P>, bounds: Arc<Bounds>, threads: usize) -> Arc<Self> {
        Arc::new_cyclic(|dispatcher| {
            let dispatcher: &std::sync::Weak<Self> = dispatcher;
            let dispatcher = dispatcher.clone();
            let run = move |job: Job<P::Pending>| {
                if let Some(dispatcher) = dispatcher.upgrade() {
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
                program,
                bounds,
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
    pub fn queue(&self, job: Job<P::Pending>) {
        self.enqueue(job);
    }

    fn enqueue(&self, job: Job<P::Pending>) {
        let lists = job.state.class.listing_bytes_max > 0;
        let pool = if lists { &self.listings } else { &self.pool };
        let flow = Flow {
            export: job.state.class.subjects.export(),
            address: Address::of(job.charge.connection.peer.ip()),
            token: job.charge.connection.waker.token,
        };
        pool.queue(&flow, job);
    }

    fn run(&self, mut job: Job<P::Pending>) {
        if !P::is_undecided(&job.state.pending) {
            return self.run_decided(job);
        }
        let connection = job.charge.connection.clone();
        let work = AssertUnwindSafe(|| self.decide(&mut job));
        let decision = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            connection.close();
            Decision::Done
        });
        match decision {
            Decision::Do => self.run_decided(job),
            Decision::LookAgain => self.look_again(job),
            Decision::Done | Decision::Answer(_) => {}
        }
    }

    /// Looks again at a call of which it was not known whether it is new.
    fn decide(&self, job: &mut Job<P::Pending>) -> Decision {
        let connection = &job.charge.connection;
        if connection.is_given_up() {
            connection.close();
            return Decision::Done;
        }
        match self.program.decide(&mut job.state.pending, connection) {
            // No answer will come: the client asks again on another connection.
            Decision::LookAgain if self.is_stopping() => Decision::Done,
            Decision::Answer(reply) => {
                let mut batch = Batch::default();
                batch.push(&reply);
                job.charge.answer();
                connection.send(&mut batch);
                self.program.sent(&job.state.pending, connection);
                Decision::Done
            }
            decision => decision,
        }
    }

    /// Has a call looked at again soon of which it is not known yet whether it is new.
    fn look_again(&self, job: Job<P::Pending>) {
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

    fn run_decided(&self, job: Job<P::Pending>) {
        names::CALLS_RUNNING.add(1);
        let (connection, state) = (job.charge.connection.clone(), job.state.clone());
        let may_wait = !self.is_stopping() && !has_waited(&state, self.delay(), Instant::now());
        // Nothing panics by intention. If something does, it costs its client the connection and
        // no other client anything.
        let work = AssertUnwindSafe(|| self.answer_waiting(job, may_wait));
        let left = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            // It can be asked again.
            self.program.finish(&state.pending, None);
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
        self.bounds.slow.limit / 2
    }

    /// Has a call wait without a thread, because storage holds others for its object.
    fn defer(&self, mut job: Job<P::Pending>) {
        if job.state.waits_since.is_none() {
            job.state.waits_since = Some(Instant::now());
        }
        self.deferred.lock().push(job);
        if self.is_stopping() {
            self.resume(|_| true);
        }
    }

    /// Has threads do those calls that waited without one and are due.
    fn resume(&self, is_due: impl Fn(&WaitingCall<P::Pending>) -> bool) {
        let mut deferred = self.deferred.lock();
        let mut undecided = 0;
        let may_go = |job: &mut Job<P::Pending>| {
            let is_undecided = P::is_undecided(&job.state.pending);
            undecided += usize::from(is_undecided);
            let is_in_turn = !is_undecided || undecided <= UNDECIDED_MAX;
            is_in_turn && is_due(&job.state)
        };
        let due: Vec<_> = deferred.extract_if(.., may_go).collect();
        deferred.shrink_to(DEFERRED_KEPT); // there may have been tens of thousands
        self.watches_closely.store(undecided > 0, Ordering::Release);
        drop(deferred);
        due.into_iter().for_each(|job| self.enqueue(job));
    }

    /// Answers calls that storage holds, until the server stops: what the watcher does.
    pub fn watch(&self) {
        let slow = &self.bounds.slow;
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
            self.program.tick(now);
            let held = self.answer_held(now);
            self.pool.set_held(&held);
            self.listings.set_held(&held);
            let is_held = |subjects: &Subjects, kind| slow.is_held(subjects, kind);
            self.resume(|state| {
                P::is_undecided(&state.pending) || is_due(state, self.delay(), now, is_held)
            });
        }
        self.resume(|_| true);
    }

    /// Whether a call that waited for a thread is not to be begun, because no client waits for it.
    fn is_abandoned(&self, connection: &Connection, pending: &P::Pending) -> bool {
        let is_gone = if P::is_change(pending) {
            connection.is_given_up()
        } else {
            // What only looks is answered for as long as a client may be there to read it.
            connection.is_closed()
        };
        if is_gone {
            self.program.finish(pending, None);
            // A client that is there after all learns that no answer will come.
            connection.close();
        }
        is_gone
    }

    /// Does a call of the pool to its end. If storage holds its object and the call may wait it is
    /// given back, and nothing has happened.
    fn answer_waiting(&self, job: Job<P::Pending>, may_wait: bool) -> Option<Job<P::Pending>> {
        let (connection, state) = (&job.charge.connection, &job.state);
        if self.is_abandoned(connection, &state.pending) {
            return None;
        }
        let Class { subjects, kind, .. } = &state.class;
        let is_held = self.bounds.slow.is_held(subjects, *kind);
        if may_wait && is_held {
            return Some(job);
        }
        let request = Request {
            record: &job.record[..job.length],
            connection,
            received_at: job.received_at,
            began_at: Some(Instant::now()),
            place: Place::default(),
        };
        waits::begin();
        let mut batch = Batch::default();
        let mark = batch.mark();
        let was_done = self.run_watched(&request, &job, is_held, &mut batch);
        job.charge.answer();
        if let Some(prepaid) = state.prepaid {
            let limits = &self.bounds.limits;
            limits.settle(connection, prepaid, batch.length());
        }
        let is_answered = was_done && !batch.is_empty();
        // The reply is known before its client can send anything because of it, and where it is
        // among others when it has left.
        let reply = is_answered.then(|| batch.body(mark));
        self.program.finish(&state.pending, reply);
        connection.send(&mut batch);
        if is_answered {
            self.program.sent(&state.pending, connection);
        }
        None
    }

    /// Answers a call under the eyes of the watcher; returns whether it was done. The batch stays
    /// empty when the watcher has answered in the meantime.
    fn run_watched(
        &self,
        request: &Request<'_>,
        job: &Job<P::Pending>,
        is_held: bool,
        batch: &mut Batch,
    ) -> bool {
        let Ok((call, _)) = rpc::parse_call(request.record) else {
            return false;
        };
        let call = CallName::of(&call);
        if is_held {
            match self.program.later(call, batch) {
                Later::Said => {
                    names::JUKEBOX_REPLIES.add(1);
                    return false;
                }
                Later::Unsayable => {
                    request.connection.close();
                    return false;
                }
                Later::Answered => {}
            }
        }
        let charge = job.charge.clone();
        let Class { subjects, kind, .. } = &job.state.class;
        let held = HeldCall { charge, call };
        let slow = &self.bounds.slow;
        let watched = slow.begin(subjects.clone(), *kind, held, Instant::now());
        self.program.answer(request, None, batch);
        if !watched.running.claim() {
            *batch = Batch::default();
        }
        true
    }

    /// Answers every call that storage holds for too long; returns how many threads are held, by
    /// export.
    fn answer_held(&self, now: Instant) -> HashMap<u32, usize> {
        let found = self.bounds.slow.watch(now);
        for running in found.due {
            if running.claim() {
                let (export, HeldCall { charge, call }) = (running.export(), &running.context);
                let connection = &charge.connection;
                let mut batch = Batch::default();
                if self.program.later(*call, &mut batch) == Later::Said {
                    names::JUKEBOX_REPLIES.add(1);
                }
                self.program
                    .note_held(*call, export, connection.peer.ip(), now);
                charge.answer();
                connection.send(&mut batch);
                // Its thread may be held for ever, and the other calls of the connection go on. How
                // many threads are held, and with them the memory of replies, the pool bounds.
                charge.end();
            }
        }
        found.long
    }
}

/// Whether a call has waited for long enough.
fn has_waited<P>(state: &WaitingCall<P>, delay: Duration, now: Instant) -> bool {
    let since = state.waits_since;
    since.is_some_and(|since| now.saturating_duration_since(since) >= delay)
}

/// Whether a call need not wait any more: for long enough, or its object is free.
fn is_due<P>(
    state: &WaitingCall<P>,
    delay: Duration,
    now: Instant,
    is_held: impl Fn(&Subjects, Kind) -> bool,
) -> bool {
    let Class { subjects, kind, .. } = &state.class;
    has_waited(state, delay, now) || !is_held(subjects, *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::Subject;
    use pagewell_fs::FileId;

    #[test]
    fn calls_leave_in_order_when_free_or_when_they_have_waited() {
        let delay = Duration::from_secs(2);
        let start = Instant::now();
        let second = start + Duration::from_secs(1);
        let subject = |object| {
            Subjects::from(Subject {
                object: Some(FileId::of(&[object])),
                export: 0,
            })
        };
        let call = |(number, object, since): (usize, u8, Instant)| WaitingCall {
            class: Class {
                reply_bytes_max: number,
                subjects: subject(object),
                ..Class::default()
            },
            waits_since: Some(since),
            ..WaitingCall::<()>::default()
        };
        let mut calls: Vec<_> = [
            (1, 10, start),
            (2, 20, start),
            (3, 20, second),
            (4, 10, second),
        ]
        .map(call)
        .into();
        let held = subject(10);
        let is_held = |subjects: &Subjects, _| *subjects == held;
        let mut due = |now| -> Vec<usize> {
            let due = calls.extract_if(.., |state| is_due(state, delay, now, is_held));
            due.map(|state| state.class.reply_bytes_max).collect()
        };
        assert_eq!(due(second), [2, 3]);
        assert!(due(second).is_empty());
        let over = start + delay;
        assert_eq!(due(over), [1]);
        assert_eq!(calls.len(), 1, "the other has not waited for long enough");
        assert!(!has_waited(&calls[0], delay, over));
        assert!(!has_waited(&WaitingCall::<()>::default(), delay, over));
    }
}
