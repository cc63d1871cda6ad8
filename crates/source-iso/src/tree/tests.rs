//! What a tree reads of an image, and how much.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_cache::{Cache as PageCache, CacheOptions, ReadAheadRule};
use pagewell_device::{Device, Geometry, Request};
use pagewell_source_bytes::Bytes;

use super::super::file_id::RecordPlace;
use super::*;

const SECTOR: u64 = SECTOR_BYTES as u64;
const ROOT: u32 = 20;
/// The next sector is in another page of the cache.
const FAR: u32 = 63;
const FILE: u8 = 0;
const DIRECTORY: u8 = 2;
/// Bytes of the first two records of a directory.
const DOTS: u64 = 68;

/// A device that counts what is read, and answers nothing while it is held; zeros follow its
/// bytes.
struct Zeros {
    bytes: Vec<u8>,
    length_bytes: u64,
    read_bytes: AtomicU64,
    held: Mutex<Option<Vec<Request>>>,
}

impl Zeros {
    fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }
}

impl Device for Zeros {
    fn name(&self) -> &str {
        "zeros"
    }
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
    fn submit(&self, mut request: Request) {
        self.read_bytes
            .fetch_add(request.len() as u64, Ordering::Relaxed);
        if let Some(held) = &mut *self.held.lock() {
            return held.push(request);
        }
        let start = usize::try_from(request.offset()).unwrap();
        let mut rest = self.bytes.get(start..).unwrap_or(&[]);
        for slice in request.slices_mut() {
            let (now, later) = rest.split_at(rest.len().min(slice.len()));
            slice[..now.len()].copy_from_slice(now);
            slice[now.len()..].fill(0);
            rest = later;
        }
        request.succeed();
    }
}

fn both(value: u32) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn record(name: &str, (extent, length): (u32, u32), flags: u8, system_use: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2];
    bytes.extend([both(extent), both(length)].concat());
    bytes.extend([120, 5, 6, 7, 8, 9, 0, flags, 0, 0, 1, 0, 0, 1]);
    bytes.push(u8::try_from(name.len()).unwrap());
    bytes.extend(name.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    bytes.extend(system_use);
    bytes[0] = u8::try_from(bytes.len()).unwrap();
    bytes
}

/// Bytes of an image of these directories: first sector, length, and records.
fn image(directories: &[(u32, u32, &[Vec<u8>])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (extent, length, records) in directories {
        bytes.resize(*extent as usize * SECTOR_BYTES, 0);
        bytes.extend(record("\0", (*extent, *length), DIRECTORY, &[]));
        bytes.extend(record("\x01", (ROOT, 2048), DIRECTORY, &[]));
        bytes.extend(records.concat());
    }
    bytes
}

/// A tree of `bytes` and zeros, which reads nothing that was not asked for.
fn open(bytes: Vec<u8>, length_bytes: u64) -> (Arc<Zeros>, Tree) {
    let device = Arc::new(Zeros {
        bytes,
        length_bytes,
        read_bytes: AtomicU64::new(0),
        held: Mutex::new(None),
    });
    let mut options = CacheOptions::new(8 << 20);
    options.read_ahead = ReadAheadRule::Off;
    let volume = Volume {
        bytes: Bytes::new(PageCache::new(options).unwrap().open(device.clone())),
        length_bytes,
        block_bytes: 2048,
        identity: 0,
        is_high_sierra: false,
        violations: None,
    };
    let root = Record::parse(&record("\0", (ROOT, 2048), DIRECTORY, &[]), false).unwrap();
    let skips = Skips { root: 0, others: 0 };
    let tree = Tree::new(
        volume,
        TreeKind::RockRidge,
        &root,
        (Some(skips), IsoOptions::default()),
    );
    (device, tree)
}

fn start(extent: u32) -> u64 {
    u64::from(extent) * SECTOR
}

fn file(directory: u32, offset: u64) -> Object {
    Object::File(RecordPlace {
        position: start(directory) + offset,
        directory: start(directory),
    })
}

/// A directory of `length` bytes with one file in its first sector.
fn padded(length: u32) -> (Arc<Zeros>, Tree) {
    let only = record("A.;1", (40, 1), FILE, &[]);
    let bytes = image(&[(ROOT, 2048, &[]), (FAR, length, &[only])]);
    open(bytes, start(FAR) + u64::from(length))
}

#[test]
fn records_are_read_from_their_own_sector_only() {
    let (device, tree) = padded(64 << 20);
    let directory = tree.node(Object::Directory(start(FAR)), true).unwrap();
    assert_eq!(directory.unwrap().attributes.size, 64 << 20);
    let before = device.read_bytes();
    assert!(tree.node(file(FAR, DOTS), true).unwrap().is_some());
    for nothing in [DOTS + 1, 1000, SECTOR - 1] {
        assert!(tree.node(file(FAR, nothing), true).unwrap().is_none());
    }
    assert_eq!(device.read_bytes(), before, "it was in memory");
}

#[test]
fn a_sector_in_memory_is_enough_for_a_thread_that_may_not_wait() {
    let (device, tree) = padded(8192);
    tree.node(Object::Directory(start(FAR)), true).unwrap();
    *device.held.lock() = Some(Vec::new());
    assert!(tree.node(file(FAR, DOTS), false).unwrap().is_some());
    assert!(tree.node(file(FAR, DOTS + 1), false).unwrap().is_none());
    let elsewhere = tree.node(file(FAR, SECTOR), false);
    assert!(matches!(elsewhere, Err(Error::WouldBlock)));
    *device.held.lock() = None;
}

#[test]
fn a_directory_too_large_to_be_read_has_no_objects() {
    let (_, tree) = padded(64 << 20);
    assert!(tree.node(file(FAR, DOTS), true).unwrap().is_some());
    let (_, tree) = padded((64 << 20) + 1);
    assert!(tree.node(file(FAR, DOTS), true).unwrap().is_none());
}

#[test]
fn a_record_with_large_continuation_areas_takes_nothing_from_its_neighbours() {
    const AREA: u32 = 100;
    let continues = |block, length| {
        let place = [block, 0, length].map(both).concat();
        [&b"CE\x1c\x01"[..], &place].concat()
    };
    let large = continues(AREA + 1, 1 << 20);
    let good = continues(AREA, 36);
    let records = [
        record("A.;1", (40, 1), FILE, &large),
        record("B.;1", (40, 1), FILE, &large),
        record("C.;1", (40, 1), FILE, &good),
    ];
    let third = DOTS + (records[0].len() + records[1].len()) as u64;
    let mut bytes = image(&[(ROOT, 2048, &records)]);
    bytes.resize(AREA as usize * SECTOR_BYTES, 0);
    let attributes = [0o100_640, 1, 7, 8].map(both).concat();
    bytes.extend([&b"PX\x24\x01"[..], &attributes].concat());
    let (_, tree) = open(bytes, 4 << 20);
    let node = tree.node(file(ROOT, third), true).unwrap().unwrap();
    assert_eq!(node.attributes.mode, 0o640);
    assert_eq!(node.attributes.uid, 7);
}

/// `count` names of one directory of `length` bytes, with one moved directory and padding.
fn stores(count: usize, length: u32) -> (Arc<Zeros>, Tree) {
    let store = record("RR_MOVED", (FAR, length), DIRECTORY, &[]);
    let moved = record("DEEP", (ROOT, 2048), DIRECTORY, b"RE\x04\x01");
    let bytes = image(&[(ROOT, 2048, &vec![store; count]), (FAR, length, &[moved])]);
    open(bytes, start(FAR) + u64::from(length))
}

#[test]
fn a_store_for_moved_directories_is_read_once() {
    const LENGTH: u32 = 16 << 20; // twice the page cache
    let (device, tree) = stores(4, LENGTH);
    let root = tree.directory(tree.root, true).unwrap();
    let read = device.read_bytes();
    assert!(read < u64::from(LENGTH) + (1 << 20), "{read} bytes");
    let names = root.items().iter().map(|item| root.name_of(item));
    let shown: Vec<&[u8]> = names.collect();
    assert_eq!(shown, [&b"rr_moved"[..], b"rr_moved~2", b"rr_moved~3"]);
}

#[test]
fn a_large_store_is_left_to_threads_that_may_wait() {
    for (length, may_be_read) in [(256 << 10, true), ((256 << 10) + 2048, false)] {
        let (_, tree) = stores(1, length);
        let mut all = vec![0; usize::try_from(tree.volume.length_bytes).unwrap()];
        tree.volume.bytes.read(0, &mut all, true).unwrap();
        let found = tree.directory(tree.root, false);
        assert_eq!(found.is_ok(), may_be_read);
        assert!(matches!(found, Ok(_) | Err(Error::WouldBlock)));
        let found = tree.directory(tree.root, true).unwrap();
        assert!(found.items().is_empty(), "hidden");
        assert!(tree.directory(tree.root, false).is_ok());
    }
}
