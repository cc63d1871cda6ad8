//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 sections 3.3.1 to 3.3.5).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessOk, AccessReply, DirectoryOperation, Failure, GetattrReply, Handle,
    LookupOk, LookupReply, ReadlinkOk, ReadlinkReply, SetattrArguments, SetattrReply, Status,
};

use crate::service::call::{Done, Out};
use crate::service::convert;
use crate::service::exports::{Caller, Served, Stop};

impl Served {
    pub(super) fn getattr(
        &self,
        caller: &Caller,
        object: Handle<'_>,
    ) -> Result<GetattrReply, Stop> {
        let target = self.target(caller, object)?;
        match target.filesystem().attributes(&target.call(), &target.id) {
            Ok(attributes) => Ok(Ok(target.export.identity.attributes(&attributes))),
            Err(error) => target.failed(&error, || ()),
        }
    }

    pub(super) fn setattr(
        &self,
        caller: &Caller,
        arguments: SetattrArguments<'_>,
    ) -> Result<SetattrReply, Stop> {
        let target = self.target_to_change(caller, arguments.object)?;
        let failed = |error: fs::Error| target.failed(&error, || target.wcc_after_failure(&error));
        let guard = arguments.guard.map(convert::timestamp);
        let attributes = convert::set_attributes(&arguments.attributes);
        let (Some(attributes), false) = (attributes, guard == Some(None)) else {
            return failed(fs::Error::Invalid);
        };
        let result = target.filesystem().set_attributes(
            &target.call(),
            &target.id,
            &attributes,
            guard.flatten(),
        );
        match result {
            Ok(change) => Ok(Ok(target.export.identity.change(&change))),
            Err(error) => failed(error),
        }
    }

    pub(super) fn lookup(
        &self,
        caller: &Caller,
        what: DirectoryOperation<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let target = self.target(caller, what.directory)?;
        let result = self.find(caller, &target, what.name);
        // That there is no such name is an answer: programs ask to find out.
        let is_missing = matches!(result, Err(fs::Error::NotFound));
        let handle;
        let reply: LookupReply<'_> = match result {
            Ok((export, entry)) => {
                handle = self.handle(export, &entry.id);
                let object = Handle::new(handle.as_bytes());
                Ok(LookupOk {
                    object: object.ok_or(Stop::Status(Status::ServerFault))?,
                    object_attributes: Some(export.identity.attributes(&entry.attributes)),
                    directory_attributes: target.attributes_now(),
                })
            }
            Err(error) => target.failed(&error, || target.attributes_now())?,
        };
        let done = out.put(reply)?;
        Ok(Done {
            failed: done.failed && !is_missing,
            ..done
        })
    }

    pub(super) fn access(
        &self,
        caller: &Caller,
        arguments: AccessArguments<'_>,
    ) -> Result<AccessReply, Stop> {
        let target = self.target(caller, arguments.object)?;
        let wanted = fs::Access(arguments.access) & fs::Access::ALL;
        match target
            .filesystem()
            .access(&target.call(), &target.id, wanted)
        {
            Ok((granted, attributes)) => {
                let changes = fs::Access::MODIFY | fs::Access::EXTEND | fs::Access::DELETE;
                let read_only = target.export.config.read_only;
                let denied = if read_only { changes.0 } else { 0 };
                Ok(Ok(AccessOk {
                    object_attributes: Some(target.export.identity.attributes(&attributes)),
                    access: (granted & wanted).0 & !denied,
                }))
            }
            Err(error) => target.failed(&error, || target.attributes_now()),
        }
    }

    pub(super) fn readlink(
        &self,
        caller: &Caller,
        symlink: Handle<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let target = self.target(caller, symlink)?;
        let path;
        let reply: ReadlinkReply<'_> =
            match target.filesystem().read_link(&target.call(), &target.id) {
                Ok((link, attributes)) => {
                    path = link;
                    let attributes = target.export.identity.attributes(&attributes);
                    Ok(ReadlinkOk {
                        symlink_attributes: Some(attributes),
                        target: &path,
                    })
                }
                Err(fs::Error::WouldBlock) => return Err(Stop::WouldBlock),
                Err(error) => Err(Failure {
                    status: convert::status(&error),
                    body: target.attributes_now(),
                }),
            };
        out.put(reply)
    }
}
