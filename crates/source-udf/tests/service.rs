//! An image as a server uses it: identifiers, waiting, permission, bytes that are read.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Seek as _, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_cache::{Cache, CacheOptions, ReadAheadRule};
use pagewell_device::{Device, Geometry, RamDevice, Request};
use pagewell_fs::{Access, Call, Credentials, Error, FileId, FileSystem, Payload, Seek};
use pagewell_source_udf::UdfFileSystem;
use support::builder::{At, Entry, Kind, START, Udf, folder, named, parent, short};
use support::crafted::{everything, one_extent, pattern, with_root};
use support::{WHOLE, call, list, open_bytes, open_file, walk};

/// A device that counts, and that answers nothing while it is held.
struct Watched {
    inner: RamDevice,
    held: Mutex<Option<Vec<Request>>>,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl Watched {
    fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    fn release(&self) {
        let held = self.held.lock().unwrap().take();
        for request in held.into_iter().flatten() {
            self.inner.submit(request);
        }
    }
}

impl Device for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) {
        let bytes = request.len() as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        match &mut *self.held.lock().unwrap() {
            Some(held) => held.push(request),
            None => self.inner.submit(request),
        }
    }
}

/// Without read-ahead, so that only what was asked for is in memory.
fn watch(bytes: &[u8]) -> (Arc<Watched>, UdfFileSystem) {
    watch_with(bytes, |options| options.read_ahead = ReadAheadRule::Off)
}

fn watch_with(bytes: &[u8], change: impl Fn(&mut CacheOptions)) -> (Arc<Watched>, UdfFileSystem) {
    let device = Arc::new(Watched {
        inner: RamDevice::holding("watched", bytes),
        held: Mutex::new(None),
        bytes: AtomicU64::new(0),
        requests: AtomicU64::new(0),
    });
    let mut options = CacheOptions::new(8 << 20);
    change(&mut options);
    let cache = Cache::new(options).unwrap();
    let fs = UdfFileSystem::from_device(device.clone(), &cache);
    (device, fs.unwrap())
}

#[test]
fn identifiers_survive_a_restart_and_name_nothing_else() {
    let image = everything(Kind::Metadata, 2048);
    let before = walk(&open_bytes(&image), WHOLE);
    let again = open_bytes(&image);
    let credentials = Credentials::root();
    for found in before.values() {
        assert_eq!(found.id.as_bytes().len(), 16);
        let attributes = again.attributes(&call(&credentials), &found.id);
        assert_eq!(attributes, Ok(found.attributes));
        assert!(found.attributes.file_id > 0 && found.attributes.file_id < 1 << 20);
    }
    let other = open_bytes(&[image, vec![0; 2048]].concat());
    for found in before.values() {
        let attributes = other.attributes(&call(&credentials), &found.id);
        assert_eq!(attributes, Err(Error::Stale));
    }
}

#[test]
fn forged_identifiers_are_refused() {
    let fs = open_bytes(&everything(Kind::Virtual(false), 2048));
    let credentials = Credentials::root();
    let call = call(&credentials);
    for length in 0..=48 {
        let id = FileId::new(&vec![0; length]).unwrap();
        assert_eq!(fs.attributes(&call, &id), Err(Error::BadId), "{length}");
    }
    let known: Vec<FileId> = walk(&fs, WHOLE).values().map(|found| found.id).collect();
    let mut random = pagewell_base::mix::Random(7);
    for round in 0..10_000 {
        let mut bytes = known[round % known.len()].as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let id = FileId::new(&bytes).unwrap();
        match fs.attributes(&call, &id) {
            Ok(_) => {
                let _ = fs.read(&call, &id, 0, 100);
                let _ = list(&fs, &id, 10);
            }
            Err(error) => assert!(
                matches!(error, Error::BadId | Error::Stale | Error::Io(_)),
                "{error}"
            ),
        }
    }
}

#[test]
fn places_without_an_entry_are_stale() {
    let fs = open_bytes(&everything(Kind::Plain, 2048));
    let credentials = Credentials::root();
    let attributes = |partition: u16, block: u32| {
        let mut bytes = fs.root().as_bytes().to_vec();
        bytes[10..12].copy_from_slice(&partition.to_le_bytes());
        bytes[12..16].copy_from_slice(&block.to_le_bytes());
        fs.attributes(&call(&credentials), &FileId::new(&bytes).unwrap())
    };
    // Nothing is recorded there, a file set, no such partition.
    for (partition, block) in [(0, 0), (0, 200), (1, 0), (u16::MAX, 0)] {
        assert_eq!(attributes(partition, block), Err(Error::Stale), "{block}");
    }
    assert!(matches!(attributes(0, u32::MAX), Err(Error::Io(_))));
}

#[test]
fn without_waiting_nothing_is_read_and_later_everything_is() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let (root, sub) = (udf.icb(), udf.icb());
    // Parts in pages of their own.
    udf.free(400);
    let entry = one_extent(&mut udf, b"in");
    udf.free(400);
    let file = udf.add(&entry);
    udf.directory(sub, root, &[named("in", file)]);
    let image = with_root(&mut udf, root, &[folder("sub", sub)]);
    let (device, fs) = watch(&image);
    let credentials = Credentials::root();
    let (quick, waiting) = (Call::new(&credentials, false), call(&credentials));
    let sub = fs.lookup(&waiting, &fs.root(), b"sub").unwrap().id;
    device.hold();
    assert_eq!(fs.lookup(&quick, &sub, b"in"), Err(Error::WouldBlock));
    device.release();
    let file = fs.lookup(&waiting, &sub, b"in").unwrap();
    assert_eq!(fs.lookup(&quick, &sub, b"in"), Ok(file));
    device.hold();
    let read = fs.read(&quick, &file.id, 0, 10).map(|_| ());
    assert_eq!(read, Err(Error::WouldBlock));
    device.release();
    let reply = fs.read(&waiting, &file.id, 0, 10).unwrap();
    assert_eq!((reply.payload.len(), reply.end_of_file), (2, true));
    assert!(fs.read(&quick, &file.id, 0, 10).is_ok());
}

#[test]
fn permission_is_by_mode() {
    let fs = open_bytes(&everything(Kind::Plain, 2048));
    let granted = |uid, gid, name: &[u8]| {
        let credentials = Credentials::new(uid, gid, &[]);
        let root = Credentials::root();
        let id = fs.lookup(&call(&root), &fs.root(), name).unwrap().id;
        fs.access(&call(&credentials), &id, Access::ALL).unwrap().0
    };
    assert!(granted(1000, 100, b"plain").intersects(Access::READ));
    assert!(granted(7, 100, b"plain").intersects(Access::READ));
    assert!(!granted(7, 7, b"plain").intersects(Access::READ));
    let stranger = Credentials::new(7, 7, &[]);
    let result = fs.lookup(&call(&stranger), &fs.root(), b"plain");
    assert_eq!(result, Err(Error::AccessDenied));
    let root = Credentials::root();
    let look = |name: &[u8]| fs.lookup(&call(&root), &fs.root(), name);
    assert_eq!(look(b"x"), Err(Error::NotFound));
    assert_eq!(look(b"a/b"), Err(Error::Invalid));
    assert_eq!(look(&[b'x'; 256]), Err(Error::NameTooLong));
    assert_eq!(look(b"..").unwrap().id, fs.root());
    let file = look(b"plain").unwrap().id;
    assert_eq!(
        fs.lookup(&call(&root), &file, b"x"),
        Err(Error::NotDirectory)
    );
    assert_eq!(fs.read_link(&call(&root), &file), Err(Error::Invalid));
    let refused = fs.remove(&call(&root), &fs.root(), b"plain");
    assert_eq!(refused.err(), Some(Error::ReadOnly));
}

#[test]
fn file_data_is_pinned_and_holes_are_lent() {
    let fs = open_bytes(&everything(Kind::Plain, 4096));
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"pieces")
        .unwrap()
        .id;
    let read = |offset, count| {
        let reply = fs.read(&call(&credentials), &id, offset, count).unwrap();
        assert!(matches!(reply.payload, Payload::Pages(_)), "not copied");
        reply.payload.len()
    };
    assert_eq!(read(0, 1 << 20), 6 * 4096 + 100);
    assert_eq!(read(4096, 4096), 4096);
    assert_eq!(read(5 * 4096, 10), 10, "in the hole");
}

#[test]
fn a_large_file_is_read_ahead_in_its_extent() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let root = udf.icb();
    let content = pattern(6 << 20);
    let entry = one_extent(&mut udf, &content);
    let file = udf.add(&entry);
    let image = with_root(&mut udf, root, &[named("large", file)]);
    let (device, fs) = watch_with(&image, |_| {});
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"large")
        .unwrap()
        .id;
    let before = device.requests.load(Ordering::Relaxed);
    let mut found = Vec::new();
    while found.len() < content.len() {
        let reply = fs.read(&call(&credentials), &id, found.len() as u64, 32 << 10);
        let payload = reply.unwrap().payload;
        payload.append_to(&mut found, 32 << 10, true).unwrap();
    }
    assert!(found == content);
    let requests = device.requests.load(Ordering::Relaxed) - before;
    assert!(requests < 48, "{requests} requests for 192 reads");
}

#[test]
fn files_that_lie_in_another_order_are_read_ahead_together() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let root = udf.icb();
    let contents: Vec<Vec<u8>> = (1..=50).map(|count| pattern(count * 100)).collect();
    // The last name has the first place.
    let entries: Vec<Entry> = contents.iter().map(|it| one_extent(&mut udf, it)).collect();
    let names: Vec<Vec<u8>> = (0..50)
        .map(|index| {
            let at = udf.add(&entries[49 - index]);
            named(&format!("{index:02}"), at)
        })
        .collect();
    let content = [vec![parent(root)], names].concat().concat();
    let directory = one_extent(&mut udf, &content).of_type(4);
    udf.entry(root, &directory);
    let (device, fs) = watch(&udf.finish(root));
    let credentials = Credentials::root();
    let requests = || device.requests.load(Ordering::Relaxed);
    let before = requests();
    let listed = list(&fs, &fs.root(), 100).unwrap();
    assert!(requests() - before < 8, "{} to list", requests() - before);
    let ids: Vec<FileId> = listed[2..]
        .iter()
        .map(|found| found.2.unwrap().id)
        .collect();
    let before = requests();
    fs.read_ahead(&ids);
    let expected = requests() - before;
    assert!((1..5).contains(&expected), "{expected} for 50 files");
    for (index, id) in ids.iter().enumerate() {
        let quick = Call::new(&credentials, false);
        let payload = fs.read(&quick, id, 0, 8192).unwrap().payload;
        let mut found = Vec::new();
        payload.append_to(&mut found, 8192, false).unwrap();
        assert!(found == contents[49 - index], "{index}");
    }
    assert_eq!(requests() - before, expected, "nothing is read twice");
    fs.read_ahead(&[fs.root(), FileId::new(b"x").unwrap()]);
}

#[test]
fn holes_are_found() {
    let block = 2048;
    let fs = open_bytes(&everything(Kind::Plain, block as usize));
    let credentials = Credentials::root();
    let seek = |name: &[u8], offset, wanted| {
        let id = fs.lookup(&call(&credentials), &fs.root(), name).unwrap().id;
        fs.seek(&call(&credentials), &id, offset, wanted)
    };
    // Data of four blocks, a hole of two, and 100 bytes of data.
    let (hole, data, end) = (4 * block, 6 * block, 6 * block + 100);
    for (offset, next_data, next_hole) in [
        (0, Some(0), hole),
        (hole - 1, Some(hole - 1), hole),
        (hole, Some(data), hole),
        (data - 1, Some(data), data - 1),
        (data, Some(data), end),
        (end - 1, Some(end - 1), end),
    ] {
        let found = seek(b"pieces", offset, Seek::Data);
        assert_eq!(found.ok(), next_data, "{offset}");
        assert_eq!(seek(b"pieces", offset, Seek::Hole), Ok(next_hole));
    }
    for wanted in [Seek::Data, Seek::Hole] {
        assert_eq!(seek(b"pieces", end, wanted), Err(Error::NoDevice));
    }
    assert_eq!(seek(b"plain", 3, Seek::Data), Ok(3));
    assert_eq!(seek(b"plain", 3, Seek::Hole), Ok(12));
    assert_eq!(seek(b"sub", 0, Seek::Data), Err(Error::IsDirectory));
}

#[test]
fn a_file_over_four_gibibytes_is_one_file_in_a_sparse_image() {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let root = udf.icb();
    let extent = (1u32 << 30) - 2048;
    let first = 2000;
    let descriptors: Vec<Vec<u8>> = (0..5u32)
        .map(|index| short(0, extent, first + index * (extent / 2048)))
        .collect();
    let size = 5 * u64::from(extent) - 1000;
    let file = udf.add(&Entry::extents(0, size, &descriptors));
    let image = with_root(&mut udf, root, &[named("big", file)]);
    let mut sparse = tempfile::NamedTempFile::new().unwrap();
    sparse.write_all(&image).unwrap();
    let start = u64::from(START + first) * 2048;
    let marks = [
        0,
        (1 << 31) - 3,
        u64::from(extent) - 4,
        (1 << 32) + 5,
        size - 8,
    ];
    for mark in marks {
        sparse.seek(SeekFrom::Start(start + mark)).unwrap();
        sparse.write_all(&mark.to_le_bytes()).unwrap();
    }
    let (fs, _) = open_file(sparse.path());
    let credentials = Credentials::root();
    let entry = fs.lookup(&call(&credentials), &fs.root(), b"big").unwrap();
    assert_eq!(entry.attributes.size, size);
    for mark in marks {
        let reply = fs.read(&call(&credentials), &entry.id, mark, 8).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(reply.payload.copy_to(&mut bytes, true), Ok(8));
        assert_eq!(u64::from_le_bytes(bytes), mark);
        assert_eq!(reply.end_of_file, mark == size - 8);
    }
}

/// An image of `count` empty files in one directory, whose entries follow each other.
fn many_files(count: u32) -> Vec<u8> {
    let mut udf = Udf::new(Kind::Plain, 2048);
    let root = udf.icb();
    let entry = Entry::embedded(b"");
    let files: Vec<At> = (0..count).map(|_| udf.add(&entry)).collect();
    let names = files.iter().enumerate();
    let names = names.map(|(index, at)| named(&format!("file {index:05}"), *at));
    let content = [vec![parent(root)], names.collect()].concat().concat();
    let entry = one_extent(&mut udf, &content).of_type(4);
    udf.entry(root, &entry);
    udf.finish(root)
}

#[test]
fn an_image_with_many_files_opens_in_little() {
    let count = 10_000;
    let (device, fs) = watch(&many_files(count));
    let opened = device.bytes.load(Ordering::Relaxed);
    assert!(opened < 256 << 10, "{opened} bytes to open");
    let credentials = Credentials::root();
    fs.lookup(&call(&credentials), &fs.root(), b"file 09999")
        .unwrap();
    let first = device.bytes.load(Ordering::Relaxed);
    assert!(first < 1 << 20, "{first} bytes for the first name");
    // Names in a parsed directory cost their entries only.
    for index in (0..u64::from(count)).step_by(100) {
        let name = format!("file {index:05}");
        fs.lookup(&call(&credentials), &fs.root(), name.as_bytes())
            .unwrap();
    }
    let looked_up = device.bytes.load(Ordering::Relaxed) - first;
    assert!(looked_up <= 100 * 4096, "{looked_up} bytes for 100 names");
    let listed = list(&fs, &fs.root(), 100).unwrap();
    assert_eq!(listed.len(), count as usize + 2);
    // Entries of 2 KiB each, once.
    let all = device.bytes.load(Ordering::Relaxed);
    assert!(all < u64::from(count) * 2048 * 5 / 4, "{all} bytes in all");
}

#[test]
fn a_large_directory_is_left_to_threads_that_may_wait() {
    let fs = open_bytes(&many_files(6000));
    let credentials = Credentials::root();
    let quick = Call::new(&credentials, false);
    let result = fs.lookup(&quick, &fs.root(), b"file 05999");
    assert_eq!(result, Err(Error::WouldBlock));
    let found = fs.lookup(&call(&credentials), &fs.root(), b"file 05999");
    assert!(found.is_ok());
    assert_eq!(fs.lookup(&quick, &fs.root(), b"file 05999"), found);
}

#[test]
fn many_threads_see_the_same_tree() {
    let fs = open_bytes(&everything(Kind::Metadata, 2048));
    let expected: Vec<Vec<u8>> = walk(&fs, WHOLE).into_keys().collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let found: Vec<Vec<u8>> = walk(&fs, WHOLE).into_keys().collect();
                    assert_eq!(found, expected);
                }
            });
        }
    });
}
