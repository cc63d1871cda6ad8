//! NLM version 4 (RFC 1813 appendix II) and NSM: requests and their permissions.
//!
//! A shared lock needs the permission of READ, an exclusive one that of WRITE: a program has the
//! file open. Unlocking needs none. Read-only exports have shared locks only.
//!
//! For a file of stalled storage the reply is "in grace", the only one that makes clients try
//! later.

use std::cell::Cell;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use pagewell_fs as fs;
use pagewell_locks::file::Kind;
use pagewell_locks::owner::{Client, Owner};
use pagewell_locks::range::Range;
use pagewell_locks::records::Listed;
use pagewell_locks::table::{FileKey, Outcome, Wish};
use pagewell_sunrpc::nlm4::{
    self, CancelArguments, FreeAllArguments, Holder, LockArguments, Procedure, Reply, Share,
    ShareAccess, ShareArguments, ShareReply, Status, TestArguments, TestReply, UnlockArguments,
};
use pagewell_sunrpc::nsm::{self, NotifyArguments};
use pagewell_sunrpc::rpc::{self, AuthenticationStatus, Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::locks::Locks;
use crate::locks::calls::Context;
use pagewell_export::exports::{Caller, Served, Target};
use pagewell_export::shown::{self, About, OtherCall, words};
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::call::{Answer, Class, Unanswered, credentials_of, decode};
use pagewell_rpcd::connection::Connection;
use pagewell_rpcd::reply::Batch;
use pagewell_rpcd::slow::{self, Subject, Subjects};

/// Longest cookie of a reply (`MAXNETOBJ_SZ`).
const COOKIE_BYTES_MAX: usize = 1024;

/// The result of a call without a lock request: a reply or none.
type Settled = Result<Status, Unanswered>;

/// A lock call and its context.
struct LockCall<'a> {
    caller: Caller<'a>,
    locks: &'a Locks,
    /// The called server address, if known.
    local: Option<IpAddr>,
    bounds: &'a Bounds,
    /// The file, once known.
    subject: Cell<Option<Subject>>,
}

/// Answers a call of NLM or NSM on a connection.
pub fn answer<W: Default>(
    (caller, locks, bounds): (Caller<'_>, &Locks, &Bounds),
    connection: &Connection,
    call: &Call<'_>,
    arguments: Decoder<'_>,
    batch: &mut Batch,
) -> Answer<W> {
    let local = rustix::net::getsockname(connection);
    let local = local.ok().and_then(|address| address.try_into().ok());
    let local = local.map(|address: SocketAddr| address.ip());
    match LockCall::new(caller, (locks, bounds), local).reply(call, arguments) {
        Ok(reply) => {
            batch.push(&reply);
            Answer::Done
        }
        Err(subject) => {
            let subjects = subject.into_iter().collect();
            let class = Class {
                subjects,
                ..Class::default()
            };
            Answer::Wait(class, W::default())
        }
    }
}

/// The reply to a datagram, if due. `Err`: it would wait for the export of that number, and may
/// not.
pub fn answer_datagram(
    (served, locks, bounds): (&Served, &Locks, &Bounds),
    record: &[u8],
    (from, local): (SocketAddr, Option<IpAddr>),
    may_block: bool,
) -> Result<Option<Vec<u8>>, u32> {
    let reply = match rpc::parse_call(record) {
        Err(None) => return Ok(None),
        Err(Some((xid, refusal))) => Ok(encoded_reply(xid, Err(refusal))),
        Ok((call, arguments)) => {
            let caller = Caller::new(served, credentials_of(&call), from, (may_block, None));
            LockCall::new(caller, (locks, bounds), local).reply(&call, arguments)
        }
    };
    reply
        .map(Some)
        .map_err(|subject| subject.map_or(0, |subject| subject.export))
}

fn encoded_reply(xid: u32, results: Result<&[u8], Refusal>) -> Vec<u8> {
    let mut reply = Vec::new();
    let encoder = &mut Encoder::new(&mut reply);
    match results {
        Ok(results) => {
            rpc::encode_success(encoder, xid);
            encoder.raw(results);
        }
        Err(refusal) => rpc::encode_refusal(encoder, xid, refusal),
    }
    reply
}

impl<'a> LockCall<'a> {
    fn new(
        caller: Caller<'a>,
        (locks, bounds): (&'a Locks, &'a Bounds),
        local: Option<IpAddr>,
    ) -> Self {
        Self {
            caller,
            locks,
            local: local.map(|local| local.to_canonical()),
            bounds,
            subject: Cell::default(),
        }
    }

    /// The client's address.
    fn peer(&self) -> IpAddr {
        self.caller.peer.ip().to_canonical()
    }

    /// A client at that address.
    fn client(&self, name: &[u8]) -> Arc<Client> {
        Arc::new(Client {
            address: self.peer(),
            name: name.to_owned(),
        })
    }

    /// The reply; `Err`: the subject that it would wait for.
    fn reply(&self, call: &Call<'_>, arguments: Decoder<'_>) -> Result<Vec<u8>, Option<Subject>> {
        Ok(match self.shown_results(call, arguments) {
            Ok(results) => encoded_reply(call.xid, Ok(&results)),
            Err(stop) => {
                let refusal = stop.refusal().ok_or(self.subject.get())?;
                encoded_reply(call.xid, Err(refusal))
            }
        })
    }

    /// The results, encoded; logged if wanted.
    fn shown_results(
        &self,
        call: &Call<'_>,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        let lock = Procedure::from_number(call.procedure);
        let status = nsm::Procedure::from_number(call.procedure);
        let named = match call.program {
            nlm4::PROGRAM => lock.as_ref().map(|procedure| procedure as &dyn Debug),
            _ => status.as_ref().map(|procedure| procedure as &dyn Debug),
        };
        let Some(shown) = OtherCall::begin(named, (call, self.caller.peer), Instant::now()) else {
            return self.results(call, arguments);
        };
        let results = shown.work(|| self.results(call, arguments));
        let about = self.about();
        shown.is_about(&about);
        match &results {
            Ok(results) if call.program == nlm4::PROGRAM => {
                shown.end(&about, &lock_result(results));
            }
            Ok(_) => shown.end(&about, "ok"),
            // The call runs again.
            Err(Unanswered::WouldBlock) => {}
            Err(_) => shown.end(&about, "refused"),
        }
        results
    }

    /// The file of a lock, for the log.
    fn about(&self) -> About {
        let found = self.subject.get().and_then(|subject| {
            let export = self.caller.served.export_numbered(subject.export)?;
            Some((export, subject.object?))
        });
        let Some((export, id)) = found else {
            return About::default();
        };
        let handle = self.caller.served.handle(export, &id);
        About {
            export: export.config.name.clone(),
            object: shown::object(Some(export), Some(&id), handle.as_bytes()),
        }
    }

    /// The results, encoded.
    fn results(&self, call: &Call<'_>, arguments: Decoder<'_>) -> Result<Vec<u8>, Unanswered> {
        match (call.program, call.version) {
            (nlm4::PROGRAM, nlm4::VERSION) => self.manage_locks(call.procedure, arguments),
            (nsm::PROGRAM, nsm::VERSION) => self.monitor_status(call.procedure, arguments),
            (nlm4::PROGRAM, _) => Err(mismatch(nlm4::VERSION)),
            (nsm::PROGRAM, _) => Err(mismatch(nsm::VERSION)),
            _ => Err(Unanswered::Refused(Refusal::ProgramUnavailable)),
        }
    }

    /// Refuses a call for all exports, unless each serves its port.
    fn check_port(&self) -> Result<(), Unanswered> {
        let status = AuthenticationStatus::TooWeak;
        let refused = Unanswered::Refused(Refusal::Authentication(status));
        self.caller.port_is_allowed().then_some(()).ok_or(refused)
    }

    /// NSM: only the procedures between machines.
    fn monitor_status(
        &self,
        procedure: u32,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        match nsm::Procedure::from_number(procedure) {
            Some(nsm::Procedure::Null) => {}
            Some(nsm::Procedure::Notify) => {
                let NotifyArguments { name, state } = decode(arguments)?;
                self.check_port()?;
                self.locks.restarted(self.peer(), name, state);
            }
            _ => return Err(Unanswered::Refused(Refusal::ProcedureUnavailable)),
        }
        Ok(Vec::new())
    }

    fn manage_locks(&self, number: u32, arguments: Decoder<'_>) -> Result<Vec<u8>, Unanswered> {
        let Some(procedure) = Procedure::from_number(number) else {
            return Err(Unanswered::Refused(Refusal::ProcedureUnavailable));
        };
        let Some((procedure, result)) = procedure.of_message() else {
            return self.lock_results(procedure, arguments);
        };
        let results = self.lock_results(procedure, arguments)?;
        let to = (self.peer(), self.local);
        self.locks.send_result(to, result.number(), results);
        Ok(Vec::new())
    }

    fn lock_results(
        &self,
        procedure: Procedure,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        let reply = |cookie, status: Result<Status, Settled>| {
            let status = status.or_else(|settled| settled)?;
            Ok(encoded(&Reply { cookie, status }))
        };
        match procedure {
            Procedure::Test => self.test_lock(&decode(arguments)?),
            Procedure::Lock | Procedure::UnmonitoredLock => {
                let arguments: LockArguments<'_> = decode(arguments)?;
                let monitored = procedure == Procedure::Lock;
                reply(arguments.cookie, self.take_lock(&arguments, monitored))
            }
            Procedure::Cancel => {
                let arguments: CancelArguments<'_> = decode(arguments)?;
                let wish = self.wish(&arguments.lock, kind(arguments.exclusive));
                let status = wish.map(|wish| match self.locks.cancel(&wish) {
                    true => Status::Granted,
                    false => Status::Denied,
                });
                reply(arguments.cookie, status)
            }
            Procedure::Unlock => {
                let UnlockArguments { cookie, lock } = decode(arguments)?;
                let wish = self.wish(&lock, Kind::Read);
                let status = wish.map(|wish| match self.locks.unlock(&wish) {
                    true => Status::Granted,
                    false => Status::NoLocks,
                });
                reply(cookie, status)
            }
            Procedure::Granted => {
                // The server waits for no locks.
                let arguments: TestArguments<'_> = decode(arguments)?;
                reply(arguments.cookie, Ok(Status::Denied))
            }
            Procedure::Share | Procedure::Unshare => {
                let arguments: ShareArguments<'_> = decode(arguments)?;
                let shared = self.share(&arguments, procedure == Procedure::Share);
                Ok(encoded(&ShareReply {
                    cookie: arguments.cookie,
                    status: shared.or_else(|settled| settled)?,
                    sequence: 0,
                }))
            }
            Procedure::FreeAll => {
                let FreeAllArguments { name, .. } = decode(arguments)?;
                self.check_port()?;
                self.locks.free_all(&self.client(name));
                Ok(Vec::new())
            }
            // Results of calls that are never one-way.
            _ => Ok(Vec::new()),
        }
    }

    fn test_lock(&self, arguments: &TestArguments<'_>) -> Result<Vec<u8>, Unanswered> {
        let wish = if self.locks.in_grace(Instant::now()) {
            Err(Ok(Status::GracePeriod))
        } else {
            self.wish_if_permitted(&arguments.lock, kind(arguments.exclusive))
        };
        let held = wish.map(|wish| self.locks.test(&wish));
        let answer = match &held {
            Ok(None) => Ok(Status::Granted),
            Ok(Some((holder, piece))) => Err(Holder {
                exclusive: piece.kind == Kind::Write,
                process: holder.process,
                owner: &holder.handle,
                offset: piece.range.start(),
                length: piece.range.length(),
            }),
            Err(settled) => Ok((*settled)?),
        };
        Ok(encoded(&TestReply {
            cookie: arguments.cookie,
            answer,
        }))
    }

    fn take_lock(&self, arguments: &LockArguments<'_>, monitored: bool) -> Result<Status, Settled> {
        let wish = self.wish_if_permitted(&arguments.lock, kind(arguments.exclusive))?;
        // Only listed clients get restart notices; others would believe that they keep their locks.
        let may_block = self.caller.may_block;
        if monitored && !self.locks.is_listed(&wish.owner.client, may_block) {
            if !may_block {
                // It waits for the list, not for the file's storage.
                self.subject.set(None);
                return Err(Err(Unanswered::WouldBlock));
            }
            let listed = Listed {
                client: wish.owner.client.clone(),
                local: self.local,
            };
            if !self.locks.list(&listed) {
                return Ok(Status::NoLocks);
            }
        }
        let wait = arguments.block.then(|| Context {
            local: self.local,
            handle: Arc::from(arguments.lock.handle),
        });
        let reclaim = (arguments.reclaim, arguments.state);
        Ok(status(self.locks.lock(&wish, reclaim, wait)))
    }

    fn share(&self, arguments: &ShareArguments<'_>, opens: bool) -> Result<Status, Settled> {
        let Share {
            caller_name,
            handle,
            owner,
            mode,
            access,
        } = arguments.share;
        let lock = nlm4::Lock {
            caller_name,
            handle,
            owner,
            process: 0,
            offset: 0,
            length: 0,
        };
        if !opens {
            let wish = self.wish(&lock, Kind::Read)?;
            self.locks.shares.lock().close(&wish.file, &wish.owner);
            return Ok(Status::Granted);
        }
        if arguments.reclaim != self.locks.in_grace(Instant::now()) {
            return Ok(Status::GracePeriod);
        }
        let kind = match access {
            ShareAccess::None | ShareAccess::Read => Kind::Read,
            ShareAccess::Write | ShareAccess::Both => Kind::Write,
        };
        let wish = self.wish_if_permitted(&lock, kind)?;
        let mut shares = self.locks.shares.lock();
        let outcome = shares.open(wish.file, &wish.owner, mode, access);
        Ok(status(outcome))
    }

    /// The requested lock; the file may be gone.
    fn wish(&self, lock: &nlm4::Lock<'_>, kind: Kind) -> Result<Wish, Settled> {
        let (target, range) = self.place(lock)?;
        Ok(self.wish_at(&target, lock, (range, kind)))
    }

    /// The same, if the caller may open the file for it.
    fn wish_if_permitted(&self, lock: &nlm4::Lock<'_>, kind: Kind) -> Result<Wish, Settled> {
        let (target, range) = self.place(lock)?;
        let read_only = target.export.config.read_only || target.filesystem().limits().read_only;
        let wanted = match kind {
            Kind::Write if read_only => return Err(Ok(Status::ReadOnly)),
            Kind::Write => fs::Access::MODIFY | fs::Access::EXTEND,
            Kind::Read => fs::Access::READ | fs::Access::EXECUTE,
        };
        let subjects: Subjects = self.subject.get().into_iter().collect();
        let slow = &self.bounds.slow;
        if self.caller.may_block && slow.is_stalled(&subjects, slow::Kind::Change) {
            return Err(Ok(Status::GracePeriod));
        }
        let attributes = target.permitted(wanted).map_err(|error| match error {
            fs::Error::WouldBlock => Err(Unanswered::WouldBlock),
            fs::Error::Stale => Ok(Status::Stale),
            _ => Ok(Status::Failed),
        })?;
        if attributes.file_type != fs::FileType::Regular {
            return Err(Ok(Status::Failed));
        }
        Ok(self.wish_at(&target, lock, (range, kind)))
    }

    /// The file and the range of a lock.
    fn place(&self, lock: &nlm4::Lock<'_>) -> Result<(Target<'a>, Range), Settled> {
        let target = self.caller.target(lock.handle);
        let target = target.map_err(|error| match error {
            fs::Error::Stale | fs::Error::BadId => Ok(Status::Stale),
            _ => Ok(Status::Failed),
        })?;
        self.subject.set(Some(Subject {
            object: Some(target.id),
            export: target.export.number(),
        }));
        let range = Range::new(lock.offset, lock.length).ok_or(Ok(Status::TooBig))?;
        Ok((target, range))
    }

    fn wish_at(
        &self,
        target: &Target<'_>,
        lock: &nlm4::Lock<'_>,
        (range, kind): (Range, Kind),
    ) -> Wish {
        Wish {
            file: FileKey {
                export: target.export.number(),
                id: target.filesystem().object_of(&target.id),
            },
            owner: Owner {
                client: self.client(lock.caller_name),
                process: lock.process,
                handle: Arc::from(lock.owner),
            },
            range,
            kind,
        }
    }
}

fn status(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Granted => Status::Granted,
        Outcome::Denied => Status::Denied,
        Outcome::Blocked => Status::Blocked,
        Outcome::Deadlock => Status::Deadlock,
        Outcome::Full => Status::NoLocks,
        Outcome::Grace => Status::GracePeriod,
    }
}

fn kind(exclusive: bool) -> Kind {
    if exclusive { Kind::Write } else { Kind::Read }
}

fn mismatch(version: u32) -> Unanswered {
    Unanswered::Refused(Refusal::ProgramMismatch {
        low: version,
        high: version,
    })
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// The result of an NLM call from its bytes: a cookie, then a status, if any.
fn lock_result(results: &[u8]) -> String {
    let mut decoder = Decoder::new(results);
    let status = decoder.opaque(COOKIE_BYTES_MAX).and_then(|_| decoder.u32());
    match status.ok().and_then(nlm4::Status::from_number) {
        Some(status) => words(&status, "_"),
        None => "ok".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_replies() {
        let lock = |status: u32| {
            let cookie = [0, 0, 0, 2, b'c', b'o', 0, 0];
            lock_result(&[&cookie[..], &status.to_be_bytes()].concat())
        };
        assert_eq!((&*lock(0), &*lock(4)), ("granted", "grace_period"));
        assert_eq!((&*lock(99), &*lock_result(&[])), ("ok", "ok"));
    }
}
