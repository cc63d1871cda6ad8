//! Damaged images with everything that is beside a tree: compressed files, extended attributes,
//! forks, boot catalogues, sessions, other trees, High Sierra. Looking at all of it ends without a
//! panic and within bounds, and no file has more bytes than it says.
//!
//! These run as ordinary tests, a bounded number of rounds each, and under a fuzzer with
//! `cargo bolero test`.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use pagewell_fs::{Credentials, FileSystem};
use pagewell_source_bytes::Violations;
use pagewell_source_iso::{IsoFileSystem, IsoOptions, Session, TreeKind, survey};
use support::builder::{
    ASSOCIATED, Image, ROOT, Record, al, descriptor, nm, pressed, px, sp, to_high_sierra, zisofs,
    zisofs_data,
};
use support::{Bounds, SECTOR, bytes_of, cache, call, open_bytes, walk};

const BOUNDS: Bounds = Bounds {
    objects_max: 100,
    depth_max: 6,
    file_bytes_max: 1 << 20,
};
const ENHANCED_ROOT: u32 = 35;
/// Of the second session, which begins at 80.
const SECOND_ROOT: u32 = 100;
/// Sectors with structures.
const STRUCTURES: [usize; 10] = [16, 17, 18, 20, 35, 50, 60, 70, 96, 100];

fn attribute_list() -> Vec<u8> {
    let list = [0x16, 0xae, 1, 123, 0x34, 0x54, 0x64, 0x81, 0x17, 0x35, 0x65];
    al(&[b"\x03name", b"value", b"", &list])
}

/// A file compressed in version 2.
fn version_2() -> Vec<u8> {
    let block = pressed(&[b'b'; 100]);
    let mut data = vec![0xef, 0x22, 0x55, 0xa1, 0xbc, 0x1b, 0x95, 0xa0, 0, 6, 1, 15];
    data.extend(100u64.to_le_bytes());
    data.extend([0; 4]);
    for pointer in [40, 40 + block.len() as u64] {
        data.extend(pointer.to_le_bytes());
    }
    [data, block].concat()
}

fn seed() -> Vec<u8> {
    let mut image = Image::new();
    let boot = [
        &b"\0CD001\x01EL TORITO SPECIFICATION"[..],
        &[0; 41],
        &[50, 0, 0, 0],
    ]
    .concat();
    image.put(17, &boot);
    let mut enhanced = descriptor(2, ENHANCED_ROOT, 2048, b"");
    enhanced[6] = 2;
    image.put(18, &enhanced);
    image.put(19, b"\xffCD001\x01");
    let file = |iso: &str, name: &[u8], extent, length| {
        Record::file(iso, extent, length).with(&[nm(name), px(0o100_644, 1, 0)])
    };
    let blocks = [pressed(&[b'a'; 32768]), pressed(&[b'c'; 1000])];
    let one = zisofs_data(33_768, 15, &blocks);
    let two = version_2();
    let length = |data: &[u8]| u32::try_from(data.len()).unwrap();
    let records = [
        file("A.;1", b"attributes", 40, 4).with(&[attribute_list()]),
        file("F.;1", b"fork", 40, 4).flags(ASSOCIATED),
        file("F.;1", b"fork", 40, 4).with(&[b"AA\x0e\x02TEXTttxt\x04\0".to_vec()]),
        file("Y.;1", b"one", 60, length(&one)).with(&[zisofs(*b"pz", 4, 15, 33_768)]),
        file("Z.;1", b"two", 70, length(&two)).with(&[zisofs(*b"PZ", 6, 15, 100)]),
    ];
    let own = [sp(0), px(0o040_755, 2, 0), attribute_list()];
    image.directory_with(ROOT, ROOT, (&own, &[]), &records);
    let long = "n".repeat(200);
    image.directory(ENHANCED_ROOT, ENHANCED_ROOT, &[Record::file(&long, 40, 4)]);
    image.put(40, b"good");
    let entries = [&[1, 0][..], &[0; 30], &[0x88, 0, 0, 0, 0, 0, 4, 0, 40]].concat();
    image.put(50, &entries);
    image.put(60, &one);
    image.put(70, &two);
    image.put(96, &descriptor(1, SECOND_ROOT, 2048, b""));
    image.put(97, b"\xffCD001\x01");
    image.directory(SECOND_ROOT, SECOND_ROOT, &[Record::file("B.;1", 40, 4)]);
    image.bytes[16 * SECTOR + 80..][..4].copy_from_slice(&80u32.to_le_bytes());
    image.bytes[96 * SECTOR + 80..][..4].copy_from_slice(&40u32.to_le_bytes());
    image.put(119, b"");
    image.bytes
}

/// Looks at everything; how many trees and sessions, and attributes of all objects, there are.
fn look(image: &[u8]) -> (usize, usize, usize) {
    let bytes = bytes_of(image);
    let violations = Arc::new(Violations::default());
    let of = |tree: Option<TreeKind>, session| IsoOptions {
        tree,
        session,
        violations: Some(violations.clone()),
        ..IsoOptions::default()
    };
    let Ok(found) = survey(&bytes, Session::Default) else {
        return (0, 0, 0);
    };
    let last = survey(&bytes, Session::Last);
    assert!(found.boot.len() <= 32 && last.is_ok_and(|last| last.sessions.len() <= 99));
    let mut attributes = 0;
    let chosen = [(None, Session::Default), (None, Session::Last)];
    let kinds = found.trees.iter();
    let kinds = kinds.map(|kind| (Some(*kind), Session::Default));
    for (tree, session) in kinds.chain(chosen) {
        let Ok(fs) = IsoFileSystem::of_bytes(&bytes, cache(), &of(tree, session)) else {
            continue;
        };
        let credentials = Credentials::root();
        if fs.attributes(&call(&credentials), &fs.root()).is_err() {
            continue;
        }
        let all = walk(&fs, BOUNDS);
        let Some(extended) = fs.extended_attributes() else {
            continue;
        };
        for found in all.values() {
            let all = extended.all(&call(&credentials), &found.id);
            attributes += all.map_or(0, |all| all.len());
        }
    }
    (found.trees.len(), found.sessions.len(), attributes)
}

#[test]
fn the_seed_is_sound() {
    let (trees, sessions, attributes) = look(&seed());
    assert_eq!((trees, sessions), (3, 2));
    assert!(attributes >= 8, "{attributes}");
    let all = walk(&open_bytes(seed()), BOUNDS);
    let content = |name: &str| all[name.as_bytes()].content.clone().unwrap();
    let one = [&[b'a'; 32768][..], &[b'c'; 1000]].concat();
    assert!(content("one") == one && content("two") == [b'b'; 100]);
}

fn change(seed: &[u8], places: &[usize], input: &[u8]) -> Vec<u8> {
    let mut image = seed.to_vec();
    for change in input.chunks_exact(3).take(64) {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        image[places[place % places.len()]] = change[2];
    }
    image
}

/// Each three bytes of input change one byte of the sectors that hold structures.
#[test]
fn changed_bytes() {
    let seed = seed();
    let places: Vec<usize> = STRUCTURES
        .iter()
        .flat_map(|sector| sector * SECTOR..(sector + 1) * SECTOR)
        .filter(|place| seed[*place] != 0 || seed[place.saturating_sub(2)] != 0)
        .collect();
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            look(&change(&seed, &places, input));
        });
}

#[test]
fn changed_bytes_of_high_sierra() {
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &[Record::file("A.;1", 40, 4)]);
    image.put(40, b"good");
    to_high_sierra(&mut image, &[ROOT]);
    let places: Vec<usize> = (16 * SECTOR..17 * SECTOR)
        .chain(20 * SECTOR..20 * SECTOR + 200)
        .collect();
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            look(&change(&image.bytes, &places, input));
        });
}

/// The input is a compressed file: what comes behind its magic number, or a block.
#[test]
fn arbitrary_compressed_data() {
    let seed = seed();
    bolero::check!()
        .with_iterations(4000)
        .for_each(|input: &[u8]| {
            let mut image = seed.clone();
            let at = 60 * SECTOR + input.first().map_or(0, |first| usize::from(*first) % 100);
            let length = input.len().min(2 * SECTOR);
            image[at..at + length].copy_from_slice(&input[..length]);
            look(&image);
        });
}
