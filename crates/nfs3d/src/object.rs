//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 sections 3.3.1 to 3.3.5).

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    AccessArguments, AccessOk, DirectoryOperation, Handle, LookupOk, ReadlinkOk, SetattrArguments,
    Status,
};

use crate::answering::{Answering, Stop};
use crate::convert::{self, WireIdentity, WireTarget};
use pagewell_rpcd::answer::Done;

pub(super) fn getattr(answering: &mut Answering<'_>, object: Handle<'_>) -> Result<Done, Stop> {
    let target = answering.target(object)?;
    answering.answer(&target, target.attributes(), |_| ())
}

pub(super) fn setattr(
    answering: &mut Answering<'_>,
    arguments: SetattrArguments<'_>,
) -> Result<Done, Stop> {
    let target = answering.target_to_change(arguments.object)?;
    let set = || {
        let attributes = convert::set_attributes(&arguments.attributes)?;
        let guard = arguments.guard.map(convert::timestamp).transpose()?;
        let (filesystem, call) = (target.filesystem(), target.call());
        let change = filesystem.set_attributes(&call, &target.id, &attributes, guard)?;
        Ok(target.export.identity.change(&change))
    };
    answering.answer(&target, set(), |error| target.wcc_after_failure(error))
}

pub(super) fn lookup(
    answering: &mut Answering<'_>,
    what: DirectoryOperation<'_>,
) -> Result<Done, Stop> {
    let target = answering.target(what.directory)?;
    let found = answering.find(&target, what.name);
    // That there is no such name is an answer: programs ask to find out.
    let is_missing = matches!(found, Err(fs::Error::NotFound));
    let handle;
    let result = match found {
        Ok((export, entry)) => {
            handle = answering.served().handle(export, &entry.id);
            let object = Handle::new(handle.as_bytes());
            Ok(LookupOk {
                object: object.ok_or(Stop::Status(Status::ServerFault))?,
                object_attributes: Some(export.identity.attributes(&entry.attributes)),
                directory_attributes: target.attributes_now(),
            })
        }
        Err(error) => Err(error),
    };
    let done = answering.answer(&target, result, |_| target.attributes_now())?;
    Ok(Done {
        failed: done.failed && !is_missing,
        ..done
    })
}

pub(super) fn access(
    answering: &mut Answering<'_>,
    arguments: AccessArguments<'_>,
) -> Result<Done, Stop> {
    let target = answering.target(arguments.object)?;
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
    answering.answer(&target, result, |_| target.attributes_now())
}

pub(super) fn readlink(answering: &mut Answering<'_>, symlink: Handle<'_>) -> Result<Done, Stop> {
    let target = answering.target(symlink)?;
    let read = target.filesystem().read_link(&target.call(), &target.id);
    let result = match &read {
        Ok((path, attributes)) => Ok(ReadlinkOk {
            symlink_attributes: Some(target.export.identity.attributes(attributes)),
            target: path,
        }),
        Err(error) => Err(error.clone()),
    };
    answering.answer(&target, result, |_| target.attributes_now())
}
