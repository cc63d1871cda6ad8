//! Making objects and giving them more names.

use std::sync::Arc;

use super::data::FileData;
use super::directory::Directory;
use super::inode::{Body, Inode, State, change};
use super::permission::{self, EXECUTE, MODE_SET_GID, WRITE};
use super::quota::name_charge;
use super::{LINKS_MAX, RamFileSystem, setattr};
use crate::{
    Attributes, Change, CreateMode, Created, Credentials, Error, FileId, NodeKind, Result,
    SetAttributes, name,
};

/// Modes of objects made without one.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const SYMLINK_MODE: u32 = 0o777;
/// An exclusive create carries no attributes: nobody else gets at the file until they come.
const EXCLUSIVE_MODE: u32 = 0o600;

/// Longest target of a symbolic link, as on Linux (`PATH_MAX` without the NUL).
const TARGET_BYTES_MAX: usize = 4095;

impl RamFileSystem {
    pub(super) fn create_file(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        name::check_new(name)?;
        let tree = self.lock_tree();
        let (parent, existing) = self.place(credentials, directory, name)?;
        if let Some(number) = existing {
            let object = self.numbered(number)?;
            let created = self.reuse(credentials, &parent, &object, mode);
            drop(tree);
            return created;
        }
        let body = Body::Regular(FileData::default());
        self.make(credentials, &parent, name, |directory| {
            let (request, default_mode, verifier) = match mode {
                CreateMode::Unchecked(request) | CreateMode::Guarded(request) => {
                    (*request, FILE_MODE, None)
                }
                CreateMode::Exclusive(verifier) => {
                    (SetAttributes::default(), EXCLUSIVE_MODE, Some(*verifier))
                }
            };
            let mut state = self.newborn(credentials, directory, body, default_mode, request)?;
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
                    &self.quota,
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

    pub(super) fn create_directory(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        name: &[u8],
        request: &SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        let _tree = self.lock_tree();
        let (parent, existing) = self.place(credentials, directory, name)?;
        refuse_existing(existing)?;
        let body = Body::Directory(Directory::new(parent.number));
        self.make(credentials, &parent, name, |directory| {
            if directory.metadata.link_count >= LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            let mut state = self.newborn(credentials, directory, body, DIRECTORY_MODE, *request)?;
            state.metadata.mode |= directory.metadata.mode & MODE_SET_GID;
            Ok(state)
        })
    }

    pub(super) fn create_symlink(
        &self,
        credentials: &Credentials,
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
        let _tree = self.lock_tree();
        let (parent, existing) = self.place(credentials, directory, name)?;
        refuse_existing(existing)?;
        self.make(credentials, &parent, name, |directory| {
            let body = Body::Symlink(target.into());
            let request = SetAttributes {
                mode: None,
                ..*request
            };
            self.newborn(credentials, directory, body, SYMLINK_MODE, request)
        })
    }

    pub(super) fn create_node(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        request: &SetAttributes,
    ) -> Result<Created> {
        name::check_new(name)?;
        let _tree = self.lock_tree();
        let (parent, existing) = self.place(credentials, directory, name)?;
        refuse_existing(existing)?;
        let body = match kind {
            NodeKind::CharacterDevice(major, minor) => Body::CharacterDevice(major, minor),
            NodeKind::BlockDevice(major, minor) => Body::BlockDevice(major, minor),
            NodeKind::Socket => Body::Socket,
            NodeKind::Fifo => Body::Fifo,
        };
        self.make(credentials, &parent, name, |directory| {
            let device = matches!(body, Body::CharacterDevice(..) | Body::BlockDevice(..));
            if device && credentials.uid != 0 {
                return Err(Error::NotPermitted);
            }
            self.newborn(credentials, directory, body, FILE_MODE, *request)
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
            let directory = state.directory()?;
            permission::check_directory(credentials, &state, EXECUTE)?;
            directory.find(name)
        };
        Ok((inode, found))
    }

    /// A new object for the caller, with the attributes asked for.
    fn newborn(
        &self,
        credentials: &Credentials,
        directory: &State,
        body: Body,
        default_mode: u32,
        request: SetAttributes,
    ) -> Result<State> {
        let gid = if directory.metadata.mode & MODE_SET_GID != 0 {
            directory.metadata.gid
        } else {
            credentials.gid
        };
        let mut state = State::new(body, default_mode, credentials.uid, gid);
        let request = SetAttributes {
            size: request
                .size
                .filter(|_| matches!(state.body, Body::Regular(_))),
            ..request
        };
        setattr::check(credentials, &state, &request)?;
        let _nothing_cut = setattr::apply(credentials, &mut state, &request, &self.quota)?;
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
        self.quota
            .take_or_refuse(name_charge(name) + state.charge())?;
        let before = directory.wcc();
        let number = self.table.next_number();
        let entry = crate::Entry {
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

    pub(super) fn link_name(
        &self,
        credentials: &Credentials,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        name::check_new(name)?;
        let _tree = self.lock_tree();
        let object = self.inode(id)?;
        let (parent, existing) = self.place(credentials, directory, name)?;
        refuse_existing(existing)?;
        let mut directory = parent.write()?;
        permission::check_directory(credentials, &directory, WRITE | EXECUTE)?;
        if object.is_directory() {
            return Err(Error::NotPermitted);
        }
        let mut state = object.write()?;
        if state.metadata.link_count >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        self.quota.take_or_refuse(name_charge(name))?;
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

fn refuse_existing(existing: Option<u64>) -> Result<()> {
    if existing.is_some() {
        Err(Error::Exists)
    } else {
        Ok(())
    }
}
