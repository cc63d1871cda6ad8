//! NLM version 4 (RFC 1813 appendix II) and NSM: what a call asks of the locks, and whether it may.
//!
//! A lock takes the permission that a program needs to open the file for it: to read for a shared
//! one, to write for an exclusive one. Letting go takes none. Files of exports that cannot be
//! written to can only be locked to be read.

pub mod wish;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use pagewell_locks::file::Kind;
use pagewell_locks::records::Listed;
use pagewell_locks::shares;
use pagewell_locks::table::Outcome;
use pagewell_sunrpc::nlm4::{
    self, CancelArguments, FreeAllArguments, Holder, LockArguments, Procedure, Reply, Share,
    ShareAccess, ShareArguments, ShareReply, Status, TestArguments, TestReply, UnlockArguments,
};
use pagewell_sunrpc::nsm::{self, NotifyArguments};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::locks::Locks;
use crate::locks::calls::Context;
use crate::reply::batch::Batch;
use crate::service::call::{Answer, Request, WaitingCall, decode};
use crate::service::exports::{Caller, Served};
use crate::service::locks::wish::{Halt, LockCall, Origin, Settled};

/// What is to be done with a datagram.
pub enum DatagramAnswer {
    /// Send this.
    Reply(Vec<u8>),
    /// The call may wait: look at it again where it can.
    Wait,
    /// There is nothing to be said.
    Nothing,
}

/// Answers a call of NLM or NSM on a connection.
pub(super) fn answer(
    (served, locks): (&Served, &Locks),
    request: &Request<'_>,
    call: &Call<'_>,
    arguments: Decoder<'_>,
    may_block: bool,
    batch: &mut Batch,
) -> Answer {
    let connection = request.connection;
    let local = rustix::net::getsockname(connection.as_ref());
    let local = local.ok().and_then(|address| address.try_into().ok());
    let local = local.map(|address: SocketAddr| address.ip());
    let origin = Origin::new((connection.peer(), connection.peer_port()), local);
    match reply((served, locks), &origin, call, arguments, may_block) {
        Some(reply) => {
            batch.push(&reply);
            Answer::Done
        }
        None => Answer::Wait(WaitingCall::default()),
    }
}

/// Answers a datagram.
#[must_use]
pub fn answer_datagram(
    served: (&Served, &Locks),
    record: &[u8],
    origin: &Origin,
    may_block: bool,
) -> DatagramAnswer {
    let reply = match rpc::parse_call(record) {
        Err(None) => return DatagramAnswer::Nothing,
        Err(Some((xid, refusal))) => Some(encoded_reply(xid, Err(refusal))),
        Ok((call, arguments)) => reply(served, origin, &call, arguments, may_block),
    };
    reply.map_or(DatagramAnswer::Wait, DatagramAnswer::Reply)
}

/// The reply to a call; `None` when it would wait and may not.
fn reply(
    (served, locks): (&Served, &Locks),
    origin: &Origin,
    call: &Call<'_>,
    arguments: Decoder<'_>,
    may_block: bool,
) -> Option<Vec<u8>> {
    let asked = LockCall {
        served,
        locks,
        origin,
        caller: Caller::at(call, (origin.peer, origin.port), may_block),
    };
    match asked.results(call, arguments) {
        Ok(results) => Some(encoded_reply(call.xid, Ok(&results))),
        Err(Halt::Wait) => None,
        Err(Halt::Refuse(refusal)) => Some(encoded_reply(call.xid, Err(refusal))),
    }
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

impl LockCall<'_> {
    /// The results of the call, encoded.
    fn results(&self, call: &Call<'_>, arguments: Decoder<'_>) -> Result<Vec<u8>, Halt> {
        match (call.program, call.version) {
            (nlm4::PROGRAM, nlm4::VERSION) => self.manage_locks(call.procedure, arguments),
            (nsm::PROGRAM, nsm::VERSION) => self.monitor_status(call.procedure, arguments),
            (nlm4::PROGRAM, _) => Err(mismatch(nlm4::VERSION)),
            (nsm::PROGRAM, _) => Err(mismatch(nsm::VERSION)),
            _ => Err(Halt::Refuse(Refusal::ProgramUnavailable)),
        }
    }

    /// NSM: of all its procedures only those between machines.
    fn monitor_status(&self, procedure: u32, arguments: Decoder<'_>) -> Result<Vec<u8>, Halt> {
        match nsm::Procedure::from_number(procedure) {
            Some(nsm::Procedure::Null) => {}
            Some(nsm::Procedure::Notify) => {
                let NotifyArguments { name, state } = decode(arguments)?;
                self.locks.restarted(self.origin.peer, name, state);
            }
            _ => return Err(Halt::Refuse(Refusal::ProcedureUnavailable)),
        }
        Ok(Vec::new())
    }

    fn manage_locks(&self, number: u32, arguments: Decoder<'_>) -> Result<Vec<u8>, Halt> {
        let Some(procedure) = Procedure::from_number(number) else {
            return Err(Halt::Refuse(Refusal::ProcedureUnavailable));
        };
        let Some((procedure, result)) = procedure.of_message() else {
            return self.lock_results(procedure, arguments);
        };
        let results = self.lock_results(procedure, arguments)?;
        let to = (self.origin.peer, self.origin.local);
        self.locks.send_result(to, result.number(), results);
        Ok(Vec::new())
    }

    fn lock_results(&self, procedure: Procedure, arguments: Decoder<'_>) -> Result<Vec<u8>, Halt> {
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
                // Nothing is waited for here.
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
                self.locks.free_all(&self.origin.client(name));
                Ok(Vec::new())
            }
            // Results of calls that are never made one way.
            _ => Ok(Vec::new()),
        }
    }

    fn test_lock(&self, arguments: &TestArguments<'_>) -> Result<Vec<u8>, Halt> {
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
        // A client that is not on the list is not notified of a restart, and could believe it has
        // its locks.
        let may_block = self.caller.may_block;
        if monitored && !self.locks.is_listed(&wish.owner.client, may_block) {
            if !may_block {
                return Err(Err(Halt::Wait));
            }
            let listed = Listed {
                client: wish.owner.client.clone(),
                local: self.origin.local,
            };
            if !self.locks.list(&listed) {
                return Ok(Status::NoLocks);
            }
        }
        let wait = arguments.block.then(|| Context {
            local: self.origin.local,
            handle: Arc::from(arguments.lock.handle),
        });
        let reclaim = (arguments.reclaim, arguments.state);
        Ok(match self.locks.lock(&wish, reclaim, wait) {
            Outcome::Granted => Status::Granted,
            Outcome::Denied => Status::Denied,
            Outcome::Blocked => Status::Blocked,
            Outcome::Deadlock => Status::Deadlock,
            Outcome::Full => Status::NoLocks,
            Outcome::Grace => Status::GracePeriod,
        })
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
            self.locks.shares().close(&wish.file, &wish.owner);
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
        let mut shares = self.locks.shares();
        Ok(match shares.open(wish.file, &wish.owner, mode, access) {
            shares::Outcome::Granted => Status::Granted,
            shares::Outcome::Denied => Status::Denied,
            shares::Outcome::Full => Status::NoLocks,
        })
    }
}

fn kind(exclusive: bool) -> Kind {
    if exclusive { Kind::Write } else { Kind::Read }
}

fn mismatch(version: u32) -> Halt {
    Halt::Refuse(Refusal::ProgramMismatch {
        low: version,
        high: version,
    })
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}
