//! A call of NFS version 3: what kind of call it is, what it may take, and what answers it.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{self, Failure, Handle, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call, Refusal};
use pagewell_sunrpc::xdr::{Decoder, Encode, Encoder};

use crate::convert;
use crate::duplicate::Pending;
use crate::observed;
use crate::statistics::NFS;
use pagewell_export::exports::{Caller, Served, Target};
use pagewell_export::shown::is_detailed;
use pagewell_rpcd::answer::{Done, Unanswered, count_answer, credentials_of, decode, unanswered};
use pagewell_rpcd::call::{Answer, Class, Request};
use pagewell_rpcd::reply::batch::{Batch, Mark};
use pagewell_rpcd::slow::{Kind, Subjects};

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

/// Why a procedure has no reply of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has no results.
    Unanswered(Unanswered),
    /// It failed before anything is known of an object, and before anything was appended: a reply
    /// without attributes.
    Status(Status),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Unanswered(refusal.into())
    }
}

impl From<fs::Error> for Stop {
    fn from(error: fs::Error) -> Self {
        match error {
            fs::Error::WouldBlock => Self::Unanswered(Unanswered::WouldBlock),
            error => Self::Status(convert::status(&error)),
        }
    }
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
            let out = Out { batch, mark };
            let mut answering = Answering { caller, out };
            let result = answering.run(procedure, self.arguments);
            answering.out.batch.tally.set_export(caller.used_export());
            let status = match result {
                Ok(done) => return Ok(done),
                Err(Stop::Unanswered(reason)) => return Err(reason),
                Err(Stop::Status(status)) => status,
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

impl<'a> Answering<'a> {
    /// The object of a handle, if the caller may use its export.
    pub(super) fn target(&self, handle: Handle<'_>) -> Result<Target<'a>, Stop> {
        Ok(self.caller.target(handle.as_bytes())?)
    }

    /// The same, of a call that changes something.
    pub(super) fn target_to_change(&self, handle: Handle<'_>) -> Result<Target<'a>, Stop> {
        Ok(self.caller.target_to_change(handle.as_bytes())?)
    }

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

    /// Appends the failure of a call of the file system; [`Unanswered::WouldBlock`] when it is to
    /// be made again.
    pub(super) fn fail<F: Encode>(
        &mut self,
        target: &Target<'_>,
        error: fs::Error,
        body: impl FnOnce(&fs::Error) -> F,
    ) -> Result<Done, Stop> {
        if error == fs::Error::WouldBlock {
            return Err(Stop::Unanswered(Unanswered::WouldBlock));
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
