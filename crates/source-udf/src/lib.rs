//! UDF images: ECMA-167 as profiled by OSTA UDF 1.02 to 2.60, read-only.
//!
//! **Problem.** A name leads to a block of a logical partition, which a table of one of four kinds
//! maps to the image, and each layer can be damaged, hostile or written by another reading of the
//! standard: tables that loop, chains without an end, lengths near 2^64.
//!
//! **Rule.** Every descriptor is checked (checksum, CRC, lengths) before use; copies of anchors,
//! sequences and metadata stand in for damaged ones; damage costs only the object that it is in;
//! every loop over foreign data has a bound; missing data is an error, never zeros or another
//! object's data. Departures are noted for a check of the image.
//!
//! **Shape.** An object is identified by the place of its ICB, a block of a partition, so hard
//! links are one object.
//!
//! ```text
//! anchor -> sequence -> logical_volume -> open -> space (partitions: virtual, sparable, metadata)
//!                                          |        |
//!                                        tree ─> icb, entry, allocation ─> node ─> read
//!                                          └───> directory (names)
//! ```
//!
//! File data is sent from pinned pages of the page cache, without a copy.
//!
//! **Known weaknesses.** The image must not change while it is open. Named streams and extended
//! attributes are counted, not shown. Only the first file set is seen.

mod allocation;
mod anchor;
mod description;
mod directory;
mod entry;
mod extent;
mod fields;
mod file_id;
mod file_set;
mod filesystem;
mod icb;
mod image;
mod link;
mod logical_volume;
mod metadata;
mod node;
mod open;
mod read;
mod sequence;
mod space;
mod sparing;
mod tag;
mod text;
mod time;
mod tree;
mod virtual_table;

use std::sync::Arc;

use pagewell_cache::Cache;
use pagewell_device::{Device, read_exact};
use pagewell_fs::source::OpenError;
use pagewell_fs::{FileId, Result};
use pagewell_source_bytes::{Bytes, Readable, Violations};

pub use anchor::NotUdf;
pub use description::{Description, PartitionKind};
pub use node::Skipped;

/// Whether a device holds a UDF file system that this reader can try: a volume recognition sequence
/// that names it, and an anchor.
pub fn recognise(device: &dyn Device) -> pagewell_device::Result<Result<(), NotUdf>> {
    let image = Readable {
        length_bytes: device.length_bytes(),
        read: &|position, target: &mut [u8]| read_exact(device, position, target),
    };
    anchor::recognise(&image)
}

/// An open image.
pub struct UdfFileSystem {
    tree: tree::Tree,
    description: Description,
}

impl UdfFileSystem {
    /// Opens the file system on `device`, to be read through `cache`.
    pub fn from_device(device: Arc<dyn Device>, cache: &Cache) -> Result<Self, OpenError> {
        Self::of_bytes(&Bytes::new(cache.open(device)), None)
    }

    /// [`Self::from_device`], noting departures from the format, now and at each later call.
    pub fn checked(
        device: Arc<dyn Device>,
        cache: &Cache,
        violations: Arc<Violations>,
    ) -> Result<Self, OpenError> {
        Self::of_bytes(&Bytes::new(cache.open(device)), Some(violations))
    }

    /// Opens the file system in `bytes`; with `violations`, departures from the format are noted
    /// there.
    pub fn of_bytes(bytes: &Bytes, violations: Option<Arc<Violations>>) -> Result<Self, OpenError> {
        let (tree, description) = open::open(bytes, violations)?;
        Ok(Self { tree, description })
    }

    /// Whether the bytes name a UDF file system, sound or not.
    pub fn is_named_in(bytes: &Bytes) -> Result<bool> {
        anchor::is_named(&Readable {
            length_bytes: bytes.length_bytes(),
            read: &|position, target: &mut [u8]| bytes.read(position, target, true),
        })
    }

    /// The facts of the volume.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Names in the root directory. Reads that directory alone.
    pub fn root_entries(&self) -> Result<usize> {
        Ok(self.tree.directory(self.tree.root(), true)?.len())
    }

    /// What an object has beside its data that no call of a file system shows.
    pub fn skipped(&self, id: &FileId) -> Result<Skipped> {
        let (_, node) = self.tree.resolve(id, true)?;
        Ok(node.skipped)
    }
}
