//! One object of the tree and its lock.

use std::collections::BTreeMap;
use std::ffi::CString;

use pagewell_base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pagewell_fs::{Attributes, Change, Error, FileType, Result, Timestamp, WccAttributes};

use super::data::FileData;
use super::directory::Directory;
use super::quota::{INODE_BYTES, Quota, attribute_charge};

/// Constants are outside the lock, everything else inside.
pub(super) struct Inode {
    /// Never used for another object.
    pub(super) number: u64,
    pub(super) is_directory: bool,
    state: RwLock<InodeState>,
}

pub(super) type Extended = BTreeMap<CString, Box<[u8]>>;

pub(super) struct InodeState {
    /// Without `size` and `used`, which [`InodeState::attributes`] takes from the body.
    pub(super) metadata: Attributes,
    pub(super) body: Body,
    /// Most objects have none.
    pub(super) extended: Option<Box<Extended>>,
    /// Of an exclusive create, until attributes are set.
    pub(super) verifier: Option<[u8; 8]>,
    /// Every use from now on is stale.
    pub(super) gone: bool,
    /// Programs that have it open; with them it outlives its last name.
    pub(super) holds: u32,
}

pub(super) enum Body {
    Regular(FileData),
    /// In a box, so that files are not as large as directories.
    Directory(Box<Directory>),
    Symlink(Box<[u8]>),
    /// A device with its numbers, a socket or a pipe.
    Special(FileType, (u32, u32)),
}

impl Inode {
    pub(super) fn new(state: InodeState) -> Self {
        Self {
            number: state.metadata.file_id,
            is_directory: state.metadata.file_type.is_directory(),
            state: RwLock::new(state),
        }
    }

    /// Also when the object is gone.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, InodeState> {
        self.state.write()
    }

    /// [`Error::Stale`] when the object is gone.
    pub(super) fn read(&self) -> Result<RwLockReadGuard<'_, InodeState>> {
        let state = self.state.read();
        match state.gone {
            true => Err(Error::Stale),
            false => Ok(state),
        }
    }

    /// [`Error::Stale`] when the object is gone.
    pub(super) fn write(&self) -> Result<RwLockWriteGuard<'_, InodeState>> {
        let state = self.state.write();
        match state.gone {
            true => Err(Error::Stale),
            false => Ok(state),
        }
    }

    pub(super) fn no_change(&self) -> Result<Change> {
        let state = self.read()?;
        Ok(state.change_since(state.wcc()))
    }
}

impl InodeState {
    /// A new object, without its number; directories start with two links, others with one.
    pub(super) fn new(body: Body, mode: u32, uid: u32, gid: u32) -> Self {
        let now = Timestamp::now();
        let (file_type, device) = match &body {
            Body::Regular(_) => (FileType::Regular, (0, 0)),
            Body::Directory(_) => (FileType::Directory, (0, 0)),
            Body::Symlink(_) => (FileType::Symlink, (0, 0)),
            Body::Special(file_type, device) => (*file_type, *device),
        };
        Self {
            metadata: Attributes {
                file_type,
                mode,
                link_count: 1 + u32::from(file_type.is_directory()),
                uid,
                gid,
                size: 0,
                used: 0,
                device,
                filesystem_id: 0,
                file_id: 0,
                accessed: now,
                modified: now,
                changed: now,
                may_be_kept: true,
            },
            body,
            extended: None,
            verifier: None,
            gone: false,
            holds: 0,
        }
    }

    /// The charge of the object, without its names and entries.
    pub(super) fn charge(&self) -> u64 {
        let body = match &self.body {
            Body::Directory(_) => 0,
            _ => self.attributes().used,
        };
        let extended = self.extended.iter().flat_map(|all| all.iter());
        let extended = extended.map(|(name, value)| attribute_charge(name, value));
        INODE_BYTES + body + extended.sum::<u64>()
    }

    pub(super) fn attributes(&self) -> Attributes {
        let (size, used) = match &self.body {
            Body::Regular(data) => (data.size(), data.charged_bytes),
            Body::Directory(directory) => (directory.size(), directory.size()),
            Body::Symlink(target) => (target.len() as u64, target.len() as u64),
            Body::Special(..) => (0, 0),
        };
        Attributes {
            size,
            used,
            ..self.metadata
        }
    }

    pub(super) fn wcc(&self) -> WccAttributes {
        self.attributes().wcc()
    }

    pub(super) fn change_since(&self, before: WccAttributes) -> Change {
        Change {
            before: Some(before),
            after: Some(self.attributes()),
        }
    }

    pub(super) fn directory(&self) -> Result<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    /// [`InodeState::directory`], if it has a name: one without, that a program has open, has no
    /// entries and takes none.
    pub(super) fn living_directory(&self) -> Result<&Directory> {
        match self.directory()? {
            _ if self.metadata.link_count == 0 => Err(Error::NotFound),
            directory => Ok(directory),
        }
    }

    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    pub(super) fn data(&self) -> Result<&FileData> {
        match &self.body {
            Body::Regular(data) => Ok(data),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    pub(super) fn data_mut(&mut self) -> Result<&mut FileData> {
        match &mut self.body {
            Body::Regular(data) => Ok(data),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Notes a change of attributes. The time moves on even when the clock does not, so that no two
    /// states look alike to weak cache consistency.
    pub(super) fn touch_changed(&mut self) -> Timestamp {
        let now = Timestamp::now();
        let stamp = now.max(self.metadata.changed.next());
        self.metadata.changed = stamp;
        stamp
    }

    pub(super) fn touch_modified(&mut self) {
        self.metadata.modified = self.touch_changed();
    }

    /// Returns the body, for dropping without locks.
    pub(super) fn bury(&mut self, quota: &Quota) -> Body {
        quota.give(self.charge());
        self.extended = None;
        self.gone = true;
        std::mem::replace(&mut self.body, Body::Special(FileType::Fifo, (0, 0)))
    }
}
