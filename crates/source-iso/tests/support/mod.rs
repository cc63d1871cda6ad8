//! Opens images; they are walked by `pagewell_walk`.

#![allow(dead_code, unreachable_pub)] // each test program uses a part
#![allow(clippy::unwrap_used)] // a failed check is a failed test

pub mod builder;
pub mod crafted;

/// Bytes of a logical sector.
pub const SECTOR: usize = 2048;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use pagewell_base::mix::Random;
use pagewell_cache::{Cache, CacheOptions};
use pagewell_device::{Device, FileDevice, RamDevice};
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::Bytes;
use pagewell_source_iso::{IsoFileSystem, IsoOptions};

pub use pagewell_walk::*;

/// Bytes that cannot be compressed, the same ones for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..length)
        .map(|_| random.number().to_le_bytes()[0])
        .collect()
}

/// The cache of this test program.
pub fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(|| Cache::new(CacheOptions::new(32 << 20)).unwrap())
}

/// What a reader needs of an image in memory.
pub fn bytes_of(image: &[u8]) -> Bytes {
    Bytes::new(cache().open(Arc::new(RamDevice::holding("image", image))))
}

/// An image in memory.
pub fn open_bytes(bytes: Vec<u8>) -> IsoFileSystem {
    try_open(bytes).unwrap()
}

/// The same, when it may be none.
pub fn try_open(bytes: Vec<u8>) -> Result<IsoFileSystem, OpenError> {
    open_with(&bytes, &IsoOptions::default())
}

/// The same with options.
pub fn open_with(bytes: &[u8], options: &IsoOptions) -> Result<IsoFileSystem, OpenError> {
    IsoFileSystem::of_bytes(&bytes_of(bytes), cache(), options)
}

/// The image in a file.
pub fn open_file(path: &Path) -> IsoFileSystem {
    open_device(Arc::new(FileDevice::open(path).unwrap()), cache())
}

/// The image on a device, read through a cache of its own.
pub fn open_device(device: Arc<dyn Device>, cache: &Cache) -> IsoFileSystem {
    let bytes = Bytes::new(cache.open(device));
    IsoFileSystem::of_bytes(&bytes, cache, &IsoOptions::default()).unwrap()
}
