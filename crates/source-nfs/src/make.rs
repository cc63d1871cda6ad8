//! Making objects and names: CREATE, MKDIR, SYMLINK, MKNOD, LINK.
//!
//! **Attributes.** A call that makes something sends the mode alone: servers may refuse more (RFC
//! 1813 sections 3.3.8 to 3.3.11), and some then leave behind what they have made. Owner, group and
//! times are set afterwards (SETATTR). What the server refuses of these stays as made; the returned
//! attributes show it. The mode of a symbolic link is never set: some servers set that of its
//! target.
//!
//! **Errors.** A server that reports a failure (IO, SERVERFAULT) may have made the object: see
//! `naming.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Entry, Error, FileId, FileType, NodeKind,
    Result, SetAttributes, SetTime,
};
use pagewell_sunrpc::nfs3::{
    self, CreateArguments, CreateHow, CreateReply, DecodeReply, DeviceNumber, DirectoryOperation,
    Failure, LinkArguments, LinkReply, MkdirArguments, MknodArguments, NodeData, Procedure, Status,
    SymlinkArguments,
};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::calls::whole;
use super::convert;
use super::data::Data;
use super::lookup::Namespace;
use super::naming::{NameChange, either, operation};
use super::node::Node;
use super::objects::Objects;

/// Bytes of a failed LINK without attributes: status, `post_op_attr` and `wcc_data` (RFC 1813
/// section 3.3.15).
const LINK_FAILURE_BYTES_MIN: usize = 16;

const SET_GROUP_ID_BIT: u32 = 0o2000;
/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

/// A call that makes something.
struct Making<'a> {
    directory: Arc<Node>,
    /// The directory's handle.
    parent: FileId,
    name: &'a [u8],
    procedure: Procedure,
    file_type: FileType,
    /// Of a symbolic link.
    target: Option<&'a [u8]>,
    /// From the beginning.
    mode: Option<u32>,
    /// The name meant nothing just before, as far as is believed.
    was_free: bool,
}

impl Making<'_> {
    fn what(&self) -> DirectoryOperation<'_> {
        operation(&self.parent, self.name)
    }

    /// With the wanted mode. Refuses attributes that the wire cannot set.
    fn with_mode(self, wanted: &SetAttributes) -> Result<Self> {
        let mode = convert::set_attributes(wanted)?.mode;
        Ok(Self { mode, ..self })
    }

    /// Those of the call.
    fn attributes(&self) -> nfs3::SetAttributes {
        nfs3::SetAttributes {
            mode: self.mode,
            ..nfs3::SetAttributes::default()
        }
    }
}

pub(super) struct Maker {
    objects: Arc<Objects>,
    namespace: Arc<Namespace>,
    data: Arc<Data>,
    /// The server has no CREATE with a verifier.
    lacks_exclusive: AtomicBool,
}

impl Maker {
    pub(super) fn new(objects: Arc<Objects>, namespace: Arc<Namespace>, data: Arc<Data>) -> Self {
        Self {
            objects,
            namespace,
            data,
            lacks_exclusive: AtomicBool::new(false),
        }
    }

    fn making<'a>(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &'a [u8],
        (procedure, file_type): (Procedure, FileType),
    ) -> Result<Making<'a>> {
        self.objects.calls().may_change(call)?;
        pagewell_fs::name::check_new(name)?;
        let directory = self.objects.directory(call, directory)?;
        let was_free = self.namespace.names().find(&directory, name) == Some(None);
        Ok(Making {
            parent: self.objects.root().on_wire(directory.id()),
            directory,
            name,
            procedure,
            file_type,
            target: None,
            mode: None,
            was_free,
        })
    }

    /// [`pagewell_fs::FileSystem::create`].
    ///
    /// Length is set apart: of an existing file the cache must know.
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let what = (Procedure::Create, FileType::Regular);
        let making = self.making(call, directory, name, what)?;
        let request = match mode {
            CreateMode::Unchecked(request) => request,
            CreateMode::Guarded(request) => {
                let making = making.with_mode(request)?;
                let created = self.create_new(call, &making, request)?;
                let node = self.objects.node(&created.entry.id);
                node.lock()
                    .made(call.credentials, &created.entry.attributes);
                return Ok(created);
            }
            CreateMode::Exclusive(verifier) => {
                return self.send_create(call, &making, CreateHow::Exclusive(*verifier));
            }
        };
        let making = making.with_mode(request)?;
        let how = CreateHow::Unchecked(making.attributes());
        let mut created = self.send_create(call, &making, how)?;
        let length = created.entry.attributes.size;
        self.set_length(
            call,
            &mut created,
            request.size.filter(|size| *size != length),
        )?;
        self.dress(call, created, request)
    }

    /// Makes a file that must not exist, with a verifier.
    fn create_new(
        &self,
        call: &Call<'_>,
        making: &Making<'_>,
        request: &SetAttributes,
    ) -> Result<Created> {
        let length = request.size.filter(|size| *size > 0);
        if !self.lacks_exclusive.load(Ordering::Relaxed) {
            let how = CreateHow::Exclusive(fresh_verifier());
            match self.send_create(call, making, how) {
                Ok(mut created) => {
                    // The verifier may be in the times.
                    let now = Some(SetTime::ToServerTime);
                    let first = SetAttributes {
                        mode: request.mode,
                        size: length,
                        accessed: now,
                        modified: now,
                        ..SetAttributes::default()
                    };
                    let change = self
                        .data
                        .set_attributes(call, &created.entry.id, &first, None)?;
                    let ask = || self.data.attributes(call, &created.entry.id);
                    created.entry.attributes = change.after.map_or_else(ask, Ok)?;
                    return self.dress(call, created, &given(request));
                }
                Err(Error::NotSupported) => self.lacks_exclusive.store(true, Ordering::Relaxed),
                refused => return refused,
            }
        }
        let how = CreateHow::Guarded(making.attributes());
        let mut created = self.send_create(call, making, how)?;
        self.set_length(call, &mut created, length)?;
        self.dress(call, created, &given(request))
    }

    fn send_create(&self, call: &Call<'_>, making: &Making<'_>, how: CreateHow) -> Result<Created> {
        let what = making.what();
        // The server knows whether it has seen a verifier.
        let may_be_ours = making.was_free && !matches!(how, CreateHow::Exclusive(_));
        self.make(call, making, &CreateArguments { what, how }, may_be_ours)
    }

    /// Sets the length, if wanted; the cache must know.
    fn set_length(&self, call: &Call<'_>, created: &mut Created, size: Option<u64>) -> Result<()> {
        if size.is_some() {
            let request = SetAttributes {
                size,
                ..SetAttributes::default()
            };
            self.data
                .set_attributes(call, &created.entry.id, &request, None)?;
            created.entry.attributes = self.data.attributes(call, &created.entry.id)?;
        }
        Ok(())
    }

    /// Sets what is wanted besides mode and length, as far as the server does.
    fn dress(
        &self,
        call: &Call<'_>,
        mut created: Created,
        wanted: &SetAttributes,
    ) -> Result<Created> {
        let id = created.entry.id;
        let is_link = created.entry.attributes.file_type == FileType::Symlink;
        let mut owner = SetAttributes {
            uid: wanted.uid,
            gid: wanted.gid,
            ..SetAttributes::default()
        };
        if owner != SetAttributes::default() && !is_link {
            // A change of the owner takes these bits from a file.
            owner.mode = wanted.mode.filter(|mode| mode & SET_ID_BITS != 0);
        }
        let times = SetAttributes {
            accessed: wanted.accessed,
            modified: wanted.modified,
            ..SetAttributes::default()
        };
        let both = SetAttributes {
            accessed: times.accessed,
            modified: times.modified,
            ..owner
        };
        if both == SetAttributes::default() {
            return Ok(created);
        }
        let set = |part: &SetAttributes| self.data.set_attributes(call, &id, part, None);
        if set(&both).is_err() && both != owner && both != times {
            // Each part counts by itself.
            let _ = (set(&owner), set(&times));
        }
        created.entry.attributes = self.data.attributes(call, &id)?;
        Ok(created)
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
        let making = making.with_mode(attributes)?;
        let arguments = MkdirArguments {
            what: making.what(),
            attributes: making.attributes(),
        };
        let created = self.make(call, &making, &arguments, making.was_free)?;
        self.dress(call, created, &given(attributes))
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
        let making = making.with_mode(attributes)?;
        let arguments = SymlinkArguments {
            what: making.what(),
            attributes: making.attributes(),
            target,
        };
        let created = self.make(call, &making, &arguments, making.was_free)?;
        // A server may give it the handle of a removed one, and times in whole seconds.
        self.objects.node(&created.entry.id).lock().forget_link();
        self.dress(call, created, &given(attributes))
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
        let file_type = match kind {
            NodeKind::CharacterDevice(..) => FileType::CharacterDevice,
            NodeKind::BlockDevice(..) => FileType::BlockDevice,
            NodeKind::Socket => FileType::Socket,
            NodeKind::Fifo => FileType::Fifo,
        };
        let making = self.making(call, directory, name, (Procedure::Mknod, file_type))?;
        let making = making.with_mode(attributes)?;
        let first = making.attributes();
        let device = |major, minor| DeviceNumber { major, minor };
        let node = match kind {
            NodeKind::CharacterDevice(major, minor) => {
                NodeData::CharacterDevice(first, device(major, minor))
            }
            NodeKind::BlockDevice(major, minor) => {
                NodeData::BlockDevice(first, device(major, minor))
            }
            NodeKind::Socket => NodeData::Socket(first),
            NodeKind::Fifo => NodeData::Fifo(first),
        };
        let what = making.what();
        let arguments = MknodArguments { what, node };
        let created = self.make(call, &making, &arguments, making.was_free)?;
        self.dress(call, created, &given(attributes))
    }

    /// `may_be_ours`: what exists after a repeated or failed call may be its work.
    fn make(
        &self,
        call: &Call<'_>,
        making: &Making<'_>,
        arguments: &impl Encode,
        may_be_ours: bool,
    ) -> Result<Created> {
        let (directory, name) = (&*making.directory, making.name);
        let (answer, change, since) = self.namespace.change_names(
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
                self.objects
                    .entry(call, id, attributes.as_ref(), answer.sent)?
            }
            // The server need not return a handle.
            Ok(_) => self.namespace.ask_name(call, directory, name)?,
            Err(failure) => {
                let (made, status) = (NameChange::Make(making.file_type), failure.status);
                let is_doubtful = may_be_ours && made.is_doubtful(status, answer.was_resent);
                let found =
                    self.namespace
                        .prove(call, (directory, name), made, status, is_doubtful)?;
                let found = found.ok_or_else(|| convert::error(status))?;
                self.check_made(call, making, &found, status)?
            }
        };
        self.namespace
            .names()
            .enter(directory, name, Some(entry.id), since);
        Ok(Created {
            entry,
            parent: change,
        })
    }

    /// Checks that what a call answered with `status` was to make exists: a link with that target,
    /// or something with the mode, which else is set.
    fn check_made(
        &self,
        call: &Call<'_>,
        making: &Making<'_>,
        found: &Entry,
        status: Status,
    ) -> Result<Entry> {
        let refusal = || convert::error(status);
        if let Some(target) = making.target {
            let (known, _) = self.objects.read_link(call, &found.id)?;
            return (known == target).then_some(*found).ok_or_else(refusal);
        }
        // A directory may inherit one bit.
        let is_directory = making.file_type.is_directory();
        let inherited = if is_directory { SET_GROUP_ID_BIT } else { 0 };
        let has_mode = |mode: &u32| (found.attributes.mode ^ mode) & !inherited == 0;
        if making.mode.as_ref().is_none_or(has_mode) {
            return Ok(*found);
        }
        let request = SetAttributes {
            mode: making.mode,
            ..SetAttributes::default()
        };
        match self.data.set_attributes(call, &found.id, &request, None) {
            // A server without modes makes all objects alike.
            Ok(_) | Err(Error::NotSupported) => Ok(Entry {
                attributes: self.data.attributes(call, &found.id)?,
                ..*found
            }),
            Err(_) => Err(refusal()),
        }
    }

    /// [`pagewell_fs::FileSystem::link`].
    pub(super) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        self.objects.calls().may_change(call)?;
        pagewell_fs::name::check_new(name)?;
        let directory = &*self.objects.directory(call, directory)?;
        let node = self.objects.node(id);
        let parent = self.objects.root().on_wire(directory.id());
        let arguments = LinkArguments {
            file: convert::handle(id),
            link: operation(&parent, name),
        };
        let (answer, change, since) = self.namespace.change_names(
            call,
            directory,
            (Procedure::Link, &arguments),
            decode_link,
            |reply| either(reply).directory_wcc,
        )?;
        let attributes = either(&answer.value).file_attributes;
        node.excuse();
        self.objects
            .files()
            .look(&node, attributes.as_ref(), answer.sent)?;
        if let Err(failure) = answer.value {
            let (made, status) = (NameChange::Link(*id), failure.status);
            let is_doubtful = made.is_doubtful(status, answer.was_resent);
            self.namespace
                .prove(call, (directory, name), made, status, is_doubtful)?;
        }
        self.namespace
            .names()
            .enter(directory, name, Some(*id), since);
        Ok((self.objects.attributes_of(call, &node)?, change))
    }
}

/// The answer to LINK. A server that makes no links may refuse it with the shorter body of SYMLINK.
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

/// What is to be set of something new: a server's time is set by itself.
fn given(wanted: &SetAttributes) -> SetAttributes {
    let is_given = |time: &SetTime| matches!(time, SetTime::To(_));
    SetAttributes {
        accessed: wanted.accessed.filter(is_given),
        modified: wanted.modified.filter(is_given),
        ..*wanted
    }
}

fn fresh_verifier() -> [u8; 8] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    pagewell_fs::verifier::fresh()
        .wrapping_add(count)
        .to_be_bytes()
}
