//! From the arguments of a call to what is asked of the locks.

use std::net::IpAddr;
use std::sync::Arc;

use pagewell_fs as fs;
use pagewell_locks::file::Kind;
use pagewell_locks::owner::{Client, Owner};
use pagewell_locks::range::Range;
use pagewell_locks::table::{FileKey, Wish};
use pagewell_sunrpc::nfs3::{self, Handle};
use pagewell_sunrpc::nlm4::{self, Status};
use pagewell_sunrpc::rpc::Refusal;

use crate::locks::Locks;
use crate::service::exports::{Caller, Served, Stop, Target};

/// Where a call comes from.
pub struct Origin {
    pub(super) peer: IpAddr,
    pub(super) port: u16,
    /// The address of ours that was called, when it is known.
    pub(super) local: Option<IpAddr>,
}

/// Why a call has no results yet, or never.
pub(super) enum Halt {
    /// The call would wait and may not.
    Wait,
    /// It is refused.
    Refuse(Refusal),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::WouldBlock => Self::Wait,
            Stop::Garbage | Stop::Status(_) => Self::Refuse(Refusal::GarbageArguments),
        }
    }
}

impl Origin {
    /// A call from `peer` to `local`.
    #[must_use]
    pub fn new((peer, port): (IpAddr, u16), local: Option<IpAddr>) -> Self {
        Self {
            peer: peer.to_canonical(),
            port,
            local: local.map(|local| local.to_canonical()),
        }
    }

    pub(super) fn client(&self, name: &[u8]) -> Arc<Client> {
        Arc::new(Client {
            address: self.peer,
            name: name.to_owned(),
        })
    }
}

/// What a lock is meant to be, of a file that may be gone.
pub(super) fn wish(
    (served, locks): (&Served, &Locks),
    origin: &Origin,
    caller: &Caller,
    lock: &nlm4::Lock<'_>,
    kind: Kind,
) -> Result<Wish, Status> {
    let target = lock_target(served, caller, lock.handle)?;
    let owner = owner(origin, lock);
    let range = Range::new(lock.offset, lock.length).ok_or(Status::TooBig)?;
    Ok(Wish {
        file: lock_file(locks, &target, None),
        owner,
        range,
        kind,
    })
}

/// The same when the caller may open the file for it, else why not.
pub(super) fn wish_if_permitted(
    (served, locks): (&Served, &Locks),
    origin: &Origin,
    caller: &Caller,
    lock: &nlm4::Lock<'_>,
    kind: Kind,
) -> Result<Result<Wish, Status>, Halt> {
    let target = match lock_target(served, caller, lock.handle) {
        Ok(target) => target,
        Err(status) => return Ok(Err(status)),
    };
    let Some(range) = Range::new(lock.offset, lock.length) else {
        return Ok(Err(Status::TooBig));
    };
    let read_only = target.export.config.read_only || target.filesystem().limits().read_only;
    let wanted = match kind {
        Kind::Write if read_only => return Ok(Err(Status::ReadOnly)),
        Kind::Write => fs::Access::MODIFY | fs::Access::EXTEND,
        Kind::Read => fs::Access::READ | fs::Access::EXECUTE,
    };
    let (allowed, attributes) = match target
        .filesystem()
        .access(&target.call(), &target.id, wanted)
    {
        Ok(answer) => answer,
        Err(fs::Error::WouldBlock) => return Err(Halt::Wait),
        Err(fs::Error::Stale) => return Ok(Err(Status::Stale)),
        Err(_) => return Ok(Err(Status::Failed)),
    };
    if attributes.file_type != fs::FileType::Regular || !allowed.intersects(wanted) {
        return Ok(Err(Status::Failed));
    }
    Ok(Ok(Wish {
        file: lock_file(locks, &target, Some(attributes.file_id)),
        owner: owner(origin, lock),
        range,
        kind,
    }))
}

fn lock_target<'s>(
    served: &'s Served,
    caller: &Caller,
    handle: &[u8],
) -> Result<Target<'s>, Status> {
    let handle = Handle::new(handle).ok_or(Status::Stale)?;
    served.target(caller, handle).map_err(|stop| match stop {
        Stop::Status(nfs3::Status::Stale | nfs3::Status::BadHandle) => Status::Stale,
        _ => Status::Failed,
    })
}

fn lock_file(locks: &Locks, target: &Target<'_>, number: Option<u64>) -> FileKey {
    let key = FileKey {
        export: target.export.number(),
        id: target.id,
    };
    locks.key(key, number, |other| {
        target.filesystem().same_object(&other.id, &key.id)
    })
}

fn owner(origin: &Origin, lock: &nlm4::Lock<'_>) -> Owner {
    Owner {
        client: origin.client(lock.caller_name),
        process: lock.process,
        handle: Arc::from(lock.owner),
    }
}
