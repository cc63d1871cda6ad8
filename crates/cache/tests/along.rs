//! What comes along with reads at random of a store that is far.

#![allow(clippy::unwrap_used)] // tests

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pagewell_cache::{
    Cache, CacheOptions, CachedObject, CachedStore, OpenOptions, ReadAheadRule, ReadMode,
};
use pagewell_device::{Geometry, Object, Request, Store};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 65_536;
const CACHE_BYTES: u64 = 64 * MIB;
const FITS_BYTES: u64 = 15 * MIB;
/// Longer than the shortest path that is a long one.
const LATENCY: Duration = Duration::from_millis(3);

/// A store that answers late, with zeros.
struct Far;

impl Store for Far {
    fn name(&self) -> &'static str {
        "far"
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
}

#[derive(Default)]
struct Zeros {
    requests: AtomicU64,
}

impl Object for Zeros {
    fn submit(&self, mut request: Request) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        thread::spawn(move || {
            thread::sleep(LATENCY);
            request.slices_mut().for_each(|slice| slice.fill(0));
            request.succeed();
        });
    }
}

fn store(read_ahead: ReadAheadRule) -> CachedStore {
    let cache = Cache::new(CacheOptions::new(CACHE_BYTES)).unwrap();
    let options = OpenOptions {
        read_ahead,
        ..cache.open_options()
    };
    cache.open_store(Arc::new(Far), options)
}

fn far() -> CachedStore {
    let request_bytes = 8 * MIB;
    store(ReadAheadRule::Server { request_bytes })
}

fn read(object: &CachedObject, offset: u64, length: usize) {
    let mut bytes = vec![1; length];
    object.read_at(offset, &mut bytes, ReadMode::WAIT).unwrap();
}

/// Reads pages at random, `count` times, or until so many bytes were planned to come along.
fn read_at_random(object: &CachedObject, (pages, count): (u64, u64), planned_bytes: u64) {
    let planned = || object.read_ahead_counts().planned_bytes;
    let (before, mut at) = (planned(), 7_u64);
    for _ in 0..count {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
        read(object, (at >> 33) % pages * PAGE, 100);
        if planned() - before >= planned_bytes {
            break;
        }
    }
}

/// An object of [`FITS_BYTES`] comes along whole. On a busy machine a piece takes some reads more.
fn bring(object: &CachedObject) {
    let before = object.read_ahead_counts().planned_bytes;
    read_at_random(object, (FITS_BYTES / PAGE, 5000), FITS_BYTES);
    let planned_bytes = object.read_ahead_counts().planned_bytes - before;
    assert!(planned_bytes >= FITS_BYTES, "{planned_bytes}");
}

#[test]
fn an_object_that_fits_comes_whole_and_leaves_streams_their_memory() {
    let store = far();
    let scattered = [(); 2].map(|()| store.open(Arc::new(Zeros::default()), Some(FITS_BYTES)));
    scattered.iter().for_each(bring);
    let ordered = Arc::new(Zeros::default());
    let object = store.open(ordered.clone(), Some(60 * MIB));
    for offset in (0..60 * MIB).step_by(128 << 10) {
        read(&object, offset, 128 << 10);
    }
    let requests = ordered.requests.load(Ordering::Relaxed);
    assert!(requests < 60, "{requests}");
}

#[test]
fn one_that_does_not_fit_and_one_of_a_fixed_window_come_page_by_page() {
    let blocks = ReadAheadRule::Blocks {
        block_bytes: MIB,
        count: 1,
    };
    for (store, length_bytes) in [(far(), 40 * MIB), (store(blocks), FITS_BYTES)] {
        let object = store.open(Arc::new(Zeros::default()), Some(length_bytes));
        read_at_random(&object, (length_bytes / PAGE, 60), u64::MAX);
        let (pages, _) = object.resident_pages();
        assert!((30..120).contains(&pages), "{pages}");
    }
}

#[test]
fn the_next_version_of_an_object_comes_along_as_the_first_did() {
    let store = far();
    for _ in 0..3 {
        bring(&store.open(Arc::new(Zeros::default()), Some(FITS_BYTES)));
    }
}
