//! A disk image as a server uses it: one file, its identity, its bytes, its failures.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::collections::HashSet;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, PAGE_BYTES};
use pagewell_device::{Device, RamDevice};
use pagewell_fs::{
    Access, Call, CreateMode, Credentials, Entry, Error, FileId, FileSystem, FileType, Payload,
    ReadReply, RenameMode, Result, SetAttributes, SetTime, Stability,
};
use pagewell_layers::{Fault, Rule};
use pagewell_source_image::{ImageFileSystem, Origin};
use proptest::prelude::*;
use rustix::io::Errno;

fn cache() -> Cache {
    Cache::new(CacheOptions::new(BYTES_MIN)).unwrap()
}

/// Bytes that repeat at no power of two.
fn numbers(length: usize) -> Vec<u8> {
    let number = |index: usize| (index / 251 * 7 + index % 251) as u8;
    (0..length).map(number).collect()
}

/// An image of these bytes, called `ram.img`.
fn image(bytes: Vec<u8>, cache: &Cache) -> ImageFileSystem {
    over(Arc::new(RamDevice::holding("memory", &bytes)), cache)
}

fn over(device: Arc<dyn Device>, cache: &Cache) -> ImageFileSystem {
    ImageFileSystem::from_device(device, Origin::of_memory(b"ram.img"), cache)
}

fn call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

/// The entry of the one file.
fn file_of(image: &ImageFileSystem) -> Entry {
    let credentials = Credentials::root();
    let mut names = Vec::new();
    let page = image
        .read_directory(&call(&credentials), &image.root(), 0, true, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
    assert!(page.end && names.len() == 3, "{names:?}");
    image
        .lookup(&call(&credentials), &image.root(), &names[2])
        .unwrap()
}

fn read(image: &ImageFileSystem, offset: u64, count: u32) -> Result<ReadReply> {
    let credentials = Credentials::root();
    image.read(&call(&credentials), &file_of(image).id, offset, count)
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    assert_eq!(payload.copy_to(&mut bytes, true), Ok(payload.len()));
    bytes
}

#[test]
fn an_image_to_be_read_shows_its_file_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    std::fs::write(&path, numbers(100_000)).unwrap();
    let image = ImageFileSystem::open(&path, &cache()).unwrap();
    let status = std::fs::metadata(&path).unwrap();
    let credentials = Credentials::root();
    let found = image.lookup(&call(&credentials), &image.root(), b"disk.img");
    let attributes = found.unwrap().attributes;
    assert_eq!(attributes.size, 100_000);
    assert_eq!(attributes.mode, status.mode() & 0o777);
    assert_eq!(attributes.modified.seconds, status.mtime());
    assert_eq!(
        (attributes.uid, attributes.gid),
        (status.uid(), status.gid())
    );
    assert_eq!(attributes.file_type, FileType::Regular);
    let reply = read(&image, 99_000, 5000).unwrap();
    assert!(reply.end_of_file && matches!(reply.payload, Payload::Pages(_)));
    assert!(bytes_of(&reply.payload) == numbers(100_000)[99_000..]);
    assert!(read(&image, 100_000, 1).unwrap().payload.is_empty());
    assert!(read(&image, u64::MAX, 1).unwrap().end_of_file);
}

#[test]
fn the_permissions_of_the_file_say_who_writes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(5000).unwrap();
    std::fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
    let status = file.as_file().metadata().unwrap();
    let origin = Origin::of_path(file.path()).unwrap();
    let device = Arc::new(RamDevice::holding("memory", &numbers(5000)));
    let image = ImageFileSystem::from_device(device, origin, &cache()).writable();
    let id = file_of(&image).id;
    assert!(!image.limits().read_only && image.limits().times_settable);
    let change = Access::MODIFY | Access::EXTEND;
    for (uid, gid, changes) in [
        (0, 0, true),
        (status.uid(), 1 << 20, true),
        (1 << 20, status.gid(), false),
        (1 << 20, 1 << 20, false),
    ] {
        let credentials = Credentials::new(uid, gid, &[]);
        let caller = call(&credentials);
        let (granted, attributes) = image.access(&caller, &id, Access::ALL).unwrap();
        assert_eq!(attributes.mode, 0o640);
        let expected = if changes { change } else { Access(0) };
        assert_eq!(granted & change, expected, "{uid} {gid}");
        let written = image.write(&caller, &id, 0, b"x", Stability::Unstable);
        assert_eq!(written.is_ok(), changes, "{uid} {gid}");
        let now = SetAttributes {
            modified: Some(SetTime::ToServerTime),
            ..SetAttributes::default()
        };
        let touched = image.set_attributes(&caller, &id, &now, None);
        assert_eq!(touched.is_ok(), changes);
    }
    let root = Credentials::root();
    let (granted, _) = image
        .access(&call(&root), &image.root(), Access::ALL)
        .unwrap();
    assert_eq!(granted & change, Access(0), "the directory never changes");
}

#[test]
fn directories_and_pipes_are_no_images() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for (path, reason) in [
        (folder.path(), "directory"),
        (&pipe, "neither a directory"),
        (Path::new("/nowhere"), "No such file"),
    ] {
        let error = ImageFileSystem::open(path, &cache()).err().unwrap();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn identifiers_survive_a_restart_and_name_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    std::fs::write(&path, numbers(5000)).unwrap();
    let before = ImageFileSystem::open(&path, &cache()).unwrap();
    let (root, file) = (before.root(), file_of(&before));
    drop(before);
    let again = ImageFileSystem::open(&path, &cache()).unwrap();
    let credentials = Credentials::root();
    let call = call(&credentials);
    assert_eq!(again.root(), root);
    assert_eq!(again.attributes(&call, &file.id), Ok(file.attributes));
    // Longer, replaced, or called something else: another image.
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5001)
        .unwrap();
    let longer = ImageFileSystem::open(&path, &cache()).unwrap();
    assert_eq!(longer.attributes(&call, &file.id), Err(Error::Stale));
    let other = folder.path().join("other.img");
    std::fs::rename(&path, &other).unwrap();
    let renamed = ImageFileSystem::open(&other, &cache()).unwrap();
    let id = file_of(&longer).id;
    assert_eq!(renamed.attributes(&call, &id), Err(Error::Stale));
    for length in 0..=48usize {
        for byte in [0, 1, 255] {
            let forged = FileId::new(&vec![byte; length]).unwrap();
            assert_eq!(renamed.attributes(&call, &forged), Err(Error::BadId));
        }
    }
}

#[test]
fn permission_is_by_mode_and_nothing_can_be_changed() {
    let image = image(numbers(10), &cache());
    let user = Credentials::new(1000, 1000, &[]);
    let call = call(&user);
    let (root, file) = (image.root(), file_of(&image).id);
    let granted = |id, wanted| image.access(&call, id, wanted).unwrap().0;
    assert_eq!(granted(&root, Access::ALL), Access::READ | Access::LOOKUP);
    assert_eq!(granted(&file, Access::ALL), Access::READ);
    assert!(image.limits().read_only);
    assert_eq!(image.lookup(&call, &file, b"x"), Err(Error::NotDirectory));
    assert_eq!(image.lookup(&call, &root, b"x"), Err(Error::NotFound));
    assert_eq!(image.lookup(&call, &root, b"a/b"), Err(Error::Invalid));
    let parent = image.lookup(&call, &root, b"..").unwrap();
    assert_eq!(parent.id, root);
    let none = SetAttributes::default();
    let unchecked = CreateMode::Unchecked(none);
    let refusals = [
        image.set_attributes(&call, &file, &none, None).err(),
        image
            .write(&call, &file, 0, b"x", Stability::FileSync)
            .err(),
        image.commit(&call, &file, 0, 0).err(),
        image.create(&call, &root, b"x", &unchecked).err(),
        image.make_symlink(&call, &root, b"x", b"y", &none).err(),
        image.remove(&call, &root, b"ram.img").err(),
        image
            .rename(
                &call,
                (&root, b"ram.img"),
                (&root, b"x"),
                RenameMode::Replace,
            )
            .err(),
    ];
    assert!(refusals.iter().all(|error| *error == Some(Error::ReadOnly)));
    assert_eq!(
        image.read(&call, &root, 0, 1).map(|_| ()),
        Err(Error::IsDirectory)
    );
}

#[test]
fn a_file_that_may_not_be_read_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"secret").unwrap();
    let permissions = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(file.path(), permissions).unwrap();
    let image = ImageFileSystem::open(file.path(), &cache()).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let id = file_of(&image).id;
    for (uid, allowed) in [(uid, true), (uid + 1, false)] {
        let credentials = Credentials::new(uid, 99_999, &[]);
        let read = image.read(&call(&credentials), &id, 0, 10);
        assert_eq!(read.is_ok(), allowed, "{uid}");
    }
}

#[test]
fn listings_go_on_after_every_cookie() {
    let image = image(numbers(10), &cache());
    let credentials = Credentials::root();
    let mut cookies = HashSet::new();
    let mut cookie = 0;
    for name in [&b"."[..], b"..", b"ram.img"] {
        let mut taken = None;
        let page = image
            .read_directory(
                &call(&credentials),
                &image.root(),
                cookie,
                true,
                &mut |entry| {
                    if taken.is_some() {
                        return false;
                    }
                    assert_eq!(entry.name, name);
                    taken = Some(entry.cookie);
                    true
                },
            )
            .unwrap();
        cookie = taken.unwrap();
        assert_eq!(page.end, name == b"ram.img");
        assert!(cookie != 0 && cookies.insert(cookie));
    }
    for cookie in [3, 4, u64::MAX] {
        let nothing = &mut |_: &pagewell_fs::DirectoryEntry<'_>| panic!("nothing is left");
        let page = image.read_directory(&call(&credentials), &image.root(), cookie, true, nothing);
        assert!(page.unwrap().end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_range_has_the_bytes_of_the_device(
        length in 1usize..20 * PAGE_BYTES,
        ranges in prop::collection::vec((0u64..22 << 16, 0u32..1 << 20, any::<bool>()), 1..20),
    ) {
        let expected = numbers(length);
        let image = image(expected.clone(), &cache());
        let credentials = Credentials::root();
        let id = file_of(&image).id;
        let mut kept = Vec::new();
        for (offset, count, may_block) in ranges {
            let call = Call::new(&credentials, may_block);
            let reply = match image.read(&call, &id, offset, count) {
                Err(Error::WouldBlock) if !may_block => continue,
                reply => reply.unwrap(),
            };
            let start = (offset as usize).min(length);
            let end = (start + count as usize).min(length);
            prop_assert!(bytes_of(&reply.payload) == expected[start..end]);
            prop_assert_eq!(reply.end_of_file, end == length);
            kept.push((reply, start..end));
        }
        // What is pinned keeps its bytes however much was read since.
        for (reply, range) in kept {
            prop_assert!(bytes_of(&reply.payload) == expected[range]);
        }
    }
}

#[test]
fn a_bad_range_costs_its_readers_and_nobody_else() {
    let length = 4 << 20;
    let expected = numbers(length);
    let memory = Arc::new(RamDevice::holding("/dev/worn", &expected));
    let rule = Rule::error(Errno::IO).within(2 << 20..2_101_248);
    let device = Arc::new(Fault::new(memory, [rule]).unwrap());
    let image = over(device, &cache());
    std::thread::scope(|scope| {
        for reader in 0..4usize {
            let (image, expected) = (&image, &expected);
            scope.spawn(move || {
                for round in 0..30 {
                    let offset = (reader * 1_000_003 + round * 400_009) % (length - 100_000);
                    let bad = 2 << 20..2_101_248;
                    let (start, end) = (offset, offset + 100_000);
                    let reply = read(image, offset as u64, 100_000);
                    if bad.contains(&start) {
                        let Err(Error::Io(text)) = reply else {
                            panic!("{offset}: {reply:?}")
                        };
                        assert!(
                            text.contains("/dev/worn") && text.contains("at byte 2"),
                            "{text}"
                        );
                        continue;
                    }
                    let reply = reply.unwrap();
                    let read = bytes_of(&reply.payload);
                    let wanted = if start < bad.start {
                        end.min(bad.start)
                    } else {
                        end
                    };
                    let whole = end <= bad.start || start >= bad.end;
                    assert!(!read.is_empty() && (!whole || read.len() == wanted - start));
                    assert!(read.len() <= wanted - start, "{offset}: past the bad range");
                    assert!(read == expected[start..start + read.len()]);
                }
            });
        }
    });
    // Reading on from where a short answer ended meets the failure at its place.
    let mut at = (2 << 20) - 50_000;
    let text = loop {
        match read(&image, at, 100_000) {
            Ok(reply) => at += reply.payload.len() as u64,
            Err(Error::Io(text)) => break text,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(at, 2 << 20, "{text}");
}

#[test]
fn an_image_truncated_under_us_is_an_error_that_names_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let expected = numbers(3 << 20);
    std::fs::write(file.path(), &expected).unwrap();
    let image = ImageFileSystem::open(file.path(), &cache()).unwrap();
    let first = read(&image, 0, 4096).unwrap();
    file.as_file().set_len((2 << 20) + 100).unwrap();
    let Err(Error::Io(text)) = read(&image, (2 << 20) + (512 << 10), 8192) else {
        panic!("zeros are no answer");
    };
    let name = file.path().to_str().unwrap();
    assert!(text.contains(name) && text.contains("at byte 26"), "{text}");
    let mut at = 1 << 20;
    while let Ok(reply) = read(&image, at, 1 << 20) {
        assert!(!reply.payload.is_empty());
        assert!(bytes_of(&reply.payload) == expected[at as usize..][..reply.payload.len()]);
        at += reply.payload.len() as u64;
        assert!(at <= (2 << 20) + 100);
    }
    assert!(
        bytes_of(&first.payload) == expected[..4096],
        "what was pinned stays"
    );
}

#[test]
fn a_tiny_cache_serves_many_readers_of_large_ranges() {
    let expected = numbers(16 << 20);
    let image = image(expected.clone(), &cache());
    let pinned = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for reader in 0..16usize {
            let (image, expected, pinned) = (&image, &expected, &pinned);
            scope.spawn(move || {
                for round in 0..20 {
                    let offset = (reader * 777_777 + round * 3_333_333) % (15 << 20);
                    let reply = read(image, offset as u64, 1 << 20).unwrap();
                    let is_pinned = matches!(reply.payload, Payload::Pages(_));
                    pinned.fetch_add(u32::from(is_pinned), Ordering::Relaxed);
                    assert!(bytes_of(&reply.payload) == expected[offset..offset + (1 << 20)]);
                }
            });
        }
    });
    assert!(pinned.into_inner() > 0, "some were pinned");
}
