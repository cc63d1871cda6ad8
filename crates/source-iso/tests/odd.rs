//! Images written by hand: what is odd but right.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashSet;

use pagewell_fs::{Credentials, Error, FileId, FileSystem, FileType};
use pagewell_source_iso::TreeKind;
use support::builder::{
    ASSOCIATED, Image, MORE, ROOT, Record, cl, er, nm, nm_more, pack, pl, px, re, sf, sl, sp,
};
use support::crafted::{GOOD, check, plain, rock_ridge};
use support::{SECTOR, WHOLE, call, check_parents, display, open_bytes, walk};

#[test]
fn padding_inside_a_directory_is_not_its_end() {
    let mut image = plain(&[]);
    let last = Record::file("LAST.TXT;1", 40, 4).bytes();
    let first = Record::file("GOOD.TXT;1", 40, 4).bytes();
    let own = Record::directory("\0", ROOT, 3 * 2048).bytes();
    let parent = Record::directory("\x01", ROOT, 3 * 2048).bytes();
    image.put(ROOT, &pack(&[own, parent, first]));
    image.put(ROOT + 1, &[0; SECTOR]);
    image.put(ROOT + 2, &last);
    check(&image, &[GOOD, ("last.txt", "good")]);
}

#[test]
fn the_walk_stops_at_the_size_of_the_directory() {
    let mut image = plain(&[]);
    let own = Record::directory("\0", ROOT, 34 + 34 + 44).bytes();
    let records = [
        own,
        Record::directory("\x01", ROOT, 2048).bytes(),
        Record::file("GOOD.TXT;1", 40, 4).bytes(),
        Record::file("PAST.TXT;1", 40, 4).bytes(),
    ];
    image.put(ROOT, &pack(&records));
    check(&image, &[GOOD]);
}

#[test]
fn associated_files_versions_repeated_and_impossible_names() {
    let image = plain(&[
        Record::file("A.TXT;1", 41, 0),
        Record::file("GOOD.TXT;1", 40, 2).flags(ASSOCIATED),
        Record::file("V.TXT;2", 40, 2),
        Record::file("V.TXT;10", 40, 3),
        Record::file("V.TXT;1", 40, 1),
        Record::file("A.TXT;1", 40, 1),
        Record::file("../X;1", 40, 2),
        Record::file("..;1", 40, 3),
    ]);
    let expected = [
        (".._x", "go"),
        ("_", "goo"),
        ("a.txt", ""),
        ("a.txt~2", "g"),
        GOOD,
        ("v.txt", "goo"),
    ];
    check(&image, &expected);
}

#[test]
fn sections_of_any_size_make_one_file() {
    let mut image = plain(&[
        Record::file("M.BIN;1", 41, 1000).flags(MORE),
        Record::file("M.BIN;1", 4_000_000_000, 0).flags(MORE),
        Record::file("M.BIN;1", 42, 3).flags(MORE),
        Record::file("M.BIN;1", 43, 2049),
    ]);
    image.put(41, &[b'a'; 1000]);
    image.put(42, b"bbb");
    image.put(43, &[b'c'; 2049]);
    let whole = ["a".repeat(1000), "bbb".to_owned(), "c".repeat(2049)].concat();
    let fs = check(&image, &[GOOD, ("m.bin", &whole)]);
    let credentials = Credentials::root();
    let id = fs
        .lookup(&call(&credentials), &fs.root(), b"m.bin")
        .unwrap()
        .id;
    for offset in [0, 998, 999, 1000, 1001, 1002, 1003, 1004, 3051, 3052] {
        for count in [1u32, 2, 5, 3000] {
            let reply = fs.read(&call(&credentials), &id, offset, count).unwrap();
            let mut bytes = vec![0; reply.payload.len()];
            reply.payload.copy_to(&mut bytes, true).unwrap();
            let start = usize::try_from(offset).unwrap();
            let end = (start + count as usize).min(whole.len());
            assert_eq!(display(&bytes), whole[start..end], "{offset}+{count}");
            assert_eq!(reply.end_of_file, end == whole.len());
        }
    }
}

#[test]
fn extended_attributes_and_interleave_move_the_data() {
    let mut attributes = Record::file("XAR.BIN;1", 41, 3);
    attributes.attribute_blocks = 2;
    let mut interleaved = Record::file("INTER.BIN;1", 44, 5 * 2048 - 1);
    interleaved.interleave = (2, 1);
    let mut gap_only = Record::file("GAP.BIN;1", 43, 3);
    gap_only.interleave = (0, 1);
    let mut image = plain(&[attributes, interleaved, gap_only]);
    image.put(43, b"xar");
    let mut whole = String::new();
    for (block, letter) in [(44, b'0'), (45, b'1'), (47, b'2'), (48, b'3'), (50, b'4')] {
        image.put(block, &[letter; SECTOR]);
        whole.push_str(&char::from(letter).to_string().repeat(SECTOR));
    }
    image.put(46, &[b'!'; SECTOR]);
    whole.pop();
    let expected = [
        ("gap.bin", "xar"),
        GOOD,
        ("inter.bin", &*whole),
        ("xar.bin", "xar"),
    ];
    check(&image, &expected);
}

#[test]
fn rock_ridge_names_links_and_attributes() {
    let record = Record::file("L.;1", 0, 0);
    let image = rock_ridge(&[
        record
            .clone()
            .with(&[nm_more(b"long "), nm(b"name"), px(0o120_777, 1, 0)])
            .with(&[sl(b"\0\x03usr\x04\0")]),
        Record::file("DAMAGED.;1", 0, 0).with(&[px(0o120_777, 1, 0), sl(b"\0\x30usr")]),
        Record::file("SUID.;1", 40, 1).with(&[nm(b"Suid"), px(0o104_711, 3, 0)]),
        Record::file("SPARSE.;1", 40, 1).with(&[nm(b"sparse"), sf()]),
    ]);
    let expected = [
        ("Suid", "g"),
        ("damaged", "!"),
        GOOD,
        ("long name", "usr/.."),
        ("sparse", "!"),
    ];
    let fs = check(&image, &expected);
    assert_eq!(fs.tree_kind(), TreeKind::RockRidge);
    let manifest = walk(&fs, WHOLE);
    let attributes = manifest[&b"Suid"[..]].attributes;
    assert_eq!((attributes.mode, attributes.link_count), (0o4711, 3));
    assert_eq!((attributes.uid, attributes.gid), (7, 8));
    let link = manifest[&b"long name"[..]].attributes;
    assert_eq!((link.file_type, link.size), (FileType::Symlink, 6));
}

#[test]
fn moved_directories_are_where_they_belong() {
    let name = |text: &str| [nm(text.as_bytes()), px(0o040_755, 2, 0)];
    let mut image = rock_ridge(&[
        Record::directory("RR_MOVED", 41, 2048).with(&name("rr_moved")),
        Record::directory("A", 42, 2048).with(&name("a")),
    ]);
    let moved = Record::directory("DEEP", 43, 2048)
        .with(&name("deep"))
        .with(&[re()]);
    image.directory(41, ROOT, &[moved]);
    let placeholder = Record::file("DEEP", 43, 2048).with(&[nm(b"deep"), cl(43)]);
    image.directory(42, ROOT, &[placeholder]);
    let file = Record::file("F.;1", 40, 2).with(&[nm(b"f")]);
    image.directory_with(43, 41, (&[px(0o040_700, 2, 0)], &[pl(42)]), &[file]);
    let fs = check(
        &image,
        &[("a", ""), ("a/deep", ""), ("a/deep/f", "go"), GOOD],
    );
    let manifest = walk(&fs, WHOLE);
    check_parents(&fs, &manifest);
    assert_eq!(manifest[&b"a/deep"[..]].attributes.mode, 0o700);
}

#[test]
fn a_users_directory_with_the_name_of_a_store_is_shown() {
    let name = |text: &str| [nm(text.as_bytes()), px(0o040_755, 2, 0)];
    let moved = |extent| Record::directory("DEEP", extent, 2048).with(&[nm(b"deep"), re()]);
    let root = [
        Record::directory("RR_MOVED", 41, 2048).with(&name("rr_moved")),
        Record::directory("A", 42, 2048).with(&name("a")),
        Record::directory("_RR_MOVE", 44, 2048).with(&name(".rr_moved")),
    ];
    let mut image = rock_ridge(&root);
    image.directory(41, ROOT, &[]);
    image.directory(
        42,
        ROOT,
        &[Record::file("DEEP", 43, 0).with(&[nm(b"deep"), cl(43)])],
    );
    image.directory_with(43, 44, (&[], &[pl(42)]), &[]);
    image.directory(44, ROOT, &[moved(43)]);
    // The writer's own is hidden wherever it comes, an empty one is not.
    let expected = [("a", ""), ("a/deep", ""), GOOD, ("rr_moved", "")];
    check(&image, &expected);
    // Beside what a user has in it, those that were moved are not shown twice.
    let file = Record::file("F.;1", 40, 1).with(&[nm(b"f")]);
    image.directory(44, ROOT, &[moved(43), file]);
    let expected = [
        (".rr_moved", ""),
        (".rr_moved/f", "g"),
        ("a", ""),
        ("a/deep", ""),
        GOOD,
        ("rr_moved", ""),
    ];
    check(&image, &expected);
    // Below the root the name means nothing.
    image.directory(44, ROOT, &[moved(43)]);
    image.directory(
        41,
        ROOT,
        &[Record::directory("X", 45, 2048).with(&name("rr_moved"))],
    );
    image.directory(45, 41, &[moved(43)]);
    let expected = [
        ("a", ""),
        ("a/deep", ""),
        GOOD,
        ("rr_moved", ""),
        ("rr_moved/rr_moved", ""),
    ];
    check(&image, &expected);
}

#[test]
fn the_root_record_of_an_old_disc_has_another_length() {
    for (at, values) in [
        (0, &[68u8][..]),
        (0, &[0]),
        (32, &[0, 7]),
        (32, &[200, 1]),
        (25, &[0]),
    ] {
        let mut image = plain(&[]);
        let record = 16 * SECTOR + 156;
        image.bytes[record + at..record + at + values.len()].copy_from_slice(values);
        check(&image, &[GOOD]);
    }
}

/// Objects with one name and with several, and what seems to be so.
fn of_many_names() -> Image {
    let file = |name: &str, (extent, size), links, serial| {
        let identifier = format!("{};1", name.to_uppercase());
        let entries = [nm(name.as_bytes()), px(0o100_644, links, serial)];
        Record::file(&identifier, extent, size).with(&entries)
    };
    let link = |name: &str, serial| {
        let identifier = format!("{};1", name.to_uppercase());
        let entries = [
            nm(name.as_bytes()),
            px(0o120_777, 2, serial),
            sl(b"\0\x01x"),
        ];
        Record::file(&identifier, 0, 0).with(&entries)
    };
    // Of size 0: without an extent of its own.
    let directory = |name: &str, serial| {
        let entries = [nm(name.as_bytes()), px(0o040_755, 2, serial)];
        Record::directory(&name.to_uppercase(), 0, 0).with(&entries)
    };
    rock_ridge(&[
        file("a", (40, 2), 2, 5),
        file("b", (40, 2), 2, 5),
        file("c", (41, 2), 2, 5),
        file("d", (40, 2), 2, 6),
        file("e", (40, 2), 2, 0),
        file("f", (40, 2), 2, 0),
        file("h", (40, 2), 1, 0),
        file("i", (40, 2), 1, 0),
        file("g", (40, 1), 2, 5),
        file("empty1", (0, 0), 1, 7),
        file("empty2", (0, 0), 1, 7),
        file("empty3", (0, 0), 2, 8),
        file("empty4", (77, 0), 2, 8),
        link("link1", 9),
        link("link2", 9),
        link("link3", 8),
        directory("directory1", 10),
        directory("directory2", 10),
    ])
}

#[test]
fn names_of_one_object_share_their_number() {
    let image = of_many_names();
    let fs = open_bytes(image.bytes.clone());
    let manifest = walk(&fs, WHOLE);
    let number = |name: &str| manifest[name.as_bytes()].attributes.file_id;
    let object = |name: &str| fs.object_of(&manifest[name.as_bytes()].id);
    let same = [
        ("a", "b"),
        ("e", "f"),
        ("empty3", "empty4"),
        ("link1", "link2"),
    ];
    for (left, right) in same {
        assert_eq!(number(left), number(right), "{left}");
        assert_eq!(object(left), object(right), "{left}");
    }
    let all = [
        "",
        "a",
        "c",
        "d",
        "e",
        "g",
        "h",
        "i",
        "good.txt",
        "empty1",
        "empty2",
        "empty3",
        "link1",
        "link3",
        "directory1",
        "directory2",
    ];
    let objects: HashSet<_> = all.map(object).into_iter().collect();
    assert_eq!(objects.len(), all.len());
    let numbers: HashSet<u64> = all.map(number).into_iter().collect();
    // Only a link and a file without data have one serial number, so the writer is wrong.
    assert_eq!(numbers.len(), all.len() - 1);
    assert_eq!(number("link3"), number("empty3"));
    assert!(numbers.iter().all(|number| *number < 1 << 32));
    // A handle of one name does not become one of another object.
    let mut forged = manifest[&b"a"[..]].id.as_bytes().to_vec();
    forged[12] ^= 1;
    let credentials = Credentials::root();
    let id = FileId::new(&forged).unwrap();
    let attributes = fs.attributes(&call(&credentials), &id);
    assert_eq!(attributes, Err(Error::Stale));
}

#[test]
fn skipped_bytes_before_rock_ridge_entries() {
    let xa = vec![b'-'; 14];
    let mut image = plain(&[]);
    let file = Record::file("G.;1", 40, 4).with(&[xa.clone(), nm(b"good.txt")]);
    for own in [
        vec![xa.clone(), sp(14), er("RRIP_1991A")],
        vec![sp(14), er("IEEE_P1282")],
    ] {
        image.directory_with(ROOT, ROOT, (&own, &[]), std::slice::from_ref(&file));
        assert_eq!(check(&image, &[GOOD]).tree_kind(), TreeKind::RockRidge);
    }
    let mut wrong = sp(14);
    wrong[4] = 0xbd;
    for own in [vec![wrong], vec![sp(14), er("OTHER")], vec![]] {
        image.directory_with(ROOT, ROOT, (&own, &[]), std::slice::from_ref(&file));
        assert_eq!(check(&image, &[("g", "good")]).tree_kind(), TreeKind::Plain);
    }
}

#[test]
fn the_roots_own_record_knows_its_length() {
    let many: Vec<Record> = (0..100)
        .map(|index| Record::file(&format!("F{index:03}.;1"), 40, 1))
        .collect();
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &many);
    image.put(40, b"good");
    assert_eq!(walk(&open_bytes(image.bytes), WHOLE).len(), 101);
    // Without a reference to itself the descriptor counts.
    let mut image = plain(&[]);
    image.bytes[ROOT as usize * SECTOR + 2..][..8].fill(0);
    check(&image, &[GOOD]);
}

#[test]
fn attributes_of_a_run_come_from_the_record_that_has_them() {
    let image = rock_ridge(&[
        Record::file("M.;1", 40, 2)
            .flags(MORE)
            .with(&[nm(b"named")]),
        Record::file("M.;1", 40, 4).with(&[px(0o100_640, 5, 0)]),
    ]);
    let fs = check(&image, &[GOOD, ("named", "gogood")]);
    let attributes = walk(&fs, WHOLE)[&b"named"[..]].attributes;
    assert_eq!((attributes.mode, attributes.link_count), (0o640, 5));
}

#[test]
fn names_in_any_bytes_can_be_looked_up() {
    // The walk looks every name up.
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 1).with(&[nm(b"sl/ash")]),
        Record::file("B.;1", 40, 2).with(&[nm(b"nul\0cut")]),
        Record::file("C.;1", 40, 3).with(&[nm(b"..")]),
        Record::file("D.;1", 40, 1).with(&[nm(&[b'l'; 150]), nm(b"more")]),
        Record::file("A.;1", 40, 2).with(&[nm(b"\x1b[2J")]),
        Record::file("\x01", 40, 2).with(&[nm(b"no parent")]),
    ]);
    let long = "l".repeat(150);
    let expected = [
        ("\x1b[2J", "go"),
        ("c", "goo"),
        GOOD,
        (&long, "g"),
        ("nul", "go"),
        ("sl_ash", "g"),
    ];
    check(&image, &expected);
}
