//! Files that zisofs compressed: by all writers that there are, and damaged ones.

#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pagewell_cache::{Cache, CacheOptions};
use pagewell_device::RamDevice;
use pagewell_fs::{Credentials, Error, FileId, FileSystem, Payload, Result};
use pagewell_source_iso::{IsoFileSystem, IsoOptions};
use support::builder::{Image, Record, nm, pressed, px, zisofs, zisofs_data};
use support::crafted::rock_ridge;
use support::{
    WHOLE, call, local, noise, open_bytes, open_device, open_file, open_with, tool, walk,
};

/// Lines that can be compressed, no two alike.
fn text(lines: u32) -> Vec<u8> {
    let line = |number: u32| format!("line {number} of {}\n", number.wrapping_mul(2_654_435_761));
    (0..lines)
        .flat_map(|number| line(number).into_bytes())
        .collect()
}

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("text"), text(30_000)).unwrap();
    let zeros = [&vec![0; 3_000_000][..], b"end"].concat();
    fs::write(root.join("sub/zeros"), zeros).unwrap();
    fs::write(root.join("noise"), noise(150_000, 1)).unwrap();
    fs::write(root.join("small"), vec![b'x'; 5000]).unwrap();
    fs::write(root.join("blocks"), text(10_000).split_at(1 << 17).0).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
}

fn read(fs: &IsoFileSystem, id: &FileId, offset: u64, count: u32) -> Result<Vec<u8>> {
    let credentials = Credentials::root();
    let reply = fs.read(&call(&credentials), id, offset, count)?;
    let mut bytes = vec![0; reply.payload.len()];
    reply.payload.copy_to(&mut bytes, true)?;
    Ok(bytes)
}

/// Compares all files, whole and at odd places; how many have more bytes than the image has.
fn check(fs: &IsoFileSystem, source: &Path) -> usize {
    let ours = walk(fs, WHOLE);
    let mut compressed = 0;
    for (path, (metadata, content)) in local(source) {
        if !metadata.is_file() {
            continue;
        }
        let found = &ours[&path];
        let path = support::display(&path);
        assert_eq!(found.attributes.size, content.len() as u64, "{path}");
        assert!(found.content.as_deref() == Ok(&content[..]), "{path}");
        compressed += usize::from(found.attributes.used < found.attributes.size);
        for offset in [1usize, 32767, 65536, 70_001, 131_071, 1 << 20, 2_999_999] {
            let expected = content.get(offset..).unwrap_or(&[]);
            let expected = &expected[..expected.len().min(70_000)];
            let bytes = read(fs, &found.id, offset as u64, 70_000).unwrap();
            // A reader that wants more asks again.
            assert!(expected.starts_with(&bytes), "{path} at {offset}");
            assert_eq!(bytes.is_empty(), expected.is_empty(), "{path} at {offset}");
        }
    }
    compressed
}

#[test]
fn xorriso_compresses_in_both_versions() {
    let work = tempfile::tempdir().unwrap();
    let (tree, image) = (work.path().join("tree"), work.path().join("image.iso"));
    make_tree(&tree);
    for how in [
        "version_2=off",
        "version_2=off:block_size=128k",
        "version_2=on:block_size_v2=1m",
        "version_2=on:susp_z2=on:block_size_v2=32k",
    ] {
        let _ = fs::remove_file(&image);
        let how = format!("level=6:{how}");
        let how = ["-zisofs", &how, "-outdev"].map(OsStr::new);
        let what = ["/", "-set_filter_r", "--zisofs", "/", "--"].map(OsStr::new);
        let paths = [image.as_os_str(), OsStr::new("-map"), tree.as_os_str()];
        if tool("xorriso", &[&how[..], &paths, &what].concat()).is_none() {
            return;
        }
        assert!(check(&open_file(&image), &tree) >= 4);
    }
    // As recorded.
    let bytes = fs::read(&image).unwrap();
    let options = IsoOptions {
        keeps_compressed: true,
        ..IsoOptions::default()
    };
    let fs = open_with(&bytes, &options).unwrap();
    let all = walk(&fs, WHOLE);
    let zeros = &all[&b"sub/zeros"[..]];
    assert!(
        zeros
            .content
            .as_ref()
            .unwrap()
            .starts_with(b"\xef\x22\x55\xa1")
    );
    assert!(zeros.attributes.size < 2000);
}

#[test]
fn genisoimage_marks_what_mkzftree_compressed() {
    let work = tempfile::tempdir().unwrap();
    let at = |name: &str| work.path().join(name);
    let (tree, pressed, image) = (at("tree"), at("pressed"), at("image.iso"));
    make_tree(&tree);
    if tool("mkzftree", &[tree.as_os_str(), pressed.as_os_str()]).is_none() {
        return;
    }
    let options = ["-quiet", "-R", "-z", "-o"].map(OsStr::new);
    let paths = [image.as_os_str(), pressed.as_os_str()];
    if tool("genisoimage", &[&options[..], &paths].concat()).is_some() {
        assert!(check(&open_file(&image), &tree) >= 3);
        // What was read is in memory, and is sent from there.
        let fs = open_file(&image);
        let all = walk(&fs, WHOLE);
        let credentials = Credentials::root();
        let call = pagewell_fs::Call::new(&credentials, false);
        let reply = fs.read(&call, &all[&b"text"[..]].id, 100, 1 << 20).unwrap();
        assert!(matches!(reply.payload, Payload::Pages(_)));
    }
}

/// An image with one compressed file, and what is read of it: the length, and the data or an error.
fn shown(data: &[u8], size: u64, shift: u8) -> (u64, Result<Vec<u8>>) {
    let entries = [
        nm(b"file"),
        px(0o100_644, 1, 0),
        zisofs(*b"pz", 4, shift, size),
    ];
    let length = u32::try_from(data.len()).unwrap();
    let mut image: Image = rock_ridge(&[Record::file("F.;1", 60, length).with(&entries)]);
    image.put(60, data);
    let fs = open_bytes(image.bytes);
    let all = walk(&fs, WHOLE);
    assert_eq!(all[&b"good.txt"[..]].content, Ok(b"good".to_vec()));
    let found = &all[&b"file"[..]];
    (found.attributes.size, found.content.clone())
}

#[test]
fn damage_costs_the_blocks_that_it_is_in() {
    let text = text(5000);
    let size = 80_000;
    let text = &text[..size];
    let blocks: Vec<Vec<u8>> = text.chunks(32768).map(pressed).collect();
    let good = zisofs_data(80_000, 15, &blocks);
    assert_eq!(shown(&good, 80_000, 15), (80_000, Ok(text.to_vec())));
    let mut bad = good.clone();
    let second = 16 + 4 * 4 + blocks[0].len() + 100;
    bad[second] ^= 0xff;
    let entries = [
        nm(b"file"),
        px(0o100_644, 1, 0),
        zisofs(*b"pz", 4, 15, 80_000),
    ];
    let length = u32::try_from(bad.len()).unwrap();
    let mut image = rock_ridge(&[Record::file("F.;1", 60, length).with(&entries)]);
    image.put(60, &bad);
    let fs = open_bytes(image.bytes);
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"file")
        .unwrap()
        .id;
    let first = read(&fs, &id, 0, 80_000).unwrap();
    assert_eq!(first, text[..32768]);
    match read(&fs, &id, 40_000, 100) {
        Err(Error::Io(why)) => assert!(why.contains("a damaged zisofs block"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(read(&fs, &id, 65536, 80_000).unwrap(), text[65536..]);
}

#[test]
fn no_file_gives_more_than_it_should_or_harms() {
    let block = |length: usize| pressed(&vec![b'a'; length]);
    let is_error = |data: &[u8], size: u64, shift: u8| {
        let (shown_size, content) = shown(data, size, shift);
        assert_eq!(shown_size, size);
        assert!(matches!(content, Err(Error::Io(_))), "{content:?}");
    };
    // A block with more, or fewer, bytes than the file has.
    is_error(&zisofs_data(100, 15, &[block(1 << 20)]), 100, 15);
    is_error(&zisofs_data(32768, 15, &[block(100)]), 32768, 15);
    // A header that says something else than the entry.
    is_error(&zisofs_data(101, 15, &[block(100)]), 100, 15);
    is_error(&zisofs_data(100, 16, &[block(100)]), 100, 15);
    let mut other = zisofs_data(100, 15, &[block(100)]);
    other[0] = 0;
    is_error(&other, 100, 15);
    // Pointers back, into the table, and behind the data.
    for pointer in [0u32, 20, 25, 4000, u32::MAX] {
        let mut bad = zisofs_data(100, 15, &[block(100)]);
        bad[20..24].copy_from_slice(&pointer.to_le_bytes());
        is_error(&bad, 100, 15);
    }
    // A block of nothing is zeros.
    let (_, zeros) = shown(
        &zisofs_data(40_000, 15, &[Vec::new(), Vec::new()]),
        40_000,
        15,
    );
    assert_eq!(zeros, Ok(vec![0; 40_000]));
    // An entry that cannot be right marks nothing, and the data is shown as it is recorded.
    let raw = zisofs_data(100, 15, &[block(100)]);
    for (size, shift) in [(100, 2), (100, 255), (u64::from(u32::MAX), 15)] {
        let expected = (raw.len() as u64, Ok(raw.clone()));
        assert_eq!(shown(&raw, size, shift), expected);
    }
    // Data that the image lacks.
    let entries = [
        nm(b"file"),
        px(0o100_644, 1, 0),
        zisofs(*b"pz", 4, 15, 40_000),
    ];
    let mut image = rock_ridge(&[Record::file("F.;1", 60, 5000).with(&entries)]);
    let two = [pressed(&noise(32768, 1)), pressed(&noise(7232, 1))];
    image.put(60, &zisofs_data(40_000, 15, &two)[..4096]);
    let all = walk(&open_bytes(image.bytes), WHOLE);
    assert!(matches!(all[&b"file"[..]].content, Err(Error::Io(_))));
}

/// Compressed and uncompressed pages share the memory, and one waits for the other.
#[test]
fn the_smallest_cache_serves_many_readers_of_large_files() {
    let content: Vec<u8> = text(150_000).into_iter().take(4 << 20).collect();
    let blocks: Vec<Vec<u8>> = content.chunks(1 << 17).map(pressed).collect();
    let size = u32::try_from(content.len()).unwrap();
    let compressed = zisofs_data(size, 17, &blocks);
    let length = u32::try_from(compressed.len()).unwrap();
    let place = |number: u32| 60 + number * length.div_ceil(2048);
    let record = |number: u32| {
        let entries = [
            nm(format!("file{number}").as_bytes()),
            px(0o100_644, 1, 0),
            zisofs(*b"pz", 4, 17, u64::from(size)),
        ];
        Record::file(&format!("F{number}.;1"), place(number), length).with(&entries)
    };
    let mut image: Image = rock_ridge(&(0..8).map(record).collect::<Vec<_>>());
    (0..8).for_each(|number| image.put(place(number), &compressed));
    let cache = Cache::new(CacheOptions::new(pagewell_cache::BYTES_MIN)).unwrap();
    let device = Arc::new(RamDevice::holding("image", &image.bytes));
    let fs = open_device(device, &cache);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (fs, content) = (&fs, &content);
            scope.spawn(move || {
                let credentials = Credentials::root();
                let name = format!("file{number}");
                let found = fs.lookup(&call(&credentials), &fs.root(), name.as_bytes());
                let id = found.unwrap().id;
                let mut at = 0;
                while at < content.len() {
                    let bytes = match read(fs, &id, at as u64, 300_000) {
                        Ok(bytes) => bytes,
                        // Too much of the memory is pinned for the moment.
                        Err(Error::TryLater) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    assert!(content[at..].starts_with(&bytes) && !bytes.is_empty());
                    at += bytes.len();
                }
            });
        }
    });
}

#[test]
fn without_waiting_nothing_is_inflated_that_is_not_in_memory() {
    let content = text(100);
    let size = u32::try_from(content.len()).unwrap();
    let data = zisofs_data(size, 15, &[pressed(&content)]);
    let length = u32::try_from(data.len()).unwrap();
    let record = |number: u32| {
        let entries = [
            nm(format!("file{number}").as_bytes()),
            px(0o100_644, 2, 0),
            zisofs(*b"pz", 4, 15, u64::from(size)),
        ];
        Record::file(&format!("F{number}.;1"), 60, length).with(&entries)
    };
    let mut image = rock_ridge(&[record(0), record(1)]);
    image.put(60, &data);
    let fs = open_bytes(image.bytes);
    let credentials = Credentials::root();
    let find = |name: &[u8]| fs.lookup(&call(&credentials), &fs.root(), name);
    let (found, link) = (find(b"file0").unwrap(), find(b"file1").unwrap());
    let read_at_once = |id: &FileId| {
        let call = pagewell_fs::Call::new(&credentials, false);
        fs.read(&call, id, 0, size).map(|reply| reply.payload)
    };
    let at_once = || read_at_once(&found.id);
    let waiting = || read(&fs, &found.id, 0, size);
    assert!(matches!(at_once(), Err(Error::WouldBlock)));
    assert_eq!(waiting().as_deref(), Ok(&content[..]), "goes by");
    assert_eq!(waiting().as_deref(), Ok(&content[..]), "stays");
    assert!(matches!(at_once(), Ok(Payload::Pages(_))));
    let linked = read_at_once(&link.id);
    assert!(matches!(linked, Ok(Payload::Pages(_))), "in memory once");
}
