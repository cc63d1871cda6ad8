//! Calls that may wait: their threads and their order.
//!
//! ```text
//!   reader ── would wait ──> pool, or listings ──> a thread does the call to its end
//!                              ↑      │
//!                              │      └─ its object is stalled ────> waits without a thread
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

use crate::bounds::{Bounds, StalledCall};
use crate::call::{CallName, Class, Job, Request, WaitingCall};
use crate::connection::Connection;
use crate::pool::{Flow, Pool};
use crate::program::{Decision, Later, Program};
use crate::reply::Batch;
use crate::share::Address;
use crate::slow::{Kind, Subjects};

/// A quarter of a processor against a thread of normal niceness (`sched(7)`).
const LISTING_NICENESS: i32 = 5;

/// An export has this many times fewer threads for listings than for other calls.
const LISTING_THREADS_PART: usize = 4;

const DEFERRED_KEPT: usize = 64;

/// Between two looks at undecided calls. Most wait for an acknowledgement, which comes within 40
/// ms.
const UNDECIDED_PERIOD: Duration = Duration::from_millis(10);

/// In a round: each asks the kernel, under one lock for all.
const UNDECIDED_MAX: usize = 256;

/// For clients to fetch replies from a stopping server.
pub const DRAIN_FOR: Duration = Duration::from_secs(10);

/// The threads that may wait, and their calls.
pub struct Dispatcher<P: Program> {
    /// Answers calls.
    pub program: Arc<P>,
    /// Of calls.
    pub bounds: Arc<Bounds>,
    pool: Arc<Pool<Job<P::Pending>>>,
    /// With [`LISTING_NICENESS`].
    listings: Arc<Pool<Job<P::Pending>>>,
    /// Undecided calls ([`Program::decide`]) and calls for stalled objects, oldest first. A thread
    /// would stall, too; "try later" at once would be repeated hundreds of thousands of times. The
    /// connections' bytes in flight bound them.
    deferred: Mutex<Vec<Job<P::Pending>>>,
    /// For undecided calls. Changes under the lock of `deferred`.
    watches_closely: AtomicBool,
    watcher: OnceLock<Thread>,
    stopping: AtomicBool,
}

impl<P: Program> Dispatcher<P> {
    /// At most `threads` for each export.
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
                listings: Pool::low_priority(listing_threads, LISTING_NICENESS, run.clone()),
                pool: Pool::new(threads, run),
                watches_closely: AtomicBool::new(false),
                watcher: OnceLock::new(),
                stopping: AtomicBool::new(false),
                program,
                bounds,
            }
        })
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns whether it already stopped.
    pub fn set_stopping(&self) -> bool {
        self.stopping.swap(true, Ordering::AcqRel)
    }

    /// They end once nothing is left to do.
    pub fn stop_threads(&self) {
        self.pool.stop();
        self.listings.stop();
    }

    /// Gives a call to a thread.
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

    fn decide(&self, job: &mut Job<P::Pending>) -> Decision {
        let connection = &job.charge.connection;
        if connection.is_given_up() {
            connection.close();
            return Decision::Done;
        }
        match self.program.decide(&mut job.state.pending, connection) {
            // The client repeats the call on another connection.
            Decision::LookAgain if self.is_stopping() => Decision::Done,
            Decision::Answer(reply) => {
                let mut batch = Batch::default();
                batch.push(&reply);
                job.charge.answer();
                job.state.settle(batch.length());
                connection.send(&mut batch);
                self.program.sent(&job.state.pending, connection);
                Decision::Done
            }
            decision => decision,
        }
    }

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
        // No panic is intended. One costs only its client, the connection.
        let work = AssertUnwindSafe(|| self.answer_waiting(job, may_wait));
        let left = catch_unwind(work).unwrap_or_else(|_| {
            names::PANICS.add(1);
            // The client may repeat it.
            self.program.finish(&state.pending, None);
            // Before the client connects again.
            state.settle(0);
            connection.close();
            None
        });
        names::CALLS_RUNNING.add(-1);
        if let Some(job) = left {
            self.defer(job);
        }
    }

    /// Longest wait of a call without a thread.
    fn delay(&self) -> Duration {
        self.bounds.slow.limit / 2
    }

    /// Its object is stalled.
    fn defer(&self, mut job: Job<P::Pending>) {
        if job.state.waits_since.is_none() {
            job.state.waits_since = Some(Instant::now());
        }
        self.deferred.lock().push(job);
        if self.is_stopping() {
            self.resume(|_| true);
        }
    }

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

    /// Until the server stops.
    pub fn watch(&self) {
        let slow = &self.bounds.slow;
        // An undecided call unparks it.
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
            let stalled = self.answer_stalled(now);
            self.pool.set_stalled(&stalled);
            self.listings.set_stalled(&stalled);
            let is_stalled = |subjects: &Subjects, kind| slow.is_stalled(subjects, kind);
            self.resume(|state| {
                P::is_undecided(&state.pending) || is_due(state, self.delay(), now, is_stalled)
            });
        }
        self.resume(|_| true);
    }

    /// Whether no client waits for a call that is about to begin.
    fn is_abandoned(&self, connection: &Connection, pending: &P::Pending) -> bool {
        let is_gone = if P::is_change(pending) {
            connection.is_given_up()
        } else {
            // Reads are answered while a client may be there.
            connection.is_closed()
        };
        if is_gone {
            self.program.finish(pending, None);
            // A live client sees that no reply will come.
            connection.close();
        }
        is_gone
    }

    /// Gives the call back if its object is stalled and it may wait.
    fn answer_waiting(&self, job: Job<P::Pending>, may_wait: bool) -> Option<Job<P::Pending>> {
        let (connection, state) = (&job.charge.connection, &job.state);
        if self.is_abandoned(connection, &state.pending) {
            return None;
        }
        let Class { subjects, kind, .. } = &state.class;
        let is_stalled = self.bounds.slow.is_stalled(subjects, *kind);
        if may_wait && is_stalled {
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
        let was_done = self.run_watched(&request, &job, is_stalled, &mut batch);
        job.charge.answer();
        state.settle(batch.length());
        let is_answered = was_done && !batch.is_empty();
        // `finish` comes before the client acts on the reply, `sent` when its place in the stream
        // is known.
        let reply = is_answered.then(|| batch.body(mark));
        self.program.finish(&state.pending, reply);
        connection.send(&mut batch);
        if is_answered {
            self.program.sent(&state.pending, connection);
        }
        None
    }

    /// Whether the call ran. If the watcher answers it, the batch stays empty.
    fn run_watched(
        &self,
        request: &Request<'_>,
        job: &Job<P::Pending>,
        is_stalled: bool,
        batch: &mut Batch,
    ) -> bool {
        let Ok((call, _)) = rpc::parse_call(request.record) else {
            return false;
        };
        let call = CallName::of(&call);
        if is_stalled {
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
        let stalled = StalledCall { charge, call };
        let slow = &self.bounds.slow;
        let watched = slow.begin(subjects.clone(), *kind, stalled, Instant::now());
        self.program.answer(request, None, batch);
        if !watched.running.claim() {
            *batch = Batch::default();
        }
        true
    }

    /// Stalled threads by export.
    fn answer_stalled(&self, now: Instant) -> HashMap<u32, usize> {
        let found = self.bounds.slow.watch(now);
        for running in found.due {
            if running.claim() {
                let (export, StalledCall { charge, call }) = (running.export(), &running.context);
                let connection = &charge.connection;
                let mut batch = Batch::default();
                if self.program.later(*call, &mut batch) == Later::Said {
                    names::JUKEBOX_REPLIES.add(1);
                }
                self.program
                    .note_stalled(*call, export, connection.peer.ip(), now);
                charge.answer();
                connection.send(&mut batch);
                // Its thread may never return; the connection's other calls go on.
                charge.end();
            }
        }
        found.long
    }
}

fn has_waited<P>(state: &WaitingCall<P>, delay: Duration, now: Instant) -> bool {
    let since = state.waits_since;
    since.is_some_and(|since| now.saturating_duration_since(since) >= delay)
}

fn is_due<P>(
    state: &WaitingCall<P>,
    delay: Duration,
    now: Instant,
    is_stalled: impl Fn(&Subjects, Kind) -> bool,
) -> bool {
    let Class { subjects, kind, .. } = &state.class;
    has_waited(state, delay, now) || !is_stalled(subjects, *kind)
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
        let stalled = subject(10);
        let is_stalled = |subjects: &Subjects, _| *subjects == stalled;
        let mut due = |now| -> Vec<usize> {
            let due = calls.extract_if(.., |state| is_due(state, delay, now, is_stalled));
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
