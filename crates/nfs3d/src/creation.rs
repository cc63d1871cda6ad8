//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 sections 3.3.8 to 3.3.11).

use pagewell_fs::{self as fs, Batched, Call, FileId};
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, CreateOk, DirectoryOperation, Handle, MkdirArguments,
    MknodArguments, NodeData, SetAttributes, SymlinkArguments,
};

use crate::convert::{WireIdentity, WireTarget, set_attributes};
use crate::handler::{Abort, Nfs3Handler};
use pagewell_rpcd::call::Done;

pub(super) fn create(
    handler: &mut Nfs3Handler<'_>,
    arguments: CreateArguments<'_>,
) -> Result<Done, Abort> {
    make(
        handler,
        arguments.what,
        |filesystem, call, directory, name| {
            let how = match &arguments.how {
                CreateHow::Unchecked(set) => fs::CreateMode::Unchecked(set_attributes(set)?),
                CreateHow::Guarded(set) => fs::CreateMode::Guarded(set_attributes(set)?),
                CreateHow::Exclusive(verifier) => fs::CreateMode::Exclusive(*verifier),
            };
            filesystem.create(call, directory, name, &how)
        },
    )
}

pub(super) fn mkdir(
    handler: &mut Nfs3Handler<'_>,
    arguments: MkdirArguments<'_>,
) -> Result<Done, Abort> {
    make(
        handler,
        arguments.what,
        |filesystem, call, directory, name| {
            let attributes = without_size(&arguments.attributes)?;
            filesystem.make_directory(call, directory, name, &attributes)
        },
    )
}

pub(super) fn symlink(
    handler: &mut Nfs3Handler<'_>,
    arguments: SymlinkArguments<'_>,
) -> Result<Done, Abort> {
    make(
        handler,
        arguments.what,
        |filesystem, call, directory, name| {
            let attributes = without_size(&arguments.attributes)?;
            let path = arguments.target;
            if path.is_empty() || path.contains(&0) {
                return Err(fs::Error::Invalid);
            }
            filesystem.make_symlink(call, directory, name, path, &attributes)
        },
    )
}

pub(super) fn mknod(
    handler: &mut Nfs3Handler<'_>,
    arguments: MknodArguments<'_>,
) -> Result<Done, Abort> {
    make(
        handler,
        arguments.what,
        |filesystem, call, directory, name| {
            use fs::NodeKind;
            let (kind, set) = match &arguments.node {
                NodeData::CharacterDevice(set, device) => {
                    (NodeKind::CharacterDevice(device.major, device.minor), set)
                }
                NodeData::BlockDevice(set, device) => {
                    (NodeKind::BlockDevice(device.major, device.minor), set)
                }
                NodeData::Socket(set) => (NodeKind::Socket, set),
                NodeData::Fifo(set) => (NodeKind::Fifo, set),
                NodeData::Unmakable(_) => return Err(fs::Error::BadType),
            };
            filesystem.make_node(call, directory, name, kind, &without_size(set)?)
        },
    )
}

fn make(
    handler: &mut Nfs3Handler<'_>,
    what: DirectoryOperation<'_>,
    make: impl FnOnce(Batched<'_>, &Call<'_>, &FileId, &[u8]) -> fs::Result<fs::Created>,
) -> Result<Done, Abort> {
    let target = handler.target_to_change(what.directory)?;
    let handle;
    let made = make(target.filesystem(), &target.call(), &target.id, what.name);
    let result = match made {
        Ok(created) => {
            let identity = &target.export.identity;
            handle = handler.served().handle(target.export, &created.entry.id);
            Ok(CreateOk {
                object: Handle::new(handle.as_bytes()),
                object_attributes: Some(identity.attributes(&created.entry.attributes)),
                directory_wcc: identity.change(&created.parent),
            })
        }
        Err(error) => Err(error),
    };
    handler.answer(&target, result, |error| target.wcc_after_failure(error))
}

/// Attributes of an object without a size: some clients fill in every field.
fn without_size(from: &SetAttributes) -> fs::Result<fs::SetAttributes> {
    Ok(fs::SetAttributes {
        size: None,
        ..set_attributes(from)?
    })
}
