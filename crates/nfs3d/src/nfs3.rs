//! The NFSv3 program: its calls, their classes and answers, now or later.
//!
//! A call that would block on a reader thread has done nothing except the beginning of a write
//! ([`pagewell_fs::Call::may_block`]); a pool thread runs it to its end.
//!
//! # Changes
//!
//! A change begins at most once, and never after its client has moved on:
//!
//! | a change that | guard |
//! |---|---|
//! | waits or runs and is sent again elsewhere | that waits without a thread until this is done |
//! | was done and is sent again | the kept reply, however many changes came since |
//! | is read after it was sent again and done | the same |
//! | waits or is unread when its client is gone | dropped (`Connection::is_given_up`) |
//!
//! [`pagewell_policy::reply_cache`] tells repetitions from look-alikes. A change that has begun
//! cannot be undone: its repetition, and all that the client sends after the reply, comes after its
//! end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use pagewell_export::exports::{Caller, InForce, Served};
use pagewell_export::shown::is_detailed;
use pagewell_fs::BatchCache;
use pagewell_policy::reply_cache::{Key, SentAt};
use pagewell_rpcd::call::{
    Answer, CallName, Class, Done, Request, Unanswered, count_answer, credentials_of, decode,
    refuse, unanswered,
};
use pagewell_rpcd::connection::Connection;
use pagewell_rpcd::program::{Decision, Later};
use pagewell_rpcd::reply::{Batch, Mark};
use pagewell_rpcd::slow::{Kind, Subjects};
use pagewell_sunrpc::nfs3::{self, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::duplicate::{Duplicates, Pending, Seen, Undecided};
use crate::handler::{Abort, LISTING_BYTES_MAX, Nfs3Handler, READ_BYTES_MAX};
use crate::statistics::NFS;
use crate::{creation, data, directory, names, object, observed, volume};

/// A change in the duplicate-request cache, until it is answered or goes to the pool; dropped in a
/// panic, it may be repeated.
struct Begun<'s> {
    nfs: &'s Nfs3,
    key: Option<Key>,
}

/// The first look at a change.
enum FirstLook<'s> {
    /// New.
    Begin(Begun<'s>),
    /// Not to be run; a due reply is in the batch.
    Said,
    /// New or a repetition: undecided.
    Undecided(Box<Undecided>),
}

impl Begun<'_> {
    /// It ran; `reply` leaves at `sent_at`.
    fn finish(mut self, reply: &[u8], sent_at: SentAt) {
        if let Some(key) = self.key.take() {
            self.nfs.duplicates.finish(&key, reply, sent_at);
        }
    }

    /// The pool ends it.
    fn wait(mut self) -> Pending {
        self.key.take().map_or(Pending::Nothing, Pending::Change)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.nfs.duplicates.abandon(&key);
        }
    }
}

/// Where the batch's last reply ends; the batch leaves with the reader's turn.
fn sent_with(request: &Request<'_>, batch: &Batch) -> SentAt {
    let connection = request.connection;
    if request.place.overlaps || connection.has_jobs() {
        // Pool threads may send before the turn ends.
        SentAt::Turn(connection.turns())
    } else {
        SentAt::Byte(connection.queued_bytes() + batch.length() as u64)
    }
}

/// The NFSv3 program.
pub struct Nfs3 {
    exports: Arc<InForce>,
    duplicates: Duplicates,
}

impl Nfs3 {
    /// `secret` keys the digests of calls.
    pub fn new(exports: Arc<InForce>, secret: [u8; 16]) -> Self {
        Self {
            exports,
            duplicates: Duplicates::new(secret),
        }
    }

    /// Answers a call. With `received` it must not block; a call that would is not answered.
    pub fn answer(
        &self,
        (request, head, arguments): (&Request<'_>, Call<'_>, Decoder<'_>),
        served: &Served,
        received: Option<&BatchCache>,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        let Some(procedure) = Procedure::from_number(head.procedure) else {
            return refuse(batch, head.xid, Refusal::ProcedureUnavailable);
        };
        let call = NfsCall {
            request: *request,
            head,
            procedure,
            arguments,
            cache: received,
        };
        if received.is_none() {
            call.answer(served, true, batch)
        } else {
            self.first_look(&call, served, batch)
        }
    }

    /// The export of a call, if the beginning of its record shows it and `peer` may use it.
    pub fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32> {
        let (call, mut arguments) = rpc::parse_call(beginning).ok()?;
        if call.program != nfs3::PROGRAM {
            return None;
        }
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).ok()?;
        self.exports.now().owner(handle, peer)
    }

    /// Answers "try later" (RFC 1813 section 2.6, `NFS3ERR_JUKEBOX`).
    pub fn later(&self, call: CallName, batch: &mut Batch) -> Later {
        let Some(procedure) = Procedure::from_number(call.procedure) else {
            return Later::Answered;
        };
        push_jukebox(batch, call.xid, procedure);
        Later::Said
    }

    /// On the reader thread: answers what does not block, and registers changes.
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

    /// The class of a call.
    fn class(&self, call: &NfsCall<'_>) -> Class {
        let mut arguments = call.arguments;
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).ok();
        let subject = handle.and_then(|handle| self.exports.subject(handle));
        class_of(call, subject.into_iter().collect())
    }

    /// Registers a change.
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
                nfs: self,
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

    /// Runs writes at once; other changes wait.
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

    /// Runs a write, unless it would block.
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

    /// A stalled call got "try later".
    pub fn note_stalled(&self, call: CallName, export: u32, peer: IpAddr, now: Instant) {
        let served = self.exports.now();
        let export = served.export_numbered(export);
        if let Some(export) = export {
            export.config.faults.note_stalled(now);
        }
        let name = export.map_or("", |export| &export.config.name);
        if let Some(procedure) = Procedure::from_number(call.procedure) {
            observed::show_stalled(peer, name, procedure, self.exports.bounds.slow.limit);
        }
    }

    /// Looks again at an undecided call.
    pub fn decide(&self, pending: &mut Pending, connection: &Connection) -> Decision {
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

    /// The call has run and `reply` leaves now, or it has not and may be repeated.
    pub fn finish(&self, pending: &Pending, reply: Option<&[u8]>) {
        match (pending.change(), reply) {
            (Some(key), Some(reply)) => self.duplicates.finish(key, reply, SentAt::UNKNOWN),
            (Some(key), None) => self.duplicates.abandon(key),
            (None, _) => {}
        }
    }

    /// The reply is the last one sent on `connection`.
    pub fn sent(&self, pending: &Pending, connection: &Connection) {
        if let Some(key) = pending.change() {
            let sent_at = SentAt::Byte(connection.queued_bytes());
            self.duplicates.sent(key, connection, sent_at);
        }
    }
}

/// A call of NFS with parsed head.
pub(super) struct NfsCall<'a> {
    pub(super) request: Request<'a>,
    pub(super) head: Call<'a>,
    pub(super) procedure: Procedure,
    pub(super) arguments: Decoder<'a>,
    /// Shared by the calls of one receive.
    pub(super) cache: Option<&'a BatchCache>,
}

/// The class of a call, with the longest reply that its connection is charged for.
fn class_of(call: &NfsCall<'_>, subjects: Subjects) -> Class {
    let (procedure, arguments) = (call.procedure, call.arguments);
    let mut class = Class {
        subjects,
        kind: kind(procedure),
        ..Class::default()
    };
    let listing = |count: u32| (count as usize).min(LISTING_BYTES_MAX);
    match procedure {
        Procedure::Read => {
            let read = decode::<nfs3::ReadArguments<'_>>(arguments);
            let most = READ_BYTES_MAX;
            class.reply_bytes_max = read.map_or(0, |read| read.count.min(most) as usize);
        }
        Procedure::Readdir => {
            let list = decode::<nfs3::ReaddirArguments<'_>>(arguments);
            class.listing_bytes_max = list.map_or(0, |list| listing(list.count));
        }
        Procedure::ReaddirPlus => {
            let list = decode::<nfs3::ReaddirPlusArguments<'_>>(arguments);
            class.listing_bytes_max = list.map_or(0, |list| listing(list.count_max));
        }
        _ => {}
    }
    class
}

/// What a procedure does. A change must not run twice, or long after it was sent; COMMIT may, as it
/// changes nothing readable.
pub(super) fn kind(procedure: Procedure) -> Kind {
    match procedure {
        Procedure::Commit => Kind::Commit,
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => Kind::Change,
        _ => Kind::Read,
    }
}

/// Appends a failure without optional attributes.
fn encode_bare_failure(encoder: &mut Encoder<'_>, procedure: Procedure, status: Status) {
    status.encode(encoder);
    // "Absent" for each post_op_attr and pre_op_attr of the procedure's resfail.
    let absent = match (procedure, kind(procedure)) {
        (Procedure::Null | Procedure::Getattr, _) => 0,
        (Procedure::Link, _) => 3,
        (Procedure::Rename, _) => 4,
        (_, Kind::Read) => 1,
        (_, Kind::Change | Kind::Commit) => 2,
    };
    for _ in 0..absent {
        encoder.bool(false);
    }
}

/// Answers "try later".
fn push_jukebox(batch: &mut Batch, xid: u32, procedure: Procedure) {
    let mark = batch.begin();
    let mut encoder = Encoder::new(batch.bytes());
    rpc::encode_success(&mut encoder, xid);
    encode_bare_failure(&mut encoder, procedure, Status::Jukebox);
    batch.end(mark);
}

impl NfsCall<'_> {
    /// Answers the call, unless it would block and may not.
    fn answer(&self, served: &Served, may_block: bool, batch: &mut Batch) -> Answer<Pending> {
        if is_detailed() {
            observed::in_span(self, served, || self.run(served, may_block, batch))
        } else {
            self.run(served, may_block, batch)
        }
    }

    /// Answers with what `run` appends, and logs the call.
    pub(super) fn reply(
        &self,
        served: &Served,
        batch: &mut Batch,
        run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Unanswered>,
    ) -> Answer<Pending> {
        let mark = batch.mark();
        match count_answer((&self.request, &self.head), &NFS, batch, run) {
            Ok(answered) => {
                if observed::is_wanted(answered.latency) {
                    observed::show(self, served, &answered, batch.body(mark));
                }
                Answer::Done
            }
            Err(reason) => unanswered(reason, self.head.xid, batch),
        }
    }

    fn run(&self, served: &Served, may_block: bool, batch: &mut Batch) -> Answer<Pending> {
        let peer = self.request.connection.peer;
        let waiting = (may_block, self.cache);
        let caller = &Caller::new(served, credentials_of(&self.head), peer, waiting);
        let procedure = self.procedure;
        self.reply(served, batch, |batch, mark| {
            let handler = &mut Nfs3Handler::new(caller, batch, mark);
            let result = run(handler, procedure, self.arguments);
            batch.tally.set_export(caller.used_export());
            let status = match result {
                Ok(done) => return Ok(done),
                Err(Abort::Unanswered(reason)) => return Err(reason),
                Err(Abort::Status(status)) => status,
            };
            encode_bare_failure(&mut Encoder::new(batch.bytes()), procedure, status);
            Ok(Done {
                failed: true,
                sent_bytes: None,
            })
        })
    }
}

/// Runs a procedure, which appends its results behind the RPC head.
fn run(
    handler: &mut Nfs3Handler<'_>,
    procedure: Procedure,
    arguments: Decoder<'_>,
) -> Result<Done, Abort> {
    match procedure {
        Procedure::Null => Ok(Done::default()),
        Procedure::Getattr => object::getattr(handler, decode(arguments)?),
        Procedure::Setattr => object::setattr(handler, decode(arguments)?),
        Procedure::Lookup => object::lookup(handler, decode(arguments)?),
        Procedure::Access => object::access(handler, decode(arguments)?),
        Procedure::Readlink => object::readlink(handler, decode(arguments)?),
        Procedure::Read => data::read(handler, decode(arguments)?),
        Procedure::Write => data::write(handler, decode(arguments)?),
        Procedure::Create => creation::create(handler, decode(arguments)?),
        Procedure::Mkdir => creation::mkdir(handler, decode(arguments)?),
        Procedure::Symlink => creation::symlink(handler, decode(arguments)?),
        Procedure::Mknod => creation::mknod(handler, decode(arguments)?),
        Procedure::Remove => names::remove(handler, decode(arguments)?, false),
        Procedure::Rmdir => names::remove(handler, decode(arguments)?, true),
        Procedure::Rename => names::rename(handler, decode(arguments)?),
        Procedure::Link => names::link(handler, decode(arguments)?),
        Procedure::Readdir => directory::readdir(handler, decode(arguments)?),
        Procedure::ReaddirPlus => directory::readdirplus(handler, decode(arguments)?),
        Procedure::Fsstat => volume::fsstat(handler, decode(arguments)?),
        Procedure::Fsinfo => volume::fsinfo(handler, decode(arguments)?),
        Procedure::Pathconf => volume::pathconf(handler, decode(arguments)?),
        Procedure::Commit => data::commit(handler, decode(arguments)?),
    }
}
