//! Opens images; they are walked by `pagewell_walk`.

#![allow(dead_code, unreachable_pub)] // each test program uses a part
#![allow(clippy::unwrap_used)] // a failed check is a failed test

pub mod builder;
pub mod crafted;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use pagewell_cache::{Cache, CacheOptions};
use pagewell_device::{FileDevice, RamDevice};
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::Violations;
use pagewell_source_udf::UdfFileSystem;

pub use pagewell_walk::*;

/// The cache of this test program.
pub fn cache() -> &'static Cache {
    static CACHE: OnceLock<Cache> = OnceLock::new();
    CACHE.get_or_init(|| Cache::new(CacheOptions::new(32 << 20)).unwrap())
}

/// An image in memory.
pub fn open_bytes(bytes: &[u8]) -> UdfFileSystem {
    try_open(bytes).unwrap()
}

/// The same, when it may be none.
pub fn try_open(bytes: &[u8]) -> Result<UdfFileSystem, OpenError> {
    let device = Arc::new(RamDevice::holding("image", bytes));
    UdfFileSystem::from_device(device, cache())
}

/// The same, with all that is wrong in it.
pub fn open_checked(bytes: &[u8]) -> (UdfFileSystem, Arc<Violations>) {
    let device = Arc::new(RamDevice::holding("image", bytes));
    let violations = Arc::new(Violations::default());
    let fs = UdfFileSystem::checked(device, cache(), violations.clone());
    (fs.unwrap(), violations)
}

/// The image in a file, with all that is wrong in it.
pub fn open_file(path: &Path) -> (UdfFileSystem, Arc<Violations>) {
    let device = Arc::new(FileDevice::open(path).unwrap());
    let recognised = pagewell_source_udf::recognise(&*device);
    assert_eq!(recognised, Ok(Ok(())));
    let violations = Arc::new(Violations::default());
    let fs = UdfFileSystem::checked(device, cache(), violations.clone());
    (fs.unwrap(), violations)
}

/// What was found, one line each.
pub fn lines(violations: &Violations) -> Vec<String> {
    let (found, others) = violations.list();
    assert_eq!(others, 0);
    let line = |found: &pagewell_source_bytes::Violation| {
        format!("{} {}: {}", found.offset, found.clause, found.text)
    };
    found.iter().map(line).collect()
}
