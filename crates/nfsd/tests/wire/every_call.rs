//! One call of every procedure on a given object, for tests of what all of them have in common.

use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessReply, CommitArguments, CommitReply, CreateArguments, CreateHow,
    CreateReply, DeviceNumber, FsinfoReply, FsstatReply, GetattrReply, LinkArguments, LinkReply,
    LookupReply, MkdirArguments, MknodArguments, NodeData, PathconfReply, Procedure, ReadArguments,
    ReadReply, ReaddirArguments, ReaddirPlusArguments, ReaddirPlusReply, ReaddirReply,
    ReadlinkReply, RemoveReply, RenameArguments, RenameReply, Reply, SetAttributes, SetTime,
    SetattrArguments, SetattrReply, StableHow, Status, SymlinkArguments, Time, WriteArguments,
    WriteReply,
};
use pagewell_sunrpc::xdr::Encode;

use crate::client::{Answer, encoded};
use crate::operations::{entry, handle, mode};

/// A call that has not been made.
pub(crate) struct AnyCall {
    pub(crate) procedure: Procedure,
    pub(crate) arguments: Vec<u8>,
}

fn any(procedure: Procedure, arguments: &impl Encode) -> AnyCall {
    AnyCall {
        procedure,
        arguments: encoded(arguments),
    }
}

/// Sets all there is to set.
pub(crate) fn everything() -> SetAttributes {
    let time = Time {
        seconds: 1_000_000_000,
        nanoseconds: 5,
    };
    SetAttributes {
        mode: Some(0o640),
        uid: Some(0),
        gid: Some(0),
        size: Some(0),
        accessed: SetTime::To(time),
        modified: SetTime::To(time),
    }
}

/// Each procedure that only looks, on the object.
pub(crate) fn looking(object: &[u8]) -> Vec<AnyCall> {
    let (name, object) = (entry(object, b"name"), handle(object));
    let readdir = ReaddirArguments {
        directory: object,
        cookie: 0,
        verifier: [0; 8],
        count: 4096,
    };
    let readdirplus = ReaddirPlusArguments {
        directory: object,
        cookie: 0,
        verifier: [0; 8],
        directory_count: 4096,
        count_max: 4096,
    };
    let read = ReadArguments {
        file: object,
        offset: 0,
        count: 10,
    };
    vec![
        any(Procedure::Getattr, &object),
        any(Procedure::Lookup, &name),
        any(Procedure::Access, &AccessArguments { object, access: 63 }),
        any(Procedure::Readlink, &object),
        any(Procedure::Read, &read),
        any(Procedure::Readdir, &readdir),
        any(Procedure::ReaddirPlus, &readdirplus),
        any(Procedure::Fsstat, &object),
        any(Procedure::Fsinfo, &object),
        any(Procedure::Pathconf, &object),
    ]
}

/// Each procedure that changes something, on the object; RENAME and LINK have a second one.
pub(crate) fn changing(object: &[u8], other: &[u8]) -> Vec<AnyCall> {
    let (name, file) = (entry(object, b"name"), handle(object));
    let setattr = SetattrArguments {
        object: file,
        attributes: everything(),
        guard: Some(Time::default()),
    };
    let write = WriteArguments {
        file,
        offset: 0,
        count: 3,
        stable: StableHow::FileSync,
        data: b"abc",
    };
    let how = CreateHow::Guarded(everything());
    let symlink = SymlinkArguments {
        what: name,
        attributes: everything(),
        target: b"target",
    };
    let attributes = everything();
    let mkdir = MkdirArguments {
        what: name,
        attributes,
    };
    let device = NodeData::CharacterDevice(attributes, DeviceNumber { major: 1, minor: 3 });
    let fifo = NodeData::Fifo(mode(0o600));
    let node = |node| MknodArguments { what: name, node };
    let to = entry(other, b"other");
    let commit = CommitArguments {
        file,
        offset: 0,
        count: 0,
    };
    vec![
        any(Procedure::Setattr, &setattr),
        any(Procedure::Write, &write),
        any(Procedure::Create, &CreateArguments { what: name, how }),
        any(Procedure::Mkdir, &mkdir),
        any(Procedure::Symlink, &symlink),
        any(Procedure::Mknod, &node(device)),
        any(Procedure::Mknod, &node(fifo)),
        any(Procedure::Remove, &name),
        any(Procedure::Rmdir, &name),
        any(Procedure::Rename, &RenameArguments { from: name, to }),
        any(Procedure::Link, &LinkArguments { file, link: to }),
        any(Procedure::Commit, &commit),
    ]
}

/// All of them.
pub(crate) fn every_call(object: &[u8]) -> Vec<AnyCall> {
    let mut calls = looking(object);
    calls.extend(changing(object, object));
    calls
}

fn status<S, F>(reply: Reply<S, F>) -> Status {
    match reply {
        Ok(_) => Status::Ok,
        Err(failure) => failure.status,
    }
}

/// The status of a reply, after all of the reply was decoded.
pub(crate) fn status_of(procedure: Procedure, answer: &Answer) -> Status {
    match procedure {
        Procedure::Null => {
            answer.decode::<()>();
            Status::Ok
        }
        Procedure::Getattr => status(answer.decode::<GetattrReply>()),
        Procedure::Setattr => status(answer.decode::<SetattrReply>()),
        Procedure::Lookup => status(answer.decode::<LookupReply<'_>>()),
        Procedure::Access => status(answer.decode::<AccessReply>()),
        Procedure::Readlink => status(answer.decode::<ReadlinkReply<'_>>()),
        Procedure::Read => status(answer.decode::<ReadReply<'_>>()),
        Procedure::Write => status(answer.decode::<WriteReply>()),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            status(answer.decode::<CreateReply<'_>>())
        }
        Procedure::Remove | Procedure::Rmdir => status(answer.decode::<RemoveReply>()),
        Procedure::Rename => status(answer.decode::<RenameReply>()),
        Procedure::Link => status(answer.decode::<LinkReply>()),
        Procedure::Readdir => status(answer.decode::<ReaddirReply<'_>>()),
        Procedure::ReaddirPlus => status(answer.decode::<ReaddirPlusReply<'_>>()),
        Procedure::Fsstat => status(answer.decode::<FsstatReply>()),
        Procedure::Fsinfo => status(answer.decode::<FsinfoReply>()),
        Procedure::Pathconf => status(answer.decode::<PathconfReply>()),
        Procedure::Commit => status(answer.decode::<CommitReply>()),
    }
}
