//! Opens sources: the one place that knows the kinds of file system.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pagewell_fs::FileSystem;
use pagewell_fs::dir::{Directory, Options};
use pagewell_fs::iso::IsoFileSystem;
use pagewell_fs::ram::RamFileSystem;
use pagewell_fs::source::{SourceKind, recognise};

use crate::source::{SUPPORTED, Source};

/// A source that is open.
pub(crate) struct Opened {
    /// What it serves.
    pub(crate) filesystem: Arc<dyn FileSystem>,
    /// Whether it is a directory of this machine.
    pub(crate) is_local: bool,
}

/// Opens a source, recognising a path by its content. `shown` is the source as it was given;
/// for `metadata_sync` see [`directory`].
pub(crate) fn source(source: &Source, shown: &str, metadata_sync: bool) -> anyhow::Result<Opened> {
    match source {
        Source::Path(path) => match recognise(path)? {
            SourceKind::Directory => directory(path, metadata_sync),
            SourceKind::Iso => iso(path),
            SourceKind::Unsupported(what) => Err(anyhow!(
                "{shown}: is {what}, which is not supported by this version"
            )),
            SourceKind::Other => Err(anyhow!(
                "{shown}: neither a directory nor an ISO image; disk images are not supported \
                 by this version (a source is {SUPPORTED})"
            )),
        },
        Source::Directory(path) => directory(path, metadata_sync),
        Source::Iso(path) => iso(path),
        Source::Ram(bytes) => Ok(Opened {
            filesystem: Arc::new(RamFileSystem::new(*bytes).with_context(|| shown.to_owned())?),
            is_local: false,
        }),
    }
}

/// Opens a directory of this machine. Changes of names and attributes reach the device with
/// [`FileSystem::sync`], not one by one, unless `metadata_sync`: a server promises more than a
/// command does.
pub(crate) fn directory(path: &Path, metadata_sync: bool) -> anyhow::Result<Opened> {
    let options = Options {
        metadata_sync,
        ..Options::default()
    };
    Ok(Opened {
        filesystem: Arc::new(Directory::open(path, options)?),
        is_local: true,
    })
}

/// Opens an ISO image.
pub(crate) fn iso(path: &Path) -> anyhow::Result<Opened> {
    Ok(Opened {
        filesystem: Arc::new(IsoFileSystem::open(path)?),
        is_local: false,
    })
}
