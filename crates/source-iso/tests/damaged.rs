//! Images written by hand: what is wrong in one place costs that place only.

#![allow(clippy::unwrap_used)]

mod support;

use pagewell_fs::{Credentials, Error, FileSystem};
use pagewell_source_iso::TreeKind;
use support::builder::{
    Image, JOLIET_ROOT, MORE, ROOT, Record, ce, cl, joliet_file, nm, nm_more, pack, utf16,
};
use support::crafted::{GOOD, check, plain, rock_ridge};
use support::{Bounds, SECTOR, WHOLE, call, open_bytes, walk};

#[test]
fn a_damaged_record_costs_its_sector_only() {
    for damage in [&[20u8, 0, 0][..], &[255; 80], &[33; 33], &[34; 34]] {
        let mut image = plain(&[]);
        let own = Record::directory("\0", ROOT, 2 * 2048).bytes();
        let parent = Record::directory("\x01", ROOT, 2048).bytes();
        let lost = Record::file("LOST.TXT;1", 40, 4).bytes();
        let mut damage = damage.to_vec();
        if damage.len() == 34 {
            damage[32] = 200; // the name reaches past the record
        }
        image.put(ROOT, &pack(&[own, parent, damage, lost]));
        image.put(ROOT + 1, &Record::file("GOOD.TXT;1", 40, 4).bytes());
        check(&image, &[GOOD]);
    }
}

#[test]
fn a_file_with_a_missing_section_cannot_be_read_and_hides_nothing() {
    let image = plain(&[
        Record::file("MIX.BIN;1", 40, 2).flags(MORE),
        Record::file("B.TXT;1", 40, 3),
        Record::file("OPEN.BIN;1", 40, 2).flags(MORE),
    ]);
    // GOOD.TXT comes last, so both runs break off.
    let expected = [("b.txt", "goo"), GOOD, ("mix.bin", "!"), ("open.bin", "!")];
    check(&image, &expected);
    let mut image = plain(&[]);
    let open = Record::file("OPEN.BIN;1", 40, 2).flags(MORE);
    image.directory(ROOT, ROOT, &[Record::file("GOOD.TXT;1", 40, 4), open]);
    check(&image, &[GOOD, ("open.bin", "!")]);
}

#[test]
fn continuation_areas_chain_across_blocks_and_loops_end() {
    let third = nm(b"three");
    let second = [nm_more(b"two "), ce(42, 0, third.len())].concat();
    let mut image = rock_ridge(&[
        Record::file("CHAIN.;1", 40, 1).with(&[nm_more(b"one "), ce(41, 2040, second.len())]),
        Record::file("LOOP.;1", 40, 1).with(&[nm(b"loop"), ce(43, 0, 28)]),
        Record::file("FAR.;1", 40, 1).with(&[nm(b"far"), ce(4_000_000_000, 0, 28)]),
        Record::file("HUGE.;1", 40, 1).with(&[nm(b"huge"), ce(41, 0, 0xffff_ffff)]),
    ]);
    image.put(44, b"");
    let at = 41 * SECTOR + 2040;
    image.bytes[at..at + second.len()].copy_from_slice(&second);
    // The second area crosses into block 42; the third lies after its end there.
    let spill = 2040 + second.len() - SECTOR;
    let moved = ce(42, u32::try_from(spill).unwrap(), third.len());
    image.bytes[at + second.len() - moved.len()..at + second.len()].copy_from_slice(&moved);
    let at = 42 * SECTOR + spill;
    image.bytes[at..at + third.len()].copy_from_slice(&third);
    image.put(43, &ce(43, 0, 28));
    let expected = [
        ("far", "g"),
        GOOD,
        ("huge", "g"),
        ("loop", "g"),
        ("one two three", "g"),
    ];
    check(&image, &expected);
}

#[test]
fn circles_are_refused_where_they_close() {
    let mut image = rock_ridge(&[
        Record::directory("SELF", ROOT, 2048).with(&[nm(b"self")]),
        Record::directory("A", 41, 2048).with(&[nm(b"a")]),
        Record::file("CLSELF", 0, 0).with(&[nm(b"clself"), cl(ROOT)]),
        Record::file("CLFAR", 0, 0).with(&[nm(b"clfar"), cl(u32::MAX)]),
    ]);
    image.directory(
        41,
        ROOT,
        &[Record::directory("B", 42, 2048).with(&[nm(b"b")])],
    );
    let back = Record::directory("BACK", 41, 2048).with(&[nm(b"back")]);
    let top = Record::directory("TOP", ROOT, 2048).with(&[nm(b"top")]);
    image.directory(42, 41, &[back, top]);
    let fs = check(&image, &[("a", ""), ("a/b", ""), GOOD]);
    let credentials = Credentials::root();
    for name in [&b"self"[..], b"clself", b"clfar"] {
        let result = fs.lookup(&call(&credentials), &fs.root(), name);
        assert!(matches!(result, Err(Error::Io(_))), "{result:?}");
    }
}

#[test]
fn parents_that_lie_do_not_hang_anything() {
    // 41 and 42 are each other's parents, and neither's parent is the root.
    let mut image = plain(&[Record::directory("A", 41, 2048)]);
    image.directory(41, 42, &[Record::directory("B", 42, 2048)]);
    image.directory(42, 41, &[Record::directory("A", 41, 2048)]);
    let bounds = Bounds {
        objects_max: 100,
        ..WHOLE
    };
    let fs = open_bytes(image.bytes.clone());
    assert!(walk(&fs, bounds).contains_key(&b"good.txt"[..]));
}

#[test]
fn a_maze_of_directories_is_walked_only_as_far_as_asked() {
    let mut image = plain(&[Record::directory("L", 60, 2048)]);
    for level in 0..24 {
        let next: Vec<Record> = (0..8)
            .map(|index| Record::directory(&format!("D{index}"), 61 + level, 2048))
            .collect();
        let parent = if level == 0 { ROOT } else { 59 + level };
        image.directory(60 + level, parent, &next);
    }
    image.directory(84, 83, &[]);
    let bounds = Bounds {
        objects_max: 2000,
        ..WHOLE
    };
    assert_eq!(walk(&open_bytes(image.bytes), bounds).len(), 2000);
}

#[test]
fn directories_outside_the_image_cost_only_themselves() {
    let mut short = Record::directory("\0", 41, u32::MAX - 1).bytes();
    short.extend(Record::directory("\x01", ROOT, 2048).bytes());
    let mut image = plain(&[
        Record::directory("FAR", 4_000_000_000, 2048),
        Record::directory("NODOT", 40, 2048),
        Record::directory("LONG", 41, u32::MAX - 1),
        Record::directory("EMPTY", 4_000_000_000, 0),
    ]);
    image.put(41, &short);
    let fs = check(&image, &[("empty", ""), GOOD, ("long", "")]);
    let credentials = Credentials::root();
    let look = |name: &[u8]| fs.lookup(&call(&credentials), &fs.root(), name);
    assert!(matches!(look(b"far"), Err(Error::Io(_))));
    assert!(matches!(look(b"nodot"), Err(Error::Io(_))));
    let long = look(b"long").unwrap().id;
    let listed = support::list(&fs, &long, 10);
    assert!(matches!(listed, Err(Error::Io(_))), "{listed:?}");
    let empty = look(b"empty").unwrap().id;
    let parent = fs.lookup(&call(&credentials), &empty, b"..").unwrap();
    assert_eq!(parent.id, fs.root());
    assert_eq!(support::list(&fs, &empty, 10).unwrap().len(), 2);
}

#[test]
fn a_directory_may_be_wrong_about_its_own_place() {
    let own = |extent: u32, length: u32, attribute_blocks| {
        let mut own = Record::directory("\0", extent, length);
        own.attribute_blocks = attribute_blocks;
        own.bytes()
    };
    let with = |own: Vec<u8>| {
        let mut image = plain(&[Record::directory("D", 41, 2048)]);
        let parent = Record::directory("\x01", ROOT, 2048).bytes();
        let file = Record::file("F.;1", 40, 2).bytes();
        image.put(41, &pack(&[own, parent, file]));
        image
    };
    for own in [
        own(0, 2048, 0),
        own(42, 2048, 0),
        own(41, 2048, 1),
        own(u32::MAX, 2048, 0),
    ] {
        check(&with(own), &[("d", ""), ("d/f", "go"), GOOD]);
    }
    // Its parent says that there is something, so it is not empty.
    let fs = check(&with(own(41, 0, 0)), &[("d", ""), GOOD]);
    let credentials = Credentials::root();
    let directory = fs.lookup(&call(&credentials), &fs.root(), b"d").unwrap().id;
    assert!(matches!(
        support::list(&fs, &directory, 10),
        Err(Error::Io(_))
    ));
    let file = fs.lookup(&call(&credentials), &directory, b"f");
    assert!(matches!(file, Err(Error::Io(_))), "{file:?}");
}

#[test]
fn what_the_image_does_not_have_is_an_error_and_never_zeros() {
    let mut image = plain(&[
        Record::file("CUT.BIN;1", 48, 3 * 2048),
        Record::file("GONE.BIN;1", 60, 10),
        Record::file("NOTHING.;1", 4_000_000_000, 0),
        Record::file("PIECES.;1", 40, 2).flags(MORE),
        Record::file("PIECES.;1", 60, 2),
    ]);
    image.put(48, &[b'x'; 2 * SECTOR]);
    image.bytes.truncate(49 * SECTOR + 100);
    let expected = [
        ("cut.bin", "!"),
        ("gone.bin", "!"),
        GOOD,
        ("nothing", ""),
        ("pieces", "!"),
    ];
    let fs = check(&image, &expected);
    let credentials = Credentials::root();
    let read = |name: &[u8], offset, count| {
        let id = fs.lookup(&call(&credentials), &fs.root(), name).unwrap().id;
        fs.read(&call(&credentials), &id, offset, count)
            .map(|reply| (reply.payload.len(), reply.end_of_file))
    };
    assert_eq!(
        read(b"cut.bin", 0, 8192),
        Ok((2148, false)),
        "what is there"
    );
    assert_eq!(read(b"cut.bin", 0, 2148), Ok((2148, false)));
    assert!(matches!(read(b"cut.bin", 2148, 1), Err(Error::Io(_))));
    assert!(matches!(read(b"gone.bin", 0, 1), Err(Error::Io(_))));
    assert_eq!(read(b"pieces", 0, 4), Ok((2, false)));
    assert!(matches!(read(b"pieces", 2, 2), Err(Error::Io(_))));
}

#[test]
fn numbers_in_one_byte_order_only() {
    let mut image = plain(&[]);
    let mut big_zero = Record::file("LITTLE.;1", 40, 3).bytes();
    big_zero[6..10].fill(0);
    big_zero[14..18].fill(0);
    let mut little_wrong = Record::file("BIG.;1", 40, 2).bytes();
    little_wrong[2..6].fill(0xff);
    little_wrong[10..14].fill(0xff);
    let records = [
        Record::directory("\0", ROOT, 2048).bytes(),
        Record::directory("\x01", ROOT, 2048).bytes(),
        big_zero,
        little_wrong,
        Record::file("GOOD.TXT;1", 40, 4).bytes(),
    ];
    image.put(ROOT, &pack(&records));
    check(&image, &[("big", "go"), GOOD, ("little", "goo")]);
}

#[test]
fn joliet_replaces_a_tree_that_is_unreadable() {
    let mut image = rock_ridge(&[]).joliet();
    image.directory(
        JOLIET_ROOT,
        JOLIET_ROOT,
        &[joliet_file("Größe.txt;1", 40, 4)],
    );
    assert_eq!(check(&image, &[GOOD]).tree_kind(), TreeKind::RockRidge);
    let joliet = [("Größe.txt", "good")];
    // What is in a tree does not count.
    let mut empty = image.clone();
    empty.rock_ridge_root(&[]);
    assert_eq!(check(&empty, &[]).tree_kind(), TreeKind::RockRidge);
    let mut broken = image.clone();
    broken.put(ROOT, &[0xff; SECTOR]);
    assert_eq!(check(&broken, &joliet).tree_kind(), TreeKind::Joliet);
    let mut both_broken = broken;
    both_broken.put(JOLIET_ROOT, &[0xff; SECTOR]);
    let error = support::try_open(both_broken.bytes).err().unwrap();
    assert!(error.to_string().contains("root directory"), "{error}");
    let mut directory = image;
    directory.put(ROOT, &[0; SECTOR]);
    let name = Record {
        identifier: utf16("Sub"),
        ..Record::directory("", 41, 2048)
    };
    directory.directory(JOLIET_ROOT, JOLIET_ROOT, &[name]);
    directory.directory(41, JOLIET_ROOT, &[joliet_file("x", 40, 1)]);
    check(&directory, &[("Sub", ""), ("Sub/x", "g")]);
}

#[test]
fn descriptors_in_odd_places() {
    let mut image = plain(&[]);
    let primary = image.bytes[16 * SECTOR..17 * SECTOR].to_vec();
    image.put(16, b"\0CD001\x01");
    image.put(17, b"\x03CD001\x01");
    image.put(18, &primary);
    check(&image, &[GOOD]);
    let mut flood = Image::new();
    for sector in 16..3000 {
        flood.put(sector, b"\x03CD001\x01");
    }
    assert!(support::try_open(flood.bytes).is_err());
}

#[test]
fn c26_blocks_of_sizes_that_cannot_be() {
    for size in [0u16, 3, 65535] {
        let mut image = plain(&[]);
        image.bytes[16 * SECTOR + 128..][..2].copy_from_slice(&size.to_le_bytes());
        image.bytes[16 * SECTOR + 130..][..2].copy_from_slice(&size.to_be_bytes());
        let error = support::try_open(image.bytes).err().unwrap().to_string();
        assert!(error.contains("blocks"), "{error}");
    }
}
