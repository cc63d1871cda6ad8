//! ISO 9660 images: ECMA-119 with Rock Ridge and Joliet, read-only.
//!
//! **Problem.** Writers disagree, and images come from any source, with chains that loop,
//! directories inside themselves and false lengths.
//!
//! **Rule.** Every structure is checked against its neighbours before use; damage costs only the
//! object it is in; every loop over foreign data has a bound; missing data is an error, never zeros
//! or another object's data.
//!
//! **Shape.** An image is a set of places: a directory is identified by its extent, any other
//! object by its record (`file_id`).
//!
//! ```text
//! descriptor_set -> select -> tree -> directory (names) -> node (attributes, sections) -> read
//!   |    |   |                 |          |                  |
//! boot sessions descriptor  pieces    record, susp, rock_ridge, names, time    compressed, zisofs
//! ```
//!
//! One tree of an image is served (`select`). File data is sent from pinned pages of the page
//! cache.
//!
//! **Known weaknesses.** The image must not change while it is open. Sparse files (SF) are refused.

mod aaip;
mod boot;
mod charset;
mod checks;
mod compressed;
mod descriptor;
mod descriptor_set;
mod directory;
mod extended;
mod file_id;
mod filesystem;
mod names;
mod node;
mod number;
mod options;
mod read;
mod record;
mod rock_ridge;
mod select;
mod sessions;
mod survey;
mod susp;
mod time;
mod tree;
mod volume;
mod zisofs;

use pagewell_cache::Cache;
use pagewell_device::{Device, read_exact};
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::{Bytes, Readable};

pub use boot::{BootEntry, BootMedium};
pub use charset::Charset;
pub use descriptor_set::NotIso;
pub use file_id::TreeKind;
pub use options::{Case, IsoOptions, Session};
pub use survey::{Survey, survey};

/// Whether a device holds an ISO 9660 image that this reader can try.
pub fn recognise(device: &dyn Device) -> pagewell_device::Result<Result<(), NotIso>> {
    let image = Readable {
        length_bytes: device.length_bytes(),
        read: &|position, target| read_exact(device, position, target),
    };
    descriptor_set::examine(&image).map(|found| found.map(drop))
}

/// An open image.
pub struct IsoFileSystem {
    tree: tree::Tree,
    compressed: compressed::CompressedFiles,
    has_attributes: bool,
}

impl IsoFileSystem {
    /// Opens the image in `bytes`; `cache` keeps its compressed files, uncompressed. A tree named
    /// in the options may have an unreadable root.
    pub fn of_bytes(bytes: &Bytes, cache: &Cache, options: &IsoOptions) -> Result<Self, OpenError> {
        let tree = select::open(bytes, options)?;
        Ok(Self {
            has_attributes: extended::are_possible(&tree),
            tree,
            compressed: compressed::CompressedFiles::new(cache.clone()),
        })
    }

    /// The tree that is served.
    #[must_use]
    pub fn tree_kind(&self) -> TreeKind {
        self.tree.kind
    }
}
