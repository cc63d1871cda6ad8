//! Names in directories: lookup, creation, removal, renames and links.
//!
//! The kernel judges the caller. This part looks before and after, releases objects that lost their
//! last name, and syncs the names.
//!
//! An object is created as its caller with the wanted mode (the process' umask is 0); owner, size
//! and times are set right after. Where the caller may not give objects away (owner, a group that
//! is not the caller's) the system's choice stays: clients send these unasked. When another step
//! fails, the new name is removed again.
//!
//! EXCLUSIVE: the times of the file keep the verifier, 31 bits in each (not every file system has
//! times before 1970 or after 2038), so that it survives a restart. A repeated call finds the file
//! still empty and with those times.

use super::access::Judge;
use super::attributes::Attributes;
use super::metadata_sync::MetadataSync;
use super::object::{Object, Status};
use super::objects::{InUse, Objects, Reached};
use super::recent_names;
use super::system::error_of;
use pagewell_fs::access::EXECUTE;
use pagewell_fs::{
    Attributes as FileAttributes, Call, Change, CreateMode, Created, Entry, Error, FileId,
    FileType, NodeKind, OpenFile, RenameMode, Result, SetAttributes, SetTime, Timestamp,
};
use rustix::fs::{AtFlags, Mode, RenameFlags};
use std::os::fd::AsFd;
use std::sync::Arc;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// Until the client's set-attributes.
const EXCLUSIVE_MODE: u32 = 0o600;
/// Bounds races with removals before the caller has to retry.
const ATTEMPTS_MAX: usize = 16;
/// Linux' bound (PATH_MAX with its NUL).
const TARGET_BYTES_MAX: usize = 4095;

struct Made {
    object: Arc<Object>,
    status: Status,
    /// Its attributes changed after creation, or it existed and was truncated.
    touched: bool,
    is_new: bool,
}

struct Making<'a> {
    names: &'a Names,
    call: &'a Call<'a>,
    directory: &'a Object,
    name: &'a [u8],
    file_type: FileType,
    /// Without the bits of the umask.
    wanted: SetAttributes,
}

pub(super) struct Names {
    objects: Arc<Objects>,
    attributes: Arc<Attributes>,
    metadata_sync: Arc<MetadataSync>,
    file_bytes_max: u64,
}

impl Names {
    pub(super) fn new(
        objects: &Arc<Objects>,
        attributes: &Arc<Attributes>,
        metadata_sync: &Arc<MetadataSync>,
        file_bytes_max: u64,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            attributes: Arc::clone(attributes),
            metadata_sync: Arc::clone(metadata_sync),
            file_bytes_max,
        }
    }

    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        pagewell_fs::name::check(name)?;
        let directory = self.objects.directory(call, directory)?;
        match name {
            b"." => self.lookup_itself(call, &directory),
            b".." => self.lookup_parent(call, &directory),
            _ => {
                let (object, status) = match self.find_again(call, &directory, name)? {
                    Some(found) => found,
                    None => self.objects.find(call, &directory, name)?,
                };
                recent_names::note(call, (&directory, name), &object, &status);
                Ok(object.entry(&status))
            }
        }
    }

    /// The recent meaning of `name`, if it is still true: one look, in the same batch none. As the
    /// object is held open, the look does not wait.
    fn find_again(
        &self,
        call: &Call<'_>,
        directory: &InUse,
        name: &[u8],
    ) -> Result<Option<(Arc<Object>, Status)>> {
        let Some((object, status)) = recent_names::named(call, directory, name) else {
            return Ok(None);
        };
        self.objects.access().act_for(call)?;
        let status = match status {
            Some(status) => {
                // Another caller may lack the permission.
                let around = self.objects.look_once(call, directory)?;
                if !self
                    .objects
                    .access()
                    .judge(call, directory, &around)
                    .permits(EXECUTE)?
                {
                    return Ok(None);
                }
                status
            }
            None => match Status::of_name(directory.as_fd(), name) {
                Ok(status) if object.node() == status.node => status,
                _ => return Ok(None),
            },
        };
        object.mark();
        Ok(Some((object, status)))
    }

    fn lookup_itself(&self, call: &Call<'_>, directory: &InUse) -> Result<Entry> {
        let status = self.objects.look_once(call, directory)?;
        self.objects
            .access()
            .judge(call, directory, &status)
            .check(EXECUTE)?;
        Ok(directory.entry(&status))
    }

    fn lookup_parent(&self, call: &Call<'_>, directory: &InUse) -> Result<Entry> {
        if directory.node() == self.objects.root().node() {
            return self.lookup_itself(call, directory);
        }
        Error::WouldBlock.unless(call.may_block)?;
        self.objects.look(directory, call.may_block)?;
        self.objects.access().act_for(call)?;
        let (parent, status) = self.objects.parent_of(directory)?;
        Ok(parent.entry(&status))
    }

    pub(super) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        let wanted = match mode {
            CreateMode::Unchecked(wanted) | CreateMode::Guarded(wanted) => *wanted,
            CreateMode::Exclusive(verifier) => exclusive_attributes(*verifier),
        };
        let what = (FileType::Regular, &wanted);
        self.make(call, directory, name, what, |making| making.file(mode))
    }

    pub(super) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        let what = (FileType::Directory, attributes);
        self.make(call, directory, name, what, |making| {
            let mode = making.mode_or(DIRECTORY_MODE);
            rustix::fs::mkdirat(making.directory, name, mode).map_err(error_of)?;
            making.finish()
        })
    }

    pub(super) fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        Error::Invalid.when(target.is_empty() || target.contains(&0))?;
        Error::NameTooLong.when(target.len() > TARGET_BYTES_MAX)?;
        // A link has no mode on Linux, but clients send one.
        let attributes = SetAttributes {
            mode: None,
            ..*attributes
        };
        let what = (FileType::Symlink, &attributes);
        self.make(call, directory, name, what, |making| {
            rustix::fs::symlinkat(target, making.directory, name).map_err(error_of)?;
            making.finish()
        })
    }

    pub(super) fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        use rustix::fs::FileType as Raw;
        let (file_type, raw, (major, minor)) = match kind {
            NodeKind::CharacterDevice(major, minor) => (
                FileType::CharacterDevice,
                Raw::CharacterDevice,
                (major, minor),
            ),
            NodeKind::BlockDevice(major, minor) => {
                (FileType::BlockDevice, Raw::BlockDevice, (major, minor))
            }
            NodeKind::Socket => (FileType::Socket, Raw::Socket, (0, 0)),
            NodeKind::Fifo => (FileType::Fifo, Raw::Fifo, (0, 0)),
        };
        let device = rustix::fs::makedev(major, minor);
        let what = (file_type, attributes);
        self.make(call, directory, name, what, |making| {
            let mode = making.mode_or(FILE_MODE);
            rustix::fs::mknodat(making.directory, name, raw, mode, device).map_err(error_of)?;
            making.finish()
        })
    }

    /// Lock, look, make as the caller, look, unlock, sync.
    fn make(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        (file_type, wanted): (FileType, &SetAttributes),
        act: impl FnOnce(&Making<'_>) -> Result<Made>,
    ) -> Result<Created> {
        self.check_new(file_type, wanted)?;
        Error::WouldBlock.unless(call.may_block)?;
        let directory = self.objects.directory(call, directory)?;
        pagewell_fs::name::check_new(name)?;
        let (made, parent) = self.change_directory(&directory, || {
            self.objects.access().act_for(call)?;
            act(&Making {
                names: self,
                call,
                directory: &directory,
                name,
                file_type,
                wanted: self.masked(call, &directory, wanted)?,
            })
        })?;
        self.metadata_sync
            .new_name(&made.object, (made.is_new, made.touched), &directory)?;
        Ok(Created {
            entry: made.object.entry(&made.status),
            parent,
        })
    }

    fn check_new(&self, file_type: FileType, wanted: &SetAttributes) -> Result<()> {
        let is_file = file_type == FileType::Regular;
        match wanted.size {
            Some(1..) if !is_file => Err(Error::Invalid),
            Some(size) if size > self.file_bytes_max => Err(Error::FileTooLarge),
            _ if !wanted.has_valid_times() => Err(Error::Invalid),
            _ => Ok(()),
        }
    }

    /// `wanted` without the caller's umask, unless the directory has a default list, which then
    /// decides.
    fn masked(
        &self,
        call: &Call<'_>,
        directory: &Object,
        wanted: &SetAttributes,
    ) -> Result<SetAttributes> {
        let (mode, umask) = (wanted.mode.unwrap_or(0), call.credentials.umask());
        if mode & umask == 0 || self.objects.access().has_default_list(directory)? {
            return Ok(*wanted);
        }
        Ok(SetAttributes {
            mode: Some(mode & !umask),
            ..*wanted
        })
    }

    /// Runs a change of names between two looks that exclude other changes through Pagewell.
    fn change_directory<R>(
        &self,
        directory: &Object,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<(R, Change)> {
        let (exclusion, before) = self.objects.begin_change(directory, true)?;
        let done = act()?;
        Ok((done, exclusion.end(&before)))
    }

    pub(super) fn remove(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<Change> {
        Error::WouldBlock.unless(call.may_block)?;
        let directory = self.objects.directory(call, directory)?;
        pagewell_fs::name::check_old(name)?;
        let caller = self.objects.access().caller(call);
        let (victim, change) = self.change_directory(&directory, || {
            self.objects.access().become_caller(&caller)?;
            let victim = self.objects.held_name(&directory, name);
            let running = victim.as_ref().map(|victim| victim.touch());
            rustix::fs::unlinkat(directory.as_fd(), name, removal_flags(is_directory))
                .map_err(error_of)?;
            drop(running);
            Ok(victim)
        })?;
        if let Some(victim) = victim {
            let _ = self.objects.look(&victim, true); // releases it if that was its last name
        }
        self.metadata_sync.names(&[&directory])?;
        Ok(change)
    }

    pub(super) fn rename(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        mode: RenameMode,
    ) -> Result<(Change, Change)> {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        Error::WouldBlock.unless(call.may_block)?;
        let (from_name, to_name) = (from.1, to.1);
        let from = self.objects.directory(call, from.0)?;
        let to = self.objects.directory(call, to.0)?;
        pagewell_fs::name::check_old(from_name)?;
        pagewell_fs::name::check_old(to_name)?;
        let (held, changes) = self.change_directories(&from, &to, || {
            self.objects.access().act_for(call)?;
            let moved = self.objects.key_at(&from, from_name);
            let moved_back = match flags.contains(RenameFlags::EXCHANGE) {
                true => self.objects.key_at(&to, to_name),
                false => None,
            };
            let held = [
                self.objects.held_name(&from, from_name),
                self.objects.held_name(&to, to_name),
            ];
            let touching: Vec<_> = held.iter().flatten().map(|o| o.touch()).collect();
            rustix::fs::renameat_with(from.as_fd(), from_name, to.as_fd(), to_name, flags)
                .map_err(error_of)?;
            drop(touching);
            if let Some(moved) = moved {
                self.objects
                    .naming()
                    .note(&moved, &Reached::Child(&to, to_name));
            }
            if let Some(moved) = moved_back {
                self.objects
                    .naming()
                    .note(&moved, &Reached::Child(&from, from_name));
            }
            Ok(held)
        })?;
        for object in held.iter().flatten() {
            let _ = self.objects.look(object, true); // releases what was replaced
        }
        if from.node() == to.node() {
            self.metadata_sync.names(&[&to])?;
        } else {
            self.metadata_sync.names(&[&to, &from])?;
        }
        Ok(changes)
    }

    fn change_directories<R>(
        &self,
        one: &Object,
        other: &Object,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<(R, (Change, Change))> {
        if one.node() == other.node() {
            let (done, change) = self.change_directory(one, act)?;
            return Ok((done, (change, change)));
        }
        // The lower first: two threads cannot deadlock.
        if one.node() > other.node() {
            let (done, (other, one)) = self.change_directories(other, one, act)?;
            return Ok((done, (one, other)));
        }
        let both = || self.change_directory(other, act);
        let ((done, other), one) = self.change_directory(one, both)?;
        Ok((done, (one, other)))
    }

    pub(super) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(FileAttributes, Change)> {
        Error::WouldBlock.unless(call.may_block)?;
        let object = self.objects.object(call, id)?;
        let directory = self.objects.directory(call, directory)?;
        pagewell_fs::name::check_new(name)?;
        self.objects.look(&object, true)?;
        Error::NotPermitted.when(object.is_directory())?; // as link(2) says
        let caller = self.objects.access().caller(call);
        let (status, change) = self.change_directory(&directory, || {
            let running = object.touch();
            self.objects.access().become_caller(&caller)?;
            let flags = AtFlags::SYMLINK_FOLLOW; // through /proc, to the object itself
            let source = object.link();
            rustix::fs::linkat(rustix::fs::CWD, source, directory.as_fd(), name, flags)
                .map_err(error_of)?;
            drop(running);
            object.status()
        })?;
        let reached = Reached::Child(&directory, name);
        self.objects.naming().note(object.id(), &reached);
        self.metadata_sync
            .new_name(&object, (false, false), &directory)?;
        Ok((object.entry(&status).attributes, change))
    }
}

impl Making<'_> {
    fn mode_or(&self, otherwise: u32) -> Mode {
        Mode::from_raw_mode(self.wanted.mode.unwrap_or(otherwise) & 0o7777)
    }

    fn file(&self, how: &CreateMode) -> Result<Made> {
        let mode = self.mode_or(FILE_MODE);
        let (objects, directory) = (&self.names.objects, self.directory.as_fd());
        for _ in 0..ATTEMPTS_MAX {
            self.names.objects.access().act_for(self.call)?;
            let create = || {
                objects
                    .bounds()
                    .resolver()
                    .create(directory, self.name, mode)
            };
            match objects.table().with_room(true, create) {
                Ok(opened) => return self.finish_file(OpenFile::new(opened)),
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
            }
            Error::Exists.when(matches!(how, CreateMode::Guarded(_)))?;
            match objects.find(self.call, self.directory, self.name) {
                Ok((object, status)) => return self.open_existing(object, status, how),
                Err(Error::NotFound) => {} // removed meanwhile
                Err(Error::AccessDenied) => return Err(Error::Exists),
                Err(error) => return Err(error),
            }
        }
        Err(Error::TryLater)
    }

    fn open_existing(
        &self,
        object: Arc<Object>,
        mut status: Status,
        how: &CreateMode,
    ) -> Result<Made> {
        let is_meant = match how {
            CreateMode::Exclusive(verifier) => is_same_creation(&status, *verifier),
            CreateMode::Unchecked(_) => true,
            CreateMode::Guarded(_) => false,
        };
        Error::Exists.when(object.file_type() != FileType::Regular || !is_meant)?;
        let size = self.wanted.size; // EXCLUSIVE asks for none
        if let Some(size) = size {
            let exclusion = object.exclude(true)?;
            let judge = self
                .names
                .objects
                .access()
                .judge(self.call, &object, &status);
            self.names.attributes.check_size(&judge, size)?;
            self.names.attributes.truncate(&judge, size)?;
            drop(exclusion);
            status = self.names.objects.look(&object, true)?;
        }
        Ok(Made {
            object,
            status,
            touched: size.is_some(),
            is_new: false,
        })
    }

    fn finish_file(&self, file: OpenFile) -> Result<Made> {
        let status = Status::of(&file)?;
        let objects = &self.names.objects;
        let reached = Reached::Child(self.directory, self.name);
        let id = objects.identify(file.as_fd(), &status, &reached)?;
        let object = objects.object_of(id, &status, file.clone())?;
        let object = objects.hold_open(object, &status, true);
        // Another call may have found the name and hold the object.
        object.keep_write(file);
        self.dress(object, status)
    }

    /// For an object created by name: opens what the name means now.
    fn finish(&self) -> Result<Made> {
        let (object, status) = self
            .names
            .objects
            .find(self.call, self.directory, self.name)?;
        // A local program replaced it at once.
        Error::TryLater.unless(object.file_type() == self.file_type)?;
        self.dress(object, status)
    }

    /// Sets the remaining attributes; removes the name when that fails.
    fn dress(&self, object: Arc<Object>, mut status: Status) -> Result<Made> {
        let Names {
            objects,
            attributes,
            ..
        } = self.names;
        let access = objects.access();
        let judge = access.judge(self.call, &object, &status);
        let rest = self.not_set_yet(&judge);
        let touched = rest != SetAttributes::default();
        if touched {
            if let Err(error) = attributes.apply(&judge, &rest) {
                if access.become_caller(judge.caller()).is_ok() {
                    let flags = removal_flags(object.is_directory());
                    let _ = rustix::fs::unlinkat(self.directory, self.name, flags);
                }
                let _ = objects.look(&object, true); // releases it if that was its only name
                return Err(error);
            }
            status = objects.look(&object, true)?;
        }
        Ok(Made {
            object,
            status,
            touched,
            is_new: true,
        })
    }

    /// The wanted attributes that creation did not set and the caller may set.
    fn not_set_yet(&self, judge: &Judge<'_>) -> SetAttributes {
        let (wanted, has, caller) = (&self.wanted, &judge.status().attributes, judge.caller());
        let is_other = |id: u32, now: u32| id != now && id != u32::MAX;
        let uid = wanted
            .uid
            .filter(|uid| is_other(*uid, has.uid) && caller.is_root());
        let gid = wanted
            .gid
            .filter(|gid| is_other(*gid, has.gid))
            .filter(|gid| caller.is_root() || caller.in_group(*gid));
        let size = wanted.size.filter(|size| *size > 0);
        // A change of owner or size clears these bits, and mkdir does not set them; a directory
        // keeps what it inherits: set-group-id, and the permissions of its default list, which may
        // be fewer than the wanted ones.
        let is_directory = self.file_type == FileType::Directory;
        let lacks = uid.is_some() || gid.is_some() || size.is_some() || is_directory;
        let mode = wanted.mode.filter(|mode| lacks && mode & 0o6000 != 0);
        SetAttributes {
            mode: mode.map(|mode| mode & 0o7000 | has.mode & 0o2777),
            uid,
            gid,
            size,
            accessed: wanted.accessed,
            modified: wanted.modified,
        }
    }
}

fn removal_flags(is_directory: bool) -> AtFlags {
    if is_directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    }
}

fn exclusive_times(verifier: [u8; 8]) -> [Timestamp; 2] {
    let [a, b, c, d, e, f, g, h] = verifier;
    [[a, b, c, d], [e, f, g, h]].map(|word| Timestamp {
        seconds: i64::from(u32::from_be_bytes(word) & 0x7fff_ffff),
        nanoseconds: 0,
    })
}

fn exclusive_attributes(verifier: [u8; 8]) -> SetAttributes {
    let [accessed, modified] = exclusive_times(verifier);
    SetAttributes {
        mode: Some(EXCLUSIVE_MODE),
        accessed: Some(SetTime::To(accessed)),
        modified: Some(SetTime::To(modified)),
        ..SetAttributes::default()
    }
}

fn is_same_creation(status: &Status, verifier: [u8; 8]) -> bool {
    let seconds = [
        status.attributes.accessed.seconds,
        status.attributes.modified.seconds,
    ];
    seconds == exclusive_times(verifier).map(|time| time.seconds) && status.attributes.size == 0
}
