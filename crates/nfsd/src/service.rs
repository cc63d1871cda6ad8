//! What is done for a call: from record to reply.
//!
//! [`Service::answer`] reads the head of a call, checks program, version and procedure, and has
//! the program write the reply. On a receiving thread it may find that the call would wait;
//! nothing was answered then, and nothing done but the beginning of a write
//! ([`pagewell_fs::Call::may_block`]), and the call goes to the pool, where
//! [`Service::answer_waiting`] does it to the end.
//!
//! # Calls that change something
//!
//! Each is begun at most once, and not when its client has gone on.
//!
//! What could go back is guarded so:
//!
//! | a change that | guard |
//! |---|---|
//! | waits or runs and is sent again elsewhere | that waits without a thread until this is done |
//! | was done and is sent again | the kept reply, however many changes came since |
//! | is read after it was sent again and done | the same |
//! | waits or is unread when its client is gone | dropped (`Connection::is_given_up`) |
//!
//! Which calls are the same, and which only look so, is in [`pagewell_policy::reply_cache`]. A
//! change that has begun cannot be taken back: its repetition, and so everything that a client
//! sends after it was answered, comes after its end.

pub mod adjoining;
mod audit;
pub mod call;
pub mod convert;
pub mod cookies;
mod creation;
mod data;
mod directory;
pub mod ending;
pub mod exports;
pub mod in_force;
pub mod locks;
pub mod long_write;
pub mod mount;
mod names;
mod object;
pub mod observed;
mod other_calls;
mod port_mapper;
mod pseudo_tree;
mod volume;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use pagewell_base::waits;
use pagewell_counters::names as counters;
use pagewell_policy::reply_cache::{Key, Place, SentAt};
use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{self, Procedure};
use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::{nlm4, nsm, portmap};

use crate::clients::CLIENTS;
use crate::config::{Config, Error};
use crate::connection::{Charge, Connection};
use crate::duplicate::{Duplicates, Seen};
use crate::locks::Locks;
use crate::reply::batch::Batch;
use crate::service::call::{
    Answer, Job, NfsCall, Request, WaitingCall, kind, push_jukebox, refuse,
};
use crate::service::exports::{Caller, Served};
use crate::service::in_force::InForce;
use crate::service::mount::MountProgram;
use crate::slow::{Kind, SlowCalls, Subject};

/// What is needed to answer a held call.
pub struct HeldCall {
    charge: Arc<Charge>,
    xid: u32,
    procedure: Procedure,
}

/// A change that the duplicate-request cache knows. It ends in one of three ways: it was answered,
/// it goes to the pool, or it is dropped, as its thread has panicked, and can be asked again.
struct Begun<'s> {
    service: &'s Service,
    key: Option<Key>,
}

/// What a first look at a change has come to.
enum FirstLook<'s> {
    /// It is new.
    Begin(Begun<'s>),
    /// It is not to be done, and was answered if it is to be.
    Said,
    /// It is not known yet whether it is new.
    Undecided(WaitingCall),
}

/// What a later look at a change has come to.
pub enum Decision {
    /// It is new: do it.
    Do,
    /// It was answered, or no client waits for it.
    Done,
    /// It is still not known.
    LookAgain,
}

impl Begun<'_> {
    /// It was done, and answered with `reply`, which leaves at `sent_at`.
    fn finish(mut self, reply: &[u8], sent_at: SentAt) {
        if let Some(key) = self.key.take() {
            self.service.duplicates.finish(&key, reply, sent_at);
        }
    }

    /// It goes to the pool, which ends it.
    fn wait(mut self, call: &NfsCall<'_>) -> WaitingCall {
        WaitingCall {
            subject: self.service.exports.subject(call.arguments),
            duplicate: self.key.take(),
            kind: Kind::Change,
            ..WaitingCall::default()
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.service.duplicates.abandon(&key);
        }
    }
}

/// Where the reply ends that was added to a batch last, which leaves with the reader's turn.
fn sent_with(request: &Request<'_>, batch: &Batch) -> SentAt {
    let connection = request.connection;
    if request.place.overlaps || connection.has_jobs() {
        // Threads of the pool may send before the turn ends.
        SentAt::Turn(connection.turns())
    } else {
        SentAt::Byte(connection.queued_bytes() + batch.length() as u64)
    }
}

/// Answers calls.
pub struct Service {
    /// The exports.
    pub exports: InForce,
    mount: MountProgram,
    /// The locks of the server.
    pub locks: Arc<Locks>,
    duplicates: Duplicates,
    /// The calls that run in the pool.
    pub slow: SlowCalls<HeldCall>,
}

impl Service {
    /// A service for the exports of `config`.
    pub fn new(config: Config) -> Result<Self, Error> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::System(errno.to_string()))?;
        let exports = InForce::new(config.exports, config.handle_key)?;
        exports.limits.limit_clients(config.client_limits);
        let locks = Locks::open(&config.locks, Instant::now())
            .map_err(|error| Error::System(format!("the list of clients with locks: {error}")))?;
        CLIENTS.add_locks(&locks);
        Ok(Self {
            exports,
            mount: MountProgram::default(),
            locks,
            duplicates: Duplicates::new(secret),
            slow: SlowCalls::new(config.slow_after, config.threads.saturating_mul(2)),
        })
    }

    /// Looks at a call and answers it, unless it would have to wait and may not.
    pub fn answer(&self, request: &Request<'_>, may_block: bool, batch: &mut Batch) -> Answer {
        let (call, arguments) = match rpc::parse_call(request.record) {
            Ok(parsed) => parsed,
            Err(refused) => {
                if let Some((xid, refusal)) = refused {
                    refuse(batch, xid, refusal);
                }
                return Answer::Done;
            }
        };
        let connection = request.connection;
        let served = self.exports.now();
        let caller = || Caller::new(&served, &call, connection.peer, may_block);
        match (call.program, call.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let Some(procedure) = Procedure::from_number(call.procedure) else {
                    return refuse(batch, call.xid, Refusal::ProcedureUnavailable);
                };
                let call = NfsCall {
                    request: *request,
                    head: call,
                    procedure,
                    arguments,
                };
                if may_block {
                    call.answer(&served, true, batch)
                } else {
                    self.first_look(&call, &served, batch)
                }
            }
            (mount3::PROGRAM, mount3::FIRST_VERSION..=mount3::VERSION) => {
                self.mount
                    .answer(request, &call, arguments, &caller(), batch)
            }
            (nlm4::PROGRAM | nsm::PROGRAM, _) => {
                locks::answer((caller(), self), connection, &call, arguments, batch)
            }
            (portmap::PROGRAM, _) => port_mapper::answer(connection, &call, arguments, batch),
            (nfs3::PROGRAM, _) => refuse_version(batch, call.xid, nfs3::VERSION..=nfs3::VERSION),
            (mount3::PROGRAM, _) => {
                let served = mount3::FIRST_VERSION..=mount3::VERSION;
                refuse_version(batch, call.xid, served)
            }
            _ => refuse(batch, call.xid, Refusal::ProgramUnavailable),
        }
    }

    /// On the receiving thread: what need not wait is answered, and changes are known from here on.
    fn first_look(&self, call: &NfsCall<'_>, served: &Served, batch: &mut Batch) -> Answer {
        let kind = kind(call.procedure);
        if kind == Kind::Change {
            return self.change(call, served, batch);
        }
        match call.answer(served, false, batch) {
            Answer::Done => Answer::Done,
            Answer::Wait(_) => Answer::Wait(WaitingCall {
                subject: self.exports.subject(call.arguments),
                kind,
                ..WaitingCall::reading(call.procedure, call.arguments)
            }),
        }
    }

    /// Makes a change known.
    fn begin(&self, call: &NfsCall<'_>, batch: &mut Batch) -> FirstLook<'_> {
        let (request, connection) = (&call.request, call.request.connection);
        if connection.is_given_up() {
            counters::CALLS_ABANDONED.add(1);
            connection.close();
            return FirstLook::Said;
        }
        let named = (call.head.xid, request.record);
        let is_write = call.procedure == Procedure::Write;
        let key = self.duplicates.key(connection.peer.ip(), named, is_write);
        let (place, received_at) = (request.place, request.received_at);
        match self.duplicates.look(key, connection, place, received_at) {
            Seen::New => FirstLook::Begin(Begun {
                service: self,
                key: Some(key),
            }),
            Seen::InProgress => FirstLook::Said,
            Seen::Undecided(undecided) => FirstLook::Undecided(WaitingCall {
                undecided: Some(Box::new(undecided)),
                subject: self.exports.subject(call.arguments),
                kind: Kind::Change,
                ..WaitingCall::default()
            }),
            Seen::Answered(reply, moved) => {
                batch.push(&reply);
                if let Some(key) = moved {
                    let sent_at = sent_with(request, batch);
                    self.duplicates.sent(&key, connection, sent_at);
                }
                FirstLook::Said
            }
        }
    }

    /// Looks again at a call of the pool that is undecided.
    pub fn decide(&self, job: &mut Job, is_stopping: bool) -> Decision {
        let Some(undecided) = job.state.undecided.as_deref().copied() else {
            return Decision::Do;
        };
        let connection = &job.charge.connection;
        if connection.is_given_up() {
            counters::CALLS_ABANDONED.add(1);
            connection.close();
            return Decision::Done;
        }
        match self.duplicates.look_again(undecided, connection) {
            Seen::New => {
                job.state.undecided = None;
                job.state.duplicate = Some(undecided.key);
                Decision::Do
            }
            Seen::InProgress => Decision::Done,
            // No answer will come: the client asks again on another connection.
            Seen::Undecided(_) if is_stopping => Decision::Done,
            Seen::Undecided(_) => Decision::LookAgain,
            Seen::Answered(reply, moved) => {
                let mut batch = Batch::default();
                batch.push(&reply);
                job.charge.answer();
                connection.send(&mut batch);
                if let Some(key) = moved {
                    let sent_at = SentAt::Byte(connection.queued_bytes());
                    self.duplicates.sent(&key, connection, sent_at);
                }
                Decision::Done
            }
        }
    }

    /// Answers a change at once, which only a write can be.
    fn change(&self, call: &NfsCall<'_>, served: &Served, batch: &mut Batch) -> Answer {
        match self.begin(call, batch) {
            FirstLook::Said => Answer::Done,
            FirstLook::Undecided(state) => Answer::Wait(state),
            FirstLook::Begin(begun) if call.procedure == Procedure::Write => {
                self.write_now((call, served), begun, batch)
            }
            FirstLook::Begin(begun) => Answer::Wait(begun.wait(call)),
        }
    }

    /// Makes a write unless it would have to wait.
    fn write_now(
        &self,
        (call, served): (&NfsCall<'_>, &Served),
        begun: Begun<'_>,
        batch: &mut Batch,
    ) -> Answer {
        let mark = batch.mark();
        match call.answer(served, false, batch) {
            Answer::Done => {
                begun.finish(batch.body(mark), sent_with(&call.request, batch));
                Answer::Done
            }
            Answer::Wait(_) => Answer::Wait(begun.wait(call)),
        }
    }

    /// Whether a call that waited for a thread is not to be begun, because no client waits for it.
    fn is_abandoned(&self, connection: &Arc<Connection>, change: Option<&Key>) -> bool {
        let is_gone = match change {
            // What only looks is answered for as long as a client may be there to read it.
            None => connection.is_closed(),
            Some(_) => connection.is_given_up(),
        };
        if !is_gone {
            return false;
        }
        if let Some(key) = change {
            self.duplicates.abandon(key);
        }
        counters::CALLS_ABANDONED.add(1);
        // A client that is there after all learns that no answer will come.
        connection.close();
        true
    }

    /// Forgets a call whose thread has panicked: it can be asked again.
    pub fn give_up(&self, state: &WaitingCall) {
        if let Some(key) = &state.duplicate {
            self.duplicates.abandon(key);
        }
    }

    /// Does a call of the pool to its end. If storage holds its object and the call may wait it is
    /// given back, and nothing has happened.
    pub fn answer_waiting(&self, job: Job, may_wait: bool) -> Option<Job> {
        let (connection, state) = (&job.charge.connection, &job.state);
        if self.is_abandoned(connection, state.duplicate.as_ref()) {
            return None;
        }
        let is_held =
            state.subject != Subject::default() && self.slow.is_held(state.subject, state.kind);
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
            let limits = &self.exports.limits;
            limits.settle(connection, prepaid, batch.length());
        }
        match &state.duplicate {
            Some(key) if was_done && !batch.is_empty() => {
                // The reply is known before its client can send anything because of it, and where
                // it is among others when it has left.
                self.duplicates
                    .finish(key, batch.body(mark), SentAt::UNKNOWN);
                connection.send(&mut batch);
                let sent_at = SentAt::Byte(connection.queued_bytes());
                self.duplicates.sent(key, connection, sent_at);
            }
            Some(key) => {
                self.duplicates.abandon(key);
                connection.send(&mut batch);
            }
            None => connection.send(&mut batch),
        }
        None
    }

    /// Answers a call under the eyes of the watcher; returns whether it was done. The batch stays
    /// empty when the watcher has answered in the meantime.
    fn run_watched(
        &self,
        request: &Request<'_>,
        job: &Job,
        is_held: bool,
        batch: &mut Batch,
    ) -> bool {
        let Ok((call, _)) = rpc::parse_call(request.record) else {
            return false;
        };
        let nfs = |_: &Procedure| call.program == nfs3::PROGRAM;
        let procedure = Procedure::from_number(call.procedure).filter(nfs);
        if is_held && let Some(procedure) = procedure {
            counters::JUKEBOX_REPLIES.add(1);
            push_jukebox(batch, call.xid, procedure);
            return false;
        }
        if is_held && call.program == mount3::PROGRAM {
            // MOUNT has no word for "later" (RFC 1813 appendix I), and clients take its
            // MNT3ERR_SERVERFAULT for good. One that learns that no answer will come asks again.
            request.connection.close();
            return false;
        }
        // MOUNT and locks: nothing is answered in their stead, but a thread that they hold is
        // replaced.
        let procedure = procedure.unwrap_or(Procedure::Null);
        let held = HeldCall {
            charge: job.charge.clone(),
            xid: call.xid,
            procedure,
        };
        let WaitingCall { subject, kind, .. } = job.state;
        let watched = self.slow.begin(subject, kind, held, Instant::now());
        self.answer(request, true, batch);
        if !watched.running.claim() {
            *batch = Batch::default();
        }
        true
    }

    /// Answers every call that storage holds for too long; returns how many threads are held, by
    /// export.
    pub fn answer_held(&self, now: Instant) -> HashMap<u32, usize> {
        let found = self.slow.watch(now);
        for running in found.due {
            if running.claim() {
                counters::JUKEBOX_REPLIES.add(1);
                let call = &running.context;
                let served = self.exports.now();
                let export = served.export_numbered(running.subject().export);
                if let Some(export) = export {
                    export.config.faults.note_held(now);
                }
                observed::show_held(
                    call.charge.connection.peer.ip(),
                    export.map_or("", |export| &export.config.name),
                    call.procedure,
                    self.slow.limit,
                );
                let mut batch = Batch::default();
                push_jukebox(&mut batch, call.xid, call.procedure);
                call.charge.answer();
                call.charge.connection.send(&mut batch);
                // Its thread may be held for ever, and the other calls of the connection go on. How
                // many threads are held, and with them the memory of replies, the pool bounds.
                call.charge.end();
            }
        }
        found.long
    }
}

/// Refuses a version of a program that has only these.
fn refuse_version(batch: &mut Batch, xid: u32, served: RangeInclusive<u32>) -> Answer {
    let (low, high) = served.into_inner();
    refuse(batch, xid, Refusal::ProgramMismatch { low, high })
}

/// Refuses a record of which only the beginning was kept, because it is too long.
pub fn refuse_oversized(beginning: &[u8], batch: &mut Batch) {
    let refused = match rpc::parse_call(beginning) {
        Ok((call, _)) => Some((call.xid, Refusal::GarbageArguments)),
        Err(refused) => refused,
    };
    if let Some((xid, refusal)) = refused {
        refuse(batch, xid, refusal);
    }
}

/// Has the client ask again later, because storage holds as much of its export as may be.
pub fn put_off(beginning: &[u8], batch: &mut Batch) {
    let parsed = rpc::parse_call(beginning);
    let named = parsed.map(|(call, _)| (call.xid, Procedure::from_number(call.procedure)));
    if let Ok((xid, Some(procedure))) = named {
        counters::RECORDS_PUT_OFF.add(1);
        push_jukebox(batch, xid, procedure);
    }
}
