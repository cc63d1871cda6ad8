//! Making objects and giving them more names.

use std::sync::Arc;

use pagewell_fs::access::{EXECUTE, WRITE};
use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Credentials, Error, FileId, FileType, NodeKind,
    Result, SetAttributes, name,
};

use super::data::{FileData, Pages};
use super::directory::Directory;
use super::inode::{Body, Inode, InodeState};
use super::permission::{self, MODE_SET_GID, MODE_SET_UID, check_mode, permit};
use super::quota::name_charge;
use super::tree::Tree;
use super::{LINKS_MAX, MODE_BITS, setattr};

/// Modes of objects made without one.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const SYMLINK_MODE: u32 = 0o777;
/// An exclusive create carries no attributes: no other user gets at the file until they come.
const EXCLUSIVE_MODE: u32 = 0o600;

/// Longest target of a symbolic link, as on Linux (`PATH_MAX` without the NUL).
const TARGET_BYTES_MAX: usize = 4095;

/// An object to be made.
struct New {
    body: Body,
    /// Unless the request has one.
    default_mode: u32,
    request: SetAttributes,
    /// Of an exclusive create.
    verifier: Option<[u8; 8]>,
}

impl Tree {
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        name::check_new(name)?;
        let (request, default_mode, verifier) = match mode {
            CreateMode::Unchecked(request) | CreateMode::Guarded(request) => {
                (*request, FILE_MODE, None)
            }
            CreateMode::Exclusive(verifier) => {
                (SetAttributes::default(), EXCLUSIVE_MODE, Some(*verifier))
            }
        };
        setattr::check_values(&request)?;
        let new = New {
            body: Body::Regular(FileData::default()),
            default_mode,
            request,
            verifier,
        };
        // Before the lock, so that it is dropped after it.
        let mut discarded = Pages::default();
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        match existing {
            Some(number) => self.reuse(call.credentials, &parent, (number, mode), &mut discarded),
            None => self.make(call.credentials, &parent, name, new),
        }
    }

    /// What a create does with a name that is there already. `discarded` is to be dropped when no
    /// lock is held.
    fn reuse(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        (number, mode): (u64, &CreateMode),
        discarded: &mut Pages,
    ) -> Result<Created> {
        let object = self.numbered(number)?;
        let mut state = object.write()?;
        match mode {
            CreateMode::Exclusive(verifier) if state.verifier == Some(*verifier) => {}
            CreateMode::Unchecked(request) if matches!(state.body, Body::Regular(_)) => {
                let request = SetAttributes {
                    size: request.size,
                    ..SetAttributes::default()
                };
                *discarded = setattr::set(credentials, &mut state, &request, &self.storage)?;
            }
            _ => return Err(Error::Exists),
        }
        let entry = self.entry_of(state.attributes());
        drop(state);
        let parent = parent.no_change()?;
        Ok(Created { entry, parent })
    }

    pub(super) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        // It gets its parent when it is put there.
        let body = Body::Directory(Box::new(Directory::new(0)));
        self.make_new(call, directory, name, body, DIRECTORY_MODE, *request)
    }

    pub(super) fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let body = Body::Symlink(target.into());
        let request = SetAttributes {
            mode: None,
            ..*request
        };
        self.make_new(call, directory, name, body, SYMLINK_MODE, request)
    }

    pub(super) fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        request: &SetAttributes,
    ) -> Result<Created> {
        let (file_type, device) = match kind {
            NodeKind::CharacterDevice(major, minor) => (FileType::CharacterDevice, (major, minor)),
            NodeKind::BlockDevice(major, minor) => (FileType::BlockDevice, (major, minor)),
            NodeKind::Socket => (FileType::Socket, (0, 0)),
            NodeKind::Fifo => (FileType::Fifo, (0, 0)),
        };
        let body = Body::Special(file_type, device);
        self.make_new(call, directory, name, body, FILE_MODE, *request)
    }

    /// Makes an object under a name that must not exist.
    fn make_new(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        body: Body,
        default_mode: u32,
        request: SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        permit(existing.is_none(), Error::Exists)?;
        let new = New {
            body,
            default_mode,
            request,
            verifier: None,
        };
        self.make(call.credentials, &parent, name, new)
    }

    /// The directory and what `name` means in it. To be called with the tree locked.
    pub(super) fn place(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Arc<Inode>, Option<u64>)> {
        let inode = self.inode(directory)?;
        let found = {
            let state = inode.read()?;
            let directory = state.living_directory()?;
            check_mode(credentials, &state.metadata, EXECUTE)?;
            directory.find(name)
        };
        Ok((inode, found))
    }

    /// A new object for the caller, with the attributes asked for. An owner or a group that the
    /// caller may not give is left out, as other NFS servers do: clients send them unasked.
    fn newborn(
        &self,
        credentials: &Credentials,
        directory: &Attributes,
        new: New,
    ) -> Result<InodeState> {
        let (request, is_root) = (new.request, credentials.uid == 0);
        let inherited = directory.mode & MODE_SET_GID;
        let gid = if inherited == 0 {
            credentials.gid
        } else {
            directory.gid
        };
        let mode = request.mode.unwrap_or(new.default_mode) & MODE_BITS;
        let mut state = InodeState::new(new.body, mode, credentials.uid, gid);
        let file_type = state.metadata.file_type;
        match file_type {
            FileType::Directory if directory.link_count >= LINKS_MAX => {
                return Err(Error::TooManyLinks);
            }
            FileType::CharacterDevice | FileType::BlockDevice if !is_root => {
                return Err(Error::NotPermitted);
            }
            FileType::Regular => {}
            _ if request.size.is_some_and(|size| size != 0) => return Err(Error::Invalid),
            _ => {}
        }
        let first_mode = permission::mode_at_birth(credentials, directory, file_type, mode);
        state.metadata.mode = first_mode;
        let uid = request
            .uid
            .filter(|uid| is_root && *uid != credentials.uid && *uid != u32::MAX);
        let gid = request
            .gid
            .filter(|new| *new != gid && *new != u32::MAX)
            .filter(|new| is_root || credentials.in_group(*new));
        let size = request.size.filter(|size| *size != 0);
        // A change of owner or size takes set-user-id away, and mkdir(2) does not give it.
        let again = file_type.is_directory() || uid.is_some() || gid.is_some() || size.is_some();
        let special = mode & (MODE_SET_UID | MODE_SET_GID) != 0;
        let request = SetAttributes {
            mode: (special && again).then_some(mode | first_mode & MODE_SET_GID),
            uid,
            gid,
            size,
            ..request
        };
        let _nothing_cut = setattr::set(credentials, &mut state, &request, &self.storage)?;
        state.verifier = new.verifier;
        Ok(state)
    }

    /// Puts a new object into a directory under a name that is not there.
    fn make(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        name: &[u8],
        new: New,
    ) -> Result<Created> {
        let mut directory = parent.write()?;
        check_mode(credentials, &directory.metadata, WRITE | EXECUTE)?;
        let mut state = self.newborn(credentials, &directory.metadata, new)?;
        let charge = name_charge(name) + state.charge();
        self.storage.quota.take(charge)?;
        let before = directory.wcc();
        if let Body::Directory(new) = &mut state.body {
            new.parent = parent.number;
            directory.metadata.link_count += 1;
        }
        let made = self.insert(state);
        directory.directory_mut()?.insert(name, made.file_id);
        directory.touch_modified();
        Ok(Created {
            entry: self.entry_of(made),
            parent: directory.change_since(before),
        })
    }

    pub(super) fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        name::check_new(name)?;
        let _tree = self.lock_names();
        let object = self.inode(id)?;
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        permit(existing.is_none(), Error::Exists)?;
        let mut directory = parent.write()?;
        check_mode(call.credentials, &directory.metadata, WRITE | EXECUTE)?;
        if object.is_directory {
            return Err(Error::NotPermitted);
        }
        let mut state = object.write()?;
        if state.metadata.link_count == 0 {
            return Err(Error::NotFound); // open, and without a name for good
        }
        if state.metadata.link_count >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.storage.quota.take(name_charge(name))?;
        let before = directory.wcc();
        state.metadata.link_count += 1;
        state.touch_changed();
        directory.directory_mut()?.insert(name, object.number);
        directory.touch_modified();
        Ok((state.attributes(), directory.change_since(before)))
    }
}
