//! A regular file or a block device as a device.
//!
//! ```text
//!   submit ──> check ──> cut to the largest transfer ──> engine ──> kernel
//!                                                          │
//!   completion <────────── Transfer::advance <─────────────┘
//!                          again, when short or interrupted
//! ```
//!
//! - It is opened with `O_DIRECT` where that works, so that the cache above is the only one, and
//!   through the kernel's page cache where it does not: said once, counted.
//! - Requests are carried by rings ([`Engine::Ring`]) or by threads ([`Engine::Workers`]). The
//!   engine starts with the first request.
//! - The last block of a file may be a part. A short transfer anywhere else means that the file
//!   was truncated after it was opened: [`Error::PastEnd`], never zeros.
//! - A device that is dropped waits for its requests, because the kernel writes to their memory.
//!
//! - A flush is `fdatasync`, a durable write `RWF_DSYNC`. What is opened for writing is locked.
//!
//! Known weakness: the length is that of the moment of opening; what a file grows by later is
//! not seen.

mod lock;
mod open;
mod ring;
mod rings;
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
use rings::{RINGS_MAX, Rings};
use transfer::{Target, Transfer};
use workers::Workers;

/// Requests worked on at a time, unless the options say otherwise.
const QUEUE_DEPTH: u32 = 64;
/// What a ring can hold, with room to spare (the kernel's limit is 32,768 entries).
const QUEUE_DEPTH_MAX: u32 = 4096;
/// Threads of [`Engine::Workers`], unless the options say otherwise.
const WORKERS: u32 = 16;
/// More threads than this only cost memory.
const WORKERS_MAX: u32 = 256;

/// What carries requests to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`; where the kernel refuses it, the workers.
    #[default]
    Ring,
    /// A pool of threads that call `preadv` and `pwritev`.
    Workers,
}

/// How to open a [`FileDevice`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Going past the kernel's page cache (`O_DIRECT`), where that works.
    pub direct: bool,
    /// What carries requests.
    pub engine: Engine,
    /// Allows writes, and claims the file or block device: [`Error::InUse`] when another has.
    pub writable: bool,
    /// Leaves the time of access alone when it reads (`O_NOATIME`), where the kernel lets it: of
    /// files of others it does not.
    pub unnoticed: bool,
    /// Requests of a ring in the kernel at a time, 1 to 4096; more wait in front of it.
    pub queue_depth: u32,
    /// Rings, each with a thread that completes what it carries, 1 to 8; by default one for each 8
    /// processors.
    pub rings: u32,
    /// Threads of the workers, 1 to 256.
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
            rings: rings::usual_count(),
            workers: WORKERS,
        }
    }
}

enum Carrier {
    Rings(Rings),
    Workers(Workers),
}

/// An open file or block device.
pub struct FileDevice {
    /// First, so that it is dropped, and with it every request is over, before the descriptors.
    carrier: OnceLock<Carrier>,
    options: FileOptions,
    target: Arc<Target>,
    geometry: Geometry,
}

impl FileDevice {
    /// Opens `path` for reading. Anything but a regular file or a block device is refused with
    /// `EINVAL`, a directory with `EISDIR`; opening a pipe does not hang.
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

    /// Whether requests go past the kernel's page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.target.direct.is_some()
    }

    /// What carries the requests: the ring or the workers. Starts it.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match self.carrier() {
            Carrier::Rings(_) => Engine::Ring,
            Carrier::Workers(_) => Engine::Workers,
        }
    }

    fn carrier(&self) -> &Carrier {
        self.carrier.get_or_init(|| {
            let workers = || Carrier::Workers(Workers::new(&self.target, self.options.workers));
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

    /// Adds the transfers of a request to `transfers`, or completes it.
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
            // What was opened for reading has nothing to make durable.
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

    /// How the request is cut: to the longest transfer, and a write where the tail begins.
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
