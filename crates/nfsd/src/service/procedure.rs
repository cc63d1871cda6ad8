//! What all NFS procedures have in common: arguments, replies, and what kind of call each is.

use pagewell_sunrpc::nfs3::{self, Procedure, Status};
use pagewell_sunrpc::rpc;
use pagewell_sunrpc::xdr::{Decode, Decoder, Encode, Encoder};

use crate::held::slow::Kind;
use crate::reply::batch::{Batch, Mark};
use crate::service::exports::Stop;

/// A reply that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Its status is not OK.
    pub(super) failed: bool,
    /// Its length, when the handler has ended it itself.
    pub(super) sent_bytes: Option<usize>,
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
        _ => Kind::Read,
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
