//! What is done for a call: from record to reply.
//!
//! [`Service::answer`] reads the head of a call, checks program, version and procedure, and has
//! the program write the reply. On a receiving thread it may find that the call would wait;
//! nothing was answered then, and nothing done but the beginning of a write
//! ([`pagewell_fs::Call::may_block`]), and the call goes to the pool, which has it answered to the
//! end ([`Program`]).
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

mod audit;
pub mod call;
pub mod convert;
pub mod cookies;
mod creation;
mod data;
mod directory;
pub mod ending;
pub mod exports;
pub mod handles;
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

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use pagewell_fs::moment::{self, Moment};
use pagewell_policy::reply_cache::{Key, SentAt};
use pagewell_sunrpc::mount3;
use pagewell_sunrpc::nfs3::{self, Procedure};
use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::{nlm4, nsm, portmap};

use crate::answer::credentials_of;
use crate::bounds::Bounds;
use crate::call::{Answer, CallName, Class, Request, refuse, refuse_version};
use crate::clients::{CLIENTS, CountsLocks};
use crate::config::{Config, Error};
use crate::connection::Connection;
use crate::duplicate::{Duplicates, Pending, Seen, Undecided};
use crate::locks::Locks;
use crate::program::{Decision, Later, Program};
use crate::reply::batch::Batch;
use crate::service::call::{NfsCall, class_of, kind, push_jukebox};
use crate::service::exports::{Caller, Served};
use crate::service::in_force::InForce;
use crate::service::mount::MountProgram;
use crate::slow::Kind;
use crate::usage::ExportLabel;

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
    Undecided(Box<Undecided>),
}

impl Begun<'_> {
    /// It was done, and answered with `reply`, which leaves at `sent_at`.
    fn finish(mut self, reply: &[u8], sent_at: SentAt) {
        if let Some(key) = self.key.take() {
            self.service.duplicates.finish(&key, reply, sent_at);
        }
    }

    /// It goes to the pool, which ends it.
    fn wait(mut self) -> Pending {
        self.key.take().map_or(Pending::Nothing, Pending::Change)
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
}

impl Service {
    /// A service for the exports of `config`, whose calls are bounded so.
    pub fn new(config: Config, bounds: Arc<Bounds>) -> Result<Self, Error> {
        let mut secret = [0; 16];
        rustix::rand::getrandom(&mut secret[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::System(errno.to_string()))?;
        let exports = InForce::new(config.exports, config.handle_key, bounds)?;
        let locks = Locks::open(&config.locks, Instant::now())
            .map_err(|error| Error::System(format!("the list of clients with locks: {error}")))?;
        let counted: Arc<dyn CountsLocks> = locks.clone();
        CLIENTS.add_locks(Arc::downgrade(&counted));
        Ok(Self {
            exports,
            mount: MountProgram::default(),
            locks,
            duplicates: Duplicates::new(secret),
        })
    }

    /// On the receiving thread: what need not wait is answered, and changes are known from here on.
    fn first_look(
        &self,
        call: &NfsCall<'_>,
        served: &Served,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let kind = kind(call.procedure);
        if kind == Kind::Change {
            return self.change(call, served, batch);
        }
        match call.answer(served, false, batch) {
            Answer::Done => Answer::Done,
            Answer::Wait(..) => Answer::Wait(self.class(call), Pending::Nothing),
        }
    }

    /// What a call is for, and what it may take.
    fn class(&self, call: &NfsCall<'_>) -> Class {
        let mut arguments = call.arguments;
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).ok();
        let subject = handle.and_then(|handle| self.exports.subject(handle));
        class_of(call, subject.into_iter().collect())
    }

    /// Makes a change known.
    fn begin(&self, call: &NfsCall<'_>, batch: &mut Batch) -> FirstLook<'_> {
        let (request, connection) = (&call.request, call.request.connection);
        if connection.is_given_up() {
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
            Seen::Undecided(undecided) => FirstLook::Undecided(Box::new(undecided)),
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

    /// Answers a change at once, which only a write can be.
    fn change(&self, call: &NfsCall<'_>, served: &Served, batch: &mut Batch) -> Answer<Pending> {
        match self.begin(call, batch) {
            FirstLook::Said => Answer::Done,
            FirstLook::Undecided(undecided) => {
                Answer::Wait(self.class(call), Pending::Undecided(undecided))
            }
            FirstLook::Begin(begun) if call.procedure == Procedure::Write => {
                self.write_now((call, served), begun, batch)
            }
            FirstLook::Begin(begun) => Answer::Wait(self.class(call), begun.wait()),
        }
    }

    /// Makes a write unless it would have to wait.
    fn write_now(
        &self,
        (call, served): (&NfsCall<'_>, &Served),
        begun: Begun<'_>,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let mark = batch.mark();
        match call.answer(served, false, batch) {
            Answer::Done => {
                begun.finish(batch.body(mark), sent_with(&call.request, batch));
                Answer::Done
            }
            Answer::Wait(..) => Answer::Wait(self.class(call), begun.wait()),
        }
    }
}

impl Program for Service {
    type Received = Moment;
    type Pending = Pending;

    fn allows(&self, address: IpAddr) -> bool {
        self.exports.allows(address)
    }

    fn begin_receive(&self) -> Moment {
        moment::begin()
    }

    fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32> {
        let (call, mut arguments) = rpc::parse_call(beginning).ok()?;
        if call.program != nfs3::PROGRAM {
            return None;
        }
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).ok()?;
        self.exports.now().owner(handle, peer)
    }

    fn label_of(&self, export: u32, address: IpAddr) -> ExportLabel {
        self.exports.now().label_of(export, address)
    }

    fn answer(&self, request: &Request<'_>, may_block: bool, batch: &mut Batch) -> Answer<Pending> {
        let (call, arguments) = match rpc::parse_call(request.record) {
            Ok(parsed) => parsed,
            Err(refused) => {
                let refuse = |(xid, refusal)| refuse(batch, xid, refusal);
                return refused.map_or(Answer::Done, refuse);
            }
        };
        let connection = request.connection;
        let served = self.exports.now();
        let caller = || {
            let identity = credentials_of(&call);
            Caller::new(&served, identity, connection.peer, may_block)
        };
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

    fn shorten(&self, beginning: &mut [u8]) -> Option<usize> {
        long_write::shorten(beginning)
    }

    fn later(&self, call: CallName, batch: &mut Batch) -> Later {
        match (call.program, Procedure::from_number(call.procedure)) {
            (nfs3::PROGRAM, Some(procedure)) => {
                push_jukebox(batch, call.xid, procedure);
                Later::Said
            }
            // MOUNT has no word for "later" (RFC 1813 appendix I), and clients take its
            // MNT3ERR_SERVERFAULT for good.
            (mount3::PROGRAM, _) => Later::Unsayable,
            _ => Later::Answered,
        }
    }

    fn note_held(&self, call: CallName, export: u32, peer: IpAddr, now: Instant) {
        let served = self.exports.now();
        let export = served.export_numbered(export);
        if let Some(export) = export {
            export.config.faults.note_held(now);
        }
        let name = export.map_or("", |export| &export.config.name);
        if let Some(procedure) = Procedure::from_number(call.procedure) {
            observed::show_held(peer, name, procedure, self.exports.bounds.slow.limit);
        }
    }

    fn is_undecided(pending: &Pending) -> bool {
        matches!(pending, Pending::Undecided(_))
    }

    fn is_change(pending: &Pending) -> bool {
        pending.change().is_some()
    }

    fn decide(&self, pending: &mut Pending, connection: &Connection) -> Decision {
        let Pending::Undecided(undecided) = pending else {
            return Decision::Do;
        };
        let undecided = **undecided;
        match self.duplicates.look_again(undecided, connection) {
            Seen::New => {
                *pending = Pending::Change(undecided.key);
                Decision::Do
            }
            Seen::InProgress => Decision::Done,
            Seen::Undecided(_) => Decision::LookAgain,
            Seen::Answered(reply, moved) => {
                *pending = moved.map_or(Pending::Nothing, Pending::Change);
                Decision::Answer(reply)
            }
        }
    }

    fn finish(&self, pending: &Pending, reply: Option<&[u8]>) {
        match (pending.change(), reply) {
            (Some(key), Some(reply)) => self.duplicates.finish(key, reply, SentAt::UNKNOWN),
            (Some(key), None) => self.duplicates.abandon(key),
            (None, _) => {}
        }
    }

    fn sent(&self, pending: &Pending, connection: &Connection) {
        if let Some(key) = pending.change() {
            let sent_at = SentAt::Byte(connection.queued_bytes());
            self.duplicates.sent(key, connection, sent_at);
        }
    }

    fn tick(&self, now: Instant) {
        self.locks.tick(now);
    }

    fn stop(&self) {
        self.locks.stop();
    }

    fn answer_datagram(
        &self,
        record: &[u8],
        ends: (SocketAddr, Option<IpAddr>),
        may_block: bool,
    ) -> Result<Option<Vec<u8>>, u32> {
        locks::answer_datagram(self, record, ends, may_block)
    }
}
