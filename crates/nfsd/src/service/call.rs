//! A call of NFS version 3: what kind of call it is, what it may take, and what answers it.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{self, Failure, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};

use crate::call::{Answer, Class, Request, refuse};
use crate::duplicate::Pending;
use crate::reply::batch::{Batch, Mark};
use crate::service::convert;
use crate::service::exports::{Caller, Served, Stop, Target};
use crate::service::observed;
use crate::slow::{Kind, Subjects};
use crate::statistics::{Answered, NFS, ProgramStatistics};

/// The most bytes of one READ.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;

/// The most bytes of one WRITE.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;

/// A longer listing is not given, whatever the client allows: it would hold a thread too long.
pub(super) const LISTING_BYTES_MAX: usize = 256 << 10;

/// A call of NFS whose head was read.
pub(super) struct NfsCall<'a> {
    pub(super) request: Request<'a>,
    pub(super) head: Call<'a>,
    pub(super) procedure: Procedure,
    pub(super) arguments: Decoder<'a>,
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

/// A reply that was written; by default one that is OK, in the block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Its status is not OK.
    pub(super) failed: bool,
    /// Its length, when the handler has ended it itself.
    pub(super) sent_bytes: Option<usize>,
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

/// The arguments of a procedure. Bytes behind them have no meaning and are ignored, as other
/// servers do: some clients send a few.
pub(super) fn decode<'a, T: Decode<'a>>(mut arguments: Decoder<'a>) -> Result<T, Refusal> {
    Ok(T::decode(&mut arguments)?)
}

/// Answers a call whose results `run` appends, unless it would have to wait and may not.
pub(super) fn answer_with<const PROCEDURES: usize>(
    call: (&Request<'_>, &Call<'_>),
    statistics: &ProgramStatistics<PROCEDURES>,
    batch: &mut Batch,
    run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Stop>,
) -> Answer<Pending> {
    match count_answer(call, statistics, batch, run) {
        Ok(_) => Answer::Done,
        Err(stop) => stopped(stop, call.1.xid, batch),
    }
}

/// Answers a call that has no reply of its own, unless it is to wait.
fn stopped(stop: Stop, xid: u32, batch: &mut Batch) -> Answer<Pending> {
    match stop.refusal() {
        Some(refusal) => refuse(batch, xid, refusal),
        None => Answer::Wait(Class::default(), Pending::Nothing),
    }
}

/// The same; what was counted, if the call was carried out.
#[inline]
fn count_answer<const PROCEDURES: usize>(
    (request, head): (&Request<'_>, &Call<'_>),
    statistics: &ProgramStatistics<PROCEDURES>,
    batch: &mut Batch,
    run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Stop>,
) -> Result<Answered, Stop> {
    let mark = batch.begin();
    rpc::encode_success(&mut Encoder::new(batch.bytes()), head.xid);
    let done = match run(batch, mark) {
        Ok(done) => done,
        Err(stop) => {
            batch.roll_back(mark);
            return Err(stop);
        }
    };
    let answered = Answered {
        failed: done.failed,
        received: request.record.len(),
        sent: done.sent_bytes.unwrap_or_else(|| batch.end(mark)),
        latency: request.received_at.elapsed(),
    };
    statistics.record(head.procedure, &answered);
    batch.tally.count(answered.received, answered.sent);
    Ok(answered)
}

/// Where a reply goes.
pub(super) struct Out<'b> {
    pub(super) batch: &'b mut Batch,
    pub(super) mark: Mark,
}

/// A call of NFS that is being answered: for whom, and where the reply goes.
pub(super) struct Answering<'a> {
    pub(super) caller: &'a Caller<'a>,
    pub(super) out: Out<'a>,
}

impl NfsCall<'_> {
    /// Answers the call, unless it would have to wait and may not.
    pub(super) fn answer(
        &self,
        served: &Served,
        may_block: bool,
        batch: &mut Batch,
    ) -> Answer<Pending> {
        if observed::is_detailed() {
            observed::in_span(self, served, || self.run(served, may_block, batch))
        } else {
            self.run(served, may_block, batch)
        }
    }

    /// Answers with what `run` appends, as [`answer_with`] does, and shows it to the log.
    pub(super) fn reply(
        &self,
        served: &Served,
        batch: &mut Batch,
        run: impl FnOnce(&mut Batch, Mark) -> Result<Done, Stop>,
    ) -> Answer<Pending> {
        let mark = batch.mark();
        match count_answer((&self.request, &self.head), &NFS, batch, run) {
            Ok(answered) => {
                if observed::is_wanted(answered.latency) {
                    observed::show(self, served, &answered, batch.body(mark));
                }
                Answer::Done
            }
            Err(stop) => stopped(stop, self.head.xid, batch),
        }
    }

    fn run(&self, served: &Served, may_block: bool, batch: &mut Batch) -> Answer<Pending> {
        let peer = self.request.connection.peer;
        let caller = &Caller::new(served, &self.head, peer, may_block);
        let procedure = self.procedure;
        self.reply(served, batch, |batch, mark| {
            let out = Out { batch, mark };
            let mut answering = Answering { caller, out };
            let result = answering.run(procedure, self.arguments);
            answering.out.batch.tally.set_export(caller.used_export());
            let Err(Stop::Status(status)) = result else {
                return result;
            };
            let bytes = answering.out.batch.bytes();
            encode_bare_failure(&mut Encoder::new(bytes), procedure, status);
            Ok(Done {
                failed: true,
                sent_bytes: None,
            })
        })
    }
}

impl Answering<'_> {
    /// Runs one procedure; its results are appended after the RPC head.
    fn run(&mut self, procedure: Procedure, arguments: Decoder<'_>) -> Result<Done, Stop> {
        match procedure {
            Procedure::Null => Ok(Done::default()),
            Procedure::Getattr => self.getattr(decode(arguments)?),
            Procedure::Setattr => self.setattr(decode(arguments)?),
            Procedure::Lookup => self.lookup(decode(arguments)?),
            Procedure::Access => self.access(decode(arguments)?),
            Procedure::Readlink => self.readlink(decode(arguments)?),
            Procedure::Read => self.read(decode(arguments)?),
            Procedure::Write => self.write(decode(arguments)?),
            Procedure::Create => self.create(decode(arguments)?),
            Procedure::Mkdir => self.mkdir(decode(arguments)?),
            Procedure::Symlink => self.symlink(decode(arguments)?),
            Procedure::Mknod => self.mknod(decode(arguments)?),
            Procedure::Remove => self.remove(decode(arguments)?, false),
            Procedure::Rmdir => self.remove(decode(arguments)?, true),
            Procedure::Rename => self.rename(decode(arguments)?),
            Procedure::Link => self.link(decode(arguments)?),
            Procedure::Readdir => self.readdir(decode(arguments)?),
            Procedure::ReaddirPlus => self.readdirplus(decode(arguments)?),
            Procedure::Fsstat => self.fsstat(decode(arguments)?),
            Procedure::Fsinfo => self.fsinfo(decode(arguments)?),
            Procedure::Pathconf => self.pathconf(decode(arguments)?),
            Procedure::Commit => self.commit(decode(arguments)?),
        }
    }

    /// Appends what a call of the file system has come to, with `body` if it has failed.
    pub(super) fn answer<S: Encode, F: Encode>(
        &mut self,
        target: &Target<'_>,
        result: fs::Result<S>,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Stop> {
        match result {
            Ok(results) => {
                let encoder = &mut Encoder::new(self.out.batch.bytes());
                Status::Ok.encode(encoder);
                results.encode(encoder);
                Ok(Done::default())
            }
            Err(error) => self.fail(target, error, body),
        }
    }

    /// Appends the failure of a call of the file system; [`Stop::WouldBlock`] when the call is to
    /// be made again.
    pub(super) fn fail<F: Encode>(
        &mut self,
        target: &Target<'_>,
        error: fs::Error,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Stop> {
        if error == fs::Error::WouldBlock {
            return Err(Stop::WouldBlock);
        }
        if let Some(text) = error.trouble() {
            target.report(text);
        }
        let failure = Failure {
            status: convert::status(&error),
            body: body(&error),
        };
        failure.encode(&mut Encoder::new(self.out.batch.bytes()));
        Ok(Done {
            failed: true,
            sent_bytes: None,
        })
    }
}
