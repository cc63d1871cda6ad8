//! The page cache and the devices below it.
//!
//! One cache serves all images of a process, made with the first.

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, anyhow};
use clap::Args;
use pagewell_cache::{Cache, CacheOptions};
use pagewell_container::{Depth, Layer as Wrapping, Wanted};
use pagewell_device::Device;
use pagewell_disk_tier::Tier;
use pagewell_source_object::Writing;

use crate::failure::{report, usage};
use crate::progress::Progress;
use crate::state;
use crate::storage::contained::{self, Trouble};
use crate::storage::{self, Storage, Want};
use crate::writing_arguments::WritingArguments;
use pagewell_base::{files, size};

/// Memory of a server's cache, at most its share of the machine's.
const SERVER_CACHE_BYTES: u64 = 256 << 20;
/// The same for a command, which reads most things once.
const COMMAND_CACHE_BYTES: u64 = 64 << 20;
/// The same for a command that asks a server: an eighth of the cache is in flight, too little on a
/// long and wide path.
const REMOTE_COMMAND_CACHE_BYTES: u64 = 256 << 20;
/// At most one part of so many of the machine's memory.
const MEMORY_SHARE: u64 = 8;
/// The unit of `st_blocks` in stat(2), whatever the file system's own.
const BLOCK_BYTES: u64 = 512;
/// The disk tier, without a given size.
const TIER_BYTES: u64 = 10 << 30;

/// Options of every command that reads images.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for images")]
pub(crate) struct EngineArguments {
    /// Memory of the page cache that all images share, taken as it is used: 4m or more
    /// [default: 256m for serve and mount and what asks a server, 64m for others, at most 1/8 of
    /// the machine's memory, 1/6 of it for mounts of what a server has, and 1/4 of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    cache: Option<u64>,

    /// Keep pages of s3://, az://, gs://, http://, https:// and nfs:// in a folder of its own on
    /// this machine, too, where they are found after a restart
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cache_dir: Option<PathBuf>,

    /// What that folder may take [default: 10g]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    cache_dir_size: Option<u64>,
}

/// Puts a device over that of an image.
pub type Layer = Box<dyn Fn(Arc<dyn Device>) -> std::io::Result<Arc<dyn Device>> + Send>;

pub(crate) struct Engine {
    options: CacheOptions,
    layer: Layer,
    cache: OnceCell<Cache>,
    /// Folder and size of the disk tier.
    tier_place: Option<(PathBuf, u64)>,
    tier: Arc<OnceLock<Arc<Tier>>>,
    /// How buckets are changed, and the state directory.
    writing: (WritingArguments, Option<PathBuf>),
    notes: RefCell<Vec<String>>,
}

impl EngineArguments {
    pub(crate) fn cache_bytes(&self) -> Option<u64> {
        self.cache
    }

    pub(crate) fn new(
        cache: Option<u64>,
        cache_dir: Option<PathBuf>,
        cache_dir_size: Option<u64>,
    ) -> Self {
        Self {
            cache,
            cache_dir,
            cache_dir_size,
        }
    }

    /// Sets an option of `-o NAME=VALUE`; returns whether it is one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "cache" => self.cache = Some(size::parse_positive(value)?),
            "cache_dir" if value.is_empty() => return Err("a directory is wanted".to_owned()),
            "cache_dir" => self.cache_dir = Some(value.into()),
            "cache_dir_size" => self.cache_dir_size = Some(size::parse_positive(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// These, with the others for what is unset.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            cache: self.cache.or(others.cache),
            cache_dir: self.cache_dir.or_else(|| others.cache_dir.clone()),
            cache_dir_size: self.cache_dir_size.or(others.cache_dir_size),
        }
    }

    /// The folder of the disk tier, if there is one.
    pub(crate) fn cache_dir(&self) -> Option<&Path> {
        self.cache_dir.as_deref()
    }

    pub(crate) fn cache_dir_size(&self) -> Option<u64> {
        self.cache_dir_size
    }

    /// The settings of the cache; `default_bytes` is its size if none was given.
    fn options(&self, default_bytes: u64) -> CacheOptions {
        CacheOptions::new(self.cache.unwrap_or_else(|| usual_bytes(default_bytes)))
    }
}

fn usual_bytes(default_bytes: u64) -> u64 {
    CacheOptions::usual_bytes(default_bytes, MEMORY_SHARE)
}

/// A note on a folder whose files may grow to `wanted_bytes`, if that exceeds them and what is
/// free.
fn lacks_room(folder: &Path, wanted_bytes: u64) -> Option<String> {
    let free = files::free_bytes(&File::open(folder).ok()?)?;
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let used = files.filter_map(|entry| Some(entry.metadata().ok()?.blocks() * BLOCK_BYTES));
    let room = used.fold(free, u64::saturating_add);
    (room < wanted_bytes).then(|| {
        let (place, room) = (folder.display(), size::display(room));
        let wanted = size::display(wanted_bytes);
        format!("{place}: has room for {room} of the {wanted} of --cache-dir-size")
    })
}

impl Engine {
    /// For a server or a mount. An impossible cache is a usage error with the numbers.
    pub(crate) fn server(arguments: &EngineArguments) -> anyhow::Result<Self> {
        Self::with(arguments.options(SERVER_CACHE_BYTES), "--cache")?.over_disk(arguments)
    }

    /// The same with the disk tier of the arguments.
    fn over_disk(self, arguments: &EngineArguments) -> anyhow::Result<Self> {
        if arguments.cache_dir.is_none() && arguments.cache_dir_size.is_some() {
            return Err(usage(
                "--cache-dir-size is of a folder: give --cache-dir, too",
            ));
        }
        let size = arguments.cache_dir_size.unwrap_or(TIER_BYTES);
        Ok(Self {
            tier_place: arguments.cache_dir.clone().map(|folder| (folder, size)),
            ..self
        })
    }

    /// The disk tier, opened now if it was not.
    pub(crate) fn tier(&self) -> anyhow::Result<Option<Arc<Tier>>> {
        let Some((folder, size)) = &self.tier_place else {
            return Ok(None);
        };
        if let Some(tier) = self.tier.get() {
            return Ok(Some(tier.clone()));
        }
        let tier = Tier::open(folder, *size).context("--cache-dir")?;
        lacks_room(folder, *size)
            .into_iter()
            .for_each(|line| self.note(line));
        Ok(Some(self.tier.get_or_init(|| tier).clone()))
    }

    /// For a command that ends by itself; `is_remote`: it uses objects of a server.
    pub(crate) fn command(arguments: &EngineArguments, is_remote: bool) -> anyhow::Result<Self> {
        let remote = || is_remote.then(|| usual_bytes(REMOTE_COMMAND_CACHE_BYTES));
        let size_bytes = arguments.cache.or_else(remote);
        Self::measured(size_bytes, &|_| {}, Box::new(Ok))?.over_disk(arguments)
    }

    /// The same with changed settings of the cache, and a layer over each device.
    pub(crate) fn measured(
        cache: Option<u64>,
        change: &dyn Fn(&mut CacheOptions),
        layer: Layer,
    ) -> anyhow::Result<Self> {
        let mut options = CacheOptions {
            // Most is read once: clearing new memory would be in vain.
            reader_keeps: true,
            ..CacheOptions::new(cache.unwrap_or_else(|| usual_bytes(COMMAND_CACHE_BYTES)))
        };
        change(&mut options);
        let engine = Self::with(options, "--cache")?;
        Ok(Self { layer, ..engine })
    }

    /// An engine for a mount of another server's export. The kernel keeps what it reads.
    pub(crate) fn remote(arguments: &EngineArguments) -> anyhow::Result<Self> {
        let usual = CacheOptions {
            reader_keeps: true,
            ..CacheOptions::remote(arguments.cache)
        };
        Self::with(usual, "--cache")?.over_disk(arguments)
    }

    /// `named`: the option for the size of the cache.
    fn with(options: CacheOptions, named: &str) -> anyhow::Result<Self> {
        options
            .check()
            .map_err(|error| usage(format!("{named}: {error}")))?;
        Ok(Self {
            options,
            layer: Box::new(Ok),
            cache: OnceCell::new(),
            tier_place: None,
            tier: Arc::default(),
            writing: (WritingArguments::default(), state::base_directory()),
            notes: RefCell::new(Vec::new()),
        })
    }

    /// The same with an own cache of this size, for one export; the disk tier is shared.
    pub(crate) fn of_export(&self, cache_bytes: u64) -> anyhow::Result<Self> {
        let own = Self::with(CacheOptions::new(cache_bytes), "cache")?;
        Ok(Self {
            tier_place: self.tier_place.clone(),
            tier: self.tier.clone(),
            writing: self.writing.clone(),
            ..own
        })
    }

    /// The same that changes buckets so, with state in `state` or the usual directory.
    pub(crate) fn with_writing(self, arguments: &WritingArguments, state: Option<&Path>) -> Self {
        let (_, usual) = self.writing;
        let state_directory = state.map(Path::to_owned).or(usual);
        Self {
            writing: (arguments.clone(), state_directory),
            ..self
        }
    }

    pub(crate) fn writing(&self, creates_at_once: bool) -> anyhow::Result<Writing> {
        let (arguments, state_directory) = &self.writing;
        arguments.writing(state_directory.as_deref(), creates_at_once)
    }

    /// Folders in which files are made, each with its option.
    pub(crate) fn folders(&self, staging: bool) -> Vec<(&'static str, PathBuf)> {
        let tier = self.tier_place.as_ref().map(|(folder, _)| folder.clone());
        let tier = tier.map(|folder| ("--cache-dir", folder));
        let writing = staging.then(|| self.writing(false).ok()).flatten();
        let staging = writing.map(|writing| ("--staging-dir", writing.staging_dir));
        tier.into_iter().chain(staging).collect()
    }

    /// The cache, made now if there is none.
    pub(crate) fn cache(&self) -> anyhow::Result<&Cache> {
        if let Some(cache) = self.cache.get() {
            return Ok(cache);
        }
        let cache = Cache::new(self.options).context("--cache")?;
        Ok(self.cache.get_or_init(|| cache))
    }

    pub(crate) fn has_cache(&self) -> bool {
        self.cache.get().is_some()
    }

    /// Opens storage, to be written too if it allows that.
    pub(crate) fn open(
        &self,
        storage: &Storage,
        writable: bool,
    ) -> anyhow::Result<storage::Opened> {
        let tier = match storage {
            Storage::Object(_) => self.tier()?,
            Storage::Path(_) | Storage::Ram(_) | Storage::Url(_) => None,
        };
        let want = if writable { Want::Write } else { Want::Read };
        let opened = self.over(storage.open(want, tier)?)?;
        if let Some(reason) = opened.read_only.as_ref().filter(|_| writable) {
            self.note(format!("read-only: {reason}"));
        }
        Ok(opened)
    }

    /// Takes off what is around a disc image, up to what is wanted: these layers.
    pub(crate) fn unwrap(
        &self,
        storage: &Storage,
        mut opened: storage::Opened,
        wanted: Wanted,
    ) -> anyhow::Result<(storage::Opened, Vec<String>)> {
        let mut files = Vec::new();
        let name = opened.device.name().to_owned();
        let beside = RefCell::new(&mut files);
        let mut bar = Progress::new(true);
        bar.expect(Some(opened.device.length_bytes()));
        bar.begin(&name);
        let bar = RefCell::new(bar);
        let progress = |bytes: u64| {
            let mut bar = bar.borrow_mut();
            let done = bar.bytes();
            bar.add(bytes.saturating_sub(done));
        };
        let depth = Depth::Open(&progress);
        let whole = (opened.device, wanted);
        let contained = contained::unwrap(storage, whole, depth, |storage| {
            let opened = self.open(storage, false)?;
            beside.borrow_mut().extend(opened.files);
            Ok(opened.device)
        });
        drop(bar);
        let contained = contained.map_err(|trouble| match trouble {
            Trouble::Unreadable(what) => anyhow!("{name}: is {what}"),
            Trouble::Failed(error) => error.context(name.clone()),
        })?;
        let layers: Vec<String> = contained.layers.iter().map(Wrapping::to_string).collect();
        if !layers.is_empty() {
            self.note(format!("{name}: {}", layers.join(", ")));
        }
        for trouble in contained.troubles {
            report(&format!("{name}: {trouble}"));
        }
        opened.device = contained.device;
        opened.files.append(&mut files);
        Ok((opened, layers))
    }

    /// Keeps the notes on storage, and puts the layer over its device.
    pub(crate) fn over(&self, mut opened: storage::Opened) -> anyhow::Result<storage::Opened> {
        let mut notes = self.notes.borrow_mut();
        notes.append(&mut opened.notes);
        drop(notes);
        let name = opened.device.name().to_owned();
        opened.device = (self.layer)(opened.device).context(name)?;
        Ok(opened)
    }

    /// Adds a line to [`Self::notes`].
    pub(crate) fn note(&self, line: String) {
        self.notes.borrow_mut().push(line);
    }

    /// Takes [`Self::notes`]; later notes come with the next call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        let notes = self.notes();
        self.notes.take();
        notes
    }

    /// Takes the new lines, without that of the cache.
    pub(crate) fn take_new_notes(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Lines on the cache's memory, on how files are read, and on what belongs to no source.
    pub(crate) fn notes(&self) -> Vec<String> {
        let cache = self.cache.get().map(|cache| {
            let bytes = size::display(cache.size_bytes());
            format!("cache: {bytes} in {}", cache.page_size())
        });
        let others = self.notes.borrow();
        cache.into_iter().chain(others.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of, one_line};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArguments,
    }

    fn arguments(words: &[&str]) -> EngineArguments {
        let words = std::iter::once("pagewell").chain(words.iter().copied());
        Line::try_parse_from(words).unwrap().engine
    }

    #[test]
    fn impossible_caches_are_usage_errors_with_the_numbers() {
        for (size, parts) in [
            ("1m", ["1 MiB", "4 MiB"]),
            ("1000000g", ["1024000000 MiB", "this process may have"]),
        ] {
            let error = Engine::command(&arguments(&["--cache", size]), false);
            let error = error.err().unwrap();
            assert_eq!(exit_code_of(&error), USAGE);
            let line = one_line(&error);
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
        assert!(Engine::server(&arguments(&[])).is_ok());
    }

    #[test]
    fn a_disk_tier_is_named_in_both_ways() {
        let mut given = EngineArguments::default();
        for (name, value) in [
            ("cache", "8m"),
            ("cache_dir", "/c"),
            ("cache_dir_size", "1g"),
        ] {
            assert_eq!(given.set(name, value), Ok(true));
            assert!(given.set(name, "").is_err());
        }
        assert_eq!(given.set("speed", "9"), Ok(false));
        let others = arguments(&["--cache-dir", "/other", "--cache", "16m"]);
        let tier = |arguments| Engine::server(&arguments).unwrap().tier_place;
        assert_eq!(
            tier(given.clone().or(&others)),
            Some((PathBuf::from("/c"), 1 << 30))
        );
        let usual = EngineArguments::default().or(&others);
        assert_eq!(tier(usual), Some((PathBuf::from("/other"), TIER_BYTES)));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lacks_room(folder.path(), 4096), None);
        let line = lacks_room(folder.path(), u64::MAX).unwrap();
        assert!(line.ends_with(" of --cache-dir-size"), "{line}");
        let alone = Engine::server(&arguments(&["--cache-dir-size", "1g"]));
        assert_eq!(exit_code_of(&alone.err().unwrap()), USAGE);
    }

    #[test]
    fn an_export_with_a_cache_of_its_own_has_the_disk_tier_too() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        let engine = Engine::server(&arguments(&["--cache-dir", folder])).unwrap();
        let own = engine.of_export(4 << 20).unwrap();
        let tiers = [&own, &engine].map(|engine| engine.tier().unwrap().unwrap());
        assert!(Arc::ptr_eq(&tiers[0], &tiers[1]));
    }
}
