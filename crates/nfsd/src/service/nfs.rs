//! The program NFS version 3: from a call's arguments to its reply.

use pagewell_sunrpc::nfs3::{self, Procedure};
use pagewell_sunrpc::rpc::{self, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encoder};

use crate::reply::batch::{Batch, Mark};
use crate::service::call::{
    Answer, Done, NfsCall, Out, WaitingCall, decode, encode_bare_failure, refuse,
};
use crate::service::data::READ_BYTES_MAX;
use crate::service::directory::REPLY_BYTES_MAX;
use crate::service::exports::{Caller, Served, Stop};
use crate::statistics::{self, Answered};

impl WaitingCall {
    /// A call that reads and goes to the pool, with the bytes that its reply may take: what its
    /// connection is charged for while the call is under way.
    pub(super) fn reading(procedure: Procedure, arguments: Decoder<'_>) -> Self {
        let mut call = Self::default();
        let listing = |count: u32| (count as usize).min(REPLY_BYTES_MAX);
        match procedure {
            Procedure::Read => {
                let read = decode::<nfs3::ReadArguments<'_>>(arguments);
                let most = READ_BYTES_MAX;
                call.reply_bytes_max = read.map_or(0, |read| read.count.min(most) as usize);
            }
            Procedure::Readdir => {
                let list = decode::<nfs3::ReaddirArguments<'_>>(arguments);
                call.listing_bytes_max = list.map_or(0, |list| listing(list.count));
            }
            Procedure::ReaddirPlus => {
                let list = decode::<nfs3::ReaddirPlusArguments<'_>>(arguments);
                call.listing_bytes_max = list.map_or(0, |list| listing(list.count_max));
            }
            _ => {}
        }
        call
    }
}

impl Served {
    /// Answers a call, unless it would have to wait and may not.
    pub(super) fn nfs(&self, call: &NfsCall<'_>, may_block: bool, batch: &mut Batch) -> Answer {
        let (request, xid) = (call.request, call.head.xid);
        let caller = Caller::new(call.head, request.connection, may_block);
        let mark = batch.begin();
        rpc::encode_success(&mut Encoder::new(batch.bytes()), xid);
        let result = self.run_nfs(call.procedure, call.arguments, &caller, mark, batch);
        let (failed, sent) = match result {
            Ok(done) => (
                done.failed,
                done.sent_bytes.unwrap_or_else(|| batch.end(mark)),
            ),
            Err(Stop::WouldBlock) => {
                batch.roll_back(mark);
                return Answer::Wait(WaitingCall::default());
            }
            Err(Stop::Garbage) => {
                batch.roll_back(mark);
                return refuse(batch, xid, Refusal::GarbageArguments);
            }
            Err(Stop::Status(status)) => {
                batch.roll_back(mark);
                let mark = batch.begin();
                encode_bare_failure(batch.bytes(), xid, call.procedure, status);
                (true, batch.end(mark))
            }
        };
        let answered = Answered {
            failed,
            received: request.record.len(),
            sent,
            latency: request.received_at.elapsed(),
        };
        statistics::NFS.record(call.procedure.number(), &answered);
        Answer::Done
    }

    /// Runs one procedure; its reply is appended after the RPC head.
    fn run_nfs(
        &self,
        procedure: Procedure,
        arguments: Decoder<'_>,
        caller: &Caller,
        mark: Mark,
        batch: &mut Batch,
    ) -> Result<Done, Stop> {
        let out = &mut Out { batch, mark };
        match procedure {
            Procedure::Null => Ok(Done::default()),
            Procedure::Getattr => out.put(self.getattr(caller, decode(arguments)?)?),
            Procedure::Setattr => out.put(self.setattr(caller, decode(arguments)?)?),
            Procedure::Lookup => self.lookup(caller, decode(arguments)?, out),
            Procedure::Access => out.put(self.access(caller, decode(arguments)?)?),
            Procedure::Readlink => self.readlink(caller, decode(arguments)?, out),
            Procedure::Read => self.read(caller, decode(arguments)?, out),
            Procedure::Write => out.put(self.write(caller, decode(arguments)?)?),
            Procedure::Create => self.create(caller, decode(arguments)?, out),
            Procedure::Mkdir => self.mkdir(caller, decode(arguments)?, out),
            Procedure::Symlink => self.symlink(caller, decode(arguments)?, out),
            Procedure::Mknod => self.mknod(caller, decode(arguments)?, out),
            Procedure::Remove => out.put(self.remove(caller, decode(arguments)?, false)?),
            Procedure::Rmdir => out.put(self.remove(caller, decode(arguments)?, true)?),
            Procedure::Rename => out.put(self.rename(caller, decode(arguments)?)?),
            Procedure::Link => out.put(self.link(caller, decode(arguments)?)?),
            Procedure::Readdir => self.readdir(caller, decode(arguments)?, out),
            Procedure::ReaddirPlus => self.readdirplus(caller, decode(arguments)?, out),
            Procedure::Fsstat => out.put(self.fsstat(caller, decode(arguments)?)?),
            Procedure::Fsinfo => out.put(self.fsinfo(caller, decode(arguments)?)?),
            Procedure::Pathconf => out.put(self.pathconf(caller, decode(arguments)?)?),
            Procedure::Commit => out.put(self.commit(caller, decode(arguments)?)?),
        }
    }
}

/// Has the client ask again later.
pub(super) fn push_jukebox(batch: &mut Batch, xid: u32, procedure: Procedure) {
    let mark = batch.begin();
    encode_bare_failure(batch.bytes(), xid, procedure, nfs3::Status::Jukebox);
    batch.end(mark);
}
