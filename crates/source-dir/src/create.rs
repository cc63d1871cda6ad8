//! Making objects: files, directories, symbolic links, devices, sockets and pipes.
//!
//! An object is made as its caller with the mode asked for (the process' umask is 0); owner, size
//! and times that were asked for are set right after. What cannot be set at creation because the
//! caller may not give objects away (owner, a group that is not the caller's) is left as the
//! system chose it, as other NFS servers do: clients send it unasked, and the reply tells the
//! truth. When something else fails, the new name is removed again.
//!
//! EXCLUSIVE: the verifier is kept in the times of the file, 31 bits in each (one bit less than it
//! has, because not every file system can keep times before 1970 or after 2038), so that it
//! survives a restart. A second call with the same verifier finds the file still empty and with
//! those times: it is the same call. The first set-attributes of the client sets the times.

use super::Tree;
use super::blocking;
use super::error_of;
use super::object::Object;
use super::objects::Place;
use super::permission::{Judge, has_default_list};
use super::status::Status;
use pagewell_fs::{
    Call, Change, CreateMode, Created, Error, FileId, FileType, NodeKind, OpenFile, Result,
    SetAttributes, SetTime, Timestamp,
};
use rustix::fs::{AtFlags, Mode};
use std::os::fd::AsFd;
use std::sync::Arc;

/// For files and nodes made without a mode.
const FILE_MODE: u32 = 0o644;
/// For directories made without a mode.
const DIRECTORY_MODE: u32 = 0o755;
/// For EXCLUSIVE files, until the client's set-attributes.
const EXCLUSIVE_MODE: u32 = 0o600;
/// How often a name may vanish between "exists" and opening it before the caller is told to retry.
const ATTEMPTS_MAX: usize = 16;
/// Longest target of a symbolic link on Linux (PATH_MAX with its NUL).
const TARGET_BYTES_MAX: usize = 4095;

/// An object that is there now, and how it came.
struct Made {
    object: Arc<Object>,
    status: Status,
    /// Attributes were changed after it was made, or it was there before and was truncated.
    touched: bool,
    is_new: bool,
}

/// An object that is to be made, as its caller.
struct Making<'a> {
    tree: &'a Tree,
    call: &'a Call<'a>,
    directory: &'a Object,
    name: &'a [u8],
    file_type: FileType,
    /// Without what the umask keeps back.
    wanted: SetAttributes,
}

impl Tree {
    /// [`pagewell_fs::FileSystem::create`].
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

    /// [`pagewell_fs::FileSystem::make_directory`].
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

    /// [`pagewell_fs::FileSystem::make_symlink`].
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
        // a link has no mode on Linux, and clients send one
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

    /// [`pagewell_fs::FileSystem::make_node`].
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

    /// The common frame: lock, look, make as the caller, look, unlock, sync.
    fn make(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        (file_type, wanted): (FileType, &SetAttributes),
        act: impl FnOnce(&Making<'_>) -> Result<Made>,
    ) -> Result<Created> {
        self.check_new(file_type, wanted)?;
        blocking::may_wait(call)?;
        let directory = self.directory(call, directory)?;
        pagewell_fs::name::check_new(name)?;
        let (made, parent) = self.change_directory(&directory, || {
            self.acting.become_caller(&self.acting.caller(call))?;
            act(&Making {
                tree: self,
                call,
                directory: &directory,
                name,
                file_type,
                wanted: self.masked(call, &directory, wanted)?,
            })
        })?;
        self.sync_new(&made.object, (made.is_new, made.touched), &directory)?;
        Ok(Created {
            entry: made.object.entry(&made.status),
            parent,
        })
    }

    /// Refuses what no creation can be asked for.
    fn check_new(&self, file_type: FileType, wanted: &SetAttributes) -> Result<()> {
        let is_file = file_type == FileType::Regular;
        match wanted.size {
            Some(1..) if !is_file => Err(Error::Invalid),
            Some(size) if size > self.limits.file_bytes_max => Err(Error::FileTooLarge),
            _ if !wanted.has_valid_times() => Err(Error::Invalid),
            _ => Ok(()),
        }
    }

    /// What is given of `wanted`: the caller's umask keeps permissions back, unless the directory
    /// has a list that says which are given. Then the file system beneath goes by that.
    fn masked(
        &self,
        call: &Call<'_>,
        directory: &Object,
        wanted: &SetAttributes,
    ) -> Result<SetAttributes> {
        let (mode, umask) = (wanted.mode.unwrap_or(0), call.credentials.umask());
        if mode & umask == 0 || self.limits.access_lists && has_default_list(&directory.link())? {
            return Ok(*wanted);
        }
        Ok(SetAttributes {
            mode: Some(mode & !umask),
            ..*wanted
        })
    }

    /// Runs a change of a directory's names between two looks that no other change through
    /// Pagewell can come between.
    pub(super) fn change_directory<R>(
        &self,
        directory: &Object,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<(R, Change)> {
        let changing = self.begin_change(directory, true)?;
        let done = act()?;
        Ok((done, changing.end()))
    }
}

impl Making<'_> {
    /// The mode that is asked for.
    fn mode_or(&self, otherwise: u32) -> Mode {
        Mode::from_raw_mode(self.wanted.mode.unwrap_or(otherwise) & 0o7777)
    }

    fn file(&self, how: &CreateMode) -> Result<Made> {
        let mode = self.mode_or(FILE_MODE);
        let (tree, directory) = (self.tree, self.directory.as_fd());
        for _ in 0..ATTEMPTS_MAX {
            tree.acting.become_caller(&tree.acting.caller(self.call))?;
            let create = || tree.resolver.create(directory, self.name, mode);
            match tree.with_room(true, create) {
                Ok(opened) => return self.finish_file(OpenFile::new(opened)),
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
            }
            Error::Exists.when(matches!(how, CreateMode::Guarded(_)))?;
            match tree.find(self.call, self.directory, self.name) {
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
        Error::Exists.when(object.file_type != FileType::Regular || !is_meant)?;
        let size = self.wanted.size; // EXCLUSIVE asks for none
        if let Some(size) = size {
            let locked = object.contents.lock();
            let running = object.changes.begin();
            let judge = self.tree.judge(self.call, &object, &status);
            judge.check_size(size)?;
            judge.truncate(size)?;
            drop((running, locked));
            status = self.tree.look(&object, true)?;
        }
        Ok(Made {
            object,
            status,
            touched: size.is_some(),
            is_new: false,
        })
    }

    /// Turns a file that was just made, and is open for writing, into a held object.
    fn finish_file(&self, file: OpenFile) -> Result<Made> {
        let status = Status::of(&file)?;
        let place = Place::Child(self.directory, self.name);
        let id = self.tree.identify(file.as_fd(), &status, &place)?;
        let object = Object::new(id, &status, file.clone());
        let object = self.tree.hold_open(object, &status, true)?;
        // Another call may have found it by its name and be the one that holds it.
        object.keep_write(file);
        self.dress(object, status)
    }

    /// The same for what was made by name: opens what the name means now.
    fn finish(&self) -> Result<Made> {
        let (object, status) = self.tree.find(self.call, self.directory, self.name)?;
        // a local program replaced it at once
        Error::TryLater.unless(object.file_type == self.file_type)?;
        self.dress(object, status)
    }

    /// Sets what creation itself did not set; takes the name away again when that fails.
    fn dress(&self, object: Arc<Object>, mut status: Status) -> Result<Made> {
        let tree = self.tree;
        let judge = tree.judge(self.call, &object, &status);
        let rest = self.not_set_yet(&judge);
        let touched = rest != SetAttributes::default();
        if touched {
            if let Err(error) = judge.apply(&rest) {
                if tree.acting.become_caller(&judge.caller).is_ok() {
                    let flags = removal_flags(object.is_directory());
                    let _ = rustix::fs::unlinkat(self.directory, self.name, flags);
                }
                let _ = tree.look(&object, true); // lets go of it if that was its only name
                return Err(error);
            }
            status = tree.look(&object, true)?;
        }
        Ok(Made {
            object,
            status,
            touched,
            is_new: true,
        })
    }

    /// What of the attributes creation did not set, and the caller may.
    fn not_set_yet(&self, judge: &Judge<'_>) -> SetAttributes {
        let (wanted, has, caller) = (&self.wanted, &judge.status.attributes, &judge.caller);
        let is_other = |id: u32, now: u32| id != now && id != u32::MAX;
        let uid = wanted
            .uid
            .filter(|uid| is_other(*uid, has.uid) && caller.is_root());
        let gid = wanted
            .gid
            .filter(|gid| is_other(*gid, has.gid))
            .filter(|gid| caller.is_root() || caller.in_group(*gid));
        let size = wanted.size.filter(|size| *size > 0);
        // changing the owner or the size takes these bits away, and mkdir does not set them at all;
        // what a directory inherits from its parent stays, set-group-id and permissions: those of
        // its default list may be fewer than were asked for
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

/// How a name of a directory, or of anything else, is removed.
pub(super) fn removal_flags(is_directory: bool) -> AtFlags {
    if is_directory {
        AtFlags::REMOVEDIR
    } else {
        AtFlags::empty()
    }
}

fn exclusive_times(verifier: [u8; 8]) -> [Timestamp; 2] {
    let [a, b, c, d, e, f, g, h] = verifier;
    [[a, b, c, d], [e, f, g, h]].map(|half| Timestamp {
        seconds: i64::from(u32::from_be_bytes(half) & 0x7fff_ffff),
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
