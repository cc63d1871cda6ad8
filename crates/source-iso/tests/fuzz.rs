//! Damaged images: whatever is in them, opening, walking and reading come to an end without a
//! panic, and within the bounds of the walk.
//!
//! These run as ordinary tests, a bounded number of rounds each, and under a fuzzer with
//! `cargo bolero test`.

#![allow(clippy::unwrap_used)]

mod support;

use support::builder::{
    Image, JOLIET_ROOT, MORE, ROOT, Record, ce, cl, joliet_file, nm, nm_more, pack, pl, px, re, sl,
    sp, utf16,
};
use support::{Bounds, SECTOR, try_open, walk};

const BOUNDS: Bounds = Bounds {
    objects_max: 300,
    depth_max: 12,
    file_bytes_max: 1 << 20,
};

/// Everything the reader knows, once.
fn seed() -> Vec<u8> {
    let mut image = Image::new().joliet();
    let target = sl(b"\x08\0\0\x03usr\0\x03lib");
    let mut interleaved = Record::file("I.;1", 44, 5000).with(&[nm(b"interleaved")]);
    interleaved.interleave = (1, 1);
    let long = nm(b"the end");
    image.rock_ridge_root(&[
        Record::file("A.;1", 40, 4).with(&[nm(b"a"), px(0o100_644, 2, 9)]),
        Record::file("B.;1", 40, 4).with(&[nm_more(b"b to "), ce(45, 100, long.len())]),
        Record::file("L.;1", 0, 0).with(&[nm(b"link"), px(0o120_777, 1, 0), target]),
        Record::file("M.;1", 40, 1000)
            .flags(MORE)
            .with(&[nm(b"many")]),
        Record::file("M.;1", 42, 3000),
        interleaved,
        Record::directory("D", 41, 2048).with(&[nm(b"d")]),
        Record::directory("RR_MOVED", 43, 2048).with(&[nm(b"rr_moved")]),
    ]);
    let placeholder = Record::file("M", 46, 0).with(&[nm(b"moved"), cl(46)]);
    image.directory(41, ROOT, &[placeholder]);
    image.directory(43, ROOT, &[Record::directory("M", 46, 2048).with(&[re()])]);
    image.directory_with(46, 43, (&[], &[pl(41)]), &[Record::file("X.;1", 40, 1)]);
    image.put(45, &[&[0; 100][..], &long].concat());
    let sub = Record {
        identifier: utf16("Sub"),
        ..Record::directory("", 31, 2048)
    };
    image.directory(
        JOLIET_ROOT,
        JOLIET_ROOT,
        &[joliet_file("A.txt;1", 40, 4), sub],
    );
    image.directory(31, JOLIET_ROOT, &[joliet_file("B", 42, 4)]);
    image.put(60, b"");
    image.bytes
}

fn survive(image: Vec<u8>) {
    if let Ok(fs) = try_open(image) {
        assert!(walk(&fs, BOUNDS).len() <= BOUNDS.objects_max);
    }
}

#[test]
fn the_seed_is_sound() {
    let fs = try_open(seed()).unwrap();
    let names: Vec<String> = walk(&fs, BOUNDS)
        .keys()
        .map(|path| support::display(path))
        .collect();
    let expected = [
        "",
        "a",
        "b to the end",
        "d",
        "d/moved",
        "d/moved/x",
        "interleaved",
        "link",
        "many",
    ];
    assert_eq!(names, expected);
}

/// Each three bytes of input change one byte of the sectors that hold structures.
#[test]
fn changed_bytes() {
    let seed = seed();
    let places: Vec<usize> = [16, 17, 20, 30, 31, 41, 43, 45, 46]
        .iter()
        .flat_map(|sector| sector * SECTOR..(sector + 1) * SECTOR)
        .filter(|place| seed[*place] != 0 || seed[place.saturating_sub(2)] != 0)
        .collect();
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            let mut image = seed.clone();
            for change in input.chunks_exact(3).take(64) {
                let place = usize::from(change[0]) << 8 | usize::from(change[1]);
                image[places[place % places.len()]] = change[2];
            }
            survive(image);
        });
}

/// The input is the content of the root directory, and of the area its entries continue in.
#[test]
fn arbitrary_records() {
    let seed = seed();
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            let mut image = Image {
                bytes: seed.clone(),
            };
            let own = Record::directory("\0", ROOT, 2048).with(&[sp(0)]).bytes();
            let second = Record::directory("\x01", ROOT, 2048).bytes();
            let (records, areas) = input.split_at(input.len() / 2);
            let mut sector = pack(&[own, second]);
            let taken = records.len().min(SECTOR - 80);
            sector[80..80 + taken].copy_from_slice(&records[..taken]);
            image.put(ROOT, &sector);
            image.put(45, &areas[..areas.len().min(SECTOR)]);
            survive(image.bytes);
        });
}

/// The input is the system use area of one record.
#[test]
fn arbitrary_system_use() {
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            let mut image = Image::new();
            let area = &input[..input.len().min(200)];
            let signatures = [
                *b"NM", *b"PX", *b"TF", *b"SL", *b"CE", *b"CL", *b"PN", *b"ZF",
            ];
            let mut entries = area.to_vec();
            // Input that looks like entries gets further than noise.
            let mut at = 0;
            while at + 4 <= entries.len() {
                let signature = signatures[usize::from(entries[at]) % signatures.len()];
                entries[at..at + 2].copy_from_slice(&signature);
                at += usize::from(entries[at + 2] % 64).max(4);
            }
            let file = Record::file("A.;1", 40, 4).with(&[entries]);
            image.rock_ridge_root(&[file, Record::file("B.;1", 40, 4)]);
            image.put(40, input);
            survive(image.bytes);
        });
}
