//! Opens sources, each as its [kind](crate::kinds) wants it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use pagewell_cache::{DirtyLimit, OpenOptions};
use pagewell_container::{Wanted, volume};
use pagewell_device::Device;
use pagewell_disc::{Disc, DiscOptions};
use pagewell_fs::FileSystem;
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::Bytes;
use pagewell_source_dir::{Directory, Options};
use pagewell_source_image::ImageFileSystem;
use pagewell_source_nfs::{NfsFileSystem, Url};
use pagewell_source_ram::RamFileSystem;
use pagewell_tree::Tree;

use crate::disc_facts::DiscFacts;
use crate::engine::Engine;
use crate::escape;
use crate::failure::{self, usage};
use crate::identity::FileIdentity;
use crate::recognise::{SourceKind, guess, guess_of, meant_inside, recognise, why_plain};
use crate::storage::{self, Storage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reading.
    Read,
    /// Copying into it: what cannot be written is an error.
    Fill,
    /// Serving: what cannot be written is read.
    Serve(Writes),
    /// Mounting: as served, but changes of names and attributes reach the device when a program
    /// asks for it, or at once.
    Mount {
        writes: Writes,
        /// Whether such a change is on the device when it is answered.
        changes_are_durable: bool,
    },
}

/// What may be written of a served or mounted source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Writes {
    None,
    /// What was recognised, or named by its kind.
    Recognised,
    /// Also a file that is not recognised.
    Any,
}

impl Writes {
    /// From `--read-only` and `--writable`.
    pub(crate) fn of(read_only: bool, writable: bool) -> Self {
        match (read_only, writable) {
            (true, _) => Self::None,
            (false, true) => Self::Any,
            (false, false) => Self::Recognised,
        }
    }
}

impl Purpose {
    fn writes(self) -> bool {
        !matches!(self, Self::Read) && self.whole_writes() != Some(Writes::None)
    }

    /// Whether it is opened for others: not for a command with a path.
    fn is_whole(self) -> bool {
        self.whole_writes().is_some()
    }

    /// What may be written of a source that is opened for others.
    fn whole_writes(self) -> Option<Writes> {
        match self {
            Self::Serve(writes) | Self::Mount { writes, .. } => Some(writes),
            Self::Read | Self::Fill => None,
        }
    }

    /// Whether changes of names and attributes are on the device when they are answered.
    fn makes_changes_durable(self) -> bool {
        match self {
            Self::Serve(_) => true,
            Self::Mount {
                changes_are_durable,
                ..
            } => changes_are_durable,
            Self::Read | Self::Fill => false,
        }
    }
}

pub(crate) struct Opened {
    pub tree: Tree,
    pub is_remote: bool,
    /// The name of the only file of a disk image.
    pub only_file: Option<Vec<u8>>,
    /// The files and block devices in which an image lies.
    pub files: Vec<FileIdentity>,
    pub disc: Option<DiscFacts>,
    /// Limits dirty memory, if it is written through the page cache.
    pub dirty_limit: Option<DirtyLimit>,
}

impl Opened {
    /// A file system which is on this machine and no image.
    pub(crate) fn new(filesystem: impl FileSystem + 'static) -> Self {
        Self::of(Tree::new(Arc::new(filesystem)))
    }

    fn of(tree: Tree) -> Self {
        Self {
            tree,
            is_remote: false,
            only_file: None,
            files: Vec::new(),
            disc: None,
            dirty_limit: None,
        }
    }
}

/// Opens a plain path, which is recognised by its content.
pub(crate) fn path(
    storage: &Storage,
    shown: &str,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let path = storage.path()?;
    refuse_a_place_inside(path, shown, purpose)?;
    match recognise(path)? {
        SourceKind::Directory => whole_directory(path, purpose, engine),
        SourceKind::Disc => disc(storage, &DiscOptions::default(), (shown, purpose), engine),
        SourceKind::Other => unrecognised(path, shown, purpose, engine),
        SourceKind::Unreadable(what) => Err(unreadable(shown, &what)),
    }
}

pub(crate) fn memory(bytes: u64, shown: &str, purpose: Purpose) -> anyhow::Result<Opened> {
    if purpose == Purpose::Fill {
        return Err(keeps_nothing(shown));
    }
    let ram = RamFileSystem::new(bytes).with_context(|| shown.to_owned())?;
    Ok(Opened::new(ram))
}

pub(crate) fn nfs(
    storage: &Storage,
    shown: &str,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let mut url = nfs_url(storage.url()?)?;
    url.options.read_only |= !purpose.writes();
    let mounted = NfsFileSystem::mount_over(&url, engine.cache()?, engine.tier()?)
        .map_err(|error| right_export(error, shown, purpose))?;
    Ok(Opened {
        dirty_limit: Some(mounted.store().dirty_limit()),
        ..Opened::new(mounted)
    })
}

/// Opens a bucket, a folder of one or of a web server, or a single object.
pub(crate) fn objects(
    storage: &Storage,
    shown: &str,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let url = storage.url()?;
    let is_bucket = pagewell_source_object::is_bucket(url);
    if purpose == Purpose::Fill && !is_bucket {
        bail!("{shown}: can only be read, as all of the web");
    }
    let may_change = purpose.writes() && is_bucket;
    let writing = may_change
        .then(|| engine.writing(purpose.makes_changes_durable()))
        .transpose()?;
    let (cache, tier) = (engine.cache()?, engine.tier()?);
    let opened = pagewell_source_object::open(url, cache, tier, writing);
    match opened.map_err(|error| right_object(error, url, purpose))? {
        pagewell_source_object::Opened::Tree(tree) => {
            if purpose == Purpose::Fill && tree.limits().read_only {
                bail!("{shown}: can only be read");
            }
            Ok(Opened::new(tree))
        }
        pagewell_source_object::Opened::Object(_) if purpose == Purpose::Fill => {
            let right = spelling_of_key(url);
            bail!("{shown}: names one object, which can only be read; {right} can be written")
        }
        pagewell_source_object::Opened::Object(object) => {
            image_of(engine.over(storage::of_object(object))?, engine)
        }
    }
}

/// How to write a key as a place in its bucket. The URL of an opened bucket has one.
fn spelling_of_key(url: &str) -> String {
    let (place, options) = url.split_at(url.find('?').unwrap_or(url.len()));
    let scheme = place.find("://").map_or(0, |at| at + 3);
    let slash = place.get(scheme..).and_then(|rest| rest.find('/'));
    let (bucket, key) = place.split_at(slash.map_or(place.len(), |at| scheme + at));
    format!("{bucket}{options}::{key}")
}

/// How to write what is to be made in a bucket.
fn right_object(error: OpenError, url: &str, purpose: Purpose) -> anyhow::Error {
    if !purpose.writes()
        || !error
            .to_string()
            .ends_with(pagewell_source_object::NO_OBJECT)
    {
        return error.into();
    }
    let (place, options) = url.split_at(url.find('?').unwrap_or(url.len()));
    let folder = format!("a new folder ends with a slash: {place}/{options}");
    if purpose == Purpose::Fill {
        let key = spelling_of_key(url);
        return anyhow!("{error} (a new object is written {key}; {folder})");
    }
    anyhow!("{error} ({folder})")
}

/// Refuses a URL of an object that can never be opened.
pub(crate) fn object_url(text: &str) -> anyhow::Result<()> {
    pagewell_source_object::check(text).map_err(usage)
}

pub(crate) fn nfs_url(text: &str) -> anyhow::Result<Url> {
    Url::parse(text).map_err(|error| usage(error.to_string()))
}

/// Only whole sources are served and mounted; `::` in a name is likely meant as in a LOCATION.
fn refuse_a_place_inside(path: &Path, shown: &str, purpose: Purpose) -> anyhow::Result<()> {
    if !purpose.is_whole() {
        return Ok(());
    }
    let written = |path: &Path| escape::text(path.as_os_str().as_bytes());
    let meant = match meant_inside(path) {
        Some((whole, inside)) if whole.is_dir() => {
            let inside = whole.join(OsStr::from_bytes(inside));
            format!("; this directory is {}", written(&inside))
        }
        Some((whole, _)) => format!("; here that is {}", written(whole)),
        None if shown.contains("::") && path.symlink_metadata().is_err() => String::new(),
        None => return Ok(()),
    };
    Err(usage(format!(
        "{shown}: only a whole source can be served or mounted, not a place inside one{meant}"
    )))
}

/// What a path may mean that the server does not take for an export.
fn right_export(error: OpenError, shown: &str, purpose: Purpose) -> anyhow::Error {
    if !error.is_no_export() {
        return error.into();
    }
    if !purpose.is_whole() {
        return anyhow!("{error} (what is inside an export is written nfs://HOST/EXPORT::/PATH)");
    }
    if shown.contains("::/") {
        let right = shown.replacen("::/", "/", 1);
        return anyhow!("{error} (a directory inside an export is written {right})");
    }
    error.into()
}

fn unreadable(shown: &str, what: &str) -> anyhow::Error {
    anyhow!("{shown}: is {what}; its bytes can be had as image:{shown}")
}

/// Opens a directory as a source, and notes what belongs to other file systems.
pub(crate) fn whole_directory(
    path: &Path,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let files = open_directory(path, purpose)?;
    if let [first, others @ ..] = files.mounts_inside().as_slice()
        && purpose.is_whole()
    {
        let others = match others.len() {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let first = first.display();
        engine.note(format!(
            "{}: another file system is mounted at {first}{others}: what is on it is not part of \
             this source, give it as one of its own",
            path.display()
        ));
    }
    Ok(Opened::of(Tree::new(files)))
}

/// Opens a directory of this machine. If it is served, changes of names and attributes reach the
/// device one by one, else with [`Finish::Sync`](pagewell_fs::Finish::Sync).
pub(crate) fn directory(path: &Path, purpose: Purpose) -> anyhow::Result<Opened> {
    Ok(Opened::of(Tree::new(open_directory(path, purpose)?)))
}

fn open_directory(path: &Path, purpose: Purpose) -> anyhow::Result<Arc<Directory>> {
    let options = Options {
        metadata_sync: purpose.makes_changes_durable(),
        own_mount: purpose.is_whole(),
        ..Options::default()
    };
    Ok(Arc::new(Directory::open(path, options)?))
}

/// The bytes of a disc image in the page cache, and where they lie.
pub(crate) struct DiscBytes {
    pub bytes: Bytes,
    /// The same without the cache.
    pub device: Arc<dyn Device>,
    pub files: Vec<FileIdentity>,
    /// What is around the image, outermost first.
    pub layers: Vec<String>,
}

/// Opens a disc image, in the track or partition that these options name.
pub(crate) fn disc_bytes(
    storage: &Storage,
    options: &DiscOptions,
    engine: &Engine,
) -> anyhow::Result<DiscBytes> {
    let wanted = Wanted {
        track: options.track,
        partition: options.partition,
    };
    let mut opened = engine.open(storage, false)?;
    let cache = engine.cache()?;
    let mut bytes = Bytes::new(cache.open(opened.device.clone()));
    let mut layers = Vec::new();
    // Through the cache: opening a plain image then finds these pages.
    if wanted.is_any() || !holds_volume(&bytes) {
        (opened, layers) = engine.unwrap(storage, opened, wanted)?;
        // What lies beside a sector in something else may be unreadable.
        let by_sector = OpenOptions {
            unit_bytes: Some(volume::SECTOR_BYTES),
            ..cache.open_options()
        };
        bytes = Bytes::new(cache.open_with(opened.device.clone(), by_sector));
    }
    Ok(DiscBytes {
        bytes,
        device: opened.device,
        files: opened.files,
        layers,
    })
}

/// Whether nothing is around the volume, and its root directory is where the descriptor says.
fn holds_volume(bytes: &Bytes) -> bool {
    let read = |position: u64, target: &mut [u8]| {
        bytes.contains(position, target.len() as u64) && bytes.read(position, target, true).is_ok()
    };
    let mut descriptor = [0; volume::SECTOR_BYTES as usize];
    if !read(volume::MARK_POSITION, &mut descriptor) {
        // The last sector of an image may be cut.
        return read(volume::MARK_POSITION, &mut descriptor[..volume::MARK_BYTES])
            && volume::begins(&descriptor);
    }
    let mut root = [0; volume::ROOT_BYTES];
    let is_in_place =
        |sector| read(sector * volume::SECTOR_BYTES, &mut root) && volume::is_root(&root, sector);
    volume::begins(&descriptor) && volume::root_sector(&descriptor).is_none_or(is_in_place)
}

/// The source to write options of a disc behind, of a source given as `shown`.
pub(crate) fn with_options(shown: &str) -> String {
    let image = shown.strip_prefix("iso:").unwrap_or(shown);
    let image = image.split("::/").next().unwrap_or(image);
    let image = match image.rsplit_once('?') {
        Some((before, _)) if !image.contains("://") => before,
        _ => image,
    };
    format!("iso:{image}")
}

/// Why something is no disc, and what it looks like.
pub(crate) fn no_disc(error: OpenError, image: &Bytes) -> anyhow::Error {
    match guess_of(image) {
        Some(what) => anyhow!("{error}; it looks like {what}"),
        None => error.into(),
    }
}

/// Opens a disc image. A server or mount keeps its notes, a command prints them at once.
pub(crate) fn disc(
    storage: &Storage,
    options: &DiscOptions,
    (shown, purpose): (&str, Purpose),
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let image = disc_bytes(storage, options, engine)?;
    let disc = Disc::open(&image.bytes, engine.cache()?, options);
    let disc = disc.map_err(|error| no_disc(error, &image.bytes))?;
    for line in disc.notes(&with_options(shown)) {
        let line = format!("{shown}: {line}");
        if purpose.is_whole() {
            engine.note(line);
        } else {
            failure::note(&line);
        }
    }
    let facts = DiscFacts::of(&disc, image.layers);
    Ok(Opened {
        files: image.files,
        disc: Some(facts),
        ..Opened::of(Tree::new(disc.into_filesystem(options.owner)))
    })
}

/// Opens an unrecognised path: perhaps a disk image, or an archive that was meant otherwise. It is
/// only written on request.
fn unrecognised(
    path: &Path,
    shown: &str,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let storage = Storage::Path(path.to_owned());
    let (done, writes) = match purpose {
        // The user named a place inside it, `PATH::/NAME`.
        Purpose::Read | Purpose::Fill => {
            if let Some(reason) = why_plain(path, &SourceKind::Other) {
                failure::report(&format!("{shown}: taken as one file: {reason}"));
            }
            return image(&storage, shown, purpose, engine);
        }
        Purpose::Serve(writes) => ("served", writes),
        Purpose::Mount { writes, .. } => ("mounted", writes),
    };
    let taken = format!(
        "{shown}: is neither a directory nor an ISO image (it looks like {}): {done} as one file",
        guess(path)
    );
    if writes == Writes::Recognised {
        engine.note(format!(
            "{taken}, to be read; --writable, or image:{shown}, lets it be written"
        ));
        return image(&storage, shown, Purpose::Read, engine);
    }
    engine.note(taken);
    image(&storage, shown, purpose, engine)
}

pub(crate) fn image(
    storage: &Storage,
    shown: &str,
    purpose: Purpose,
    engine: &Engine,
) -> anyhow::Result<Opened> {
    let opened = engine.open(storage, purpose.writes());
    let opened = match opened {
        Err(error)
            if error
                .downcast_ref::<OpenError>()
                .is_some_and(OpenError::is_in_use) =>
        {
            return Err(in_use(&error, purpose));
        }
        opened => opened.with_context(|| shown.to_owned())?,
    };
    match &opened.read_only {
        Some(reason) if purpose == Purpose::Fill => bail!("{shown}: cannot be written: {reason}"),
        None if purpose == Purpose::Fill && opened.files.is_empty() => {
            return Err(keeps_nothing(shown));
        }
        _ => {}
    }
    image_of(opened, engine)
}

/// Serves what has bytes as one file.
fn image_of(opened: storage::Opened, engine: &Engine) -> anyhow::Result<Opened> {
    let name = opened.origin.name().to_vec();
    let image = ImageFileSystem::from_device(opened.device, opened.origin, engine.cache()?);
    let image = match opened.read_only {
        None => image.writable(),
        Some(_) => image,
    };
    Ok(Opened {
        only_file: Some(name),
        files: opened.files,
        dirty_limit: Some(image.object().dirty_limit()),
        ..Opened::new(image)
    })
}

/// Refuses memory of this process as a target.
fn keeps_nothing(shown: &str) -> anyhow::Error {
    anyhow!(
        "{shown}: is memory, which ends with this command and keeps nothing (serve or mount it, \
         and copy into that)"
    )
}

/// What to do about a source in use, where that is known.
fn in_use(error: &anyhow::Error, purpose: Purpose) -> anyhow::Error {
    let done = match purpose {
        Purpose::Serve(_) => "serves",
        Purpose::Mount { .. } => "mounts",
        Purpose::Fill | Purpose::Read => return anyhow!("{error:#}"),
    };
    anyhow!("{error:#} (--read-only {done} it without writing)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO_MOUNT: Purpose = Purpose::Mount {
        writes: Writes::None,
        changes_are_durable: false,
    };

    #[test]
    fn what_is_to_be_made_in_a_bucket_is_told_how_it_is_written() {
        for (url, key) in [
            ("s3://b/k", "s3://b::/k"),
            (
                "s3://b/a/k?endpoint=http://h:1",
                "s3://b?endpoint=http://h:1::/a/k",
            ),
            ("az://c/k?account=x", "az://c?account=x::/k"),
        ] {
            assert_eq!(spelling_of_key(url), key);
            let missing = || OpenError::new("s3://b/k", pagewell_source_object::NO_OBJECT);
            let said = |purpose| right_object(missing(), url, purpose).to_string();
            assert!(said(Purpose::Fill).contains(key), "{}", said(Purpose::Fill));
            let served = said(Purpose::Serve(Writes::Recognised));
            let slash = url.replacen("/k", "/k/", 1);
            assert!(served.contains(&slash) && !served.contains(key), "{served}");
            assert_eq!(said(Purpose::Read), missing().to_string());
        }
    }

    #[test]
    fn whole_sources_are_served_and_places_inside_them_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("a::b");
        std::fs::write(&odd, "").unwrap();
        let try_for = |path: &Path, purpose| {
            refuse_a_place_inside(path, &path.display().to_string(), purpose)
        };
        let inside = Path::new("/nowhere/a.iso::/boot");
        for purpose in [Purpose::Serve(Writes::Recognised), TO_MOUNT] {
            let error = try_for(inside, purpose).unwrap_err().to_string();
            assert!(error.contains("whole source"), "{error}");
            assert!(try_for(&odd, purpose).is_ok(), "there is such a file");
        }
        assert!(try_for(inside, Purpose::Read).is_ok());
        let place = directory.path().join("tree::/sub");
        std::fs::create_dir(directory.path().join("tree")).unwrap();
        let error = try_for(&place, TO_MOUNT).unwrap_err().to_string();
        let right = format!("this directory is {}/tree/sub", directory.path().display());
        assert!(error.ends_with(&right), "{error}");
    }

    #[test]
    fn a_path_that_is_no_export_is_told_how_to_be_written() {
        let refused = || OpenError::no_export("h:/x/f", "it is not there");
        for (error, shown, purpose, part) in [
            (
                refused(),
                "nfs://h/x/f",
                Purpose::Read,
                "nfs://HOST/EXPORT::/PATH",
            ),
            (refused(), "nfs://h:7/x::/f", TO_MOUNT, "nfs://h:7/x/f)"),
            (refused(), "nfs://h/x/f", TO_MOUNT, "not there"),
            (
                OpenError::new("h:/x", "silent"),
                "nfs://h/x",
                Purpose::Read,
                "silent",
            ),
        ] {
            let error = right_export(error, shown, purpose).to_string();
            assert!(
                error.ends_with(part) || error.ends_with(&format!("{part})")),
                "{error}"
            );
        }
    }
}
