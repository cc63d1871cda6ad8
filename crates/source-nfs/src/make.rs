//! Making objects and names: CREATE, MKDIR, SYMLINK, MKNOD, LINK.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Error, FileId, FileType, NodeKind, Result,
    SetAttributes, SetTime,
};
use pagewell_sunrpc::nfs3::{
    CreateArguments, CreateHow, CreateReply, DecodeReply, DeviceNumber, DirectoryOperation,
    Failure, LinkArguments, LinkReply, MkdirArguments, MknodArguments, NodeData, Procedure, Status,
    SymlinkArguments,
};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::calls::whole;
use super::convert;
use super::filesystem::Shared;
use super::naming::{NameChange, either, operation};
use super::node::Node;

/// Bytes of an answer to LINK that failed and tells no attributes: status, `post_op_attr` and
/// `wcc_data` (RFC 1813 section 3.3.15).
const LINK_FAILURE_BYTES_MIN: usize = 16;

/// A call that makes something.
struct Making<'a> {
    directory: Arc<Node>,
    name: &'a [u8],
    procedure: Procedure,
    file_type: FileType,
    /// Of a symbolic link.
    target: Option<&'a [u8]>,
    /// The name meant nothing just before, as far as is believed.
    was_free: bool,
}

impl Making<'_> {
    fn what(&self) -> DirectoryOperation<'_> {
        operation(&self.directory, self.name)
    }
}

impl Shared {
    fn making<'a>(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &'a [u8],
        (procedure, file_type): (Procedure, FileType),
    ) -> Result<Making<'a>> {
        self.may_change(call)?;
        pagewell_fs::name::check_new(name)?;
        let directory = self.directory(call, directory)?;
        let was_free = self.names.find(&directory, name) == Some(None);
        Ok(Making {
            directory,
            name,
            procedure,
            file_type,
            target: None,
            was_free,
        })
    }

    /// [`pagewell_fs::FileSystem::create`].
    ///
    /// Length is set apart from the rest: of a file that is there already, the cache must know.
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let what = (Procedure::Create, FileType::Regular);
        let making = self.making(call, directory, name, what)?;
        let (request, size) = match mode {
            CreateMode::Unchecked(request) => (request, request.size),
            CreateMode::Guarded(request) => {
                let created = self.create_new(call, &making, request)?;
                let node = self.files.node(&created.entry.id);
                node.lock()
                    .made(call.credentials, &created.entry.attributes);
                return Ok(created);
            }
            CreateMode::Exclusive(verifier) => {
                return self.send_create(call, &making, CreateHow::Exclusive(*verifier));
            }
        };
        let without_size = SetAttributes {
            size: None,
            ..*request
        };
        let how = CreateHow::Unchecked(convert::set_attributes(&without_size)?);
        let mut created = self.send_create(call, &making, how)?;
        if let Some(size) = size.filter(|size| *size != created.entry.attributes.size) {
            let request = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            self.set_attributes(call, &created.entry.id, &request, None)?;
            created.entry.attributes = self.attributes(call, &created.entry.id)?;
        }
        Ok(created)
    }

    /// Makes a file that must not be there, with a verifier, so that a repeated call finds its own.
    fn create_new(
        &self,
        call: &Call<'_>,
        making: &Making<'_>,
        request: &SetAttributes,
    ) -> Result<Created> {
        if !self.lacks_exclusive.load(Ordering::Relaxed) {
            let how = CreateHow::Exclusive(fresh_verifier());
            match self.send_create(call, making, how) {
                Ok(mut created) => {
                    // The verifier may be in the times.
                    let now = Some(SetTime::ToServerTime);
                    let request = SetAttributes {
                        size: request.size.filter(|size| *size > 0),
                        accessed: request.accessed.or(now),
                        modified: request.modified.or(now),
                        ..*request
                    };
                    let change = self.set_attributes(call, &created.entry.id, &request, None)?;
                    let ask = || self.attributes(call, &created.entry.id);
                    created.entry.attributes = change.after.map_or_else(ask, Ok)?;
                    return Ok(created);
                }
                Err(Error::NotSupported) => self.lacks_exclusive.store(true, Ordering::Relaxed),
                refused => return refused,
            }
        }
        let how = CreateHow::Guarded(convert::set_attributes(request)?);
        self.send_create(call, making, how)
    }

    fn send_create(&self, call: &Call<'_>, making: &Making<'_>, how: CreateHow) -> Result<Created> {
        let what = making.what();
        // Of its verifier the server knows whether it has seen it.
        let may_be_ours = making.was_free && !matches!(how, CreateHow::Exclusive(_));
        self.make(call, making, &CreateArguments { what, how }, may_be_ours)
    }

    /// [`pagewell_fs::FileSystem::make_directory`].
    pub(super) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let what = (Procedure::Mkdir, FileType::Directory);
        let making = self.making(call, directory, name, what)?;
        let arguments = MkdirArguments {
            what: making.what(),
            attributes: convert::set_attributes(attributes)?,
        };
        self.make(call, &making, &arguments, making.was_free)
    }

    /// [`pagewell_fs::FileSystem::make_symlink`].
    pub(super) fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let what = (Procedure::Symlink, FileType::Symlink);
        let making = Making {
            target: Some(target),
            ..self.making(call, directory, name, what)?
        };
        let arguments = SymlinkArguments {
            what: making.what(),
            attributes: convert::set_attributes(attributes)?,
            target,
        };
        self.make(call, &making, &arguments, making.was_free)
    }

    /// [`pagewell_fs::FileSystem::make_node`].
    pub(super) fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let attributes = convert::set_attributes(attributes)?;
        let device = |major, minor| DeviceNumber { major, minor };
        let (node, file_type) = match kind {
            NodeKind::CharacterDevice(major, minor) => (
                NodeData::CharacterDevice(attributes, device(major, minor)),
                FileType::CharacterDevice,
            ),
            NodeKind::BlockDevice(major, minor) => (
                NodeData::BlockDevice(attributes, device(major, minor)),
                FileType::BlockDevice,
            ),
            NodeKind::Socket => (NodeData::Socket(attributes), FileType::Socket),
            NodeKind::Fifo => (NodeData::Fifo(attributes), FileType::Fifo),
        };
        let making = self.making(call, directory, name, (Procedure::Mknod, file_type))?;
        let what = making.what();
        self.make(
            call,
            &making,
            &MknodArguments { what, node },
            making.was_free,
        )
    }

    /// `may_be_ours`: what is there after a repeated call may have been made by it.
    fn make(
        &self,
        call: &Call<'_>,
        making: &Making<'_>,
        arguments: &impl Encode,
        may_be_ours: bool,
    ) -> Result<Created> {
        let (directory, name) = (&*making.directory, making.name);
        let (answer, change, since) = self.change_names(
            call,
            directory,
            (making.procedure, arguments),
            |decoder| {
                Ok(CreateReply::decode_reply(decoder)?.map(|made| {
                    let id = made.object.and_then(|handle| convert::id(handle).ok());
                    (id, made.object_attributes, made.directory_wcc)
                }))
            },
            |reply| match reply {
                Ok((_, _, directory_wcc)) => *directory_wcc,
                Err(failure) => failure.body,
            },
        )?;
        let entry = match answer.value {
            Ok((Some(id), attributes, _)) => {
                self.entry(call, id, attributes.as_ref(), answer.sent)?
            }
            // The server need not tell the handle.
            Ok(_) => self.ask_name(call, directory, name)?,
            Err(failure) => {
                let (made, status) = (NameChange::Make(making.file_type), failure.status);
                let is_doubtful = answer.was_resent && may_be_ours;
                let found = self.prove(call, (directory, name), made, status, is_doubtful)?;
                let found = found.ok_or_else(|| convert::error(status))?;
                if let Some(target) = making.target
                    && self.read_link(call, &found.id)?.0 != target
                {
                    return Err(convert::error(status));
                }
                found
            }
        };
        self.names.enter(directory, name, Some(entry.id), since);
        Ok(Created {
            entry,
            parent: change,
        })
    }

    /// [`pagewell_fs::FileSystem::link`].
    pub(super) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        self.may_change(call)?;
        pagewell_fs::name::check_new(name)?;
        let directory = &*self.directory(call, directory)?;
        let node = self.files.node(id);
        let arguments = LinkArguments {
            file: convert::handle(id),
            link: operation(directory, name),
        };
        let (answer, change, since) = self.change_names(
            call,
            directory,
            (Procedure::Link, &arguments),
            decode_link,
            |reply| either(reply).directory_wcc,
        )?;
        let attributes = either(&answer.value).file_attributes;
        node.excuse();
        self.remote.look(&node, attributes.as_ref(), answer.sent)?;
        if let Err(failure) = answer.value {
            let (made, status) = (NameChange::Link(*id), failure.status);
            self.prove(call, (directory, name), made, status, answer.was_resent)?;
        }
        self.names.enter(directory, name, Some(*id), since);
        Ok((self.attributes_of(call, &node)?, change))
    }
}

/// The answer to LINK. A server that reads the arguments as those of SYMLINK cannot make sense of
/// them, and its answer has the body of SYMLINK, which is shorter: it makes no links at all.
fn decode_link(decoder: &mut Decoder<'_>) -> xdr::Result<LinkReply> {
    let is_short = decoder.remaining() < LINK_FAILURE_BYTES_MIN;
    let reply: LinkReply = whole(decoder)?;
    Ok(reply.map_err(|failure| match failure.status {
        Status::Invalid | Status::NotDirectory if is_short => Failure {
            status: Status::NotSupported,
            ..failure
        },
        _ => failure,
    }))
}

/// A verifier that no other call has.
fn fresh_verifier() -> [u8; 8] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    pagewell_fs::verifier::fresh()
        .wrapping_add(count)
        .to_be_bytes()
}
