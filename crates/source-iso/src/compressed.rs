//! Compressed files as objects of the page cache: their uncompressed and compressed bytes are in
//! memory once.
//!
//! ```text
//! read ──> pages of the file ── miss ──> a thread ──> pages of the image ──> inflate ──> page
//! ```
//!
//! A few threads serve the misses, which may wait for the image. The last block of a file stays
//! with it: a page may hold only a part of one. Files in use are remembered up to a number.
//!
//! A small file's first read, if it is whole, bypasses the cache: a page and two changes of threads
//! cost as much as to inflate.
//!
//! Hard links are one file, by the place of the data and the length. A record that contradicts a
//! known one is another file, not remembered.
//!
//! Bounds: [`REQUESTS_MAX`] requests of [`REQUEST_BYTES_MAX`] at a time leave the smallest cache
//! memory for the compressed bytes.

use std::sync::{Arc, OnceLock};

use pagewell_base::pieces::Pieces;
use pagewell_base::sync::Mutex;
use pagewell_cache::{Bounds, Cache, CachedStore};
use pagewell_device::{
    Error as DeviceError, Geometry, Object, Operation, Outcome, Request, Store, Workers, complete,
};
use pagewell_fs::{Error, Payload, Result};
use pagewell_source_bytes::{Bytes, Run};
use rustix::io::Errno;

use super::node::{Node, Sections};
use super::read;
use super::volume::Volume;
use super::zisofs::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Compression, HEADER_BYTES, inflate};

const REQUESTS_MAX: u32 = 4;
const REQUEST_BYTES_MAX: u32 = 256 << 10;
const THREADS_MAX: usize = 4;
/// A small file: what a copy reads at once.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Files that are remembered, in some 16 MiB.
const FILES_MAX: usize = 16384;
const FILES_SHARDS: usize = 8;

pub(super) struct CompressedFiles {
    cache: Cache,
    /// Made for the first of them.
    store: OnceLock<(CachedStore, Arc<Workers>)>,
    files: Pieces<Data, KnownFile>,
}

/// Compressed data: where it begins, and the uncompressed length.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Data {
    position: u64,
    size: u64,
}

impl From<Data> for u64 {
    fn from(data: Data) -> Self {
        data.position ^ data.size.rotate_left(32)
    }
}

/// A file, and its uncompressed bytes once they are to stay in memory.
struct KnownFile {
    file: Arc<CompressedFile>,
    bytes: OnceLock<Bytes>,
}

struct SharedStore {
    name: String,
}

impl Store for SharedStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            logical_block_bytes: BLOCK_BYTES_MIN as u32,
            transfer_bytes_max: REQUEST_BYTES_MAX,
            queue_depth: REQUESTS_MAX,
            ..Geometry::MEMORY
        }
    }
}

impl CompressedFiles {
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            store: OnceLock::new(),
            files: Pieces::new(FILES_MAX, FILES_SHARDS),
        }
    }

    /// [`read::read`] of a compressed file, whose record is at `place`.
    pub(super) fn read(
        &self,
        (volume, place): (&Volume, u64),
        node: &Node,
        compression: Compression,
        (offset, count, may_block): (u64, u32, bool),
    ) -> Result<Payload> {
        let size = compression.size();
        let length = size.saturating_sub(offset).min(u64::from(count));
        if length == 0 {
            return Ok(Payload::Bytes(Vec::new()));
        }
        if let Some(defect) = node.defect {
            return Err(volume.fault(place, defect));
        }
        let position = node.sections.first().map_or(place, |first| first.position);
        let data = Data { position, size };
        let known = match self.files.get(data) {
            Some(known) if known.file.is_of(node, compression) => known,
            Some(_) => Arc::new(known(volume, node, compression)),
            None => {
                let is_whole = length == size && size <= SMALL_BYTES_MAX;
                if is_whole && !may_block {
                    return Err(Error::WouldBlock);
                }
                let known = self.files.insert(data, known(volume, node, compression), 1);
                if is_whole {
                    return known.file.whole().map(Payload::Bytes);
                }
                known
            }
        };
        let bytes = known.bytes.get_or_init(|| self.open(&known.file));
        let run = Run {
            position: offset,
            // A 32-bit count.
            length: length as usize,
            bounds: Some(Bounds {
                start: 0,
                end: size,
            }),
        };
        let payload = bytes.payload(&[run], may_block);
        payload.map_err(|error| known.file.explained(error))
    }

    fn open(&self, file: &Arc<CompressedFile>) -> Bytes {
        let (store, workers) = self.store.get_or_init(|| {
            let name = format!("{}: compressed file", file.volume.bytes.name());
            let store = Arc::new(SharedStore { name });
            let store = self.cache.open_store(store, self.cache.open_options());
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let workers = Workers::new("inflate", threads.min(THREADS_MAX));
            (store, Arc::new(workers))
        });
        let served = Served {
            file: file.clone(),
            workers: workers.clone(),
        };
        let length_bytes = Some(file.compression.size());
        Bytes::of(store.open(Arc::new(served), length_bytes))
    }
}

fn known(volume: &Volume, node: &Node, compression: Compression) -> KnownFile {
    let file = CompressedFile {
        volume: volume.clone(),
        sections: node.sections.clone(),
        compression,
        header_agrees: OnceLock::new(),
        last_block: Mutex::default(),
        failure: Mutex::default(),
    };
    KnownFile {
        file: Arc::new(file),
        bytes: OnceLock::new(),
    }
}

struct CompressedFile {
    volume: Volume,
    sections: Sections,
    compression: Compression,
    /// Whether header and entry agree; set when the header was read.
    header_agrees: OnceLock<bool>,
    /// Number and bytes of the last inflated block of which a part was copied.
    last_block: Mutex<Option<(u64, Vec<u8>)>>,
    failure: Mutex<Option<String>>,
}

struct Served {
    file: Arc<CompressedFile>,
    workers: Arc<Workers>,
}

impl Object for Served {
    fn submit(&self, request: Request) {
        match request.operation() {
            Operation::Flush => request.succeed(),
            Operation::Write => {
                let offset = request.offset();
                let name = self.file.volume.bytes.name();
                request.fail(0, DeviceError::failed(name, offset, Errno::ROFS));
            }
            Operation::Read => {
                let file = self.file.clone();
                // Without a thread the request fails: this one may not wait.
                drop(self.workers.run(move || file.serve(request)));
            }
        }
    }
}

impl CompressedFile {
    fn is_of(&self, node: &Node, compression: Compression) -> bool {
        self.compression == compression && *self.sections == *node.sections
    }

    fn serve(&self, mut request: Request) {
        let mut filled_bytes = 0;
        let mut result = Ok(());
        let offset = request.offset();
        for slice in request.slices_mut() {
            result = self.fill(offset, slice, &mut filled_bytes);
            if result.is_err() {
                break;
            }
        }
        let outcome = Outcome {
            transferred_bytes: filled_bytes,
            result: result.map_err(|error| {
                *self.failure.lock() = error.trouble().map(str::to_owned);
                let at = offset + filled_bytes as u64;
                DeviceError::failed(self.volume.bytes.name(), at, Errno::IO)
            }),
        };
        complete(request, outcome);
    }

    fn whole(&self) -> Result<Vec<u8>> {
        let size = self.compression.size().min(SMALL_BYTES_MAX);
        let mut bytes = vec![0; size as usize];
        let mut filled_bytes = 0;
        match self.fill(0, &mut bytes, &mut filled_bytes) {
            Err(error) if filled_bytes == 0 => return Err(error),
            Ok(()) | Err(_) => bytes.truncate(filled_bytes),
        }
        Ok(bytes)
    }

    /// Fills `target` with what is `filled_bytes` behind `start`, zeros behind the end, and counts
    /// that.
    fn fill(&self, start: u64, mut target: &mut [u8], filled_bytes: &mut usize) -> Result<()> {
        while !target.is_empty() {
            let offset = start + *filled_bytes as u64;
            if offset >= self.compression.size() {
                target.fill(0);
                *filled_bytes += target.len();
                return Ok(());
            }
            let (block, begin, length) = self.compression.block_of(offset);
            let inside = (offset - begin) as usize;
            let taken = (length - inside).min(target.len());
            let (now, later) = target.split_at_mut(taken);
            if taken == length {
                self.inflate(block, now)?;
            } else {
                self.copy(block, (inside, length), now)?;
            }
            *filled_bytes += taken;
            target = later;
        }
        Ok(())
    }

    fn copy(&self, block: u64, (inside, length): (usize, usize), target: &mut [u8]) -> Result<()> {
        let held = self.last_block.lock().take();
        let bytes = match held {
            Some((number, bytes)) if number == block => bytes,
            _ => {
                let mut bytes = vec![0; length.min(BLOCK_BYTES_MAX)];
                self.inflate(block, &mut bytes)?;
                bytes
            }
        };
        if let Some(part) = bytes.get(inside..inside + target.len()) {
            target.copy_from_slice(part);
        }
        *self.last_block.lock() = Some((block, bytes));
        Ok(())
    }

    fn inflate(&self, block: u64, target: &mut [u8]) -> Result<()> {
        let compression = &self.compression;
        if !self.header_agrees()? {
            return Err(self.fault(0, "its zisofs header contradicts its directory record"));
        }
        let mut pointers = [0; 16];
        let length = 2 * compression.pointer_bytes();
        let pointers = pointers.get_mut(..length).unwrap_or_default();
        let position = compression.pointers_of(block);
        self.read(position, pointers)?;
        let place = compression.place(pointers, read::length_bytes(&self.sections));
        let (start, length) = place
            .ok_or_else(|| self.fault(position, "a zisofs block pointer that leads nowhere"))?;
        let mut compressed = vec![0; length];
        self.read(start, &mut compressed)?;
        if !inflate(&compressed, target) {
            return Err(self.fault(start, "a damaged zisofs block"));
        }
        Ok(())
    }

    fn header_agrees(&self) -> Result<bool> {
        if let Some(agrees) = self.header_agrees.get() {
            return Ok(*agrees);
        }
        let mut header = [0; HEADER_BYTES];
        let there = read::length_bytes(&self.sections).min(HEADER_BYTES as u64);
        self.read(0, header.get_mut(..there as usize).unwrap_or_default())?;
        Ok(*self
            .header_agrees
            .get_or_init(|| self.compression.agrees(&header)))
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        read::fill(&self.volume, &self.sections, offset, target, true)
    }

    fn fault(&self, offset: u64, what: &str) -> Error {
        read::fault(&self.volume, &self.sections, offset, what)
    }

    /// The cache gives only an error number.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::Io(text) => Error::Io(self.failure.lock().clone().unwrap_or(text)),
            other => other,
        }
    }
}
