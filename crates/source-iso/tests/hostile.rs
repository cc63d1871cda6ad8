//! Images made to harm a reader: what is good in them stays readable, nothing leads out of them,
//! and every walk comes to an end.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_cache::{Cache, CacheOptions, ReadAheadRule};
use pagewell_device::{Device, Geometry, RamDevice, Request};
use pagewell_fs::{Credentials, Error, FileSystem};
use support::builder::{
    Image, MORE, ROOT, Record, both, ce, cl, descriptor, entry, nm, nm_more, pack, pl, px, re, sl,
    sp,
};
use support::crafted::{GOOD, check, plain, rock_ridge};
use support::{Bounds, SECTOR, call, open_bytes, open_device, walk};

/// A walk of what is small and could be endless.
const SMALL: Bounds = Bounds {
    objects_max: 500,
    depth_max: 40,
    file_bytes_max: 1 << 20,
};

/// Counts the bytes that are read.
struct Counted(RamDevice, AtomicU64);

impl Device for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn length_bytes(&self) -> u64 {
        self.0.length_bytes()
    }
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn submit(&self, request: Request) {
        self.1.fetch_add(request.len() as u64, Ordering::Relaxed);
        self.0.submit(request);
    }
}

/// Bytes that opening an image and listing its root read, with a cache of 8 MiB.
fn bytes_to_list(image: &[u8]) -> u64 {
    let device = Arc::new(Counted(
        RamDevice::holding("counted", image),
        AtomicU64::new(0),
    ));
    let mut options = CacheOptions::new(8 << 20);
    options.read_ahead = ReadAheadRule::Off;
    let cache = Cache::new(options).unwrap();
    let fs = open_device(device.clone(), &cache);
    let credentials = Credentials::root();
    assert!(
        fs.lookup(&call(&credentials), &fs.root(), b"good.txt")
            .is_ok()
    );
    device.1.load(Ordering::Relaxed)
}

/// Whether the good file can be read, whatever else is there.
fn good_is_readable(image: Vec<u8>) {
    let found = walk(&open_bytes(image), SMALL);
    let good = &found[&b"good.txt"[..]];
    assert_eq!(good.content.as_deref(), Ok(&b"good"[..]));
}

#[test]
fn c01_c02_c03_continuation_areas_in_circles() {
    let areas = [
        ce(44, 0, 28),                           // itself
        [nm_more(b"x"), ce(45, 0, 28)].concat(), // two that lead to each other
        [nm_more(b"y"), ce(44, 0, 28), ce(45, 0, 28)].concat(),
    ];
    for area in &areas {
        let name = Record::file("A.;1", 40, 1).with(&[nm(b"a"), ce(44, 0, area.len())]);
        let mut image = rock_ridge(&[name]);
        image.put(44, area);
        image.put(45, &ce(44, 0, 28));
        check(&image, &[("a", "g"), GOOD]);
        // The same in the root's own record.
        let own = [sp(0), px(0o040_755, 2, 0), ce(44, 0, area.len())];
        let file = Record::file("GOOD.TXT;1", 40, 4).with(&[nm(b"good.txt")]);
        image.directory_with(ROOT, ROOT, (&own, &[]), &[file]);
        check(&image, &[GOOD]);
    }
}

#[test]
fn c04_c05_c06_continuation_areas_that_are_not_there() {
    let places = [
        (u32::MAX, 0, 100),
        (41, u32::MAX, 100),
        (41, 0, 0xffff_ffff),
        (41, 2047, 0xffff),
        (50, 2048, 1),
        (0, 0, 0),
        (u32::MAX, u32::MAX, 0xffff_ffff),
    ];
    let records: Vec<Record> = (0u32..)
        .zip(places)
        .map(|(index, (block, offset, length))| {
            let place = [both(block), both(offset), both(length)].concat();
            let name = nm(format!("name{index}").as_bytes());
            Record::file(&format!("N{index}.;1"), 40, 1).with(&[name, entry(b"CE", &place)])
        })
        .collect();
    let found = walk(&open_bytes(rock_ridge(&records).bytes), SMALL);
    for index in 0..places.len() {
        let name = format!("name{index}");
        assert_eq!(found[name.as_bytes()].content.as_deref(), Ok(&b"g"[..]));
    }
    good_is_readable(rock_ridge(&records).bytes);
}

#[test]
fn c07_c08_names_that_lead_out() {
    let name = |name: &[u8]| Record::file("X.;1", 40, 1).with(&[nm(name)]);
    let image = rock_ridge(&[
        name(b"../../../tmp/pwned"),
        name(b"/etc/passwd"),
        name(b".."),
        name(b"."),
        name(b"\0hidden"),
        name(b"a\0b"),
        Record::file("../UP.;1", 40, 2),
        // Flags for this directory and its parent, also with a name and repeated.
        Record::file("CURRENT.;1", 40, 1).with(&[entry(b"NM", b"\x02"), entry(b"NM", b"\x02x")]),
        Record::file("PARENT.;1", 40, 1).with(&[entry(b"NM", b"\x04..")]),
        Record::file("HOST.;1", 40, 1).with(&[entry(b"NM", b"\x20host")]),
    ]);
    let found = walk(&open_bytes(image.bytes.clone()), SMALL);
    let names: Vec<&Vec<u8>> = found.keys().skip(1).collect();
    assert_eq!(names.len(), 11, "{names:?}");
    for name in names {
        assert!(!name.is_empty() && !name.contains(&b'/') && !name.contains(&0));
        assert!(!matches!(&name[..], b"." | b".."));
    }
    assert!(found.contains_key(&b".._.._.._tmp_pwned"[..]));
    good_is_readable(image.bytes);
}

#[test]
fn c09_c10_links_past_their_records() {
    let link = |name: &[u8], entries: &[Vec<u8>]| {
        Record::file("L.;1", 0, 0)
            .with(&[nm(name), px(0o120_777, 1, 0)])
            .with(entries)
    };
    let long = sl(&[&[1, 200][..], &[b'x'; 200]].concat());
    let part = [&long[..], &ce(44, 0, long.len())].concat();
    let mut image = rock_ridge(&[
        link(b"past", &[sl(b"\0\xff")]),
        link(b"half", &[sl(b"\0")]),
        link(b"none", &[sl(b"")]),
        link(b"flags", &[entry(b"SL", b"")]),
        link(b"nul", &[sl(b"\0\x03a\0b")]),
        // The same area again and again would be a path without an end.
        link(b"endless", &[ce(44, 0, part.len())]),
    ]);
    image.put(44, &part);
    let found = walk(&open_bytes(image.bytes.clone()), SMALL);
    for name in [&b"past"[..], b"half", b"none", b"flags", b"nul", b"endless"] {
        assert!(matches!(found[name].content, Err(Error::Io(_))), "{name:?}");
    }
    good_is_readable(image.bytes);
}

#[test]
fn c11_c12_c13_directories_in_each_other() {
    let directory = |name: &str, extent| Record::directory(name, extent, 2048);
    let mut image = plain(&[
        directory("SELF", ROOT),
        directory("A", 41),
        directory("B", 42),
    ]);
    image.directory(41, ROOT, &[directory("B", 42), directory("A", 41)]);
    image.directory(42, ROOT, &[directory("A", 41), directory("TOP", ROOT)]);
    let fs = open_bytes(image.bytes.clone());
    let found = walk(&fs, SMALL);
    assert!(found.len() < 100, "{}", found.len());
    good_is_readable(image.bytes);
    // 8 directories in each of 24: 8^24 paths, of which a walk sees as many as it wants.
    let mut image = plain(&[directory("D", 60)]);
    for level in 0..24u32 {
        let below: Vec<Record> = (0..8)
            .map(|index| directory(&format!("D{index}"), 61 + level))
            .collect();
        image.directory(
            60 + level,
            if level == 0 { ROOT } else { 59 + level },
            &below,
        );
    }
    image.directory(84, 83, &[]);
    assert!(bytes_to_list(&image.bytes) < 1 << 20);
}

#[test]
fn c14_children_that_lead_back() {
    let child = |name: &[u8], block| Record::file("C.;1", 40, 0).with(&[nm(name), cl(block)]);
    let mut image = rock_ridge(&[
        child(b"self", ROOT),
        child(b"file", 40),
        child(b"nowhere", u32::MAX),
        child(b"zero", 0),
        Record::directory("D", 41, 2048).with(&[nm(b"d")]),
    ]);
    // A record of a directory for itself with a child, and parents that lie.
    let own = [cl(41), px(0o040_755, 2, 0)];
    let second = [pl(u32::MAX)];
    let up = child(b"up", ROOT);
    image.directory_with(
        41,
        ROOT,
        (&own, &second),
        &[up, child(b"again", 41), child(b"e", 42)],
    );
    image.directory_with(
        42,
        41,
        (&[], &[pl(42)]),
        &[child(b"d", 41), child(b"e", 42)],
    );
    let found = walk(&open_bytes(image.bytes.clone()), SMALL);
    assert!(found.contains_key(&b"d"[..]));
    for refused in [
        &b"self"[..],
        b"file",
        b"nowhere",
        b"zero",
        b"d/again",
        b"d/e/e",
    ] {
        assert!(!found.contains_key(refused), "{refused:?}");
    }
    good_is_readable(image.bytes);
}

#[test]
fn c15_three_thousand_levels() {
    const LEVELS: u32 = 3000;
    let mut image = plain(&[Record::directory("D", 100, 2048)]);
    for level in 0..LEVELS {
        let parent = if level == 0 { ROOT } else { 99 + level };
        let below = Record::directory("D", 101 + level, 2048);
        image.directory(100 + level, parent, &[below]);
    }
    image.directory(100 + LEVELS, 99 + LEVELS, &[]);
    let fs = open_bytes(image.bytes);
    let credentials = Credentials::root();
    let (mut at, mut depth) = (fs.root(), 0);
    let refusal = loop {
        match fs.lookup(&call(&credentials), &at, b"d") {
            Ok(entry) => (at, depth) = (entry.id, depth + 1),
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, Error::Io(_)), "{refusal}");
    assert!((2000..2100).contains(&depth), "{depth}");
    assert!(
        fs.lookup(&call(&credentials), &fs.root(), b"good.txt")
            .is_ok()
    );
}

#[test]
fn paths_longer_than_any_buffer() {
    let name = "n".repeat(200);
    let directory = |extent| Record::directory("D", extent, 2048).with(&[nm(name.as_bytes())]);
    let mut image = rock_ridge(&[directory(100)]);
    for level in 0..20 {
        let parent = if level == 0 { ROOT } else { 99 + level };
        image.directory(100 + level, parent, &[directory(101 + level)]);
    }
    image.directory(120, 119, &[]);
    let found = walk(&open_bytes(image.bytes.clone()), SMALL);
    assert_eq!(found.keys().map(Vec::len).max(), Some(21 * 201 - 1));
    good_is_readable(image.bytes);
}

#[test]
fn c16_records_that_contradict_themselves() {
    let good = Record::file("GOOD.TXT;1", 40, 4).bytes();
    let damages: Vec<Vec<u8>> = [
        (0usize, 1u8),
        (0, 33),
        (0, 255),
        (32, 0),
        (32, 255),
        (32, 12),
    ]
    .into_iter()
    .map(|(at, value)| {
        let mut record = Record::file("BAD.TXT;1", 40, 4).bytes();
        record[at] = value;
        record
    })
    .collect();
    for damage in damages {
        let mut image = plain(&[]);
        let own = Record::directory("\0", ROOT, 2 * 2048).bytes();
        let parent = Record::directory("\x01", ROOT, 2048).bytes();
        image.put(ROOT, &pack(&[own, parent, damage]));
        image.put(ROOT + 1, &pack(std::slice::from_ref(&good)));
        good_is_readable(image.bytes);
    }
}

#[test]
fn c17_c18_c20_places_and_sizes_near_the_largest_number() {
    let mut pieces = vec![Record::file("SUM.;1", 40, u32::MAX).flags(MORE); 40];
    pieces.push(Record::file("SUM.;1", u32::MAX, u32::MAX));
    let mut records = vec![
        Record::directory("DIR1", 41, u32::MAX),
        Record::directory("DIR2", u32::MAX, u32::MAX),
        Record::directory("DIR3", 41, 0xffff_f800),
        Record::file("FILE1.;1", u32::MAX, u32::MAX),
        Record::file("FILE2.;1", 40, u32::MAX),
        Record::file("FILE3.;1", 0, 10),
    ];
    let mut far = Record::file("FAR.;1", u32::MAX, u32::MAX);
    far.attribute_blocks = 255;
    far.interleave = (255, 255);
    records.push(far);
    records.extend(pieces);
    let mut image = plain(&records);
    image.directory(41, ROOT, &[]);
    let fs = open_bytes(image.bytes.clone());
    let found = walk(&fs, SMALL);
    assert_eq!(found[&b"sum"[..]].attributes.size, 41 * u64::from(u32::MAX));
    let credentials = Credentials::root();
    for name in [&b"sum"[..], b"far", b"file1", b"file2"] {
        let found = &found[name];
        for offset in [
            0,
            4,
            1 << 32,
            found.attributes.size - 1,
            found.attributes.size,
            u64::MAX,
        ] {
            let reply = fs.read(&call(&credentials), &found.id, offset, 4096);
            let length = reply.map_or(0, |reply| reply.payload.len());
            assert!(length <= 4096);
        }
    }
    good_is_readable(image.bytes);
}

#[test]
fn c22_system_use_of_any_shape() {
    let areas: [&[u8]; 10] = [
        b"NM\0\x01",
        b"NM\x03\x01",
        b"NM\xff\x01\0",
        b"N",
        b"ER\x08\x01\xff\xff\xff\x01",
        b"PX\x04\x01",
        b"TF\x05\x01\xff",
        b"CE\x1b\x01",
        b"SL\x04\x01",
        b"CL\x04\x01RE\x05\x01\0PL\x04\x01",
    ];
    let records: Vec<Record> = areas
        .iter()
        .enumerate()
        .map(|(index, area)| Record::file(&format!("A{index}.;1"), 40, 1).with(&[area.to_vec()]))
        .collect();
    let image = rock_ridge(&records);
    let found = walk(&open_bytes(image.bytes.clone()), SMALL);
    let lost: Vec<usize> = (0..areas.len())
        .filter(|index| !found.contains_key(format!("a{index}").as_bytes()))
        .collect();
    // The last says of itself that it is shown elsewhere.
    assert_eq!(lost, [9]);
    good_is_readable(image.bytes);
}

#[test]
fn a_store_that_holds_only_what_is_lost_hides_nothing_good() {
    // RE without anything that leads there: the image itself does not show it.
    let image = rock_ridge(&[Record::directory("D", 41, 2048).with(&[nm(b"d"), re()])]);
    check(&image, &[GOOD]);
}

#[test]
fn c27_many_descriptors_and_c30_c31_none() {
    let mut flood = Image::new();
    for sector in 16..4096 {
        flood.put(sector, b"\x03CD001\x01");
    }
    flood.put(17, &descriptor(1, ROOT, 2048, b""));
    flood.directory(ROOT, ROOT, &[Record::file("GOOD.TXT;1", 40, 4)]);
    flood.put(40, b"good");
    assert!(bytes_to_list(&flood.bytes) < 1 << 20);
    for length in [0, 1, 2048, 16 * SECTOR, 17 * SECTOR - 1, 17 * SECTOR] {
        assert!(
            support::try_open(vec![0; length]).is_err(),
            "{length} zeros"
        );
    }
}

#[test]
fn one_name_that_many_records_share_takes_bounded_memory() {
    // Each record leads to a chain of its own length; all chains are one place.
    let mut image = Image::new();
    let area = [nm_more(&[b'x'; 240]), ce(44, 0, 300)].concat();
    image.put(44, &area);
    let file =
        |index: u32| Record::file(&format!("F{index:05}.;1"), 40, 1).with(&[ce(44, 0, area.len())]);
    let mut records: Vec<Record> = (0..5000).map(file).collect();
    records.push(Record::file("GOOD.TXT;1", 40, 4).with(&[nm(b"good.txt")]));
    image.put(40, b"good");
    // Behind all else, as it is larger than the place of the usual root.
    let own = [sp(0)];
    image.directory_with(100, 100, (&own, &[]), &records);
    image.put(16, &descriptor(1, 100, 2048, b""));
    assert!(bytes_to_list(&image.bytes) < 8 << 20);
}

#[test]
fn an_image_cut_anywhere_shows_what_it_still_has() {
    let mut image = rock_ridge(&[
        Record::directory("D", 41, 2048).with(&[nm(b"d")]),
        Record::file("A.;1", 43, 3000).with(&[nm(b"a")]),
    ]);
    image.directory(41, ROOT, &[Record::file("F.;1", 42, 10).with(&[nm(b"f")])]);
    image.put(42, b"0123456789");
    image.put(43, &[b'a'; 3000]);
    let whole = image.bytes;
    for length in (0..whole.len()).step_by(1000).chain([whole.len() - 1]) {
        let Ok(fs) = support::try_open(whole[..length].to_vec()) else {
            assert!(length < (ROOT as usize + 1) * SECTOR, "{length}");
            continue;
        };
        let found = walk(&fs, SMALL);
        for (name, start, bytes) in [
            (&b"good.txt"[..], 40, &b"good"[..]),
            (b"a", 43, &[b'a'; 3000]),
            (b"d/f", 42, b"0123456789"),
        ] {
            let is_there = length >= start * SECTOR + bytes.len();
            let content = found.get(name).map(|found| found.content.as_deref());
            match content {
                Some(Ok(content)) => assert!(is_there && content == bytes, "{length}"),
                Some(Err(error)) => assert!(!is_there && matches!(error, Error::Io(_))),
                None => assert!(name == b"d/f" && length < 42 * SECTOR, "{length}"),
            }
        }
    }
}
