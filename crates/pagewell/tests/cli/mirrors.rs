//! Mirrors on the command line: how their legs stand, and making them equal.

use std::fs;
use std::path::Path;

use crate::support::{Run, bytes, run_in};

/// Longer than one chunk, and its last block is a part.
const LENGTH: usize = (1 << 20) + 5000;
const MIRROR: &str = "mirror:a.img,b.img";

/// Two files with the same bytes, in a directory of their own.
fn files() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    for name in ["a.img", "b.img"] {
        fs::write(base.path().join(name), bytes(LENGTH, 3)).unwrap();
    }
    base
}

fn mirror(base: &Path, arguments: &[&str]) -> Run {
    run_in(base, &[&["mirror"], arguments].concat())
}

fn change(base: &Path, name: &str, at: usize) {
    let path = base.join(name);
    let mut content = fs::read(&path).unwrap();
    content[at] ^= 0x55;
    fs::write(path, content).unwrap();
}

/// Makes the second leg stale, with bytes of its own.
fn stale() -> tempfile::TempDir {
    let base = files();
    mirror(base.path(), &["resync", MIRROR]).text();
    let record = base.path().join("b.img.pagewell-mirror");
    let old = fs::read(&record).unwrap();
    mirror(base.path(), &["resync", MIRROR]).text();
    fs::write(record, old).unwrap();
    change(base.path(), "b.img", LENGTH - 1);
    base
}

#[test]
fn equal_files_become_a_mirror_and_others_need_a_choice() {
    let base = files();
    let run = |arguments: &[&str]| mirror(base.path(), arguments);
    let status = run(&["status", MIRROR]).text();
    assert_eq!(
        status.matches("unknown     no record").count(),
        2,
        "{status}"
    );
    change(base.path(), "b.img", 77);
    let line = run(&["resync", MIRROR]).failed(1);
    for part in ["b.img differs from a.img at byte 0", "--from LEG"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2, "no records");
    let line = run(&["resync", MIRROR, "--from", "b.img"]).text();
    assert!(
        line.contains("1.0 MiB copied, first in a.img near byte 0"),
        "{line}"
    );
    let [a, b] = ["a.img", "b.img"].map(|name| fs::read(base.path().join(name)).unwrap());
    assert!(a == b && a.len() == LENGTH && a[77] == bytes(LENGTH, 3)[77] ^ 0x55);
    let status = run(&["status", MIRROR]).text();
    assert_eq!(
        status.matches("current     generation 1, clean").count(),
        2,
        "{status}"
    );
    let line = run(&["resync", MIRROR]).text();
    assert!(line.contains("equal: 1.0 MiB compared"), "{line}");
    assert!(run_in(base.path(), &["cat", MIRROR]).done() == a);
}

#[test]
fn a_stale_leg_is_not_read_and_is_made_equal() {
    let base = stale();
    let run = |arguments: &[&str]| mirror(base.path(), arguments);
    let good = bytes(LENGTH, 3);
    // The order of the legs changes nothing.
    for source in [MIRROR, "mirror:b.img,a.img", "image:mirror:a.img,b.img"] {
        let read = run_in(base.path(), &["cat", source]);
        assert_eq!(read.code, Some(0), "{}", read.err);
        assert!(read.out == good, "{source}");
        assert_eq!(read.err.lines().count(), 1, "said once: {}", read.err);
        assert!(
            read.err.contains("b.img is not used: it missed writes"),
            "{}",
            read.err
        );
    }
    let status = run(&["status", MIRROR, "--json"]);
    assert_eq!((status.code, status.err.as_str()), (Some(1), ""));
    let document: serde_json::Value = serde_json::from_slice(&status.out).unwrap();
    assert_eq!(document["in_use"], false);
    let leg = |index: usize, field: &str| document["halves"][index][field].clone();
    assert_eq!(
        (leg(0, "condition"), leg(0, "generation")),
        ("current".into(), 2.into())
    );
    assert_eq!(
        (leg(1, "condition"), leg(1, "generation")),
        ("stale".into(), 1.into())
    );
    let record = leg(1, "record");
    assert!(
        record.as_str().unwrap().ends_with("/b.img.pagewell-mirror"),
        "{record}"
    );

    let dry = run(&["resync", "--dry-run", MIRROR]);
    assert_eq!((dry.code, dry.err.as_str()), (Some(1), ""));
    let line = String::from_utf8(dry.out).unwrap();
    assert!(
        line.contains("4.9 KiB differ, first in b.img near byte 1048576"),
        "{line}"
    );
    assert_eq!(
        run(&["status", MIRROR]).code,
        Some(1),
        "nothing was changed"
    );
    let line = run(&["resync", MIRROR]).text();
    assert!(line.contains("4.9 KiB copied"), "{line}");
    assert!(fs::read(base.path().join("b.img")).unwrap() == good);
    run(&["status", MIRROR]).text();
    assert!(run_in(base.path(), &["cat", MIRROR]).done() == good);
}

#[test]
fn records_that_contradict_each_other_are_refused_with_a_way_on() {
    let base = files();
    let path = |name: &str| base.path().join(name);
    let run = |arguments: &[&str]| mirror(base.path(), arguments);
    run(&["resync", MIRROR]).text();
    fs::write(path("c.img"), bytes(LENGTH, 3)).unwrap();
    let three = "mirror:a.img,b.img,c.img";
    let refused = |source: &str, part: &str| {
        for command in [&["cat", source][..], &["mirror", "resync", source]] {
            let line = run_in(base.path(), command).failed(1);
            assert!(line.contains(part) && line.contains("--from LEG"), "{line}");
        }
        let status = run(&["status", source]);
        assert_eq!(status.code, Some(1));
        assert!(String::from_utf8(status.out).unwrap().contains(part));
    };
    refused(
        "mirror:a.img,c.img",
        "c.img has no record of the mirror, a.img has",
    );
    refused(three, "a.img is one of 2 legs, not of 3");
    refused("mirror:a.img", "a.img is one of 2 legs, not of 1");
    fs::write(path("b.img.pagewell-mirror"), "nonsense").unwrap();
    refused(MIRROR, "b.img.pagewell-mirror: is no record of a mirror");
    // A new leg, and then the old one, which is of another mirror by now.
    run(&["resync", "mirror:a.img,c.img", "--from", "a.img"]).text();
    run(&["status", "mirror:a.img,c.img"]).text();
    fs::remove_file(path("b.img.pagewell-mirror")).unwrap();
    fs::copy(path("b.img"), path("d.img")).unwrap();
    run(&["resync", "mirror:b.img,d.img"]).text();
    refused(MIRROR, "b.img and a.img are legs of different mirrors");
    fs::write(path("short.img"), "x").unwrap();
    let line = run(&["resync", "mirror:a.img,short.img", "--from", "a.img"]).failed(1);
    assert!(line.contains("short.img has 1 bytes"), "{line}");
}

#[test]
fn wrong_uses_are_told() {
    let base = files();
    for (arguments, code, part) in [
        (&["resync", "a.img"][..], 2, "is no mirror"),
        (&["status", "stripe:4k:a.img,b.img"], 2, "is no mirror"),
        (
            &["resync", MIRROR, "--from", "c.img"],
            2,
            "is not one of the legs",
        ),
        (
            &["resync", "mirror:a.img,a.img", "--from", "a.img"],
            2,
            "is not one of the legs",
        ),
        (&["resync", "mirror:a.img,ram:1m"], 1, "a leg in memory"),
        (
            &["resync", "mirror:a.img,nothing"],
            1,
            "nothing: No such file",
        ),
        (&["resync"], 2, "SOURCE"),
    ] {
        let line = mirror(base.path(), arguments).failed(code);
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2, "no records");
}

#[test]
fn a_mirror_is_written_to_and_its_legs_alone_are_not() {
    let base = files();
    let content = bytes(LENGTH, 8);
    fs::write(base.path().join("new"), &content).unwrap();
    let copy = |target: &str| run_in(base.path(), &["cp", "new", target]);
    let target = format!("image:{MIRROR}");
    let line = copy(&target).failed(1);
    assert!(line.contains("'pagewell mirror resync' compares"), "{line}");
    mirror(base.path(), &["resync", MIRROR]).text();
    copy(&target).done();
    for name in ["a.img", "b.img"] {
        assert!(
            fs::read(base.path().join(name)).unwrap() == content,
            "{name}"
        );
        let line = copy(&format!("image:{name}")).failed(1);
        assert!(line.contains("is a leg of a mirror"), "{line}");
    }
    let status = mirror(base.path(), &["status", MIRROR]).text();
    assert_eq!(
        status.matches("generation 1, clean").count(),
        2,
        "closed: {status}"
    );
    // A leg that was left behind is not written to either.
    let stale = stale();
    let before = fs::read(stale.path().join("b.img")).unwrap();
    fs::copy(base.path().join("new"), stale.path().join("new")).unwrap();
    let run = run_in(stale.path(), &["cp", "new", &target]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("b.img is not used"), "{}", run.err);
    assert!(fs::read(stale.path().join("a.img")).unwrap() == content);
    assert!(fs::read(stale.path().join("b.img")).unwrap() == before);
}

/// A program that writes to a mirror keeps others from making its legs equal meanwhile, and a
/// server that is killed leaves one leg to be read.
#[test]
fn a_mirror_in_use_is_not_resynchronised() {
    let base = files();
    mirror(base.path(), &["resync", MIRROR]).text();
    let path = |name: &str| base.path().join(name).display().to_string();
    let source = format!("mirror:{},{}", path("a.img"), path("b.img"));
    let serve = crate::support::Serve::start(&[&format!("/disk={source}")]);
    let line = mirror(base.path(), &["resync", &source]).failed(1);
    assert!(line.contains("a.img"), "{line}");
    serve.signal("TERM");
    assert_eq!(serve.end().0, Some(0));
    mirror(base.path(), &["resync", &source]).text();
}
