//! Disc images on the command line: which tree is served, options, `stat` and `check`.

use std::fs;
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::support::{Fixture, bytes, run_in, tool};

/// A disc whose trees differ: `only-rr` is hidden from Joliet, `only-joliet` from Rock Ridge, which
/// lacks `also-joliet`, too.
fn differing() -> Fixture {
    let fixture = Fixture::new();
    for name in ["both", "only-rr", "only-joliet", "also-joliet"] {
        fs::write(fixture.tree().join(name), bytes(3000, 1)).unwrap();
    }
    let made = [
        "genisoimage",
        "-quiet",
        "-V",
        "DIFFERS",
        "-R",
        "-J",
        "-hide-joliet",
        "only-rr",
        "-hide",
        "only-joliet",
        "-hide",
        "also-joliet",
        "-o",
        "d.iso",
        "tree",
    ];
    tool(fixture.path(), &made);
    fixture
}

#[test]
fn the_tree_that_lacks_least_is_served_and_the_others_are_named() {
    let fixture = differing();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let listed = run(&["ls", "d.iso"]);
    assert!(
        listed
            .err
            .contains("also has only-rr (iso:d.iso?tree=rr shows it)"),
        "{}",
        listed.err
    );
    let names = String::from_utf8(listed.out).unwrap();
    assert!(
        names.contains("only-joliet") && !names.contains("only-rr"),
        "{names}"
    );
    let other = run(&["ls", "iso:d.iso?tree=rr"]);
    let names = String::from_utf8(other.out).unwrap();
    assert!(
        names.contains("only-rr") && !names.contains("only-joliet"),
        "{names}"
    );
    assert!(
        other
            .err
            .contains("the Joliet tree also has also-joliet, only-joliet")
    );
    let plain = run(&["ls", "iso:d.iso?tree=iso&case=upper::/"]).out;
    assert!(String::from_utf8(plain).unwrap().contains("ONLY_RR"));
    let stat = String::from_utf8(run(&["stat", "d.iso"]).out).unwrap();
    let line = "disc: label 'DIFFERS', Joliet is served, of: Joliet, Rock Ridge";
    assert!(stat.contains(line), "{stat}");
}

#[test]
fn owners_and_modes_are_those_of_the_options() {
    let fixture = differing();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let location = "iso:d.iso?uid=12&gid=13&mode=0640&dmode=0710::/both";
    let stat = run(&["stat", location]).out;
    let stat = String::from_utf8(stat).unwrap();
    assert!(
        stat.contains("owner: 12:13") && stat.contains("mode: 0640"),
        "{stat}"
    );
    for (location, part) in [
        ("iso:d.iso?tree=udf", "no UDF tree: it has"),
        (
            "d.iso?tree=rr",
            "options follow iso:, as in iso:d.iso?tree=rr",
        ),
        (
            "d.iso?tre=rr::/both",
            "'tre' is no option of a disc; iso:d.iso?tree=rr may be meant",
        ),
        ("iso:d.iso?session=2", "no session 2"),
        (
            "iso:d.iso?tree=best",
            "one of udf, rr, iso1999, joliet, iso is wanted",
        ),
    ] {
        let refused = run(&["ls", location]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    // A file that is called so is that file.
    fs::rename(
        fixture.path().join("d.iso"),
        fixture.path().join("d?tree=udf"),
    )
    .unwrap();
    assert_eq!(run(&["ls", "iso:d?tree=udf"]).code, Some(0));
}

#[test]
fn check_finds_what_is_missing_and_what_another_tree_has() {
    let fixture = differing();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    // As images for sticks have it: a partition of type 0x17 over all of it.
    let image = fs::OpenOptions::new()
        .write(true)
        .open(fixture.path().join("d.iso"))
        .unwrap();
    let entry = [
        &[0x80, 0, 0, 0, 0x17, 0, 0, 0][..],
        &[1, 0, 0, 0, 64, 0, 0, 0],
    ]
    .concat();
    image.write_all_at(&entry, 446).unwrap();
    image.write_all_at(b"\x55\xaa", 510).unwrap();
    let sound = run(&["check", "--data", "d.iso"]);
    let text = String::from_utf8(sound.out).unwrap();
    assert_eq!(sound.code, Some(0), "{text}");
    for part in [
        "partition 1 (MBR): 32 KiB at byte 512",
        "Joliet (served): directories",
        "only in this tree: 1\n      /only-rr: is only there",
        "  sound\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // The files lie before the padding.
    let whole = fs::read(fixture.path().join("d.iso")).unwrap();
    let end = whole.len() - 150 * 2048 - 4096;
    fs::write(fixture.path().join("cut.iso"), &whole[..end]).unwrap();
    let cut = run(&["check", "--json", "cut.iso"]);
    assert_eq!(cut.code, Some(1));
    let found: Value = serde_json::from_slice(&cut.out).unwrap();
    assert_eq!(found[0]["is_sound"], false);
    assert_eq!(found[0]["is_readable"], false);
    // What xorriso writes for Joliet has other parents.
    let made = [
        "xorriso", "-as", "mkisofs", "-quiet", "-J", "-o", "x.iso", "tree",
    ];
    fs::create_dir_all(fixture.tree().join("deep/er")).unwrap();
    tool(fixture.path(), &made);
    let departs = run(&["check", "iso:x.iso?tree=joliet"]);
    assert_eq!(departs.code, Some(1));
    let text = String::from_utf8(departs.out).unwrap();
    assert!(text.contains("ECMA-119 6.8.2.2"), "{text}");
    let verdict = "everything can be read, but it departs from its format\n";
    assert!(text.ends_with(verdict), "{text}");
    assert_eq!(found[0]["missing_bytes"], whole.len() - end);
    let served = &found[0]["trees"][0];
    assert_eq!(served["is_served"], true);
    assert_ne!(served["unreadable"]["count"], 0, "{found}");
    assert_eq!(run(&["check", "tree"]).code, Some(1));
    let place = run(&["check", "d.iso::/both"]);
    assert_eq!(place.code, Some(1));
    let part = "only a whole disc image can be checked, here d.iso";
    assert!(place.err.contains(part), "{}", place.err);
    let listed = run(&["ls", "cut.iso"]);
    assert!(
        listed.err.contains("as after an interrupted download"),
        "{}",
        listed.err
    );
}

#[test]
fn files_that_only_udf_has_are_shown() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.tree().join("sources")).unwrap();
    fs::write(fixture.tree().join("sources/install.wim"), bytes(70_001, 4)).unwrap();
    fs::write(fixture.tree().join("README.TXT"), "a note").unwrap();
    let made = [
        "genisoimage",
        "-quiet",
        "-V",
        "WIN",
        "-udf",
        "-hide",
        "sources",
        "-o",
        "w.iso",
        "tree",
    ];
    tool(fixture.path(), &made);
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    let data = run(&["cat", "w.iso::/sources/install.wim"]).done();
    assert!(data == bytes(70_001, 4));
    let stat = run(&["stat", "w.iso"]).text();
    let line = "disc: label 'WIN', UDF is served, of: UDF, ISO 9660";
    assert!(stat.contains(line), "{stat}");
    let plain = run(&["ls", "iso:w.iso?tree=iso"]);
    assert!(
        plain.err.contains("the UDF tree also has sources"),
        "{}",
        plain.err
    );
    let checked = run(&["check", "w.iso"]).text();
    assert!(checked.contains("UDF 1.02: label 'WIN'"), "{checked}");
}
