//! One object of the tree and its lock.

use std::collections::BTreeMap;
use std::ffi::CString;

use pagewell_base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pagewell_fs::{Attributes, Change, Error, FileType, Result, Timestamp, WccAttributes};

use super::data::FileData;
use super::directory::Directory;
use super::quota::{INODE_BYTES, Quota, attribute_charge};

/// An object: what never changes outside the lock, everything else inside.
#[derive(Debug)]
pub(super) struct Inode {
    /// Never used for another object.
    pub(super) number: u64,
    pub(super) file_type: FileType,
    state: RwLock<State>,
}

/// The extended attributes of an object.
pub(super) type Extended = BTreeMap<CString, Box<[u8]>>;

/// What the lock of an inode protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) metadata: Metadata,
    pub(super) body: Body,
    /// Most objects have none.
    pub(super) extended: Option<Box<Extended>>,
    /// The last name went: every use from now on is stale.
    pub(super) gone: bool,
    /// How many programs have it open; then it outlives its last name.
    pub(super) holds: u32,
}

/// Attributes that every type has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metadata {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) link_count: u32,
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    /// Of an exclusive create, until attributes are set.
    pub(super) verifier: Option<[u8; 8]>,
}

/// What is different from type to type.
#[derive(Debug)]
pub(super) enum Body {
    Regular(FileData),
    Directory(Directory),
    Symlink(Box<[u8]>),
    CharacterDevice(u32, u32),
    BlockDevice(u32, u32),
    Socket,
    Fifo,
}

impl Body {
    pub(super) fn file_type(&self) -> FileType {
        match self {
            Self::Regular(_) => FileType::Regular,
            Self::Directory(_) => FileType::Directory,
            Self::Symlink(_) => FileType::Symlink,
            Self::CharacterDevice(..) => FileType::CharacterDevice,
            Self::BlockDevice(..) => FileType::BlockDevice,
            Self::Socket => FileType::Socket,
            Self::Fifo => FileType::Fifo,
        }
    }
}

impl Inode {
    pub(super) fn new(number: u64, state: State) -> Self {
        Self {
            number,
            file_type: state.body.file_type(),
            state: RwLock::new(state),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type.is_directory()
    }

    /// Locks for changing, whatever became of the object.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Locks for reading; [`Error::Stale`] when the object is gone.
    pub(super) fn read(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read();
        match state.gone {
            true => Err(Error::Stale),
            false => Ok(state),
        }
    }

    /// Locks for changing; [`Error::Stale`] when the object is gone.
    pub(super) fn write(&self) -> Result<RwLockWriteGuard<'_, State>> {
        let state = self.state.write();
        match state.gone {
            true => Err(Error::Stale),
            false => Ok(state),
        }
    }
}

impl State {
    /// An object made now; directories have two links from the start, others one.
    pub(super) fn new(body: Body, mode: u32, uid: u32, gid: u32) -> Self {
        let now = Timestamp::now();
        let link_count = 1 + u32::from(body.file_type().is_directory());
        Self {
            metadata: Metadata {
                mode,
                uid,
                gid,
                link_count,
                accessed: now,
                modified: now,
                changed: now,
                verifier: None,
            },
            body,
            extended: None,
            gone: false,
            holds: 0,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match &self.body {
            Body::Regular(data) => data.size(),
            Body::Directory(directory) => directory.size(),
            Body::Symlink(target) => target.len() as u64,
            _ => 0,
        }
    }

    fn used(&self) -> u64 {
        match &self.body {
            Body::Regular(data) => data.charged_bytes,
            _ => self.size(),
        }
    }

    /// What its extended attributes are charged with.
    fn extended_charge(&self) -> u64 {
        let all = self.extended.iter().flat_map(|all| all.iter());
        all.map(|(name, value)| attribute_charge(name, value)).sum()
    }

    /// What the object is charged with, its names and the entries in it not counted.
    pub(super) fn charge(&self) -> u64 {
        INODE_BYTES
            + match &self.body {
                Body::Regular(data) => data.charged_bytes,
                Body::Symlink(target) => target.len() as u64,
                _ => 0,
            }
            + self.extended_charge()
    }

    pub(super) fn attributes(&self, number: u64, filesystem_id: u64) -> Attributes {
        let metadata = &self.metadata;
        let device = match self.body {
            Body::CharacterDevice(major, minor) | Body::BlockDevice(major, minor) => (major, minor),
            _ => (0, 0),
        };
        Attributes {
            file_type: self.body.file_type(),
            mode: metadata.mode,
            link_count: metadata.link_count,
            uid: metadata.uid,
            gid: metadata.gid,
            size: self.size(),
            used: self.used(),
            device,
            filesystem_id,
            file_id: number,
            accessed: metadata.accessed,
            modified: metadata.modified,
            changed: metadata.changed,
            may_be_kept: true,
        }
    }

    pub(super) fn wcc(&self) -> WccAttributes {
        WccAttributes {
            size: self.size(),
            modified: self.metadata.modified,
            changed: self.metadata.changed,
        }
    }

    /// The directory in it, or [`Error::NotDirectory`].
    pub(super) fn directory(&self) -> Result<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The same, if it has a name: in one without, that a program has open, nothing can be found
    /// or made.
    pub(super) fn living_directory(&self) -> Result<&Directory> {
        match self.directory()? {
            _ if self.metadata.link_count == 0 => Err(Error::NotFound),
            directory => Ok(directory),
        }
    }

    /// The directory in it, or [`Error::NotDirectory`].
    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The file in it; anything else has no data to read or write.
    pub(super) fn data(&self) -> Result<&FileData> {
        match &self.body {
            Body::Regular(data) => Ok(data),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// The file in it, as [`State::data`].
    pub(super) fn data_mut(&mut self) -> Result<&mut FileData> {
        match &mut self.body {
            Body::Regular(data) => Ok(data),
            Body::Directory(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Notes a change of attributes. The time moves on even when the clock does not, so that two
    /// states never look alike to weak cache consistency.
    pub(super) fn touch_changed(&mut self) -> Timestamp {
        let now = Timestamp::now();
        let stamp = now.max(self.metadata.changed.next());
        self.metadata.changed = stamp;
        stamp
    }

    /// Notes a change of the data.
    pub(super) fn touch_modified(&mut self) {
        self.metadata.modified = self.touch_changed();
    }

    /// Takes the last name away: nothing finds it any more. Returns the body, to be dropped when
    /// no lock is held.
    pub(super) fn bury(&mut self, quota: &Quota) -> Body {
        quota.give(self.charge());
        self.extended = None;
        self.gone = true;
        std::mem::replace(&mut self.body, Body::Fifo)
    }
}

/// A change report: the object as it was, and as it is now.
pub(super) fn change(before: WccAttributes, after: Attributes) -> Change {
    Change {
        before: Some(before),
        after: Some(after),
    }
}
