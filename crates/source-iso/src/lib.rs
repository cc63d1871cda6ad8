//! ISO 9660 images: ECMA-119 with Rock Ridge and Joliet, read-only.
//!
//! **Problem.** The format is old, its writers disagree, and images come from any source. A reader
//! must show what the writer meant, and survive chains that loop, directories inside themselves and
//! false lengths.
//!
//! **Rule.** Every structure is checked against its neighbours before use; damage costs only the
//! object it is in; every loop over foreign data has a bound; no reply has zeros or another
//! object's data in place of missing data.
//!
//! **Shape.** An image is a set of places. A directory is identified by its extent, any other
//! object by its record (`file_id`), so identifiers need no table and survive restart.
//!
//! ```text
//! descriptor -> select -> tree -> directory (names) -> node (attributes, sections) -> read
//!                          |          |                  |
//!                       cache       record, susp, rock_ridge, names, time
//! ```
//!
//! Rock Ridge is preferred to Joliet, and Joliet to the plain tree; path tables are not used. The
//! image is read through the page cache; file data is sent from pinned pages, without a copy.
//!
//! **Known weaknesses.** The image must not change while it is open. Only the first session is
//! seen. UDF, zisofs, High Sierra, raw sectors and sparse files (SF) are recognised and refused.
//! Associated files and lower file versions are not shown.

mod descriptor;
mod directory;
mod file_id;
mod filesystem;
mod names;
mod node;
mod options;
mod read;
mod record;
mod rock_ridge;
mod select;
mod susp;
mod time;
mod tree;
mod volume;

use std::sync::Arc;

use pagewell_cache::Cache;
use pagewell_device::{Device, read_exact};
use pagewell_fs::source::OpenError;

pub use descriptor::NotIso;
pub use file_id::TreeKind;
pub use options::{Case, IsoOptions};

/// Whether a device holds an ISO 9660 image that this reader can try.
pub fn recognise(device: &dyn Device) -> pagewell_device::Result<Result<(), NotIso>> {
    let image = descriptor::Readable {
        length_bytes: device.length_bytes(),
        read: &|position, target| read_exact(device, position, target),
    };
    descriptor::examine(&image).map(|found| found.map(drop))
}

/// An open image.
pub struct IsoFileSystem {
    tree: tree::Tree,
}

impl IsoFileSystem {
    /// Opens the image on `device`, to be read through `cache`.
    pub fn open(
        device: &Arc<dyn Device>,
        cache: &Cache,
        options: &IsoOptions,
    ) -> Result<Self, OpenError> {
        select::open(device, cache, options).map(|tree| Self { tree })
    }

    /// [`Self::open`] with the default options.
    pub fn from_device(device: Arc<dyn Device>, cache: &Cache) -> Result<Self, OpenError> {
        Self::open(&device, cache, &IsoOptions::default())
    }

    /// The tree that is served.
    #[must_use]
    pub fn tree_kind(&self) -> TreeKind {
        self.tree.kind
    }
}
