//! NLM version 4 (RFC 1813 appendix II) and NSM: what a call asks of the locks, and whether it may.
//!
//! A lock takes the permission that a program needs to open the file for it: to read for a shared
//! one, to write for an exclusive one. Letting go takes none. Files of exports that cannot be
//! written to can only be locked to be read.

pub mod wish;

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
use crate::service::call::{Answer, Request, WaitingCall, decode, refuse};
use crate::service::exports::{Caller, Served};
use crate::service::locks::wish::{Halt, Origin, wish, wish_if_permitted};

/// What is to be done with a datagram.
pub enum DatagramAnswer {
    /// Send this.
    Reply(Vec<u8>),
    /// The call may wait: look at it again where it can.
    Wait,
    /// There is nothing to be said.
    Nothing,
}

/// The programs, with all locks.
pub struct LockProgram {
    locks: Arc<Locks>,
}

impl LockProgram {
    /// Answers about these locks.
    pub(super) fn new(locks: Arc<Locks>) -> Self {
        Self { locks }
    }

    /// All locks.
    pub(super) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Answers a call of NLM or NSM on a connection.
    pub(super) fn answer(
        &self,
        served: &Served,
        request: &Request<'_>,
        call: &Call<'_>,
        arguments: Decoder<'_>,
        may_block: bool,
        batch: &mut Batch,
    ) -> Answer {
        let local = rustix::net::getsockname(request.connection.as_ref());
        let local = local.ok().and_then(|address| address.try_into().ok());
        let local = local.map(|address: std::net::SocketAddr| address.ip());
        let origin = Origin::new(
            (request.connection.peer(), request.connection.peer_port()),
            local,
        );
        match self.results(served, &origin, call, arguments, may_block) {
            Ok(results) => {
                let mark = batch.begin();
                rpc::encode_success(&mut Encoder::new(batch.bytes()), call.xid);
                batch.bytes().extend_from_slice(&results);
                batch.end(mark);
                Answer::Done
            }
            Err(Halt::Wait) => Answer::Wait(WaitingCall::default()),
            Err(Halt::Refuse(refusal)) => refuse(batch, call.xid, refusal),
        }
    }

    /// Answers a datagram.
    pub(super) fn answer_datagram(
        &self,
        served: &Served,
        record: &[u8],
        origin: &Origin,
        may_block: bool,
    ) -> DatagramAnswer {
        let mut reply = Vec::new();
        let encoder = &mut Encoder::new(&mut reply);
        match rpc::parse_call(record) {
            Err(error) => {
                if !error.encode_reply(encoder) {
                    return DatagramAnswer::Nothing;
                }
            }
            Ok((call, arguments)) => {
                match self.results(served, origin, &call, arguments, may_block) {
                    Ok(results) => {
                        rpc::encode_success(encoder, call.xid);
                        encoder.raw(&results);
                    }
                    Err(Halt::Wait) => return DatagramAnswer::Wait,
                    Err(Halt::Refuse(refusal)) => rpc::encode_refusal(encoder, call.xid, refusal),
                }
            }
        }
        DatagramAnswer::Reply(reply)
    }

    /// The results of a call, encoded.
    fn results(
        &self,
        served: &Served,
        origin: &Origin,
        call: &Call<'_>,
        arguments: Decoder<'_>,
        may_block: bool,
    ) -> Result<Vec<u8>, Halt> {
        let caller = Caller::at(call, (origin.peer, origin.port), may_block);
        match (call.program, call.version) {
            (nlm4::PROGRAM, nlm4::VERSION) => {
                self.manage_locks(served, origin, &caller, call.procedure, arguments)
            }
            (nsm::PROGRAM, nsm::VERSION) => self.monitor_status(origin, call.procedure, arguments),
            (nlm4::PROGRAM, _) => Err(mismatch(nlm4::VERSION)),
            (nsm::PROGRAM, _) => Err(mismatch(nsm::VERSION)),
            _ => Err(Halt::Refuse(Refusal::ProgramUnavailable)),
        }
    }

    /// NSM: of all its procedures only those between machines.
    fn monitor_status(
        &self,
        origin: &Origin,
        procedure: u32,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Halt> {
        match nsm::Procedure::from_number(procedure) {
            Some(nsm::Procedure::Null) => {}
            Some(nsm::Procedure::Notify) => {
                let NotifyArguments { name, state } = decode(arguments)?;
                self.locks.restarted(origin.peer, name, state);
            }
            _ => return Err(Halt::Refuse(Refusal::ProcedureUnavailable)),
        }
        Ok(Vec::new())
    }

    fn manage_locks(
        &self,
        served: &Served,
        origin: &Origin,
        caller: &Caller,
        number: u32,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Halt> {
        let Some(procedure) = Procedure::from_number(number) else {
            return Err(Halt::Refuse(Refusal::ProcedureUnavailable));
        };
        let (procedure, result) = match procedure.of_message() {
            Some((procedure, result)) => (procedure, Some(result)),
            None => (procedure, None),
        };
        let results = self.lock_results(served, origin, caller, procedure, arguments)?;
        let Some(result) = result else {
            return Ok(results);
        };
        let to = (origin.peer, origin.local);
        self.locks.send_result(to, result.number(), results);
        Ok(Vec::new())
    }

    fn lock_results(
        &self,
        served: &Served,
        origin: &Origin,
        caller: &Caller,
        procedure: Procedure,
        arguments: Decoder<'_>,
    ) -> Result<Vec<u8>, Halt> {
        let reply = |cookie, status| Ok(encoded(&Reply { cookie, status }));
        match procedure {
            Procedure::Test => {
                let arguments: TestArguments<'_> = decode(arguments)?;
                self.test_lock(served, origin, caller, &arguments)
            }
            Procedure::Lock | Procedure::UnmonitoredLock => {
                let arguments: LockArguments<'_> = decode(arguments)?;
                let monitored = procedure == Procedure::Lock;
                let status = self.take_lock(served, origin, caller, &arguments, monitored)?;
                reply(arguments.cookie, status)
            }
            Procedure::Cancel => {
                let CancelArguments {
                    cookie,
                    exclusive,
                    lock,
                    ..
                } = decode(arguments)?;
                let wish = wish(
                    (served, &self.locks),
                    origin,
                    caller,
                    &lock,
                    kind(exclusive),
                );
                let cancelled = wish.map(|wish| self.locks.cancel(&wish));
                reply(cookie, cancelled.map_or_else(|status| status, granted))
            }
            Procedure::Unlock => {
                let UnlockArguments { cookie, lock } = decode(arguments)?;
                let wish = wish((served, &self.locks), origin, caller, &lock, Kind::Read);
                let unlocked = wish.map(|wish| match self.locks.unlock(&wish) {
                    true => Status::Granted,
                    false => Status::NoLocks,
                });
                reply(cookie, unlocked.unwrap_or_else(|status| status))
            }
            Procedure::Granted => {
                // Nothing is waited for here.
                let arguments: TestArguments<'_> = decode(arguments)?;
                reply(arguments.cookie, Status::Denied)
            }
            Procedure::Share | Procedure::Unshare => {
                let arguments: ShareArguments<'_> = decode(arguments)?;
                let opens = procedure == Procedure::Share;
                let status = self.share(served, origin, caller, &arguments, opens)?;
                Ok(encoded(&ShareReply {
                    cookie: arguments.cookie,
                    status,
                    sequence: 0,
                }))
            }
            Procedure::FreeAll => {
                let FreeAllArguments { name, .. } = decode(arguments)?;
                self.locks.free_all(&origin.client(name));
                Ok(Vec::new())
            }
            // Results of calls that are never made one way.
            _ => Ok(Vec::new()),
        }
    }

    fn test_lock(
        &self,
        served: &Served,
        origin: &Origin,
        caller: &Caller,
        arguments: &TestArguments<'_>,
    ) -> Result<Vec<u8>, Halt> {
        let TestArguments {
            cookie,
            exclusive,
            lock,
        } = arguments;
        let status = |status| {
            Ok(encoded(&TestReply {
                cookie,
                answer: Ok(status),
            }))
        };
        if self.locks.in_grace(Instant::now()) {
            return status(Status::GracePeriod);
        }
        let wish = match wish_if_permitted(
            (served, &self.locks),
            origin,
            caller,
            lock,
            kind(*exclusive),
        )? {
            Ok(wish) => wish,
            // Only an owner that holds it can deny a test.
            Err(Status::Denied) => return status(Status::Failed),
            Err(other) => return status(other),
        };
        let Some((holder, piece)) = self.locks.test(&wish) else {
            return status(Status::Granted);
        };
        let holder = Holder {
            exclusive: piece.kind == Kind::Write,
            process: holder.process,
            owner: &holder.handle,
            offset: piece.range.start(),
            length: piece.range.length(),
        };
        Ok(encoded(&TestReply {
            cookie,
            answer: Err(holder),
        }))
    }

    fn take_lock(
        &self,
        served: &Served,
        origin: &Origin,
        caller: &Caller,
        arguments: &LockArguments<'_>,
        monitored: bool,
    ) -> Result<Status, Halt> {
        let kind = kind(arguments.exclusive);
        let wish = match wish_if_permitted(
            (served, &self.locks),
            origin,
            caller,
            &arguments.lock,
            kind,
        )? {
            Ok(wish) => wish,
            Err(status) => return Ok(status),
        };
        // A client that is not on the list is not notified of a restart, and could believe it has
        // its locks.
        if monitored && !self.locks.is_listed(&wish.owner.client, caller.may_block) {
            if !caller.may_block {
                return Err(Halt::Wait);
            }
            let listed = Listed {
                client: wish.owner.client.clone(),
                local: origin.local,
            };
            if !self.locks.list(&listed) {
                return Ok(Status::NoLocks);
            }
        }
        let wait = arguments.block.then(|| Context {
            local: origin.local,
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

    fn share(
        &self,
        served: &Served,
        origin: &Origin,
        caller: &Caller,
        arguments: &ShareArguments<'_>,
        opens: bool,
    ) -> Result<Status, Halt> {
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
            return Ok(
                match wish((served, &self.locks), origin, caller, &lock, Kind::Read) {
                    Ok(wish) => {
                        self.locks.shares().close(&wish.file, &wish.owner);
                        Status::Granted
                    }
                    Err(status) => status,
                },
            );
        }
        if arguments.reclaim != self.locks.in_grace(Instant::now()) {
            return Ok(Status::GracePeriod);
        }
        let kind = match access {
            ShareAccess::None | ShareAccess::Read => Kind::Read,
            ShareAccess::Write | ShareAccess::Both => Kind::Write,
        };
        Ok(
            match wish_if_permitted((served, &self.locks), origin, caller, &lock, kind)? {
                Ok(wish) => {
                    let opened = self
                        .locks
                        .shares()
                        .open(wish.file, &wish.owner, mode, access);
                    match opened {
                        shares::Outcome::Granted => Status::Granted,
                        shares::Outcome::Denied => Status::Denied,
                        shares::Outcome::Full => Status::NoLocks,
                    }
                }
                Err(status) => status,
            },
        )
    }
}

fn kind(exclusive: bool) -> Kind {
    if exclusive { Kind::Write } else { Kind::Read }
}

fn granted(granted: bool) -> Status {
    if granted {
        Status::Granted
    } else {
        Status::Denied
    }
}

fn mismatch(version: u32) -> Halt {
    Halt::Refuse(Refusal::ProgramMismatch {
        low: version,
        high: version,
    })
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.encoded_size());
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}
