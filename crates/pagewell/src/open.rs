//! Opens sources: the one place that knows the kinds of file system.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pagewell_fs::FileSystem;
use pagewell_fs::dir::{Directory, Options};
use pagewell_fs::image::ImageFileSystem;
use pagewell_fs::iso::{IsoFileSystem, IsoOptions};
use pagewell_fs::ram::RamFileSystem;
use pagewell_fs::source::{SourceKind, recognise, recognise_device};

use crate::engine::Engine;
use crate::source::{SUPPORTED, Source};
use crate::storage::Storage;

/// A source that is open.
pub(crate) struct Opened {
    /// What it serves.
    pub(crate) filesystem: Arc<dyn FileSystem>,
    /// Whether it is a directory of this machine.
    pub(crate) is_local: bool,
    /// The name of the only file, when it is a disk image.
    pub(crate) only_file: Option<Vec<u8>>,
}

impl Opened {
    fn new(filesystem: impl FileSystem + 'static) -> Self {
        Self {
            filesystem: Arc::new(filesystem),
            is_local: false,
            only_file: None,
        }
    }
}

/// Opens a source, recognising a path by its content. `shown` is the source as it was given;
/// for `metadata_sync` see [`directory`].
pub(crate) fn source(
    source: &Source,
    shown: &str,
    metadata_sync: bool,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    match source {
        Source::Path(path) => {
            let storage = || Storage::Path(path.clone());
            match recognise(path)? {
                SourceKind::Directory => directory(path, metadata_sync),
                SourceKind::Iso => iso(&storage(), engine),
                SourceKind::Other => image(&storage(), shown, engine),
                SourceKind::Unsupported(what) => Err(unsupported(shown, what)),
            }
        }
        Source::Storage(storage) => by_content(storage, shown, engine),
        Source::Directory(path) => directory(path, metadata_sync),
        Source::Iso(storage) => iso(storage, engine),
        Source::Image(storage) => image(storage, shown, engine),
        Source::Ram(bytes) => {
            let ram = RamFileSystem::new(*bytes).with_context(|| shown.to_owned())?;
            Ok(Opened::new(ram))
        }
    }
}

fn unsupported(shown: &str, what: &str) -> anyhow::Error {
    anyhow!(
        "{shown}: is {what}, which is not supported by this version; its bytes can be had as \
         image:{shown} (a source is {SUPPORTED})"
    )
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
        is_local: true,
        ..Opened::new(Directory::open(path, options)?)
    })
}

/// Opens an ISO image.
pub(crate) fn iso(storage: &Storage, engine: &Engine) -> anyhow::Result<Opened> {
    let opened = engine.open(storage)?;
    let cache = engine.cache()?;
    let iso = IsoFileSystem::from_device(opened.device, cache, IsoOptions::default())?;
    Ok(Opened::new(iso))
}

/// Opens anything as a disk image: one file.
fn image(storage: &Storage, shown: &str, engine: &Engine) -> anyhow::Result<Opened> {
    let opened = engine.open(storage).with_context(|| shown.to_owned())?;
    let name = opened.origin.name().to_vec();
    let image = ImageFileSystem::from_device(opened.device, opened.origin, engine.cache()?);
    Ok(Opened {
        only_file: Some(name),
        ..Opened::new(image)
    })
}

/// Opens storage as what its content is.
fn by_content(storage: &Storage, shown: &str, engine: &Engine) -> anyhow::Result<Opened> {
    // Without the simulated device: looking at it is not part of what is measured.
    let looked_at = storage.open().with_context(|| shown.to_owned())?;
    match recognise_device(&*looked_at.device)? {
        SourceKind::Iso => iso(storage, engine),
        SourceKind::Unsupported(what) => Err(unsupported(shown, what)),
        SourceKind::Directory | SourceKind::Other => image(storage, shown, engine),
    }
}
