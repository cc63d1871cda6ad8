//! A file or block device as one file: the raw bytes of a disk image.
//!
//! The file is alone in a root directory, with the name of its [`Origin`], and uses the page cache;
//! its data is sent from pinned pages. It has the permissions of its origin, and is read-only
//! unless it is [`writable`](ImageFileSystem::writable). Its length never changes.
//!
//! Writes stay in memory until a commit or another reason to write them out. Dropping the file
//! system writes uncommitted data.
//!
//! **Identifiers** survive restart without a table: they have the image (a hash of origin and
//! length) and the object. A replaced image, or one with another length, makes them stale.
//!
//! 16 bytes, little-endian:
//!
//! ```text
//! 0  image   hash of origin and length
//! 8  layout  1
//! 9  object  root directory 1, file 2, and 6 bytes of zeros
//! ```
//!
//! **Known weaknesses.** No other program may change the image while it is open: its writes may be
//! seen or not, and may be overwritten with older data. The length is that at opening; a part
//! truncated later is an I/O error.

mod change;
mod filesystem;
mod origin;
mod write;

use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use pagewell_cache::{Cache, CachedObject};
use pagewell_device::{Device, FileDevice};
use pagewell_fs::source::OpenError;
use pagewell_fs::{Attributes, Error, FileId, FileType, Result};
use pagewell_source_bytes::{Bytes, open_error};
use siphasher::sip::SipHasher24;

pub use origin::Origin;

use change::Changes;

const LAYOUT: u8 = 1;
const FILE_FILE_ID: u64 = 2;

/// An open image.
pub struct ImageFileSystem {
    bytes: Bytes,
    origin: Origin,
    /// The attributes at opening.
    file: Attributes,
    identity: u64,
    /// For a writable image.
    changes: Option<Changes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Object {
    Root = 1,
    File = 2,
}

impl ImageFileSystem {
    /// Its bytes in the page cache.
    #[must_use]
    pub fn object(&self) -> &CachedObject {
        self.bytes.object()
    }

    /// Opens the regular file or block device at `path`, to be read through `cache`.
    pub fn open(path: &Path, cache: &Cache) -> Result<Self, OpenError> {
        let device = FileDevice::open(path);
        let device = device.map_err(|error| open_error(path, error))?;
        let origin = Origin::of_path(path)?;
        Ok(Self::from_device(Arc::new(device), origin, cache))
    }

    /// The bytes of `device` with the attributes of `origin`, read-only.
    #[must_use]
    pub fn from_device(device: Arc<dyn Device>, origin: Origin, cache: &Cache) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write_u64(origin.identity.to_le());
        hasher.write_u64(device.length_bytes().to_le());
        let bytes = Bytes::new(cache.open(device));
        let (identity, size) = (hasher.finish(), bytes.length_bytes());
        Self {
            file: Attributes {
                file_type: FileType::Regular,
                mode: origin.mode,
                link_count: 1,
                uid: origin.uid,
                gid: origin.gid,
                size,
                // A block device uses no blocks of the file system with its name.
                used: if origin.used == 0 { size } else { origin.used },
                device: (0, 0),
                filesystem_id: identity,
                file_id: FILE_FILE_ID,
                accessed: origin.times.accessed,
                modified: origin.times.modified,
                changed: origin.times.changed,
                may_be_kept: true,
            },
            identity,
            bytes,
            origin,
            changes: None,
        }
    }

    /// Allows writes, by its permissions. The device must be writable.
    #[must_use]
    pub fn writable(self) -> Self {
        Self {
            changes: Some(Changes::new(self.file)),
            ..self
        }
    }

    fn id_of(&self, object: Object) -> FileId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.identity.to_le_bytes());
        bytes[8..10].copy_from_slice(&[LAYOUT, object as u8]);
        FileId::of(&bytes)
    }

    /// [`Error::BadId`] for an identifier that this layout never had, [`Error::Stale`] for one of
    /// another image.
    fn resolve(&self, id: &FileId) -> Result<Object> {
        let bytes: &[u8; 16] = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let object = match bytes[9] {
            1 => Object::Root,
            2 => Object::File,
            _ => return Err(Error::BadId),
        };
        Error::BadId.when(bytes[8] != LAYOUT || bytes[10..] != [0; 6])?;
        Error::Stale.when(bytes[..8] != self.identity.to_le_bytes())?;
        Ok(object)
    }
}
