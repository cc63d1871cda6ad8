//! The page cache and the devices below it, as the command line asks for them.
//!
//! One cache serves all images of a process. It is made when the first image is opened, so that
//! commands that need none take no memory for it.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use pagewell_cache::{Cache, CacheOptions};
use pagewell_device::Device;

use crate::failure::usage;
use crate::storage::{self, Storage, Want};
use pagewell_base::size;

/// Memory of the cache of a server, unless that is more than its share of the machine.
const SERVER_CACHE_BYTES: u64 = 256 << 20;
/// The same for a command, which reads most things once.
const COMMAND_CACHE_BYTES: u64 = 64 << 20;
/// At most one part of so many of the machine's memory.
const MEMORY_SHARE: u64 = 8;

/// Options of every command that reads images.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for images")]
pub(crate) struct EngineArguments {
    /// Memory of the page cache that all images share, taken as it is used: 4m or more
    /// [default: 256m for serve and mount, 64m for others, at most 1/8 of the machine's memory, 1/6
    /// of it for mounts of nfs://, and 1/4 of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    cache: Option<u64>,
}

/// Puts a device over that of an image.
pub type Layer = Box<dyn Fn(Arc<dyn Device>) -> std::io::Result<Arc<dyn Device>> + Send>;

/// See the module's text.
pub(crate) struct Engine {
    options: CacheOptions,
    layer: Layer,
    cache: OnceCell<Cache>,
    notes: RefCell<Vec<String>>,
}

impl EngineArguments {
    /// The size of the cache that was asked for, in bytes.
    pub(crate) fn cache_bytes(&self) -> Option<u64> {
        self.cache
    }

    /// The same with what was said elsewhere.
    pub(crate) fn with(&self, cache_bytes: Option<u64>) -> Self {
        Self {
            cache: cache_bytes.or(self.cache),
        }
    }

    /// The settings of the cache; `default_bytes` is its size when none was asked for.
    fn options(&self, default_bytes: u64) -> CacheOptions {
        let usual = || CacheOptions::usual_bytes(default_bytes, MEMORY_SHARE);
        CacheOptions::new(self.cache.unwrap_or_else(usual))
    }
}

impl Engine {
    /// An engine for what serves or mounts; a cache that cannot be is a usage error with the
    /// numbers.
    pub(crate) fn server(arguments: &EngineArguments) -> anyhow::Result<Self> {
        Self::with(arguments.options(SERVER_CACHE_BYTES), "--cache")
    }

    /// The same for a command that ends by itself.
    pub(crate) fn command(arguments: &EngineArguments) -> anyhow::Result<Self> {
        Self::measured(arguments.cache, &|_| {}, Box::new(Ok))
    }

    /// The same with a cache whose settings were changed, and a layer over each device.
    pub(crate) fn measured(
        cache: Option<u64>,
        change: &dyn Fn(&mut CacheOptions),
        layer: Layer,
    ) -> anyhow::Result<Self> {
        let mut options = CacheOptions {
            // It reads most things once: new memory for them would be cleared for nothing.
            reader_keeps: true,
            ..EngineArguments { cache }.options(COMMAND_CACHE_BYTES)
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
        Self::with(usual, "--cache")
    }

    /// `named`: what gives the size of the cache.
    fn with(options: CacheOptions, named: &str) -> anyhow::Result<Self> {
        options
            .check()
            .map_err(|error| usage(format!("{named}: {error}")))?;
        Ok(Self {
            options,
            layer: Box::new(Ok),
            cache: OnceCell::new(),
            notes: RefCell::new(Vec::new()),
        })
    }

    /// The same with a cache of its own of this size, for one export.
    pub(crate) fn of_export(cache_bytes: u64) -> anyhow::Result<Self> {
        Self::with(CacheOptions::new(cache_bytes), "cache")
    }

    /// The cache, made now if there is none.
    pub(crate) fn cache(&self) -> anyhow::Result<&Cache> {
        if let Some(cache) = self.cache.get() {
            return Ok(cache);
        }
        let cache = Cache::new(self.options).context("--cache")?;
        Ok(self.cache.get_or_init(|| cache))
    }

    /// Whether anything was read through it.
    pub(crate) fn has_cache(&self) -> bool {
        self.cache.get().is_some()
    }

    /// Opens storage; to be written, too, when that is asked for and it allows it.
    pub(crate) fn open(
        &self,
        storage: &Storage,
        writable: bool,
    ) -> anyhow::Result<storage::Opened> {
        let want = if writable { Want::Write } else { Want::Read };
        let mut opened = storage.open(want)?;
        let mut notes = self.notes.borrow_mut();
        notes.append(&mut opened.notes);
        if let Some(reason) = opened.read_only.as_ref().filter(|_| writable) {
            notes.push(format!("read-only: {reason}"));
        }
        drop(notes);
        let name = opened.device.name().to_owned();
        opened.device = (self.layer)(opened.device).context(name)?;
        Ok(opened)
    }

    /// Adds a line to [`Self::notes`].
    pub(crate) fn note(&self, line: String) {
        self.notes.borrow_mut().push(line);
    }

    /// Takes [`Self::notes`]: what is added later comes with the next ones.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        let notes = self.notes();
        self.notes.take();
        notes
    }

    /// Takes the lines that were added since, without that of the cache.
    pub(crate) fn take_new_notes(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Lines on which memory the cache has, if there is one, how files are read, and what
    /// is not part of a source.
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
            let error = Engine::command(&arguments(&["--cache", size]));
            let error = error.err().unwrap();
            assert_eq!(exit_code_of(&error), USAGE);
            let line = one_line(&error);
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        }
        assert!(Engine::server(&arguments(&[])).is_ok());
    }
}
