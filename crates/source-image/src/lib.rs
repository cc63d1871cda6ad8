//! Any file or block device as one file: the raw bytes of a disk image.
//!
//! The file stands alone in a root directory, under the name that [`Origin`] gives it, and is read
//! and written through the page cache; its data is sent from pinned pages. Its permissions are
//! those of what it is made of, and it cannot be written unless it was made
//! [`writable`](ImageFileSystem::writable). The length never changes.
//!
//! Writes stay in memory until there is a reason to bring them to the device; a commit is one. What
//! was written and not committed when the program ends in order is brought there when the file
//! system is dropped.
//!
//! **Identifiers** survive restart: they name the image (what it is made of and its length) and
//! which of the two objects is meant, and nothing has to be remembered. An image that was replaced
//! or has got another length makes them stale.
//!
//! 16 bytes, little-endian:
//!
//! ```text
//! 0  image   hash of origin and length
//! 8  layout  1
//! 9  object  root directory 1, file 2, and 6 bytes of zeros
//! ```
//!
//! **Known weaknesses.** No other program is taken to change the image while it is open: what one
//! writes to it meanwhile may be seen or not, and may be overwritten with what was there before.
//! Its length is that of the moment when it was opened; what is cut off later is an I/O error.

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

/// An image, open.
pub struct ImageFileSystem {
    bytes: Bytes,
    origin: Origin,
    /// As it was found.
    file: Attributes,
    /// Hash of origin and length.
    identity: u64,
    /// Only of an image that can be written.
    changes: Option<Changes>,
}

/// The two objects.
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

    /// The bytes of `device`, as what `origin` says, to be read.
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
                // A block device uses no blocks of the file system that it is named in.
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

    /// The same image, to be written too, as its permissions allow. The device must take writes.
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

    /// [`Error::BadId`] for what was never an identifier of this layout, [`Error::Stale`] for one
    /// of another image.
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
