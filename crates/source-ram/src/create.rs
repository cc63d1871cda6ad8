//! Making objects and giving them more names.

use std::sync::Arc;

use pagewell_fs::access::{EXECUTE, WRITE};
use pagewell_fs::{
    Attributes, Call, Change, CreateMode, Created, Credentials, Error, FileId, FileType, NodeKind,
    Result, SetAttributes, name,
};

use super::data::FileData;
use super::directory::Directory;
use super::inode::{Body, Inode, State, change};
use super::permission::{self, MODE_SET_GID, MODE_SET_UID, permit};
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
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        if let Some(number) = existing {
            let object = self.numbered(number)?;
            return self.reuse(call.credentials, &parent, &object, mode);
        }
        let body = Body::Regular(FileData::default());
        self.make(call.credentials, &parent, name, |directory| {
            let mut state =
                self.newborn(call.credentials, directory, body, default_mode, request)?;
            state.metadata.verifier = verifier;
            Ok(state)
        })
    }

    /// What a create does with a name that is there already.
    fn reuse(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        object: &Inode,
        mode: &CreateMode,
    ) -> Result<Created> {
        let mut state = object.write()?;
        let mut discarded = None;
        match mode {
            CreateMode::Exclusive(verifier) if state.metadata.verifier == Some(*verifier) => {}
            CreateMode::Unchecked(request) if matches!(state.body, Body::Regular(_)) => {
                let request = SetAttributes {
                    size: request.size,
                    ..SetAttributes::default()
                };
                setattr::check(credentials, &state, &request)?;
                discarded = Some(setattr::apply(
                    credentials,
                    &mut state,
                    &request,
                    &self.storage,
                )?);
            }
            _ => return Err(Error::Exists),
        }
        let entry = self.entry_of(object, &state);
        drop(state);
        drop(discarded);
        let directory = parent.read()?;
        let parent = change(directory.wcc(), self.attributes_of(parent, &directory));
        Ok(Created { entry, parent })
    }

    pub(super) fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        self.make_new(call, directory, name, |parent, directory| {
            if directory.metadata.link_count >= LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            let body = Body::Directory(Directory::new(parent.number));
            self.newborn(call.credentials, directory, body, DIRECTORY_MODE, *request)
        })
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
        self.make_new(call, directory, name, |_, directory| {
            let body = Body::Symlink(target.into());
            let request = SetAttributes {
                mode: None,
                ..*request
            };
            self.newborn(call.credentials, directory, body, SYMLINK_MODE, request)
        })
    }

    pub(super) fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        request: &SetAttributes,
    ) -> Result<Created> {
        self.make_new(call, directory, name, |_, directory| {
            let body = match kind {
                NodeKind::CharacterDevice(major, minor) => Body::CharacterDevice(major, minor),
                NodeKind::BlockDevice(major, minor) => Body::BlockDevice(major, minor),
                NodeKind::Socket => Body::Socket,
                NodeKind::Fifo => Body::Fifo,
            };
            let device = matches!(body, Body::CharacterDevice(..) | Body::BlockDevice(..));
            if device && call.credentials.uid != 0 {
                return Err(Error::NotPermitted);
            }
            self.newborn(call.credentials, directory, body, FILE_MODE, *request)
        })
    }

    /// Makes what `build` makes of a directory there, under a name that must not exist.
    fn make_new(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        build: impl FnOnce(&Inode, &State) -> Result<State>,
    ) -> Result<Created> {
        name::check_new(name)?;
        let _tree = self.lock_names();
        let (parent, existing) = self.place(call.credentials, directory, name)?;
        permit(existing.is_none(), Error::Exists)?;
        self.make(call.credentials, &parent, name, |directory| {
            build(&parent, directory)
        })
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
            permission::check_directory(credentials, &state, EXECUTE)?;
            directory.find(name)
        };
        Ok((inode, found))
    }

    /// A new object for the caller, with the attributes asked for. An owner or a group that the
    /// caller may not give is left out, as other NFS servers do: clients send them unasked.
    fn newborn(
        &self,
        credentials: &Credentials,
        directory: &State,
        body: Body,
        default_mode: u32,
        request: SetAttributes,
    ) -> Result<State> {
        let file_type = body.file_type();
        let is_regular = file_type == FileType::Regular;
        if request.size.is_some_and(|size| size != 0) && !is_regular {
            return Err(Error::Invalid);
        }
        let directory = &directory.metadata;
        let inherited = directory.mode & MODE_SET_GID;
        let gid = if inherited == 0 {
            credentials.gid
        } else {
            directory.gid
        };
        let mode = request.mode.unwrap_or(default_mode) & MODE_BITS;
        let first_mode = permission::mode_at_birth(credentials, directory, file_type, mode);
        let mut state = State::new(body, first_mode, credentials.uid, gid);
        let is_root = credentials.uid == 0;
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
        setattr::check(credentials, &state, &request)?;
        let _nothing_cut = setattr::apply(credentials, &mut state, &request, &self.storage)?;
        Ok(state)
    }

    /// Puts the object that `build` makes into a directory under a name that is not there.
    fn make(
        &self,
        credentials: &Credentials,
        parent: &Inode,
        name: &[u8],
        build: impl FnOnce(&State) -> Result<State>,
    ) -> Result<Created> {
        let mut directory = parent.write()?;
        permission::check_directory(credentials, &directory, WRITE | EXECUTE)?;
        let state = build(&directory)?;
        self.storage
            .quota
            .take_or_refuse(name_charge(name) + state.charge())?;
        let before = directory.wcc();
        let number = self.table.next_number();
        let entry = pagewell_fs::Entry {
            id: self.id_of(number),
            attributes: state.attributes(number, self.filesystem_id()),
        };
        if state.body.file_type().is_directory() {
            directory.metadata.link_count += 1;
        }
        self.table.insert(number, state);
        directory.directory_mut()?.insert(name, number);
        directory.touch_modified();
        Ok(Created {
            entry,
            parent: change(before, self.attributes_of(parent, &directory)),
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
        permission::check_directory(call.credentials, &directory, WRITE | EXECUTE)?;
        if object.is_directory() {
            return Err(Error::NotPermitted);
        }
        let mut state = object.write()?;
        if state.metadata.link_count == 0 {
            return Err(Error::NotFound); // open, and without a name for good
        }
        if state.metadata.link_count >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.storage.quota.take_or_refuse(name_charge(name))?;
        let before = directory.wcc();
        state.metadata.link_count += 1;
        state.touch_changed();
        directory.directory_mut()?.insert(name, object.number);
        directory.touch_modified();
        Ok((
            self.attributes_of(&object, &state),
            change(before, self.attributes_of(&parent, &directory)),
        ))
    }
}
