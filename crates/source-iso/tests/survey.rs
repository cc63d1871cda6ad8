//! What an image has: descriptors, trees, sessions, boot images; and which of it is served.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pagewell_fs::FileSystem;
use pagewell_source_bytes::Violations;
use pagewell_source_iso::{
    BootMedium, IsoFileSystem, IsoOptions, Session, Survey, TreeKind, survey,
};
use support::builder::{
    Image, JOLIET_ROOT, MORE, ROOT, Record, ce, descriptor, joliet_file, nm, pack, px,
    to_high_sierra, zisofs,
};
use support::{WHOLE, bytes_of, check_parents, display, open_with, tool, walk};

fn look(image: &[u8], session: Session) -> Survey {
    survey(&bytes_of(image), session).unwrap()
}

/// Labels of all sessions, oldest first.
fn labels(image: &[u8]) -> Vec<String> {
    let sessions = look(image, Session::Default).sessions;
    let numbers = (1..).take(sessions.len());
    numbers
        .map(|number| look(image, Session::Number(number)).label)
        .collect()
}

fn open(image: &[u8], tree: Option<TreeKind>, session: Session) -> IsoFileSystem {
    let options = IsoOptions {
        tree,
        session,
        ..IsoOptions::default()
    };
    open_with(image, &options).unwrap()
}

fn names(fs: &dyn FileSystem) -> Vec<String> {
    let all = walk(fs, WHOLE);
    all.keys().skip(1).map(|path| display(path)).collect()
}

fn run(program: &str, arguments: &[&str], paths: &[&Path]) -> Option<()> {
    let mut all: Vec<&std::ffi::OsStr> = Vec::new();
    let mut paths = paths.iter();
    for argument in arguments {
        all.push(match *argument {
            "{}" => paths.next().unwrap().as_os_str(),
            text => text.as_ref(),
        });
    }
    tool(program, &all)
}

/// One with each kind of tree, all with their own roots.
fn of_all_kinds() -> Image {
    let mut image = Image::new();
    image.put(17, &descriptor(2, JOLIET_ROOT, 2048, b"%/E"));
    let mut enhanced = descriptor(2, 35, 2048, b"");
    enhanced[6] = 2;
    image.put(18, &enhanced);
    image.put(19, b"\xffCD001\x01");
    let record = |name: &str| Record::file(name, 40, 4);
    let rock_ridge = |iso: &str, name: &str| {
        let attributes = [nm(name.as_bytes()), px(0o100_640, 1, 0)];
        record(iso).with(&attributes)
    };
    image.rock_ridge_root(&[
        rock_ridge("A.;1", "rock ridge"),
        rock_ridge("B.;1", "b"),
        rock_ridge("C.;1", "c"),
    ]);
    let joliet = ["joliet", "b", "c"].map(|name| joliet_file(name, 40, 4));
    image.directory(JOLIET_ROOT, JOLIET_ROOT, &joliet);
    let long = "x".repeat(207);
    let names = ["Enhanced;1", "ENHANCED", &long];
    image.directory(35, 35, &names.map(record));
    image.put(40, b"good");
    image
}

#[test]
fn each_tree_can_be_chosen_and_rock_ridge_is_the_first() {
    let image = of_all_kinds();
    let found = look(&image.bytes, Session::Default);
    let expected = [
        TreeKind::RockRidge,
        TreeKind::Enhanced,
        TreeKind::Joliet,
        TreeKind::Plain,
    ];
    assert_eq!(found.trees, expected);
    let of = |kind| open(&image.bytes, kind, Session::Default);
    assert_eq!(of(None).tree_kind(), TreeKind::RockRidge);
    assert_eq!(
        names(&of(Some(TreeKind::RockRidge))),
        ["b", "c", "rock ridge"]
    );
    assert_eq!(names(&of(Some(TreeKind::Joliet))), ["b", "c", "joliet"]);
    assert_eq!(names(&of(Some(TreeKind::Plain))), ["a", "b", "c"]);
    let long = "x".repeat(207);
    let enhanced = of(Some(TreeKind::Enhanced));
    assert_eq!(names(&enhanced), ["ENHANCED", "Enhanced", &long]);
    assert!(!enhanced.limits().case_insensitive);
    let plain = Image::new();
    let options = IsoOptions {
        tree: Some(TreeKind::Joliet),
        ..IsoOptions::default()
    };
    let refused = open_with(&plain.bytes, &options);
    let refused = refused.err().unwrap().to_string();
    assert!(refused.ends_with("it has no Joliet tree"), "{refused}");
}

#[test]
fn an_image_that_was_cut_off_is_known() {
    let mut image = of_all_kinds();
    let blocks = 60u32;
    let at = 16 * 2048 + 80;
    image.bytes[at..at + 4].copy_from_slice(&blocks.to_le_bytes());
    image.bytes[at + 4..at + 8].copy_from_slice(&blocks.to_be_bytes());
    image.bytes.resize(50 * 2048 + 100, 0);
    let found = look(&image.bytes, Session::Default);
    assert_eq!((found.volume_blocks, found.block_bytes), (60, 2048));
    assert_eq!(found.missing_bytes, 10 * 2048 - 100);
    image.bytes.resize(70 * 2048, 0);
    assert_eq!(look(&image.bytes, Session::Default).missing_bytes, 0);
}

/// An image of genisoimage with all texts and two boot images.
fn with_texts_and_boot_images(work: &Path) -> Option<Vec<u8>> {
    let (tree, image) = (work.join("tree"), work.join("image.iso"));
    fs::create_dir_all(tree.join("boot")).unwrap();
    fs::write(tree.join("boot/loader"), vec![0x90; 6000]).unwrap();
    fs::write(tree.join("boot/floppy"), vec![0; 1_474_560]).unwrap();
    let options = [
        "-quiet",
        "-R",
        "-J",
        "-V",
        "A_LABEL",
        "-publisher",
        "Somebody",
        "-p",
        "preparer",
        "-A",
        "an application",
        "-sysid",
        "SYSTEM",
        "-no-emul-boot",
        "-b",
        "boot/loader",
        "-c",
        "boot/catalogue",
        "-boot-load-size",
        "12",
        "-eltorito-alt-boot",
        "-b",
        "boot/floppy",
        "-o",
        "{}",
        "{}",
    ];
    run("genisoimage", &options, &[&image, &tree])?;
    Some(fs::read(&image).unwrap())
}

#[test]
fn descriptors_of_a_real_image_say_what_the_writer_was_asked_for() {
    let work = tempfile::tempdir().unwrap();
    let Some(bytes) = with_texts_and_boot_images(work.path()) else {
        return;
    };
    let found = look(&bytes, Session::Default);
    assert_eq!(found.label, "A_LABEL");
    assert_eq!(found.publisher, "Somebody");
    assert_eq!(found.preparer, "preparer");
    assert_eq!(found.application, "an application");
    assert_eq!(found.system, "SYSTEM");
    let created = u64::try_from(found.created.unwrap().seconds).unwrap();
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 600..now + 60).contains(&created), "{created}");
    assert_eq!(found.missing_bytes, 0);
    let boot: Vec<_> = found
        .boot
        .iter()
        .map(|entry| (entry.platform, entry.medium, entry.length_bytes))
        .collect();
    let expected = [
        (0, BootMedium::None, 6144),
        (0, BootMedium::Floppy(1440), 1_474_560),
    ];
    assert_eq!(boot, expected);
    let loader = usize::try_from(found.boot[0].position).unwrap();
    assert_eq!(bytes[loader..loader + 6000], vec![0x90; 6000]);
    let trees = [TreeKind::RockRidge, TreeKind::Joliet, TreeKind::Plain];
    assert_eq!(found.trees, trees);
    assert_eq!(found.sessions, [0]);
    assert!(!found.is_high_sierra);
    for tree in trees {
        assert_eq!(noted(&bytes, tree), [], "{tree}");
    }
}

/// Adds a session to what is in `first` and returns the whole.
fn grown_by_genisoimage(work: &Path, gap: usize) -> Option<Vec<u8>> {
    let (one, two) = (work.join("1"), work.join("2"));
    let (first, second) = (work.join("1.iso"), work.join("2.iso"));
    fs::create_dir_all(&one).unwrap();
    fs::create_dir_all(&two).unwrap();
    fs::write(one.join("first.txt"), "one").unwrap();
    // Names that need continuation areas.
    let long = "n".repeat(230);
    fs::write(two.join(&long), "long").unwrap();
    fs::write(two.join("second.txt"), "two").unwrap();
    run(
        "genisoimage",
        &["-quiet", "-R", "-V", "S1", "-o", "{}", "{}"],
        &[&first, &one],
    )?;
    let mut bytes = fs::read(&first).unwrap();
    bytes.resize(bytes.len() + gap * 2048, 0);
    let starts = format!("0,{}", bytes.len() / 2048);
    let options = [
        "-quiet", "-R", "-V", "S2", "-C", &starts, "-M", "{}", "-o", "{}", "{}",
    ];
    run("genisoimage", &options, &[&first, &second, &two])?;
    bytes.extend(fs::read(&second).unwrap());
    Some(bytes)
}

#[test]
fn joined_sessions_are_found_and_the_first_is_the_default() {
    for gap in [0, 150, 11400] {
        let work = tempfile::tempdir().unwrap();
        let Some(image) = grown_by_genisoimage(work.path(), gap) else {
            return;
        };
        assert_eq!(look(&image, Session::Default).label, "S1");
        assert_eq!(labels(&image), ["S1", "S2"]);
        let first = open(&image, None, Session::Default);
        assert_eq!(names(&first), ["first.txt"]);
        let long = "n".repeat(230);
        for session in [Session::Last, Session::Number(2)] {
            let fs = open(&image, None, session);
            assert_eq!(names(&fs), ["first.txt", &long, "second.txt"]);
            assert_eq!(look(&image, session).label, "S2");
            assert_eq!(look(&image, session).missing_bytes, 0);
        }
        let refused = |session| {
            let options = IsoOptions {
                session,
                ..IsoOptions::default()
            };
            let refused = open_with(&image, &options);
            refused.err().unwrap().to_string()
        };
        assert!(refused(Session::Number(3)).ends_with("no session 3: it has 2"));
        assert!(refused(Session::Number(0)).ends_with("no session 0: it has 2"));
    }
}

#[test]
fn an_image_that_xorriso_grew_shows_the_newest_session() {
    let work = tempfile::tempdir().unwrap();
    let image = work.path().join("image.iso");
    for number in 1..=3 {
        let tree = work.path().join(number.to_string());
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(format!("{number}.txt")), "text").unwrap();
        let device = if number == 1 { "-outdev" } else { "-dev" };
        let label = format!("SESSION{number}");
        let options = [device, "{}", "-volid", &label, "-map", "{}", "/"];
        if run("xorriso", &options, &[&image, &tree]).is_none() {
            return;
        }
    }
    let image = fs::read(image).unwrap();
    assert_eq!(labels(&image), ["SESSION1", "SESSION2", "SESSION3"]);
    assert_eq!(look(&image, Session::Default).label, "SESSION3");
    for (session, count) in [
        (Session::Default, 3),
        (Session::Last, 3),
        (Session::Number(1), 1),
        (Session::Number(2), 2),
    ] {
        let fs = open(&image, None, session);
        assert_eq!(names(&fs).len(), count, "{session:?}");
    }
    assert_eq!(noted(&image, TreeKind::RockRidge), []);
}

/// A file in an image may be an image, at any place.
#[test]
fn an_image_inside_an_image_is_no_session() {
    let inner = of_all_kinds().bytes;
    for sector in [32, 60] {
        let mut image = Image::new();
        let length = u32::try_from(inner.len()).unwrap();
        image.directory(ROOT, ROOT, &[Record::file("IN.ISO;1", sector, length)]);
        image.put(sector, &inner);
        image.bytes[16 * 2048 + 80..][..4].copy_from_slice(&60u32.to_le_bytes());
        assert_eq!(look(&image.bytes, Session::Default).sessions.len(), 1);
    }
}

#[test]
fn names_of_1999_by_real_writers() {
    let work = tempfile::tempdir().unwrap();
    let (tree, image) = (work.path().join("tree"), work.path().join("image.iso"));
    fs::create_dir_all(tree.join("Sub Directory")).unwrap();
    let long = format!("{} with Spaces.and.dots", "Long name ".repeat(10));
    fs::write(tree.join(&long), "long").unwrap();
    fs::write(tree.join("Sub Directory/lower.c"), "c").unwrap();
    let options = [
        "-quiet",
        "-J",
        "-joliet-long",
        "-iso-level",
        "4",
        "-o",
        "{}",
        "{}",
    ];
    for (program, first) in [
        ("genisoimage", &[][..]),
        ("xorriso", &["-as", "mkisofs"][..]),
    ] {
        let options = [first, &options[..]].concat();
        if run(program, &options, &[&image, &tree]).is_none() {
            continue;
        }
        let bytes = fs::read(&image).unwrap();
        let fs = open(&bytes, Some(TreeKind::Enhanced), Session::Default);
        let expected = [long.as_str(), "Sub Directory", "Sub Directory/lower.c"];
        assert_eq!(names(&fs), expected, "{program}");
        check_parents(&fs, &walk(&fs, WHOLE));
        let noted = noted(&bytes, TreeKind::Enhanced);
        let joliet = open(&bytes, Some(TreeKind::Joliet), Session::Default);
        check_parents(&joliet, &walk(&joliet, WHOLE));
        // xorriso 1.5.4 has directories of these trees for their own parents.
        let of_parents = |found: &(u64, u64, &str)| found.2 == "ECMA-119 6.8.2.2";
        assert!(noted.iter().all(of_parents), "{program}: {noted:?}");
        assert!(noted.is_empty() || program == "xorriso", "{noted:?}");
    }
}

#[test]
fn high_sierra_is_read() {
    let mut image = Image::new();
    image.bytes[16 * 2048 + 40..16 * 2048 + 72].fill(b' ');
    image.bytes[16 * 2048 + 40..][..4].copy_from_slice(b"1986");
    let records = [
        Record::file("A.TXT;1", 40, 4),
        Record::directory("SUB", 41, 2048),
        Record::file("MANY.BIN;1", 40, 2).flags(MORE),
        Record::file("MANY.BIN;1", 40, 4),
    ];
    image.directory(ROOT, ROOT, &records);
    image.directory(41, ROOT, &[Record::file("B.TXT;1", 40, 3)]);
    image.put(40, b"good");
    to_high_sierra(&mut image, &[ROOT, 41]);
    let found = look(&image.bytes, Session::Default);
    assert!(found.is_high_sierra);
    assert_eq!((found.label.as_str(), found.block_bytes), ("1986", 2048));
    assert_eq!(found.created.unwrap().seconds, 536_555_045);
    assert_eq!(found.trees.len(), 1);
    let all = walk(&open(&image.bytes, None, Session::Default), WHOLE);
    let content = |path: &str| all[path.as_bytes()].content.clone().unwrap();
    assert_eq!(content("a.txt"), b"good");
    assert_eq!(content("sub/b.txt"), b"goo");
    assert_eq!(content("many.bin"), b"gogood");
    let time = all[&b"a.txt"[..]].attributes.modified;
    assert_eq!(time.seconds, 1_588_748_889, "as recorded, without a zone");
}

/// What is noted of the tree: the sector, the place in it, and the clause.
fn noted(image: &[u8], tree: TreeKind) -> Vec<(u64, u64, &'static str)> {
    let violations = Arc::new(Violations::default());
    let options = IsoOptions {
        tree: Some(tree),
        violations: Some(violations.clone()),
        ..IsoOptions::default()
    };
    walk(&open_with(image, &options).unwrap(), WHOLE);
    let (found, others) = violations.list();
    assert_eq!(others, 0);
    let place = |offset: u64| (offset / 2048, offset % 2048);
    let found = found.into_iter();
    found
        .map(|one| (place(one.offset).0, place(one.offset).1, one.clause))
        .collect()
}

#[test]
fn what_reading_survived_is_noted_where_it_is() {
    let mut bad = Record::file("LOST.;1", 40, 4).bytes();
    bad[32] = 200;
    let own = Record::directory("\0", ROOT, 2048).bytes();
    let good = Record::file("GOOD.;1", 40, 4).bytes();
    let offset = (own.len() + good.len()) as u64;
    let mut image = of_all_kinds();
    image.put(ROOT, &pack(&[own, good, bad]));
    assert_eq!(noted(&image.bytes, TreeKind::Joliet), []);
    assert_eq!(
        noted(&image.bytes, TreeKind::Plain),
        [(u64::from(ROOT), offset, "ECMA-119 9.1.1")]
    );
}

#[test]
fn faults_of_every_kind_are_noted_and_sound_images_have_none() {
    assert_eq!(noted(&of_all_kinds().bytes, TreeKind::RockRidge), []);
    let mode = |mode: u32| px(mode, 1, 0);
    let file = |name: &str, entries: &[Vec<u8>]| Record::file(name, 40, 4).with(entries);
    let broken = [&b"XY"[..], &[200, 1]].concat();
    let far = Record::file("FAR.;1", 4000, 4).with(&[mode(0o100_644)]);
    let mut unlike = file("HALF.;1", &[mode(0o100_644)]);
    let kinds: [(&[&str], Record); 11] = [
        (&[], file("A.;1", &[nm(b"sound"), mode(0o100_644)])),
        (&["RRIP 4.1.1"], file("B.;1", &[nm(b"without px")])),
        (
            &["RRIP 4.1.1"],
            file("C.;1", &[nm(b"no directory"), mode(0o040_755)]),
        ),
        (
            &["RRIP 4.1.3"],
            file("D.;1", &[nm(b"link"), mode(0o120_777)]),
        ),
        (&["RRIP 4.1.4"], file("E.;1", &[nm(b".."), mode(0o100_644)])),
        (&["SUSP 4.1"], file("F.;1", &[mode(0o100_644), broken])),
        (
            &["SUSP 5.1"],
            file("G.;1", &[mode(0o100_644), ce(9000, 0, 10)]),
        ),
        (
            &["zisofs ZF"],
            file("H.;1", &[mode(0o100_644), zisofs(*b"pz", 4, 2, 4)]),
        ),
        (&["ECMA-119 9.1.3"], far),
        (
            &["ECMA-119 9.3"],
            file("A2.;1", &[nm(b"sound"), mode(0o100_644)]),
        ),
        (
            &["ECMA-119 9.1.6"],
            file("OPEN.;1", &[mode(0o100_644)]).flags(MORE),
        ),
    ];
    for (clauses, record) in kinds {
        let first = file("A.;1", &[nm(b"sound"), mode(0o100_644)]);
        let is_first = clauses.is_empty();
        let records = if is_first {
            vec![first]
        } else {
            vec![first, record]
        };
        let mut image = Image::new();
        image.rock_ridge_root(&records);
        image.put(40, b"good");
        let found = noted(&image.bytes, TreeKind::RockRidge);
        let found: Vec<_> = found.into_iter().map(|(_, _, clause)| clause).collect();
        assert_eq!(found, clauses);
    }
    // Of a record: both orders of bytes, and the time.
    unlike.length = 5;
    let mut bytes = unlike.bytes();
    bytes[6] ^= 1;
    bytes[14] ^= 1;
    bytes[19] = 13;
    let own = Record::directory("\0", ROOT, 2048).bytes();
    let parent = Record::directory("\x01", ROOT, 2048).bytes();
    let mut image = Image::new();
    image.put(ROOT, &pack(&[own, parent, bytes]));
    image.put(40, b"good");
    let clauses = ["ECMA-119 9.1.3", "ECMA-119 9.1.4", "ECMA-119 9.1.5"];
    let expected = clauses.map(|clause| (u64::from(ROOT), 68, clause));
    assert_eq!(noted(&image.bytes, TreeKind::Plain), expected);
}

#[test]
fn faults_of_descriptors_and_directories_are_noted() {
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &[Record::directory("SUB", 41, 2048)]);
    image.directory(41, 43, &[]);
    image.directory(43, ROOT, &[]);
    image.put(17, &[0; 2048]);
    let primary = 16 * 2048;
    image.bytes[primary + 80..primary + 84].copy_from_slice(&90u32.to_le_bytes());
    let expected = [
        (16, 0, "ECMA-119 8.4.8"),
        (16, 0, "ECMA-119 8.4.8"),
        (17, 0, "ECMA-119 8.3"),
        (41, 0, "ECMA-119 6.8.2.2"),
    ];
    assert_eq!(noted(&image.bytes, TreeKind::Plain), expected);
}
