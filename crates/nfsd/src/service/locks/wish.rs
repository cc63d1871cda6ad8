//! From the arguments of a call to what is asked of the locks.

use std::sync::Arc;

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{self, Handle};
use pagewell_sunrpc::nlm4::{self, Status};

use crate::locks::file::Kind;
use crate::locks::owner::Owner;
use crate::locks::range::Range;
use crate::locks::table::{FileKey, Wish};
use crate::service::Service;
use crate::service::locks::{Halt, Origin};
use crate::service::procedure::{Caller, Stop, Target};

impl Service {
    /// What a lock is meant to be, of a file that may be gone.
    pub(super) fn wish(
        &self,
        origin: &Origin,
        caller: &Caller,
        lock: &nlm4::Lock<'_>,
        kind: Kind,
    ) -> Result<Wish, Status> {
        let target = self.lock_target(caller, lock.handle)?;
        let owner = owner(origin, lock);
        let range = Range::new(lock.offset, lock.length).ok_or(Status::TooBig)?;
        Ok(Wish {
            file: self.lock_file(&target, None),
            owner,
            range,
            kind,
        })
    }

    /// The same when the caller may open the file for it, else why not.
    pub(super) fn wish_if_permitted(
        &self,
        origin: &Origin,
        caller: &Caller,
        lock: &nlm4::Lock<'_>,
        kind: Kind,
    ) -> Result<Result<Wish, Status>, Halt> {
        let target = match self.lock_target(caller, lock.handle) {
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
        let (allowed, attributes) =
            match target
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
            file: self.lock_file(&target, Some(attributes.file_id)),
            owner: owner(origin, lock),
            range,
            kind,
        }))
    }

    fn lock_target(&self, caller: &Caller, handle: &[u8]) -> Result<Target<'_>, Status> {
        let handle = Handle::new(handle).ok_or(Status::Stale)?;
        self.target(caller, handle).map_err(|stop| match stop {
            Stop::Status(nfs3::Status::Stale | nfs3::Status::BadHandle) => Status::Stale,
            _ => Status::Failed,
        })
    }

    fn lock_file(&self, target: &Target<'_>, number: Option<u64>) -> FileKey {
        let key = FileKey {
            export: target.export.number(),
            id: target.id,
        };
        self.locks.key(key, number, |other| {
            target.filesystem().same_object(&other.id, &key.id)
        })
    }
}

fn owner(origin: &Origin, lock: &nlm4::Lock<'_>) -> Owner {
    Owner {
        client: origin.client(lock.caller_name),
        process: lock.process,
        handle: Arc::from(lock.owner),
    }
}
