//! A regular file or a block device as a device.
//!
//! ```text
//!   submit ──> check ──> cut to the largest transfer ──> engine ──> kernel
//!                                                          │
//!   completion <────────── Transfer::advance <─────────────┘
//!                          again, when short or interrupted
//! ```
//!
//! - Opened with `O_DIRECT` where that works; else through the kernel's page cache, with a warning.
//! - [`Engine::Ring`] or [`Engine::Workers`] carries requests, started by the first.
//! - A short transfer before the last, partial block means a truncated file: [`Error::PastEnd`],
//!   never zeros.
//! - Dropping the device waits for its requests: the kernel writes to their memory.
//! - A flush is `fdatasync`, a durable write `RWF_DSYNC`. A file open for writing is locked.
//!
//! Weakness: the length is that at opening.

mod lock;
mod open;
mod ring;
mod sysfs;
mod transfer;
mod workers;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use rustix::io::Errno;

use crate::device::check;
use crate::request::pieces;
use crate::warning::warn_once;
use crate::{Device, Error, Geometry, Memory, Operation, Request, Result};
use ring::{RINGS_MAX, Rings};
use transfer::{Target, Transfer};
use workers::FileWorkers;

const QUEUE_DEPTH: u32 = 64;
/// The kernel allows 32,768 entries.
const QUEUE_DEPTH_MAX: u32 = 4096;
const WORKERS: u32 = 16;
/// More only cost memory.
const WORKERS_MAX: u32 = 256;

/// What carries requests to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`; else the workers.
    #[default]
    Ring,
    /// Threads with `preadv` and `pwritev`.
    Workers,
}

/// How to open a [`FileDevice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Bypasses the kernel's page cache (`O_DIRECT`) where that works.
    pub direct: bool,
    /// What carries requests.
    pub engine: Engine,
    /// Allows writes and claims the file: [`Error::InUse`] when another program has.
    pub writable: bool,
    /// For a few sectors: no read-ahead and, for files of this user, no change of the access time
    /// (`O_NOATIME`).
    pub unnoticed: bool,
    /// A ring's requests in the kernel, 1 to 4096; more wait in order.
    pub queue_depth: u32,
    /// Rings, each with a completing thread, 1 to 8; by default one for 8 processors.
    pub rings: u32,
    /// Threads of [`Engine::Workers`], 1 to 256.
    pub workers: u32,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            direct: true,
            engine: Engine::Ring,
            writable: false,
            unnoticed: false,
            queue_depth: QUEUE_DEPTH,
            rings: ring::usual_count(),
            workers: WORKERS,
        }
    }
}

enum Carrier {
    Rings(Rings),
    Workers(FileWorkers),
}

/// An open file or block device.
pub struct FileDevice {
    /// First: dropping it ends all requests before the descriptors close.
    carrier: OnceLock<Carrier>,
    options: FileOptions,
    target: Arc<Target>,
    geometry: Geometry,
}

impl FileDevice {
    /// Opens `path` for reading. Other than files and block devices fail with `EINVAL`, directories
    /// with `EISDIR`.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, FileOptions::default())
    }

    /// [`Self::open`] with options.
    pub fn open_with(path: &Path, options: FileOptions) -> Result<Self> {
        let name = path.display().to_string();
        let options = FileOptions {
            queue_depth: options.queue_depth.clamp(1, QUEUE_DEPTH_MAX),
            rings: options.rings.clamp(1, RINGS_MAX),
            workers: options.workers.clamp(1, WORKERS_MAX),
            ..options
        };
        match open::open(path, &name, &options) {
            Ok(Some((target, geometry))) => Ok(Self {
                carrier: OnceLock::new(),
                options,
                target: Arc::new(target),
                geometry,
            }),
            Ok(None) => Err(Error::InUse { device: name }),
            Err(errno) => Err(Error::Open {
                device: name,
                errno,
            }),
        }
    }

    /// Whether the kernel's page cache is bypassed.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.target.direct.is_some()
    }

    /// The engine in use, started now if need be.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match self.carrier() {
            Carrier::Rings(_) => Engine::Ring,
            Carrier::Workers(_) => Engine::Workers,
        }
    }

    fn carrier(&self) -> &Carrier {
        self.carrier.get_or_init(|| {
            let workers = || Carrier::Workers(FileWorkers::new(&self.target, self.options.workers));
            if self.options.engine == Engine::Workers {
                return workers();
            }
            let FileOptions {
                queue_depth, rings, ..
            } = self.options;
            match Rings::start(&self.target, queue_depth, rings) {
                Ok(rings) => Carrier::Rings(rings),
                Err(error) => {
                    static ONCE: Once = Once::new();
                    let name = &self.target.name;
                    let text = format!("{name}: no io_uring ({error}): threads are used");
                    warn_once(&ONCE, &text);
                    workers()
                }
            }
        })
    }

    fn prepare(&self, request: Request, transfers: &mut Vec<Transfer>) {
        let (name, writable) = (&self.target.name, self.target.writable);
        let checked = match request.operation() {
            Operation::Write if !writable => {
                Err(Error::failed(name, request.offset(), Errno::BADF))
            }
            _ => check(self, &request),
        };
        if let Err(error) = checked {
            return request.fail(0, error);
        }
        if request.operation() == Operation::Flush {
            // Open for reading: nothing to make durable.
            return match writable {
                true => transfers.push(Transfer::new(request, &self.target)),
                false => request.succeed(),
            };
        }
        if request.is_empty() {
            return request.succeed();
        }
        let lengths = self.lengths(&request);
        if lengths.len() == 1 {
            transfers.push(Transfer::new(request, &self.target));
            return;
        }
        for piece in request.split(&lengths) {
            transfers.push(Transfer::new(piece, &self.target));
        }
    }

    /// Splits a request at the longest transfer, and a write at the tail, too.
    fn lengths(&self, request: &Request) -> Vec<usize> {
        let longest = self.geometry.transfer_bytes_max as usize;
        let before_tail = self.target.tail_start.saturating_sub(request.offset());
        let before_tail = usize::try_from(before_tail).unwrap_or(usize::MAX);
        let is_cut = request.operation() == Operation::Write && before_tail < request.len();
        let first = if is_cut { before_tail } else { request.len() };
        let parts = [first, request.len() - first].into_iter();
        parts.flat_map(|part| pieces(part, longest)).collect()
    }

    fn carry(&self, transfers: Vec<Transfer>) {
        if transfers.is_empty() {
            return;
        }
        match self.carrier() {
            Carrier::Rings(rings) => rings.submit(transfers),
            Carrier::Workers(workers) => workers.submit(transfers),
        }
    }
}

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.target.name
    }

    fn length_bytes(&self) -> u64 {
        self.target.length_bytes
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) {
        let mut transfers = Vec::with_capacity(1);
        self.prepare(request, &mut transfers);
        self.carry(transfers);
    }

    fn submit_many(&self, requests: Vec<Request>) {
        let mut transfers = Vec::with_capacity(requests.len());
        for request in requests {
            self.prepare(request, &mut transfers);
        }
        self.carry(transfers);
    }

    fn register_memory(&self, memory: &Memory) {
        if let Carrier::Rings(rings) = self.carrier() {
            rings.register(memory);
        }
    }
}
