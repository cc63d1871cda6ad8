//! One run of a workload over a new mount, so that nothing is known before.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_cache::{Cache, CacheOptions};
use pagewell_fs::{Credentials, FileSystem};
use pagewell_load::measure::memory_bytes;
use pagewell_source_nfs::{NfsFileSystem, ReadAhead, Url};

use super::file::{OpenedFile, credentials, remove};
use super::recording::{Beginning, Recording, Stopwatch};
use super::server::Server;
use super::workload::Workload;
use crate::experiment::{Mode, Result, wrong};

/// Blocks of the report's client.
pub(super) const REPORT_BLOCK_BYTES: u32 = 64 << 10;
/// Memory of the cache for each byte of the file, so that a rewritten file gathers whole, and
/// twice.
const CACHE_TIMES: u64 = 8;
const CACHE_BYTES_MORE: u64 = 32 << 20;
/// At most one part of so many of the machine's memory.
const MEMORY_SHARE: u64 = 2;
/// The seed of laid-out files.
const LAYOUT_SEED: u64 = 1;
/// Blocks read back after a run of writes.
const CHECKED_BLOCKS: usize = 16;

/// How to mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) read_ahead: ReadAhead,
    /// Bytes of a READ and of a WRITE; `None`: as many as the server takes.
    pub(super) transfer_bytes: Option<u32>,
    /// A round trip more for every call.
    pub(super) round_trip: Option<Duration>,
    /// Memory of the cache.
    pub(super) memory: Memory,
}

impl Setting {
    /// As a mount works without options.
    pub(super) const USUAL: Self = Self {
        mode: Mode::Enhanced,
        read_ahead: ReadAhead::Auto,
        transfer_bytes: None,
        round_trip: None,
        memory: Memory::Whole,
    };
}

/// Memory of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Enough to gather the whole file, and twice.
    Whole,
    /// That of a mount without options.
    Usual,
}

impl Memory {
    fn options(self, file_bytes: u64) -> CacheOptions {
        if self == Self::Usual {
            let mut options = CacheOptions::remote(None);
            // As of a mount in use: else half of the time is the system's, for zeros.
            options.populate_bytes = file_bytes + file_bytes / 8 + CACHE_BYTES_MORE;
            return options;
        }
        let wanted = CACHE_TIMES.saturating_mul(file_bytes) + CACHE_BYTES_MORE;
        let memory_bytes = memory_bytes("MemTotal").unwrap_or(wanted);
        let mut options = CacheOptions::new(wanted.min(memory_bytes / MEMORY_SHARE));
        options.dirty_bytes_max = Some(options.size_bytes / 2);
        options
    }

    /// Whether a file that is written in random order gathers whole in the cache of a usual mount:
    /// a device alone has 5/16 of a cache, and writes incomplete pages at 7/8 of that.
    pub(super) fn usual_holds(file_bytes: u64) -> bool {
        let size_bytes = CacheOptions::remote(None).size_bytes;
        file_bytes <= size_bytes / 16 * 5 / 8 * 7
    }
}

/// A server with files laid out.
pub(super) struct Place {
    /// `None` for a foreign server.
    server: Option<Server>,
    url: String,
    pub(super) file_bytes: u64,
    names: Names,
    pub(super) layouts: Vec<Recording>,
}

struct Names {
    read: String,
    rewritten: String,
    written: String,
}

impl Place {
    /// Starts a server of our own.
    pub(super) fn start(
        program: &Path,
        threads: u32,
        source: &str,
        file_bytes: u64,
    ) -> Result<Self> {
        let server = Server::start(program, threads, source)?;
        let url = server.url.clone();
        Self::lay_out(Some(server), url, file_bytes)
    }

    /// Uses the server of a URL.
    pub(super) fn foreign(url: &str, file_bytes: u64) -> Result<Self> {
        Self::lay_out(None, url.to_owned(), file_bytes)
    }

    fn lay_out(server: Option<Server>, url: String, file_bytes: u64) -> Result<Self> {
        let name = |what: &str| {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("pagewell-bench-{what}-{}-{number}", std::process::id())
        };
        let mut place = Self {
            server,
            url,
            file_bytes,
            names: Names {
                read: name("read"),
                rewritten: name("rewritten"),
                written: name("written"),
            },
            layouts: Vec::new(),
        };
        for name in [place.names.read.clone(), place.names.rewritten.clone()] {
            let mounted = place.mount(&Setting::USUAL)?;
            let user = credentials();
            let file = OpenedFile::create(&mounted, &user, &name)?;
            let recording = place.write_all(&mounted, &file, Workload::LAYOUT, LAYOUT_SEED)?;
            place.layouts.push(recording);
        }
        Ok(place)
    }

    fn url(&self, setting: &Setting) -> Result<Url> {
        let mut url = Url::parse(&self.url).map_err(wrong)?;
        url.options.read_ahead = setting.read_ahead;
        url.options.delay = setting.round_trip.or(url.options.delay);
        if setting.transfer_bytes.is_some() {
            url.options.read_bytes = setting.transfer_bytes;
            url.options.write_bytes = setting.transfer_bytes;
        }
        if setting.mode == Mode::Baseline {
            url.options.connections = 1;
        }
        Ok(url)
    }

    fn mount(&self, setting: &Setting) -> Result<NfsFileSystem> {
        let cache = Cache::new(setting.memory.options(self.file_bytes))?;
        NfsFileSystem::mount(&self.url(setting)?, &cache).map_err(wrong)
    }

    /// Reads the file `passes` times, from an empty cache.
    pub(super) fn read(
        &self,
        setting: &Setting,
        workload: Workload,
        passes: u64,
    ) -> Result<Vec<Recording>> {
        let orders = (0..passes).map(|pass| self.order(workload, pass));
        self.read_in_orders(setting, workload, orders)
    }

    /// Reads so many blocks of the file, from an empty cache.
    pub(super) fn read_some(
        &self,
        setting: &Setting,
        workload: Workload,
        count: usize,
    ) -> Result<Recording> {
        let mut order = self.order(workload, 0);
        order.truncate(count);
        let mut all = self.read_in_orders(setting, workload, [order])?;
        Ok(all.remove(0))
    }

    fn read_in_orders(
        &self,
        setting: &Setting,
        workload: Workload,
        orders: impl IntoIterator<Item = Vec<u32>>,
    ) -> Result<Vec<Recording>> {
        let mounted = self.mount(setting)?;
        let user = credentials();
        let file = OpenedFile::open(&mounted, &user, &self.names.read)?;
        let read = |block: &mut [u8], offset| file.read(block, offset, LAYOUT_SEED);
        let passes = orders
            .into_iter()
            .map(|order| self.record(&mounted, workload, order, read, || Ok(())));
        let passes = passes.collect::<Result<Vec<_>>>()?;
        file.close()?;
        Ok(passes)
    }

    /// Does an operation on each of these blocks, then `close`, and records the costs.
    fn record(
        &self,
        mounted: &NfsFileSystem,
        workload: Workload,
        order: Vec<u32>,
        operation: impl Fn(&mut [u8], u64) -> Result<()>,
        close: impl FnOnce() -> Result<()>,
    ) -> Result<Recording> {
        let sample = || self.server.as_ref().and_then(Server::sample);
        let mut block = vec![0; workload.block_bytes as usize];
        let beginning = Beginning::now(mounted.statistics_of_calls(), sample());
        let mut watch = Stopwatch::start(order.len(), workload.block_bytes);
        for number in order {
            let began = Instant::now();
            let offset = u64::from(number) * u64::from(workload.block_bytes);
            operation(&mut block, offset)?;
            watch.lap(began);
        }
        let mut recording = watch.stop();
        let closing = Instant::now();
        close()?;
        if workload.writes {
            recording.close_time = closing.elapsed();
        }
        beginning.end(&mut recording, &mounted.statistics_of_calls(), sample());
        recording.transfer_bytes = mounted.transfer_bytes();
        Ok(recording)
    }

    /// Writes a new file, or every block of an existing one in random order; then checks the bytes
    /// at the server.
    pub(super) fn write(&self, setting: &Setting, workload: Workload) -> Result<Recording> {
        static NEXT_SEED: AtomicU64 = AtomicU64::new(LAYOUT_SEED + 1);
        let seed = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
        let user = credentials();
        let mounted = self.mount(setting)?;
        let (name, file) = if workload.random {
            let name = &self.names.rewritten;
            (name, OpenedFile::open(&mounted, &user, name)?)
        } else {
            let name = &self.names.written;
            (name, OpenedFile::create(&mounted, &user, name)?)
        };
        let file = match setting.mode {
            Mode::Baseline => file.through_blocks(&self.url(setting)?)?,
            Mode::Enhanced => file,
        };
        let recording = self.write_all(&mounted, &file, workload, seed)?;
        drop(file);
        drop(mounted);
        self.check(setting, workload, &user, (name, seed))?;
        Ok(recording)
    }

    fn write_all(
        &self,
        mounted: &NfsFileSystem,
        file: &OpenedFile<'_>,
        workload: Workload,
        seed: u64,
    ) -> Result<Recording> {
        let order = self.order(workload, seed);
        let write = |block: &mut [u8], offset| file.write(block, offset, seed);
        let mut recording = self.record(mounted, workload, order, write, || file.close())?;
        file.record(&mut recording);
        Ok(recording)
    }

    /// Reads some blocks over a new mount; removes a new file.
    fn check(
        &self,
        setting: &Setting,
        workload: Workload,
        user: &Credentials,
        (name, seed): (&str, u64),
    ) -> Result<()> {
        let plain = Setting {
            round_trip: None,
            memory: Memory::Whole,
            ..*setting
        };
        let mounted = self.mount(&plain)?;
        let file = OpenedFile::open(&mounted, user, name)?;
        let blocks = self.order(Workload::RANDOM_READ_SMALL, seed);
        let mut block = vec![0; Workload::RANDOM_READ_SMALL.block_bytes as usize];
        for number in blocks.into_iter().take(CHECKED_BLOCKS) {
            let offset = u64::from(number) * block.len() as u64;
            file.read(&mut block, offset, seed)?;
        }
        file.close()?;
        if !workload.random {
            remove(&mounted, user, name);
        }
        Ok(())
    }

    fn order(&self, workload: Workload, seed: u64) -> Vec<u32> {
        let blocks = self.file_bytes / u64::from(workload.block_bytes);
        workload.order(u32::try_from(blocks).unwrap_or(u32::MAX), seed)
    }

    /// Whether the server's own costs are known.
    pub(super) fn is_ours(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn describe(&self) -> Result<String> {
        let url = Url::parse(&self.url).map_err(wrong)?;
        let cache = Cache::new(CacheOptions::new(CACHE_BYTES_MORE))?;
        let mounted = NfsFileSystem::mount(&url, &cache);
        let mounted = mounted.map_err(wrong)?;
        let (read, write) = mounted.transfer_bytes();
        let asked = |bytes: Option<u32>| bytes.map_or("any".to_owned(), |bytes| bytes.to_string());
        let (asked_read, asked_write) = (url.options.read_bytes, url.options.write_bytes);
        Ok(format!(
            "{}; rsize asked {} agreed {read}, wsize asked {} agreed {write}",
            mounted.describe(),
            asked(asked_read),
            asked(asked_write)
        ))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Also at a server of our own, which may serve a directory of the user.
        if let Ok(mounted) = self.mount(&Setting::USUAL) {
            let user = credentials();
            for name in [&self.names.read, &self.names.rewritten, &self.names.written] {
                remove(&mounted, &user, name);
            }
        }
    }
}
