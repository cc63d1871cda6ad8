//! Why a run failed.

use std::io;
use std::net::SocketAddr;

use pagewell_sunrpc::nfs3::{Procedure, Status};
use pagewell_sunrpc::rpc::ReplyError;
use pagewell_sunrpc::{mount3, xdr};

/// Why a run failed, without a result: no failure is only counted.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The server cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// The server closed the connection with calls in flight.
    #[error("the server closed the connection")]
    Closed,
    /// No reply in time.
    #[error("no reply within {seconds} seconds")]
    Silent {
        /// How long the run waited.
        seconds: u64,
    },
    /// A record longer than any right reply, or in thousands of fragments.
    #[error("a reply of {bytes} bytes is longer than any right one")]
    RecordTooLong {
        /// What its marker claims.
        bytes: usize,
    },
    /// Not a reply, or a refusal of the RPC layer.
    #[error("{procedure}: {error}")]
    Rpc {
        /// What was called.
        procedure: &'static str,
        /// What came.
        error: ReplyError,
    },
    /// The results are not those of the procedure.
    #[error("{procedure}: the reply is malformed: {error}")]
    Malformed {
        /// What was called.
        procedure: &'static str,
        /// What is wrong.
        error: xdr::Error,
    },
    /// MNT was refused.
    #[error("mount of {export}: {status:?}")]
    Mount {
        /// Path that was asked for.
        export: String,
        /// Why not.
        status: mount3::Status,
    },
    /// An NFS procedure answered with an error.
    #[error("{}: {}", .procedure.name(), status_name(*.status))]
    Status {
        /// What was called.
        procedure: Procedure,
        /// What it answered.
        status: Status,
    },
    /// A reply to a call that is not in flight.
    #[error("a reply to no call that is in flight: xid {xid:#010x}")]
    UnknownXid {
        /// Of the reply.
        xid: u32,
    },
    /// Data read is not what must be there.
    #[error("wrong data at byte {offset} of the file")]
    WrongData {
        /// First byte that is wrong.
        offset: u64,
    },
    /// READ gave fewer bytes than are there, and no more when asked again.
    #[error("read at byte {offset} gave nothing although the file goes on")]
    NoProgress {
        /// Where.
        offset: u64,
    },
    /// READ gave more than was asked for, or contradictory counts.
    #[error("read at byte {offset}: counts contradict each other")]
    WrongCount {
        /// Where.
        offset: u64,
    },
    /// WRITE took fewer bytes than were sent.
    #[error("write of {asked} bytes at byte {offset} took {taken}")]
    ShortWrite {
        /// Where.
        offset: u64,
        /// Bytes sent.
        asked: u32,
        /// Bytes taken.
        taken: u32,
    },
    /// The write verifier changed during the run: data may be lost.
    #[error("the write verifier changed: the server restarted or lost data")]
    VerifierChanged,
    /// Two listings of one directory differ in length.
    #[error("a listing of the directory has {now} entries, an earlier one {before}")]
    EntriesDiffer {
        /// In the first listing.
        before: u64,
        /// In this one.
        now: u64,
    },
    /// A listing is not as long as the directory.
    #[error("a listing of {files} files has {now} entries")]
    WrongEntries {
        /// Files in the directory.
        files: u64,
        /// Entries of the listing.
        now: u64,
    },
    /// The file is too small for one block.
    #[error("the file has {bytes} bytes, less than one block")]
    FileTooSmall {
        /// Its size.
        bytes: u64,
    },
    /// The settings contradict each other or the protocol.
    #[error("{0}")]
    Settings(String),
    /// Another connection failed first.
    #[error("stopped because another connection failed")]
    Stopped,
}

/// The name in RFC 1813 section 2.6.
fn status_name(status: Status) -> String {
    format!("NFS3ERR_{}", status.name().to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_named_as_in_the_rfc() {
        let error = LoadError::Status {
            procedure: Procedure::Read,
            status: Status::AccessDenied,
        };
        assert_eq!(error.to_string(), "read: NFS3ERR_ACCES");
        let error = LoadError::Status {
            procedure: Procedure::ReaddirPlus,
            status: Status::BadCookie,
        };
        assert_eq!(error.to_string(), "readdirplus: NFS3ERR_BAD_COOKIE");
    }
}
