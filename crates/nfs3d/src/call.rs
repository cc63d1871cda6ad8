//! A call of NFS version 3: what kind of call it is, what it may take, and what answers it.

use pagewell_export::exports::{Caller, Served};
use pagewell_export::shown::is_detailed;
use pagewell_fs as fs;
use pagewell_rpcd::answer::{Done, Unanswered, count_answer, credentials_of, decode, unanswered};
use pagewell_rpcd::call::{Answer, Class, Request};
use pagewell_rpcd::reply::batch::{Batch, Mark};
use pagewell_rpcd::slow::{Kind, Subjects};
use pagewell_sunrpc::nfs3::{self, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::answering::{Answering, LISTING_BYTES_MAX, Out, READ_BYTES_MAX, Stop};
use crate::duplicate::Pending;
use crate::statistics::NFS;
use crate::{creation, data, directory, names, object, observed, volume};

/// A call of NFS whose head was read.
pub(super) struct NfsCall<'a> {
    pub(super) request: Request<'a>,
    pub(super) head: Call<'a>,
    pub(super) procedure: Procedure,
    pub(super) arguments: Decoder<'a>,
    /// What the calls share that were received with it.
    pub(super) cache: Option<&'a fs::BatchCache>,
}

/// What a call that reads may take: what its connection is charged for while it is under way.
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

/// What a procedure does. A change must not be done twice, or long after it was sent (its reply is
/// kept). COMMIT may be: it changes nothing that can be read.
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

/// Appends the results of a call of NFS that failed, with all optional attributes absent.
fn encode_bare_failure(encoder: &mut Encoder<'_>, procedure: Procedure, status: Status) {
    status.encode(encoder);
    // One word says "absent" for each post_op_attr and pre_op_attr of the procedure's resfail.
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

/// Has the client ask again later.
pub(super) fn push_jukebox(batch: &mut Batch, xid: u32, procedure: Procedure) {
    let mark = batch.begin();
    let mut encoder = Encoder::new(batch.bytes());
    rpc::encode_success(&mut encoder, xid);
    encode_bare_failure(&mut encoder, procedure, Status::Jukebox);
    batch.end(mark);
}

impl NfsCall<'_> {
    /// Answers the call, unless it would have to wait and may not.
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

    /// Answers with what `run` appends, and shows the call to the log.
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
            let mut answering = Answering::new(caller, Out::new(batch, mark));
            let result = run(&mut answering, procedure, self.arguments);
            batch.tally.set_export(caller.used_export());
            let status = match result {
                Ok(done) => return Ok(done),
                Err(Stop::Unanswered(reason)) => return Err(reason),
                Err(Stop::Status(status)) => status,
            };
            encode_bare_failure(&mut Encoder::new(batch.bytes()), procedure, status);
            Ok(Done {
                failed: true,
                sent_bytes: None,
            })
        })
    }
}

/// Runs one procedure; its results are appended after the RPC head.
fn run(
    answering: &mut Answering<'_>,
    procedure: Procedure,
    arguments: Decoder<'_>,
) -> Result<Done, Stop> {
    match procedure {
        Procedure::Null => Ok(Done::default()),
        Procedure::Getattr => object::getattr(answering, decode(arguments)?),
        Procedure::Setattr => object::setattr(answering, decode(arguments)?),
        Procedure::Lookup => object::lookup(answering, decode(arguments)?),
        Procedure::Access => object::access(answering, decode(arguments)?),
        Procedure::Readlink => object::readlink(answering, decode(arguments)?),
        Procedure::Read => data::read(answering, decode(arguments)?),
        Procedure::Write => data::write(answering, decode(arguments)?),
        Procedure::Create => creation::create(answering, decode(arguments)?),
        Procedure::Mkdir => creation::mkdir(answering, decode(arguments)?),
        Procedure::Symlink => creation::symlink(answering, decode(arguments)?),
        Procedure::Mknod => creation::mknod(answering, decode(arguments)?),
        Procedure::Remove => names::remove(answering, decode(arguments)?, false),
        Procedure::Rmdir => names::remove(answering, decode(arguments)?, true),
        Procedure::Rename => names::rename(answering, decode(arguments)?),
        Procedure::Link => names::link(answering, decode(arguments)?),
        Procedure::Readdir => directory::readdir(answering, decode(arguments)?),
        Procedure::ReaddirPlus => directory::readdirplus(answering, decode(arguments)?),
        Procedure::Fsstat => volume::fsstat(answering, decode(arguments)?),
        Procedure::Fsinfo => volume::fsinfo(answering, decode(arguments)?),
        Procedure::Pathconf => volume::pathconf(answering, decode(arguments)?),
        Procedure::Commit => data::commit(answering, decode(arguments)?),
    }
}
