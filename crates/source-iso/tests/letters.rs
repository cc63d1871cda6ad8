//! The letters of plain names.

#![allow(clippy::unwrap_used)]

mod support;

use pagewell_fs::{Credentials, FileSystem};
use pagewell_source_iso::{Case, Charset, IsoOptions, TreeKind};
use support::builder::{Image, ROOT, Record, nm, px, sl};
use support::crafted::{GOOD, check, check_with, rock_ridge};
use support::{call, display, list, open_with};

/// An image with these names in its root directory, and others in a directory below.
fn image(root: &[&str], below: &[&str]) -> Image {
    let files = |names: &[&str]| {
        let file = |name: &&str| Record::file(name, 40, 1);
        names.iter().map(file).collect::<Vec<Record>>()
    };
    let mut records = files(root);
    records.push(Record::directory("SUB", 41, 2048));
    let mut image = Image::new();
    image.directory(ROOT, ROOT, &records);
    image.put(40, b"x");
    image.directory(41, ROOT, &files(below));
    image
}

#[test]
fn capitals_alone_are_shown_small() {
    let image = image(&["README.;1", "A-1.TXT;1"], &["MAKEFILE.;1"]);
    let expected = [
        ("a-1.txt", "x"),
        ("readme", "x"),
        ("sub", ""),
        ("sub/makefile", "x"),
    ];
    check(&image, &expected);
}

#[test]
fn names_that_differ_in_their_letters_stay_apart() {
    let image = image(
        &["Makefile.;1", "makefile.;1", "README.;1"],
        &["LICENSE.;1"],
    );
    let expected = [
        ("Makefile", "x"),
        ("README", "x"),
        ("SUB", ""),
        ("SUB/LICENSE", "x"),
        ("makefile", "x"),
    ];
    check(&image, &expected);
}

#[test]
fn a_directory_below_may_have_small_letters_of_its_own() {
    let image = image(&["README.;1"], &["Makefile.;1", "MAKEFILE.;1"]);
    let expected = [
        ("readme", "x"),
        ("sub", ""),
        ("sub/MAKEFILE", "x"),
        ("sub/Makefile", "x"),
    ];
    let fs = check(&image, &expected);
    let credentials = Credentials::root();
    let call = call(&credentials);
    let sub = fs.lookup(&call, &fs.root(), b"SUB").unwrap().id;
    assert!(fs.lookup(&call, &sub, b"mAKEFILE").is_ok());
}

#[test]
fn the_root_decides_also_when_a_directory_below_is_read_before_it() {
    let image = image(&["Makefile.;1"], &["LICENSE.;1"]);
    let asked_for = IsoOptions {
        tree: Some(TreeKind::Plain),
        ..IsoOptions::default()
    };
    for options in [IsoOptions::default(), asked_for] {
        let known = open_with(&image.bytes, &options).unwrap();
        let credentials = Credentials::root();
        let sub = known.lookup(&call(&credentials), &known.root(), b"sub");
        let again = open_with(&image.bytes, &options).unwrap();
        let listed = list(&again, &sub.unwrap().id, 10).unwrap();
        assert_eq!(listed[2].0, b"LICENSE");
    }
}

#[test]
fn plain_names_in_a_tree_with_rock_ridge_have_the_same_rule() {
    let record = |identifier| Record::file(identifier, 40, 1);
    let named = record("Z.;1").with(&[nm(b"small"), px(0o100_644, 1, 0)]);
    let capitals = rock_ridge(&[named.clone(), record("README.;1")]);
    let fs = check(&capitals, &[GOOD, ("readme", "g"), ("small", "g")]);
    assert_eq!(fs.tree_kind(), TreeKind::RockRidge);
    let mixed = rock_ridge(&[record("Makefile.;1"), named, record("makefile.;1")]);
    let expected = [("Makefile", "g"), GOOD, ("makefile", "g"), ("small", "g")];
    check(&mixed, &expected);
}

#[test]
fn a_name_in_another_character_set_is_not_changed() {
    let mut image = image(&["README.;1"], &[]);
    // The second byte of each character of Shift JIS looks like a capital.
    let mut record = Record::file("", 40, 1);
    record.identifier = b"\x83A\x83B".to_vec();
    let sub = Record::directory("SUB", 41, 2048);
    image.directory(ROOT, ROOT, &[record, sub]);
    let fs = support::open_bytes(image.bytes);
    let listed = list(&fs, &fs.root(), 10).unwrap();
    assert_eq!(listed[2].0, b"\x83A\x83B");
    assert_eq!(listed[3].0, b"sub");
}

#[test]
fn names_and_links_in_a_character_set_that_is_named() {
    let link = sl(b"\0\x05gr\xfc\xdfe");
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 1).with(&[nm(b"gr\xfc\xdfe"), px(0o100_644, 1, 0)]),
        Record::file("B.;1", 0, 0).with(&[nm(b"link"), px(0o120_777, 1, 0), link]),
        Record::file("C.;1", 40, 2).with(&[nm("größe".as_bytes())]),
    ]);
    let options = IsoOptions {
        charset: Charset::named("latin1"),
        ..IsoOptions::default()
    };
    let expected = [GOOD, ("größe", "go"), ("grüße", "g"), ("link", "grüße")];
    let fs = check_with(&image, &options, &expected);
    let credentials = Credentials::root();
    let found = fs.lookup(&call(&credentials), &fs.root(), b"link").unwrap();
    assert_eq!(found.attributes.size, "grüße".len() as u64);
}

#[test]
fn letters_are_shown_as_asked() {
    let image = image(&["Mixed.;1", "CAPITALS.;1"], &[]);
    for (case, names) in [
        (Case::Automatic, ["CAPITALS", "Mixed", "SUB"]),
        (Case::Keep, ["CAPITALS", "Mixed", "SUB"]),
        (Case::Lower, ["capitals", "mixed", "sub"]),
        (Case::Upper, ["CAPITALS", "MIXED", "SUB"]),
    ] {
        let options = IsoOptions {
            case,
            ..IsoOptions::default()
        };
        let expected = [(names[0], "x"), (names[1], "x"), (names[2], "")];
        let fs = check_with(&image, &options, &expected);
        let credentials = Credentials::root();
        let found = fs.lookup(&call(&credentials), &fs.root(), b"mixed");
        assert!(found.is_ok(), "{}", display(names[1].as_bytes()));
    }
}
