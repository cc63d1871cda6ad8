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
#[derive(Clone, Copy)]
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

/// What a call comes to for which no lock is asked for: an answer, or none.
pub(super) type Settled = Result<Status, Halt>;

/// A call about locks, and what is needed to answer it.
pub(super) struct LockCall<'a> {
    pub(super) served: &'a Served,
    pub(super) locks: &'a Locks,
    pub(super) origin: &'a Origin,
    pub(super) caller: Caller,
}

impl<'a> LockCall<'a> {
    /// What a lock is meant to be, of a file that may be gone.
    pub(super) fn wish(&self, lock: &nlm4::Lock<'_>, kind: Kind) -> Result<Wish, Settled> {
        let (target, range) = self.place(lock)?;
        Ok(self.wish_at(&target, None, lock, (range, kind)))
    }

    /// The same when the caller may open the file for it, else why not.
    pub(super) fn wish_if_permitted(
        &self,
        lock: &nlm4::Lock<'_>,
        kind: Kind,
    ) -> Result<Wish, Settled> {
        let (target, range) = self.place(lock)?;
        let filesystem = target.filesystem();
        let read_only = target.export.config.read_only || filesystem.limits().read_only;
        let wanted = match kind {
            Kind::Write if read_only => return Err(Ok(Status::ReadOnly)),
            Kind::Write => fs::Access::MODIFY | fs::Access::EXTEND,
            Kind::Read => fs::Access::READ | fs::Access::EXECUTE,
        };
        let (allowed, attributes) = filesystem
            .access(&target.call(), &target.id, wanted)
            .map_err(|error| match error {
                fs::Error::WouldBlock => Err(Halt::Wait),
                fs::Error::Stale => Ok(Status::Stale),
                _ => Ok(Status::Failed),
            })?;
        if attributes.file_type != fs::FileType::Regular || !allowed.intersects(wanted) {
            return Err(Ok(Status::Failed));
        }
        Ok(self.wish_at(&target, Some(attributes.file_id), lock, (range, kind)))
    }

    /// The file of a lock, and the range in it.
    fn place(&self, lock: &nlm4::Lock<'_>) -> Result<(Target<'a>, Range), Settled> {
        let handle = Handle::new(lock.handle).ok_or(Ok(Status::Stale))?;
        let target = self.served.target(&self.caller, handle);
        let target = target.map_err(|stop| match stop {
            Stop::Status(nfs3::Status::Stale | nfs3::Status::BadHandle) => Ok(Status::Stale),
            _ => Ok(Status::Failed),
        })?;
        let range = Range::new(lock.offset, lock.length).ok_or(Ok(Status::TooBig))?;
        Ok((target, range))
    }

    fn wish_at(
        &self,
        target: &Target<'_>,
        number: Option<u64>,
        lock: &nlm4::Lock<'_>,
        (range, kind): (Range, Kind),
    ) -> Wish {
        let key = FileKey {
            export: target.export.number(),
            id: target.id,
        };
        let is_same = |other: &FileKey| target.filesystem().same_object(&other.id, &key.id);
        Wish {
            file: self.locks.key(key, number, is_same),
            owner: Owner {
                client: self.origin.client(lock.caller_name),
                process: lock.process,
                handle: Arc::from(lock.owner),
            },
            range,
            kind,
        }
    }
}
