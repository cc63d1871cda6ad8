//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 sections 3.3.1 to 3.3.5).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessOk, DirectoryOperation, Handle, LookupOk, ReadlinkOk, SetattrArguments,
    Status,
};

use crate::convert::{self, WireIdentity, WireTarget};
use crate::handler::{Abort, Nfs3Handler};
use pagewell_rpcd::call::Done;

pub(super) fn getattr(handler: &mut Nfs3Handler<'_>, object: Handle<'_>) -> Result<Done, Abort> {
    let target = handler.target(object)?;
    handler.answer(&target, target.attributes(), |_| ())
}

pub(super) fn setattr(
    handler: &mut Nfs3Handler<'_>,
    arguments: SetattrArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target_to_change(arguments.object)?;
    let set = || {
        let attributes = convert::set_attributes(&arguments.attributes)?;
        let guard = arguments.guard.map(convert::timestamp).transpose()?;
        let (filesystem, call) = (target.filesystem(), target.call());
        let change = filesystem.set_attributes(&call, &target.id, &attributes, guard)?;
        Ok(target.export.identity.change(&change))
    };
    handler.answer(&target, set(), |error| target.wcc_after_failure(error))
}

pub(super) fn lookup(
    handler: &mut Nfs3Handler<'_>,
    what: DirectoryOperation<'_>,
) -> Result<Done, Abort> {
    let target = handler.target(what.directory)?;
    let found = handler.find(&target, what.name);
    // A missing name is a regular answer, not a failure.
    let is_missing = matches!(found, Err(fs::Error::NotFound));
    let handle;
    let result = match found {
        Ok((export, entry)) => {
            handle = handler.served().handle(export, &entry.id);
            let object = Handle::new(handle.as_bytes());
            Ok(LookupOk {
                object: object.ok_or(Abort::Status(Status::ServerFault))?,
                object_attributes: Some(export.identity.attributes(&entry.attributes)),
                directory_attributes: target.attributes_now(),
            })
        }
        Err(error) => Err(error),
    };
    let done = handler.answer(&target, result, |_| target.attributes_now())?;
    Ok(Done {
        failed: done.failed && !is_missing,
        ..done
    })
}

pub(super) fn access(
    handler: &mut Nfs3Handler<'_>,
    arguments: AccessArguments<'_>,
) -> Result<Done, Abort> {
    let target = handler.target(arguments.object)?;
    let wanted = fs::Access(arguments.access) & fs::Access::ALL;
    let asked = target
        .filesystem()
        .access(&target.call(), &target.id, wanted);
    let result = asked.map(|(granted, attributes)| {
        let changes = fs::Access::MODIFY | fs::Access::EXTEND | fs::Access::DELETE;
        let read_only = target.export.config.read_only;
        let denied = if read_only { changes.0 } else { 0 };
        AccessOk {
            object_attributes: Some(target.export.identity.attributes(&attributes)),
            access: (granted & wanted).0 & !denied,
        }
    });
    handler.answer(&target, result, |_| target.attributes_now())
}

pub(super) fn readlink(handler: &mut Nfs3Handler<'_>, symlink: Handle<'_>) -> Result<Done, Abort> {
    let target = handler.target(symlink)?;
    let read = target.filesystem().read_link(&target.call(), &target.id);
    let result = match &read {
        Ok((path, attributes)) => Ok(ReadlinkOk {
            symlink_attributes: Some(target.export.identity.attributes(attributes)),
            target: path,
        }),
        Err(error) => Err(error.clone()),
    };
    handler.answer(&target, result, |_| target.attributes_now())
}
