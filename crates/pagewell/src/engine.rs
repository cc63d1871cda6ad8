//! The page cache and the devices below it, as the command line asks for them.
//!
//! One cache serves all images of a process. It is made when the first image is opened, so that
//! commands that need none take no memory for it.

use std::cell::{OnceCell, RefCell};

use anyhow::Context;
use clap::Args;
use pagewell_cache::{Cache, CacheOptions, ReadAheadRule};
use pagewell_device::model::Parameters;

use crate::failure::usage;
use crate::storage::{self, Storage, Want};
use pagewell_base::size;

/// Memory of the cache of a server, unless that is more than its share of the machine.
const SERVER_CACHE_BYTES: u64 = 256 << 20;
/// The same for a command, which reads most things once.
const COMMAND_CACHE_BYTES: u64 = 64 << 20;
/// At most one part of so many of the machine's memory.
const MEMORY_SHARE: u64 = 8;

/// The heading of what only measuring needs: not in the short help.
const MEASURING: &str = "Options for measuring";

/// Options of every command that reads images.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options for images")]
pub(crate) struct EngineArguments {
    /// Memory of the page cache that all images share, taken as it is used: 4m or more
    /// [default: 256m for serve and mount, 64m for others, at most 1/8 of the machine's memory, 1/6
    /// of it for mounts of nfs://, and 1/4 of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    cache: Option<u64>,
    /// Put a simulated device over every image: dvd, hdd-7200, fc-15k, ssd or nvme, such as
    /// dvd,speed=20 for one whose clock runs 20 times as fast
    #[arg(
        long,
        value_name = "NAME[,speed=X]",
        value_parser = Parameters::parse,
        hide_short_help = true,
        help_heading = MEASURING
    )]
    device_model: Option<Parameters>,
    /// Fetch nothing before it is asked for
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    no_readahead: bool,
    /// Send requests to the device as they come, one at a time
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    no_elevator: bool,
    /// Do not join adjacent requests
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    no_merge: bool,
    /// Keep what a stream has passed until its place is needed
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    no_free_behind: bool,
    /// Fetch in pieces of 2 KiB
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    no_page_chunk: bool,
    /// All five: what reading was like without the engine, to measure against
    #[arg(long, hide_short_help = true, help_heading = MEASURING)]
    baseline: bool,
}

/// See the module's text.
pub(crate) struct Engine {
    arguments: EngineArguments,
    options: CacheOptions,
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
            ..self.clone()
        }
    }

    /// The settings of the cache; `default_bytes` is its size when none was asked for.
    fn options(&self, default_bytes: u64) -> CacheOptions {
        let usual = || CacheOptions::usual_bytes(default_bytes, MEMORY_SHARE);
        let size_bytes = self.cache.unwrap_or_else(usual);
        self.switched(CacheOptions::new(size_bytes))
    }

    /// Switches off what is to be off.
    fn switched(&self, usual: CacheOptions) -> CacheOptions {
        let mut options = if self.baseline {
            CacheOptions {
                size_bytes_min: usual.size_bytes_min,
                ..CacheOptions::baseline(usual.size_bytes)
            }
        } else {
            usual
        };
        if self.no_readahead {
            options.read_ahead = ReadAheadRule::Off;
        }
        options.elevator &= !self.no_elevator;
        options.merge &= !self.no_merge;
        options.free_behind &= !self.no_free_behind;
        options.page_chunk &= !self.no_page_chunk;
        options
    }
}

impl Engine {
    /// An engine for what serves or mounts; a cache that cannot be is a usage error with the
    /// numbers.
    pub(crate) fn server(arguments: &EngineArguments) -> anyhow::Result<Self> {
        Self::with(arguments, arguments.options(SERVER_CACHE_BYTES), "--cache")
    }

    /// The same for a command that ends by itself.
    pub(crate) fn command(arguments: &EngineArguments) -> anyhow::Result<Self> {
        let options = CacheOptions {
            // It reads most things once: new memory for them would be cleared for nothing.
            reader_keeps: true,
            ..arguments.options(COMMAND_CACHE_BYTES)
        };
        Self::with(arguments, options, "--cache")
    }

    /// An engine for a mount of another server's export. The kernel keeps what it reads.
    pub(crate) fn remote(arguments: &EngineArguments) -> anyhow::Result<Self> {
        let usual = CacheOptions {
            reader_keeps: true,
            ..CacheOptions::remote(arguments.cache)
        };
        Self::with(arguments, arguments.switched(usual), "--cache")
    }

    /// `named`: what gives the size of the cache.
    fn with(
        arguments: &EngineArguments,
        options: CacheOptions,
        named: &str,
    ) -> anyhow::Result<Self> {
        options
            .check()
            .map_err(|error| usage(format!("{named}: {error}")))?;
        Ok(Self {
            arguments: arguments.clone(),
            options,
            cache: OnceCell::new(),
            notes: RefCell::new(Vec::new()),
        })
    }

    /// The same with a cache of its own of this size, for one export.
    pub(crate) fn of_export(&self, cache_bytes: u64) -> anyhow::Result<Self> {
        let options = self.arguments.switched(CacheOptions::new(cache_bytes));
        Self::with(&self.arguments, options, "cache")
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

    /// Opens storage, with the simulated device over it that was asked for; to be written, too,
    /// when that is asked for and it allows it.
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
        if let Some(parameters) = &self.arguments.device_model {
            opened.device = storage::model(opened.device, parameters.clone())?;
        }
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
    fn each_switch_turns_one_thing_off() {
        let all = CacheOptions::new(8 << 20);
        let options = |word| arguments(&["--cache", "8m", word]).options(1);
        assert_eq!(arguments(&["--cache", "8m"]).options(1), all);
        let read_ahead = ReadAheadRule::Off;
        assert_eq!(
            options("--no-readahead"),
            CacheOptions { read_ahead, ..all }
        );
        let elevator = false;
        assert_eq!(options("--no-elevator"), CacheOptions { elevator, ..all });
        let merge = false;
        assert_eq!(options("--no-merge"), CacheOptions { merge, ..all });
        let free_behind = false;
        assert_eq!(
            options("--no-free-behind"),
            CacheOptions { free_behind, ..all }
        );
        let page_chunk = false;
        assert_eq!(
            options("--no-page-chunk"),
            CacheOptions { page_chunk, ..all }
        );
        assert_eq!(options("--baseline"), CacheOptions::baseline(8 << 20));
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
