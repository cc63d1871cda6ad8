//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 sections 3.3.8 to 3.3.11): they differ in what is made
//! and share how it is answered.

use pagewell_fs as fs;
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, CreateOk, CreateReply, DirectoryOperation, Handle, MkdirArguments,
    MknodArguments, NodeData, SetAttributes, SymlinkArguments,
};

use crate::service::call::{Done, Out};
use crate::service::convert;
use crate::service::exports::{Caller, Served, Stop, Target};

impl Served {
    pub(super) fn create(
        &self,
        caller: &Caller,
        arguments: CreateArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let how = match &arguments.how {
            CreateHow::Unchecked(set) => {
                convert::set_attributes(set).map(fs::CreateMode::Unchecked)
            }
            CreateHow::Guarded(set) => convert::set_attributes(set).map(fs::CreateMode::Guarded),
            CreateHow::Exclusive(verifier) => Some(fs::CreateMode::Exclusive(*verifier)),
        };
        self.make(caller, arguments.what, out, |target, name| {
            let how = how.ok_or(fs::Error::Invalid)?;
            target
                .filesystem()
                .create(&target.call(), &target.id, name, &how)
        })
    }

    pub(super) fn mkdir(
        &self,
        caller: &Caller,
        arguments: MkdirArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let attributes = without_size(&arguments.attributes);
        self.make(caller, arguments.what, out, |target, name| {
            let attributes = attributes.ok_or(fs::Error::Invalid)?;
            target
                .filesystem()
                .make_directory(&target.call(), &target.id, name, &attributes)
        })
    }

    pub(super) fn symlink(
        &self,
        caller: &Caller,
        arguments: SymlinkArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let attributes = without_size(&arguments.attributes);
        self.make(caller, arguments.what, out, |target, name| {
            let attributes = attributes.ok_or(fs::Error::Invalid)?;
            if arguments.target.is_empty() || arguments.target.contains(&0) {
                return Err(fs::Error::Invalid);
            }
            target.filesystem().make_symlink(
                &target.call(),
                &target.id,
                name,
                arguments.target,
                &attributes,
            )
        })
    }

    pub(super) fn mknod(
        &self,
        caller: &Caller,
        arguments: MknodArguments<'_>,
        out: &mut Out<'_>,
    ) -> Result<Done, Stop> {
        let node = match &arguments.node {
            NodeData::CharacterDevice(set, device) => Ok((
                fs::NodeKind::CharacterDevice(device.major, device.minor),
                set,
            )),
            NodeData::BlockDevice(set, device) => {
                Ok((fs::NodeKind::BlockDevice(device.major, device.minor), set))
            }
            NodeData::Socket(set) => Ok((fs::NodeKind::Socket, set)),
            NodeData::Fifo(set) => Ok((fs::NodeKind::Fifo, set)),
            NodeData::Unmakable(_) => Err(fs::Error::BadType),
        };
        self.make(caller, arguments.what, out, |target, name| {
            let (kind, set) = node?;
            let attributes = without_size(set).ok_or(fs::Error::Invalid)?;
            target
                .filesystem()
                .make_node(&target.call(), &target.id, name, kind, &attributes)
        })
    }

    fn make(
        &self,
        caller: &Caller,
        what: DirectoryOperation<'_>,
        out: &mut Out<'_>,
        make: impl FnOnce(&Target<'_>, &[u8]) -> fs::Result<fs::Created>,
    ) -> Result<Done, Stop> {
        let target = self.target_to_change(caller, what.directory)?;
        let handle;
        let reply: CreateReply<'_> = match make(&target, what.name) {
            Ok(created) => {
                let identity = &target.export.identity;
                handle = self.handle(target.export, &created.entry.id);
                Ok(CreateOk {
                    object: Handle::new(handle.as_bytes()),
                    object_attributes: Some(identity.attributes(&created.entry.attributes)),
                    directory_wcc: identity.change(&created.parent),
                })
            }
            Err(error) => target.failed(&error, || target.wcc_after_failure(&error))?,
        };
        out.put(reply)
    }
}

/// Attributes of an object that has no size of its own: clients that fill in every field send
/// one, and it means nothing.
fn without_size(from: &SetAttributes) -> Option<fs::SetAttributes> {
    let attributes = convert::set_attributes(from)?;
    Some(fs::SetAttributes {
        size: None,
        ..attributes
    })
}
