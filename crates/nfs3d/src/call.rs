//! A call of NFS version 3: its class and its answer.

use pagewell_export::exports::{Caller, Served};
use pagewell_export::shown::is_detailed;
use pagewell_fs as fs;
use pagewell_rpcd::call::{Answer, Class, Request};
use pagewell_rpcd::call::{Done, Unanswered, count_answer, credentials_of, decode, unanswered};
use pagewell_rpcd::reply::{Batch, Mark};
use pagewell_rpcd::slow::{Kind, Subjects};
use pagewell_sunrpc::nfs3::{self, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::duplicate::Pending;
use crate::handler::{Abort, LISTING_BYTES_MAX, Nfs3Handler, Out, READ_BYTES_MAX};
use crate::statistics::NFS;
use crate::{creation, data, directory, names, object, observed, volume};

/// A call of NFS with parsed head.
pub(super) struct NfsCall<'a> {
    pub(super) request: Request<'a>,
    pub(super) head: Call<'a>,
    pub(super) procedure: Procedure,
    pub(super) arguments: Decoder<'a>,
    /// Shared by the calls of one receive.
    pub(super) cache: Option<&'a fs::BatchCache>,
}

/// The class of a call, with the longest reply that its connection is charged for.
pub(super) fn class_of(call: &NfsCall<'_>, subjects: Subjects) -> Class {
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
pub(super) fn push_jukebox(batch: &mut Batch, xid: u32, procedure: Procedure) {
    let mark = batch.begin();
    let mut encoder = Encoder::new(batch.bytes());
    rpc::encode_success(&mut encoder, xid);
    encode_bare_failure(&mut encoder, procedure, Status::Jukebox);
    batch.end(mark);
}

impl NfsCall<'_> {
    /// Answers the call, unless it would block and may not.
    pub(super) fn answer(
        &self,
        served: &Served,
        may_block: bool,
        batch: &mut Batch,
    ) -> Answer<Pending> {
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
            let mut handler = Nfs3Handler::new(caller, Out::new(batch, mark));
            let result = run(&mut handler, procedure, self.arguments);
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
