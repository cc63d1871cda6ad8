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
use super::identity::Caller;
use super::naming::Place;
use super::object::Object;
use super::permission::has_default_list;
use super::set_attributes::{change_mode, change_owner, check_nanoseconds, set_times};
use super::status::Status;
use pagewell_fs::{
    Call, Change, CreateMode, Created, Entry, Error, FileId, FileType, NodeKind, OpenFile, Result,
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

impl Tree {
    /// [`pagewell_fs::FileSystem::create`].
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        self.make(call, directory, name, |directory, caller| {
            self.create_file(call, directory, name, mode, caller)
        })
    }

    /// [`pagewell_fs::FileSystem::make_directory`].
    pub(super) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        check_new_attributes(attributes, FileType::Directory)?;
        self.make(call, directory, name, |directory, caller| {
            let attributes = &self.masked(call, directory, attributes)?;
            let mode = Mode::from_raw_mode(attributes.mode.unwrap_or(DIRECTORY_MODE) & 0o7777);
            rustix::fs::mkdirat(directory.as_fd(), name, mode).map_err(error_of)?;
            self.finish(
                call,
                directory,
                name,
                FileType::Directory,
                attributes,
                caller,
            )
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
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        // a link has no mode on Linux, and clients send one
        let attributes = SetAttributes {
            mode: None,
            ..*attributes
        };
        check_new_attributes(&attributes, FileType::Symlink)?;
        self.make(call, directory, name, |directory, caller| {
            rustix::fs::symlinkat(target, directory.as_fd(), name).map_err(error_of)?;
            self.finish(
                call,
                directory,
                name,
                FileType::Symlink,
                &attributes,
                caller,
            )
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
        let (file_type, raw, (major, minor)) = match kind {
            NodeKind::CharacterDevice(major, minor) => (
                FileType::CharacterDevice,
                rustix::fs::FileType::CharacterDevice,
                (major, minor),
            ),
            NodeKind::BlockDevice(major, minor) => (
                FileType::BlockDevice,
                rustix::fs::FileType::BlockDevice,
                (major, minor),
            ),
            NodeKind::Socket => (FileType::Socket, rustix::fs::FileType::Socket, (0, 0)),
            NodeKind::Fifo => (FileType::Fifo, rustix::fs::FileType::Fifo, (0, 0)),
        };
        check_new_attributes(attributes, file_type)?;
        self.make(call, directory, name, |directory, caller| {
            let attributes = &self.masked(call, directory, attributes)?;
            let mode = Mode::from_raw_mode(attributes.mode.unwrap_or(FILE_MODE) & 0o7777);
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(directory.as_fd(), name, raw, mode, device).map_err(error_of)?;
            self.finish(call, directory, name, file_type, attributes, caller)
        })
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
        if mode & umask == 0 || self.has_acls && has_default_list(&directory.link())? {
            return Ok(*wanted);
        }
        Ok(SetAttributes {
            mode: Some(mode & !umask),
            ..*wanted
        })
    }

    /// The common frame: lock, look, make as the caller, look, unlock, sync.
    fn make(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        act: impl FnOnce(&Object, &Caller<'_>) -> Result<Made>,
    ) -> Result<Created> {
        blocking::may_wait(call)?;
        let directory = self.directory(call, directory)?;
        pagewell_fs::name::check_new(name)?;
        let caller = self.acting.caller(call);
        let (made, parent) = self.change_directory(&directory, || {
            self.acting.become_caller(&caller)?;
            act(&directory, &caller)
        })?;
        let Made { object, status, .. } = &made;
        if made.is_new || made.touched {
            self.sync_new(object, made.touched, &directory)?;
        } else {
            self.sync_found(object, &directory)?;
        }
        Ok(Created {
            entry: Entry {
                id: object.id,
                attributes: self.attributes_of(status),
            },
            parent,
        })
    }

    /// Runs a change of a directory's names between two looks that no other change through
    /// Pagewell can come between.
    pub(super) fn change_directory<R>(
        &self,
        directory: &Object,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<(R, Change)> {
        let locked = self.stripes.lock(directory.node);
        let running = directory.changes().begin();
        let before = self.look(directory)?;
        let done = act()?;
        let after = directory.status().ok();
        let alone = running.was_alone();
        drop((running, locked));
        Ok((done, self.change(&before, after.as_ref(), alone)))
    }

    fn create_file(
        &self,
        call: &Call<'_>,
        directory: &Object,
        name: &[u8],
        how: &CreateMode,
        caller: &Caller<'_>,
    ) -> Result<Made> {
        let wanted = match how {
            CreateMode::Unchecked(wanted) | CreateMode::Guarded(wanted) => *wanted,
            CreateMode::Exclusive(verifier) => exclusive_attributes(*verifier),
        };
        check_new_attributes(&wanted, FileType::Regular)?;
        if wanted
            .size
            .is_some_and(|size| size > self.limits.file_bytes_max)
        {
            return Err(Error::FileTooLarge);
        }
        let wanted = self.masked(call, directory, &wanted)?;
        let mode = wanted.mode.unwrap_or(FILE_MODE) & 0o7777;
        for _ in 0..ATTEMPTS_MAX {
            self.acting.become_caller(caller)?;
            match self.resolver.create(directory.as_fd(), name, mode) {
                Ok(opened) => {
                    let file = OpenFile::new(opened);
                    return self.finish_file(directory, name, file, &wanted, caller);
                }
                Err(Error::Exists) => {}
                Err(error) => return Err(error),
            }
            if matches!(how, CreateMode::Guarded(_)) {
                return Err(Error::Exists);
            }
            match self.find(call, directory, name) {
                Ok((object, status)) => {
                    return self.open_existing(object, status, how, caller);
                }
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
        status: Status,
        how: &CreateMode,
        caller: &Caller<'_>,
    ) -> Result<Made> {
        if object.file_type != FileType::Regular {
            return Err(Error::Exists);
        }
        let kept = |status, touched, object| Made {
            object,
            status,
            touched,
            is_new: false,
        };
        match how {
            CreateMode::Exclusive(verifier) if is_same_creation(&status, *verifier) => {
                Ok(kept(status, false, object))
            }
            CreateMode::Unchecked(wanted) => {
                let Some(size) = wanted.size else {
                    return Ok(kept(status, false, object));
                };
                let locked = object.lock_contents(true);
                let running = object.changes().begin();
                self.check_size(&object, &status, caller, size)?;
                self.truncate(&object, caller, size)?;
                drop((running, locked));
                let status = self.look(&object)?;
                Ok(kept(status, true, object))
            }
            _ => Err(Error::Exists),
        }
    }

    /// Turns a file that was just made, and is open for writing, into a held object.
    fn finish_file(
        &self,
        directory: &Object,
        name: &[u8],
        file: OpenFile,
        wanted: &SetAttributes,
        caller: &Caller<'_>,
    ) -> Result<Made> {
        let status = Status::of(&file)?;
        let place = Place::Child(directory, name);
        let id = self.identify(file.as_fd(), &status, &place)?;
        let object = Object::new(id, &status, file.clone())?;
        object.keep_write(file);
        let object = self.hold_object(object, &status, true)?;
        self.dress(directory, name, object, status, wanted, caller)
    }

    /// The same for what was made by name: opens what the name means now.
    fn finish(
        &self,
        call: &Call<'_>,
        directory: &Object,
        name: &[u8],
        file_type: FileType,
        wanted: &SetAttributes,
        caller: &Caller<'_>,
    ) -> Result<Made> {
        let (object, status) = self.find(call, directory, name)?;
        if object.file_type != file_type {
            return Err(Error::TryLater); // a local program replaced it at once
        }
        self.dress(directory, name, object, status, wanted, caller)
    }

    /// Sets what creation itself did not set; takes the name away again when that fails.
    fn dress(
        &self,
        directory: &Object,
        name: &[u8],
        object: Arc<Object>,
        status: Status,
        wanted: &SetAttributes,
        caller: &Caller<'_>,
    ) -> Result<Made> {
        self.acting.become_caller(caller)?;
        match self.dress_object(&object, &status, wanted, caller) {
            Ok(touched) => Ok(Made {
                status: if touched { self.look(&object)? } else { status },
                object,
                touched,
                is_new: true,
            }),
            Err(error) => {
                let flags = if object.is_directory() {
                    AtFlags::REMOVEDIR
                } else {
                    AtFlags::empty()
                };
                if self.acting.become_caller(caller).is_ok() {
                    let _ = rustix::fs::unlinkat(directory.as_fd(), name, flags);
                }
                let _ = self.look(&object); // lets go of it if that was its only name
                Err(error)
            }
        }
    }

    fn dress_object(
        &self,
        object: &Object,
        status: &Status,
        wanted: &SetAttributes,
        caller: &Caller<'_>,
    ) -> Result<bool> {
        let is_other = |id: u32, now: u32| id != now && id != u32::MAX;
        let uid = wanted
            .uid
            .filter(|uid| is_other(*uid, status.attributes.uid) && caller.is_root());
        let gid = wanted
            .gid
            .filter(|gid| is_other(*gid, status.attributes.gid))
            .filter(|gid| caller.is_root() || caller.in_group(*gid));
        let owner = uid.is_some() || gid.is_some();
        if owner {
            change_owner(object, uid, gid)?;
        }
        let is_file = object.file_type == FileType::Regular;
        let size = wanted.size.filter(|size| is_file && *size > 0);
        if let Some(size) = size {
            self.truncate(object, caller, size)?;
        }
        // changing the owner or the size takes these bits away, and mkdir does not set them at all;
        // what a directory inherits from its parent stays, set-group-id and permissions: those of
        // its default list may be fewer than were asked for
        let special = wanted.mode.unwrap_or(0) & 0o6000;
        let mode = special != 0 && (owner || size.is_some() || object.is_directory());
        if mode {
            let inherited = status.attributes.mode & 0o2777;
            change_mode(object, wanted.mode.unwrap_or(0) & 0o7000 | inherited)?;
        }
        let times = wanted.accessed.is_some() || wanted.modified.is_some();
        if times {
            set_times(object, wanted.accessed, wanted.modified)?;
        }
        Ok(owner || size.is_some() || mode || times)
    }
}

/// Refuses what no creation can be asked for.
fn check_new_attributes(wanted: &SetAttributes, file_type: FileType) -> Result<()> {
    if wanted.size.is_some_and(|size| size != 0) && file_type != FileType::Regular {
        return Err(Error::Invalid);
    }
    check_nanoseconds(wanted)
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
