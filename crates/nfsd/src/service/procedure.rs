//! What all NFS procedures have in common: who calls, which object is meant, how failures look.

use std::net::IpAddr;

use pagewell_counters::names as counters;
use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{self, Failure, Handle, Procedure, Status};
use pagewell_sunrpc::rpc::{self, Call};
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};

use crate::connection::Connection;
use crate::held::slow::Kind;
use crate::refusals::{self, Reason};
use crate::reply::batch::{Batch, Mark};
use crate::report;
use crate::service::convert;
use crate::service::handle::{Refused, WireHandle};
use crate::service::{ServedExport, Service, WaitingCall, identity};

/// Who makes a call, and whether this thread may wait for its result.
pub(super) struct Caller {
    identity: Option<fs::Credentials>,
    pub(super) peer: IpAddr,
    port: u16,
    pub(super) may_block: bool,
}

impl Caller {
    pub(super) fn new(call: &Call<'_>, connection: &Connection, may_block: bool) -> Self {
        Self::at(call, (connection.peer(), connection.peer_port()), may_block)
    }

    /// Who calls from an address and a port.
    pub(super) fn at(call: &Call<'_>, (peer, port): (IpAddr, u16), may_block: bool) -> Self {
        Self {
            identity: identity(&call.credential),
            peer,
            port,
            may_block,
        }
    }

    /// Whether it may use an export.
    pub(super) fn may_use(&self, export: &ServedExport) -> bool {
        export.config.admits((self.peer, self.port))
    }

    /// The credentials this caller has on an export.
    pub(super) fn credentials(&self, export: &ServedExport) -> fs::Credentials {
        export.config.squashed(self.identity.as_ref())
    }
}

/// Why a procedure has no reply of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The call would wait and may not.
    WouldBlock,
    /// The arguments cannot be decoded.
    Garbage,
    /// Failed before anything is known of an object: a reply without attributes.
    Status(Status),
}

/// A reply that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Its status is not OK.
    pub(super) failed: bool,
    /// Its length, when the handler has ended it itself.
    pub(super) sent_bytes: Option<usize>,
}

/// The object of a call, and on whose behalf it is used.
pub(super) struct Target<'s> {
    pub(super) export: &'s ServedExport,
    pub(super) id: fs::FileId,
    pub(super) credentials: fs::Credentials,
    /// What the caller sees of the pseudo root, if that is the export.
    pub(super) signposts: Option<fs::Signposts>,
    may_block: bool,
}

impl Target<'_> {
    pub(super) fn filesystem(&self) -> &dyn fs::FileSystem {
        match &self.signposts {
            Some(signposts) => signposts,
            None => &*self.export.config.filesystem,
        }
    }

    pub(super) fn call(&self) -> fs::Call<'_> {
        fs::Call {
            credentials: &self.credentials,
            may_block: self.may_block,
        }
    }

    /// The object's attributes now, as a reply carries them; absent when they cannot be had.
    pub(super) fn attributes_now(&self) -> Option<nfs3::FileAttributes> {
        let attributes = self.filesystem().attributes(&self.call(), &self.id).ok()?;
        Some(self.export.identity.attributes(&attributes))
    }

    /// The failure of a file-system call; [`Stop::WouldBlock`] when the call is to be made again.
    pub(super) fn failed<T, F>(
        &self,
        error: &fs::Error,
        body: impl FnOnce() -> F,
    ) -> Result<nfs3::Reply<T, F>, Stop> {
        if *error == fs::Error::WouldBlock {
            return Err(Stop::WouldBlock);
        }
        if let Some(text) = error.trouble() {
            self.tell(text);
        }
        Ok(Err(Failure {
            status: convert::status(error),
            body: body(),
        }))
    }

    /// Tells the operator what went wrong with this object.
    pub(super) fn tell(&self, text: &str) {
        let place = self.filesystem().place(&self.id);
        report::report(&self.export.config.name, place.as_deref(), text);
    }

    /// What is to be said of an object after a change of it has failed. When it was refused before
    /// anything was done, the object was before what it is now; when storage failed, a part may
    /// have been done (RFC 1813 section 2.6).
    pub(super) fn wcc_after_failure(&self, error: &fs::Error) -> nfs3::WccData {
        let after = self.filesystem().attributes(&self.call(), &self.id).ok();
        let unchanged = after.filter(|_| convert::is_refusal(error));
        self.export.identity.change(&fs::Change {
            before: unchanged.map(|attributes| attributes.wcc()),
            after,
        })
    }
}

/// Calls that must not be done twice, or long after they were sent (their replies are kept).
/// COMMIT may be: it changes nothing that can be read.
pub(super) fn must_not_repeat(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::Setattr
            | Procedure::Write
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename
            | Procedure::Link
    )
}

/// What a procedure does.
pub(super) fn kind(procedure: Procedure) -> Kind {
    match procedure {
        Procedure::Commit => Kind::Commit,
        _ if must_not_repeat(procedure) => Kind::Change,
        _ => Kind::Look,
    }
}

impl WaitingCall {
    /// A call that reads and goes to the pool, with the bytes that its reply may take: what its
    /// connection is charged for while the call is under way.
    pub(super) fn reading(procedure: Procedure, arguments: Decoder<'_>) -> Self {
        let mut call = Self::default();
        let listing = |count: u32| (count as usize).min(super::directory::REPLY_BYTES_MAX);
        match procedure {
            Procedure::Read => {
                let read = decode::<nfs3::ReadArguments<'_>>(arguments);
                let most = super::data::READ_BYTES_MAX;
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

/// Appends a whole reply with `status` and all optional attributes absent.
pub(super) fn encode_bare_failure(
    bytes: &mut Vec<u8>,
    xid: u32,
    procedure: Procedure,
    status: Status,
) {
    let mut encoder = Encoder::new(bytes);
    rpc::encode_success(&mut encoder, xid);
    status.encode(&mut encoder);
    // One word says "absent" for each post_op_attr and pre_op_attr of the procedure's resfail.
    let absent = match procedure {
        Procedure::Null | Procedure::Getattr => 0,
        Procedure::Lookup
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::ReaddirPlus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf => 1,
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Commit => 2,
        Procedure::Link => 3,
        Procedure::Rename => 4,
    };
    for _ in 0..absent {
        encoder.bool(false);
    }
}

impl Service {
    /// Finds the object of a handle and checks that this client may use its export.
    pub(super) fn target(&self, caller: &Caller, handle: Handle<'_>) -> Result<Target<'_>, Stop> {
        let (number, id) = self
            .handle_key
            .decode(handle.as_bytes())
            .map_err(|refused| {
                counters::BAD_HANDLES.add(1);
                Stop::Status(match refused {
                    Refused::Malformed => Status::BadHandle,
                    Refused::Stale => Status::Stale,
                })
            })?;
        let export = self
            .served()
            .find(|export| export.number() == number)
            .ok_or(Stop::Status(Status::Stale))?;
        let target = self.target_in(caller, export, id);
        target.ok_or(Stop::Status(Status::AccessDenied))
    }

    /// An object of an export, if this client may use that.
    pub(super) fn target_in<'s>(
        &self,
        caller: &Caller,
        export: &'s ServedExport,
        id: fs::FileId,
    ) -> Option<Target<'s>> {
        if !caller.may_use(export) {
            refusals::note(caller.peer, Reason::ExportNotAllowed);
            return None;
        }
        Some(Target {
            export,
            id,
            credentials: caller.credentials(export),
            signposts: self.signposts(export, caller.peer),
            may_block: caller.may_block,
        })
    }

    /// [`Service::target`] of a call that changes something.
    pub(super) fn target_to_change(
        &self,
        caller: &Caller,
        handle: Handle<'_>,
    ) -> Result<Target<'_>, Stop> {
        let target = self.target(caller, handle)?;
        if target.export.config.read_only {
            return Err(Stop::Status(Status::ReadOnly));
        }
        Ok(target)
    }

    /// The handle of an object of an export.
    pub(super) fn handle(&self, export: &ServedExport, id: &fs::FileId) -> WireHandle {
        self.handle_key.encode(export.number(), id)
    }

    /// Runs one procedure; its reply is appended after the RPC head.
    pub(super) fn run_nfs(
        &self,
        procedure: Procedure,
        arguments: Decoder<'_>,
        caller: &Caller,
        mark: Mark,
        batch: &mut Batch,
    ) -> Result<Done, Stop> {
        let out = &mut Out { batch, mark };
        match procedure {
            Procedure::Null => Ok(Done {
                failed: false,
                sent_bytes: None,
            }),
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
            Procedure::Remove => out.put(self.remove(caller, decode(arguments)?)?),
            Procedure::Rmdir => out.put(self.rmdir(caller, decode(arguments)?)?),
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

/// Where a reply goes.
pub(super) struct Out<'b> {
    pub(super) batch: &'b mut Batch,
    pub(super) mark: Mark,
}

impl Out<'_> {
    /// Appends a result.
    pub(super) fn put<S: Encode, F: Encode>(
        &mut self,
        reply: nfs3::Reply<S, F>,
    ) -> Result<Done, Stop> {
        reply.encode(&mut Encoder::new(self.batch.bytes()));
        Ok(Done {
            failed: reply.is_err(),
            sent_bytes: None,
        })
    }
}

/// All arguments of a procedure; bytes left over are garbage too.
pub(super) fn decode<'a, T: Decode<'a>>(mut arguments: Decoder<'a>) -> Result<T, Stop> {
    let decoded = T::decode(&mut arguments).map_err(|_| Stop::Garbage)?;
    arguments.finish().map_err(|_| Stop::Garbage)?;
    Ok(decoded)
}
