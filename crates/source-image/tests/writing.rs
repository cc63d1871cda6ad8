//! Writing to a disk image: what is taken, what is refused, and what is there afterwards.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::path::Path;
use std::sync::Arc;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, PAGE_BYTES};
use pagewell_device::{Buffer, Device, FileDevice, FileOptions, Operation, RamDevice, read_exact};
use pagewell_fs::{
    Call, CreateMode, Credentials, Entry, Error, FileSystem, Finish, NodeKind, RenameMode,
    SetAttributes, SetTime, Stability, Timestamp, Written,
};
use pagewell_layers::{Fault, Rule};
use pagewell_source_image::{ImageFileSystem, Origin};
use proptest::prelude::*;
use rustix::io::Errno;

const STABLE: [Stability; 3] = [
    Stability::Unstable,
    Stability::DataSync,
    Stability::FileSync,
];

fn cache() -> Cache {
    Cache::new(CacheOptions::new(BYTES_MIN)).unwrap()
}

fn over(device: Arc<dyn Device>) -> ImageFileSystem {
    let origin = Origin::of_memory(b"disk.img");
    ImageFileSystem::from_device(device, origin, &cache()).writable()
}

fn open_writable(path: &Path) -> ImageFileSystem {
    let options = FileOptions {
        writable: true,
        ..FileOptions::default()
    };
    let device = Arc::new(FileDevice::open_with(path, options).unwrap());
    let origin = Origin::of_path(path).unwrap();
    ImageFileSystem::from_device(device, origin, &cache()).writable()
}

fn zeros(length: u64) -> (Arc<RamDevice>, ImageFileSystem) {
    let device = Arc::new(RamDevice::new("zeros", length));
    (device.clone(), over(device))
}

fn waiting(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

fn file_of(image: &ImageFileSystem, name: &[u8]) -> Entry {
    let root = Credentials::root();
    image.lookup(&waiting(&root), &image.root(), name).unwrap()
}

/// Everything that the image shows.
fn shown(image: &ImageFileSystem) -> Vec<u8> {
    let root = Credentials::root();
    let file = file_of(image, b"disk.img");
    let mut bytes = Vec::new();
    loop {
        let at = bytes.len() as u64;
        let reply = image.read(&waiting(&root), &file.id, at, 1 << 20).unwrap();
        let mut piece = vec![0; reply.payload.len()];
        assert_eq!(reply.payload.copy_to(&mut piece, true), Ok(piece.len()));
        bytes.extend_from_slice(&piece);
        if reply.end_of_file {
            return bytes;
        }
    }
}

/// Everything that is on the device.
fn stored(device: &dyn Device) -> Vec<u8> {
    let length = usize::try_from(device.length_bytes()).unwrap();
    let mut buffer = Buffer::new(length, 4096);
    read_exact(device, 0, &mut buffer[..]).unwrap();
    buffer[..].to_vec()
}

fn write(
    image: &ImageFileSystem,
    offset: u64,
    data: &[u8],
    stability: Stability,
) -> Result<Written, Error> {
    let root = Credentials::root();
    let id = file_of(image, b"disk.img").id;
    image.write(&waiting(&root), &id, offset, data, stability)
}

#[test]
fn bytes_are_there_at_once_and_on_the_device_when_promised() {
    let root = Credentials::root();
    let (device, image) = zeros(1 << 20);
    let id = file_of(&image, b"disk.img").id;
    for (number, stability) in (1u8..).zip(STABLE) {
        let offset = u64::from(number) * 70_001;
        let data = vec![number; 70_000];
        let written = write(&image, offset, &data, stability).unwrap();
        assert_eq!((written.count, written.committed), (70_000, stability));
        assert_eq!(written.verifier, image.write_verifier(None));
        let at = usize::try_from(offset).unwrap();
        assert!(shown(&image)[at..at + 70_000] == data);
        if stability == Stability::Unstable {
            let committed = image.commit(&waiting(&root), &id, offset, 70_000).unwrap();
            assert_eq!(committed.verifier, written.verifier);
        }
        assert!(stored(&*device)[at..at + 70_000] == data, "{stability:?}");
    }
    assert_eq!(shown(&image), stored(&*device));
}

#[test]
fn a_commit_takes_every_range() {
    let root = Credentials::root();
    let (device, image) = zeros(100_000);
    let id = file_of(&image, b"disk.img").id;
    for (offset, count) in [(0, 0), (99_999, 0), (100_000, 1), (50_000, u32::MAX)] {
        write(&image, 99_990, b"0123456789", Stability::Unstable).unwrap();
        let committed = image.commit(&waiting(&root), &id, offset, count).unwrap();
        assert_eq!(committed.verifier, image.write_verifier(None));
        assert_eq!(committed.change.after.unwrap().size, 100_000);
    }
    assert!(stored(&*device).ends_with(b"0123456789"));
}

#[test]
fn the_end_is_the_end() {
    let (_, image) = zeros(100_000);
    let fits = write(&image, 99_000, &[7; 5000], Stability::Unstable).unwrap();
    assert_eq!(fits.count, 1000);
    for (offset, length) in [(100_000, 1), (100_001, 5000), (u64::MAX, 1)] {
        let refused = write(&image, offset, &vec![7; length], Stability::FileSync);
        assert_eq!(refused.err(), Some(Error::NoSpace), "{offset}");
    }
    let nothing = write(&image, 100_000, &[], Stability::FileSync).unwrap();
    assert_eq!((nothing.count, nothing.change.before.is_some()), (0, true));
    let bytes = shown(&image);
    assert!(bytes.len() == 100_000 && bytes[99_000..] == [7; 1000]);
}

#[test]
fn a_thread_that_may_not_wait_is_not_kept() {
    let root = Credentials::root();
    let (device, image) = zeros(1 << 20);
    let id = file_of(&image, b"disk.img").id;
    let call = Call::new(&root, false);
    for stability in [Stability::DataSync, Stability::FileSync] {
        let refused = image.write(&call, &id, 0, b"x", stability);
        assert_eq!(refused.err(), Some(Error::WouldBlock));
    }
    assert_eq!(
        image.commit(&call, &id, 0, 0).err(),
        Some(Error::WouldBlock)
    );
    assert!(stored(&*device) == vec![0; 1 << 20], "nothing has changed");
    assert_eq!(
        image.attributes(&call, &id),
        Ok(file_of(&image, b"disk.img").attributes)
    );
    match image.write(&call, &id, 5, b"taken", Stability::Unstable) {
        Ok(written) => assert_eq!(written.count, 5),
        Err(error) => assert_eq!(error, Error::WouldBlock),
    }
}

#[test]
fn lengths_are_those_that_a_block_device_takes() {
    let root = Credentials::root();
    let call = waiting(&root);
    let (_, image) = zeros(50_000);
    let file = file_of(&image, b"disk.img");
    write(&image, 0, b"kept", Stability::Unstable).unwrap();
    for (size, expected) in [
        (0, None),
        (50_000, None),
        (1, Some(Error::Invalid)),
        (u64::MAX, Some(Error::Invalid)),
    ] {
        let request = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        let set = image.set_attributes(&call, &file.id, &request, None);
        assert_eq!(set.err(), expected, "{size}");
        let unchecked = CreateMode::Unchecked(request);
        let created = image.create(&call, &image.root(), b"disk.img", &unchecked);
        match expected {
            Some(_) => assert_eq!(created.err(), expected),
            None => assert_eq!(created.unwrap().entry.id, file.id),
        }
    }
    let bytes = shown(&image);
    assert!(bytes.len() == 50_000 && bytes.starts_with(b"kept"));
    let on_root = SetAttributes {
        size: Some(0),
        ..SetAttributes::default()
    };
    let refused = image.set_attributes(&call, &image.root(), &on_root, None);
    assert_eq!(refused.err(), Some(Error::IsDirectory));
}

#[test]
fn permissions_stay_and_times_move() {
    let (_, image) = zeros(1000);
    let root = Credentials::root();
    let user = Credentials::new(77, 77, &[]);
    let (call, other) = (waiting(&root), waiting(&user));
    let file = file_of(&image, b"disk.img");
    assert_eq!(file.attributes.mode, 0o666);
    let set = |call, request, guard| image.set_attributes(call, &file.id, &request, guard);
    let none = SetAttributes::default();
    for (mode, uid, gid, allowed) in [
        (Some(0o666), Some(0), Some(0), true),
        (Some(0o600), None, None, false),
        (None, Some(1), None, false),
        (None, None, Some(1), false),
    ] {
        let request = SetAttributes {
            mode,
            uid,
            gid,
            ..none
        };
        let expected = (!allowed).then_some(Error::NotPermitted);
        assert_eq!(set(&call, request, None).err(), expected);
    }
    let time = Timestamp {
        seconds: 1_000_000,
        nanoseconds: 5,
    };
    let given = SetAttributes {
        modified: Some(SetTime::To(time)),
        ..none
    };
    let change = set(&call, given, Some(file.attributes.changed)).unwrap();
    assert_eq!(change.before, Some(file.attributes.wcc()));
    assert_eq!(change.after.unwrap().modified, time);
    assert_eq!(
        set(&call, given, Some(file.attributes.changed)).err(),
        Some(Error::NotSync)
    );
    assert_eq!(set(&other, given, None).err(), Some(Error::NotPermitted));
    let now = SetAttributes {
        accessed: Some(SetTime::ToServerTime),
        modified: Some(SetTime::ToServerTime),
        ..none
    };
    let touched = set(&other, now, None).unwrap().after.unwrap();
    assert!(touched.modified > time && touched.modified == touched.accessed);
    let written = image
        .write(&other, &file.id, 0, b"x", Stability::Unstable)
        .unwrap();
    assert_eq!(written.change.before, Some(touched.wcc()));
    let after = written.change.after.unwrap();
    assert!(after.modified > touched.modified && after.changed == after.modified);
    assert_eq!(image.attributes(&call, &file.id), Ok(after));
    let bad = SetAttributes {
        modified: Some(SetTime::To(Timestamp {
            seconds: 0,
            nanoseconds: 1_000_000_000,
        })),
        ..none
    };
    assert_eq!(set(&call, bad, None).err(), Some(Error::Invalid));
    // The directory's are its own.
    let top = image.attributes(&call, &image.root());
    let refused = image.set_attributes(&call, &image.root(), &given, None);
    assert_eq!(refused.err(), Some(Error::NotPermitted));
    assert_eq!(image.attributes(&call, &image.root()), top);
    assert_eq!(image.attributes(&call, &file.id), Ok(after));
}

#[test]
fn names_stay() {
    let (_, image) = zeros(1000);
    let root = Credentials::root();
    let call = waiting(&root);
    let (top, file) = (image.root(), file_of(&image, b"disk.img").id);
    let none = SetAttributes::default();
    let create = |name: &[u8], mode| image.create(&call, &top, name, &mode).err();
    assert_eq!(create(b"disk.img", CreateMode::Unchecked(none)), None);
    assert_eq!(
        create(b"disk.img", CreateMode::Guarded(none)),
        Some(Error::Exists)
    );
    assert_eq!(
        create(b"disk.img", CreateMode::Exclusive([0; 8])),
        Some(Error::Exists)
    );
    assert_eq!(
        create(b"..", CreateMode::Unchecked(none)),
        Some(Error::Exists)
    );
    assert_eq!(
        create(b"a/b", CreateMode::Unchecked(none)),
        Some(Error::Invalid)
    );
    assert_eq!(
        create(b"new", CreateMode::Unchecked(none)),
        Some(Error::NotPermitted)
    );
    let in_file = image.create(&call, &file, b"x", &CreateMode::Unchecked(none));
    assert_eq!(in_file.err(), Some(Error::NotDirectory));
    let refusals = [
        image.make_directory(&call, &top, b"x", &none).err(),
        image.make_symlink(&call, &top, b"x", b"y", &none).err(),
        image
            .make_node(&call, &top, b"x", NodeKind::Fifo, &none)
            .err(),
        image.link(&call, &file, &top, b"x").err(),
        image.remove(&call, &top, b"disk.img").err(),
        image.remove_directory(&call, &top, b"x").err(),
        image
            .rename(
                &call,
                (&top, b"disk.img"),
                (&top, b"x"),
                RenameMode::Replace,
            )
            .err(),
    ];
    assert!(
        refusals
            .iter()
            .all(|error| *error == Some(Error::NotPermitted))
    );
    let on_directory = image.write(&call, &top, 0, b"x", Stability::Unstable);
    assert_eq!(on_directory.err(), Some(Error::IsDirectory));
    assert_eq!(
        image.commit(&call, &top, 0, 0).err(),
        Some(Error::IsDirectory)
    );
}

#[test]
fn what_was_written_is_in_the_file_when_the_image_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let length = 3 * PAGE_BYTES + 1234;
    std::fs::write(&path, vec![1; length]).unwrap();
    let image = open_writable(&path);
    let before = image.write_verifier(None);
    let file = file_of(&image, b"disk.img");
    let modified = file.attributes.modified;
    for (offset, byte) in [(0, 2), (PAGE_BYTES - 3, 3), (length - 5, 4)] {
        write(&image, offset as u64, &[byte; 5], Stability::Unstable).unwrap();
    }
    let mut expected = vec![1; length];
    expected[..5].fill(2);
    expected[PAGE_BYTES - 3..PAGE_BYTES + 2].fill(3);
    expected[length - 5..].fill(4);
    assert!(shown(&image) == expected);
    drop(image);
    assert!(
        std::fs::read(&path).unwrap() == expected,
        "and no byte longer"
    );
    let again = open_writable(&path);
    assert_ne!(again.write_verifier(None), before, "another life");
    assert_eq!(file_of(&again, b"disk.img").id, file.id);
    assert!(file_of(&again, b"disk.img").attributes.modified >= modified);
    assert!(shown(&again) == expected);
}

#[test]
fn a_device_that_fails_is_told_to_who_commits() {
    let root = Credentials::root();
    for (error, is_full) in [(Errno::NOSPC, true), (Errno::IO, false)] {
        let ram = Arc::new(RamDevice::new("/dev/worn", 1 << 20));
        let rule = Rule::error(error).of(Operation::Write);
        let rule = rule.within(512 << 10..1 << 20);
        let image = over(Arc::new(Fault::new(ram, [rule]).unwrap()));
        let id = file_of(&image, b"disk.img").id;
        let elsewhere = write(&image, 0, &[1; 4096], Stability::FileSync);
        assert!(elsewhere.is_ok());
        for stability in STABLE {
            let written = write(&image, 600 << 10, &[1; 4096], stability);
            // At the latest the commit knows.
            let commit = |_| image.commit(&waiting(&root), &id, 0, 0).map(|_| ());
            match written.and_then(commit) {
                Err(Error::FullBelow(text)) => assert!(is_full && text.contains("/dev/worn")),
                Err(Error::Io(text)) => assert!(!is_full && text.contains("/dev/worn")),
                other => panic!("nobody said that it is not on the device: {other:?}"),
            }
        }
    }
}

/// One step of a writer, or the end of the program.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u8, Stability),
    Commit(u64, u32),
    Read(u64, u32),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let stability = prop::sample::select(&STABLE[..]);
    let offset = 0u64..5 * PAGE_BYTES as u64;
    let length = prop_oneof![1usize..200, 1usize..3 * PAGE_BYTES];
    prop_oneof![
        8 => (offset.clone(), length, any::<u8>(), stability)
            .prop_map(|(at, length, byte, how)| Step::Write(at, length, byte, how)),
        2 => (offset.clone(), 0u32..1 << 20).prop_map(|(at, count)| Step::Commit(at, count)),
        4 => (offset, 0u32..1 << 19).prop_map(|(at, count)| Step::Read(at, count)),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn an_image_is_a_map_of_bytes(
        length in 1usize..4 * PAGE_BYTES,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let device = Arc::new(RamDevice::new("model", length as u64));
        let mut model = vec![0u8; length];
        let mut image = over(device.clone());
        let root = Credentials::root();
        let call = waiting(&root);
        for (number, step) in steps.into_iter().enumerate() {
            let id = file_of(&image, b"disk.img").id;
            match step {
                Step::Write(offset, size, byte, how) => {
                    let data: Vec<u8> = (0..size).map(|at| byte ^ (at + number) as u8).collect();
                    let at = offset as usize;
                    let written = image.write(&call, &id, offset, &data, how);
                    if at >= length {
                        prop_assert_eq!(written.err(), Some(Error::NoSpace));
                        continue;
                    }
                    let fits = size.min(length - at);
                    prop_assert_eq!(written.unwrap().count as usize, fits);
                    model[at..at + fits].copy_from_slice(&data[..fits]);
                    if how > Stability::Unstable {
                        prop_assert!(stored(&*device)[at..at + fits] == data[..fits]);
                    }
                }
                Step::Commit(offset, count) => {
                    image.commit(&call, &id, offset, count).unwrap();
                    let from = (offset as usize).min(length);
                    let to = match count {
                        0 => length,
                        _ => (from + count as usize).min(length),
                    };
                    prop_assert!(stored(&*device)[from..to] == model[from..to]);
                }
                Step::Read(offset, count) => {
                    let reply = image.read(&call, &id, offset, count).unwrap();
                    let mut bytes = vec![0; reply.payload.len()];
                    prop_assert_eq!(reply.payload.copy_to(&mut bytes, true), Ok(bytes.len()));
                    let from = (offset as usize).min(length);
                    let to = (from + count as usize).min(length);
                    prop_assert!(bytes == model[from..to]);
                }
                Step::Reopen => {
                    drop(image);
                    prop_assert!(stored(&*device) == model);
                    image = over(device.clone());
                }
            }
        }
        image.finish(Finish::Sync).unwrap();
        prop_assert!(stored(&*device) == model && shown(&image) == model);
    }
}
