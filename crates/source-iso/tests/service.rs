//! An image as a server uses it: identifiers, waiting, permission, size.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_cache::{Cache, CacheOptions, ReadAheadRule};
use pagewell_device::{Device, Geometry, RamDevice, Request};
use pagewell_fs::{
    Access, Call, CreateMode, Credentials, Error, FileId, FileSystem, Finish, NodeKind, Payload,
    RenameMode, SetAttributes, Stability,
};
use pagewell_source_iso::IsoFileSystem;
use support::builder::{Image, MORE, ROOT, Record};
use support::{SECTOR, WHOLE, call, list, open_bytes, open_device, open_file, walk};

/// A device that counts, and that answers nothing while it is held.
struct Watched {
    inner: RamDevice,
    held: Mutex<Option<Vec<Request>>>,
    bytes: AtomicU64,
}

impl Watched {
    /// From now on nothing is answered.
    fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    /// Answers what was asked meanwhile.
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
        match &mut *self.held.lock().unwrap() {
            Some(held) => held.push(request),
            None => self.inner.submit(request),
        }
    }
}

/// Without read-ahead, so that only what was asked for is in memory.
fn watch(bytes: Vec<u8>) -> (Arc<Watched>, IsoFileSystem) {
    let device = Arc::new(Watched {
        inner: RamDevice::holding("watched", &bytes),
        held: Mutex::new(None),
        bytes: AtomicU64::new(0),
    });
    let mut options = CacheOptions::new(8 << 20);
    options.read_ahead = ReadAheadRule::Off;
    let cache = Cache::new(options).unwrap();
    let iso = open_device(device.clone(), &cache);
    (device, iso)
}

/// An image whose parts lie in pages of their own.
fn wide() -> Image {
    let mut image = Image::new();
    let records = [
        Record::directory("SUB", 400, 2048),
        Record::file("GOOD.TXT;1", 40, 4),
    ];
    image.directory(ROOT, ROOT, &records);
    image.directory(400, ROOT, &[Record::file("IN.TXT;1", 800, 2)]);
    image.put(800, b"in");
    image
}

fn small() -> Image {
    let mut image = Image::new();
    let records = [
        Record::directory("SUB", 41, 2048),
        Record::file("GOOD.TXT;1", 40, 4),
        Record::directory("NONE", 0, 0),
    ];
    image.directory(ROOT, ROOT, &records);
    image.directory(41, ROOT, &[Record::file("IN.TXT;1", 40, 2)]);
    image.put(40, b"good");
    image
}

#[test]
fn identifiers_survive_a_restart_and_name_nothing_else() {
    let image = small();
    let before = walk(&open_bytes(image.bytes.clone()), WHOLE);
    let again = open_bytes(image.bytes.clone());
    let credentials = Credentials::root();
    for found in before.values() {
        assert_eq!(found.id.as_bytes().len(), 32);
        let attributes = again.attributes(&call(&credentials), &found.id);
        assert_eq!(attributes, Ok(found.attributes));
    }
    let mut longer = image;
    longer.put(60, b"");
    let other = open_bytes(longer.bytes);
    for found in before.values() {
        let attributes = other.attributes(&call(&credentials), &found.id);
        assert_eq!(attributes, Err(Error::Stale));
    }
}

#[test]
fn forged_identifiers_are_refused() {
    let fs = open_bytes(small().bytes);
    let credentials = Credentials::root();
    let call = call(&credentials);
    let valid = walk(&fs, WHOLE);
    for length in 0..=48 {
        let id = FileId::new(&vec![0; length]).unwrap();
        assert_eq!(fs.attributes(&call, &id), Err(Error::BadId), "{length}");
    }
    let known: Vec<FileId> = valid.values().map(|found| found.id).collect();
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    for round in 0..10_000 {
        let mut bytes = known[round % known.len()].as_bytes().to_vec();
        for _ in 0..=next() % 3 {
            let at = usize::try_from(next()).unwrap() % bytes.len();
            bytes[at] = next().to_le_bytes()[0];
        }
        let id = FileId::new(&bytes).unwrap();
        if known.contains(&id) {
            continue;
        }
        // A place that looks like a record may pass; it must be read without harm.
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
fn places_that_are_no_records_are_stale() {
    let fs = open_bytes(small().bytes);
    let credentials = Credentials::root();
    let root = fs.root().as_bytes().to_vec();
    let attributes = |kind: u8, position: u64, parent: u64| {
        let mut bytes = root.clone();
        bytes[10] = kind;
        bytes[16..24].copy_from_slice(&position.to_le_bytes());
        bytes[24..32].copy_from_slice(&parent.to_le_bytes());
        fs.attributes(&call(&credentials), &FileId::new(&bytes).unwrap())
    };
    let root_at = u64::from(ROOT) * SECTOR as u64;
    for (kind, position, parent) in [
        (0, 0, 0),
        (0, root_at + 1, 0),
        (0, 40 * SECTOR as u64, 0),
        (0, u64::MAX, 0),
        (0, u64::MAX - 2047, 0),
        (1, root_at, root_at),
        (1, root_at + 1, root_at),
        (1, root_at + 2047, root_at),
        (1, root_at + 2048, root_at),
        (1, root_at + 68, 0),
        (1, root_at + 68, root_at), // a directory
        (1, 0, root_at),
        (1, u64::MAX, root_at),
        (2, root_at + 68, root_at),
    ] {
        assert_eq!(attributes(kind, position, parent), Err(Error::Stale));
    }
}

#[test]
fn without_waiting_nothing_is_read_and_later_everything_is() {
    let (device, fs) = watch(wide().bytes);
    let credentials = Credentials::root();
    let quick = Call::new(&credentials, false);
    device.hold();
    let found = fs.lookup(&quick, &fs.root(), b"sub");
    assert_eq!(found, Err(Error::WouldBlock));
    device.release();
    let sub = fs.lookup(&quick, &fs.root(), b"sub").unwrap().id;
    let file = fs.lookup(&quick, &sub, b"in.txt").unwrap();
    let page = fs.read_directory(&quick, &sub, 0, true, &mut |_| true);
    assert!(page.unwrap().end);
    device.hold();
    for _ in 0..2 {
        let reply = fs.read(&quick, &file.id, 0, 10);
        assert_eq!(reply.map(|_| ()), Err(Error::WouldBlock));
    }
    device.release();
    let reply = fs.read(&quick, &file.id, 0, 10).unwrap();
    assert!(matches!(reply.payload, Payload::Pages(_)), "pinned");
    let mut bytes = [0; 10];
    assert_eq!(reply.payload.copy_to(&mut bytes, false), Ok(2));
    assert_eq!(&bytes[..2], b"in");
}

#[test]
fn a_listing_that_would_wait_in_the_middle_is_a_short_page() {
    let (device, fs) = watch(wide().bytes);
    let credentials = Credentials::root();
    let quick = Call::new(&credentials, false);
    fs.lookup(&call(&credentials), &fs.root(), b"good.txt")
        .unwrap();
    device.hold();
    let mut names = Vec::new();
    let page = fs
        .read_directory(&quick, &fs.root(), 0, true, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
    device.release();
    assert!(!page.end);
    assert_eq!(
        names,
        [b".".to_vec(), b"..".to_vec()],
        "sub is not in memory"
    );
}

#[test]
fn a_large_image_opens_with_few_reads() {
    let mut image = Image::new();
    let directories: Vec<Record> = (0..500u32)
        .map(|index| Record::directory(&format!("D{index:03}"), 100 + 5 * index, 5 * 2048))
        .collect();
    image.directory(ROOT, ROOT, &directories);
    for index in 0..500u32 {
        let files: Vec<Record> = (0..100)
            .map(|file| Record::file(&format!("FILE{file:04}.TXT;1"), 90, 7))
            .collect();
        image.directory(100 + 5 * index, ROOT, &files);
    }
    let (device, fs) = watch(image.bytes);
    let opening = device.bytes.load(Ordering::Relaxed);
    assert!(opening < 256 << 10, "{opening} bytes to open");
    let credentials = Credentials::root();
    let directory = fs.lookup(&call(&credentials), &fs.root(), b"d499").unwrap();
    let listing = list(&fs, &directory.id, 1000).unwrap();
    assert_eq!(listing.len(), 102);
    let total = device.bytes.load(Ordering::Relaxed);
    assert!(
        total < 1 << 20,
        "{total} bytes to list one of 500 directories"
    );
    assert_eq!(walk(&fs, WHOLE).len(), 1 + 500 + 50_000);
}

#[test]
fn names_in_a_large_directory_are_found_without_reading_it_again() {
    let records: Vec<Record> = (0..20_000)
        .map(|index| Record::file(&format!("F{index:05}.;1"), 19, 0))
        .collect();
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &records);
    let (device, fs) = watch(image.bytes);
    let credentials = Credentials::root();
    let past_end = fs.read_directory(&call(&credentials), &fs.root(), u64::MAX, true, &mut |_| {
        panic!("nothing is there")
    });
    assert!(past_end.unwrap().end);
    let before = device.bytes.load(Ordering::Relaxed);
    for index in (0..20_000u64).step_by(100) {
        let name = format!("f{index:05}");
        fs.lookup(&call(&credentials), &fs.root(), name.as_bytes())
            .unwrap();
    }
    let read = device.bytes.load(Ordering::Relaxed) - before;
    assert!(read <= 200 * 4096, "{read} bytes for 200 lookups");
}

#[test]
fn permission_is_by_mode_and_nothing_can_be_changed() {
    let fs = open_bytes(small().bytes);
    let user = Credentials::new(1000, 1000, &[]);
    let call = call(&user);
    let root = fs.root();
    let file = fs.lookup(&call, &root, b"good.txt").unwrap().id;
    let granted = |id, wanted| fs.access(&call, id, wanted).unwrap().0;
    assert_eq!(granted(&root, Access::ALL), Access::READ | Access::LOOKUP);
    assert_eq!(granted(&file, Access::ALL), Access::READ);
    assert_eq!(
        fs.read(&call, &root, 0, 1).map(|_| ()),
        Err(Error::IsDirectory)
    );
    assert_eq!(fs.read_link(&call, &file), Err(Error::Invalid));
    assert_eq!(fs.lookup(&call, &file, b"x"), Err(Error::NotDirectory));
    assert_eq!(fs.lookup(&call, &root, b"x"), Err(Error::NotFound));
    assert_eq!(fs.lookup(&call, &root, b"a/b"), Err(Error::Invalid));
    assert_eq!(
        fs.lookup(&call, &root, &[b'x'; 256]),
        Err(Error::NameTooLong)
    );
    assert!(fs.limits().read_only);
    let none = SetAttributes::default();
    let unchecked = CreateMode::Unchecked(none);
    let refusals = [
        fs.set_attributes(&call, &file, &none, None).err(),
        fs.write(&call, &file, 0, b"x", Stability::FileSync).err(),
        fs.commit(&call, &file, 0, 0).err(),
        fs.create(&call, &root, b"x", &unchecked).err(),
        fs.make_directory(&call, &root, b"x", &none).err(),
        fs.make_symlink(&call, &root, b"x", b"y", &none).err(),
        fs.make_node(&call, &root, b"x", NodeKind::Fifo, &none)
            .err(),
        fs.link(&call, &file, &root, b"x").err(),
        fs.remove(&call, &root, b"good.txt").err(),
        fs.remove_directory(&call, &root, b"sub").err(),
        fs.rename(&call, (&root, b"sub"), (&root, b"x"), RenameMode::Replace)
            .err(),
    ];
    assert!(refusals.iter().all(|error| *error == Some(Error::ReadOnly)));
    assert_eq!(fs.finish(Finish::Sync), Ok(0));
}

#[test]
fn a_file_over_four_gibibytes_is_one_file_in_a_sparse_image() {
    let first = u32::MAX - 2047; // the largest multiple of a sector
    let second = 314_572_807u32;
    let next = 50 + first / 2048;
    let mut image = Image::new();
    let records = [
        Record::file("BIG.BIN;1", 50, first).flags(MORE),
        Record::file("BIG.BIN;1", next, second),
    ];
    image.directory(ROOT, ROOT, &records);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&image.bytes).unwrap();
    let start = 50 * SECTOR as u64;
    let size = u64::from(first) + u64::from(second);
    let marks = [
        0,
        (1 << 31) - 3,
        u64::from(first) - 4,
        u64::from(first) + 4,
        size - 8,
    ];
    for mark in marks {
        file.seek(SeekFrom::Start(start + mark)).unwrap();
        file.write_all(&mark.to_le_bytes()).unwrap();
    }
    let fs = open_file(file.path());
    let credentials = Credentials::root();
    let call = call(&credentials);
    let entry = fs.lookup(&call, &fs.root(), b"big.bin").unwrap();
    assert_eq!(entry.attributes.size, size);
    for mark in [0, (1 << 31) - 3, u64::from(first) + 4, size - 8] {
        let reply = fs.read(&call, &entry.id, mark, 8).unwrap();
        assert!(matches!(reply.payload, Payload::Pages(_)), "not copied");
        let mut bytes = [0; 8];
        assert_eq!(reply.payload.copy_to(&mut bytes, true), Ok(8));
        assert_eq!(u64::from_le_bytes(bytes), mark);
        assert_eq!(reply.end_of_file, mark == size - 8);
    }
    let mark = u64::from(first) - 4;
    let reply = fs.read(&call, &entry.id, mark, 16).unwrap();
    let mut bytes = [0; 16];
    assert_eq!(reply.payload.copy_to(&mut bytes, true), Ok(16));
    assert_eq!(bytes[..8], mark.to_le_bytes(), "across the sections");
    assert_eq!(bytes[8..], (mark + 8).to_le_bytes());
}

#[test]
fn numbers_behind_four_gibibytes_have_32_bits() {
    const FAR: u32 = (1 << 21) + 5;
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &[Record::directory("FAR", FAR, 2048)]);
    let mut far = Image { bytes: Vec::new() };
    far.directory(0, ROOT, &[Record::file("IN.TXT;1", 17, 7)]);
    // The builder has written the place of a directory at the start.
    let own = Record::directory("\0", FAR, 2048).bytes();
    far.bytes[..own.len()].copy_from_slice(&own);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&image.bytes).unwrap();
    file.seek(SeekFrom::Start(u64::from(FAR) * SECTOR as u64))
        .unwrap();
    file.write_all(&far.bytes).unwrap();
    let fs = open_file(file.path());
    let found = walk(&fs, WHOLE);
    let names: Vec<String> = found.keys().map(|path| support::display(path)).collect();
    assert_eq!(names, ["", "far", "far/in.txt"]);
    let mut numbers: Vec<u64> = found
        .values()
        .map(|found| found.attributes.file_id)
        .collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.iter().all(|number| *number < 1 << 32));
}

#[test]
fn a_large_directory_is_left_to_threads_that_may_wait() {
    let records: Vec<Record> = (0..10_000)
        .map(|index| Record::file(&format!("F{index:05}.;1"), 19, 0))
        .collect();
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &[Record::directory("D", 100, 2048)]);
    image.directory(100, ROOT, &records);
    let fs = open_bytes(image.bytes);
    let credentials = Credentials::root();
    let waiting = call(&credentials);
    let quick = Call::new(&credentials, false);
    let directory = fs.lookup(&waiting, &fs.root(), b"d").unwrap().id;
    let result = fs.lookup(&quick, &directory, b"f09999");
    assert_eq!(result, Err(Error::WouldBlock));
    let found = fs.lookup(&waiting, &directory, b"f09999");
    assert!(found.is_ok());
    assert_eq!(fs.lookup(&quick, &directory, b"f09999"), found);
}

#[test]
fn many_threads_see_the_same_tree() {
    let fs = open_bytes(small().bytes);
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
