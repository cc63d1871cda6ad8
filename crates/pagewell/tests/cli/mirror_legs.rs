//! Legs of mirrors that were replaced, exchanged, restored or taken away.

use std::fs;
use std::path::Path;

use crate::support::{Run, Serve, bytes, run_in};

const LENGTH: usize = 300_000;
const MIRROR: &str = "mirror:a.img,b.img";
const IMAGE: &str = "image:mirror:a.img,b.img";

/// A mirror of `a.img` and `b.img`, written to once; `new` and `newer` are of the same length.
fn mirror() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    for (name, seed) in [("a.img", 3), ("b.img", 3), ("new", 4), ("newer", 5)] {
        fs::write(base.path().join(name), bytes(LENGTH, seed)).unwrap();
    }
    run_in(base.path(), &["mirror", "resync", MIRROR]).text();
    run_in(base.path(), &["cp", "new", IMAGE]).done();
    base
}

/// Removes a leg and makes a file of zeros in its place.
fn replace(base: &Path, name: &str) {
    fs::remove_file(base.join(name)).unwrap();
    // Later than the tick in which the old one was made.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let new = fs::File::create(base.join(name)).unwrap();
    new.set_len(LENGTH as u64).unwrap();
}

fn conditions(base: &Path) -> (Option<i32>, Vec<String>, String) {
    let status = run_in(base, &["mirror", "status", MIRROR, "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&status.out).unwrap();
    let legs = document["halves"].as_array().unwrap().iter();
    let condition = |leg: &serde_json::Value| leg["condition"].as_str().unwrap().to_owned();
    let problem = document["problem"].as_str().unwrap_or_default().to_owned();
    (status.code, legs.map(condition).collect(), problem)
}

fn contents(base: &Path) -> [Vec<u8>; 2] {
    ["a.img", "b.img"].map(|name| fs::read(base.join(name)).unwrap())
}

/// A run that went well and said one thing.
fn warned(run: Run, part: &str) -> Vec<u8> {
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert!(run.err.contains(part), "{}", run.err);
    run.out
}

#[test]
fn a_leg_that_was_replaced_is_not_read_and_not_copied_from() {
    let expected = bytes(LENGTH, 4);
    for (name, other, at) in [("a.img", "b.img", 0), ("b.img", "a.img", 1)] {
        let base = mirror();
        let run = |arguments: &[&str]| run_in(base.path(), arguments);
        replace(base.path(), name);
        let read = run(&["cat", IMAGE]);
        assert!(warned(read, &format!("{name} is not used: it is not the file")) == expected);
        let (code, found, problem) = conditions(base.path());
        assert_eq!(
            (code, found[at].as_str(), found[1 - at].as_str()),
            (Some(1), "replaced", "current")
        );
        assert!(problem.contains(&format!("{other} is good")), "{problem}");
        // Nobody knows what the new file is for: it has to be said.
        let line = run(&["mirror", "resync", MIRROR]).failed(1);
        for part in [
            &format!("{name} is not the file"),
            &format!("{other} is good"),
            "--from LEG",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let now = contents(base.path());
        assert!(now[at].iter().all(|byte| *byte == 0) && now[1 - at] == expected);
        run(&["mirror", "resync", MIRROR, "--from", other]).text();
        assert!(contents(base.path()).iter().all(|bytes| *bytes == expected));
        assert_eq!(conditions(base.path()).1, ["current"; 2]);
    }
}

#[test]
fn a_leg_that_is_missing_is_counted_once() {
    let base = mirror();
    fs::remove_file(base.path().join("b.img")).unwrap();
    let leg = |name: &str| base.path().join(name).display().to_string();
    for (more, writable) in [(None, false), (Some("--write-degraded"), true)] {
        let image = format!("image:mirror:{},{}", leg("a.img"), leg("b.img"));
        let mut arguments = vec!["--http", "127.0.0.1:0", &image];
        arguments.extend(more);
        let mut serve = Serve::start(&arguments);
        let said = serve.lines_until("metrics http://").concat();
        assert_eq!(said.contains("read-only: "), !writable, "{said}");
        assert!(!said.contains("os error"), "{said}");
        let http = said.rsplit_once("http://").unwrap().1;
        let address = http.trim().strip_suffix("/metrics").unwrap();
        let counters = run_in(base.path(), &["counters", "--connect", address]).text();
        let line = counters
            .lines()
            .find(|line| line.contains("halves left out"));
        let count = line.and_then(|line| line.split_whitespace().last());
        assert_eq!(count, Some("1"), "{line:?}");
    }
}

#[test]
fn when_both_were_replaced_nothing_is_read_until_somebody_says_which_is_right() {
    let base = mirror();
    let run = |arguments: &[&str]| run_in(base.path(), arguments);
    // Moved to another file system with their records: copies are other files, too.
    for name in ["a.img", "b.img"] {
        fs::copy(base.path().join(name), base.path().join("copy")).unwrap();
        fs::rename(base.path().join("copy"), base.path().join(name)).unwrap();
    }
    assert_eq!(conditions(base.path()).1, ["replaced"; 2]);
    let line = run(&["cat", IMAGE]).failed(1);
    assert!(
        line.contains("no leg is there") && line.contains("--from LEG"),
        "{line}"
    );
    let line = run(&["mirror", "resync", MIRROR]).failed(1);
    assert!(line.contains("no other is known to be good"), "{line}");
    let resync = run(&["mirror", "resync", MIRROR, "--from", "b.img"]);
    warned(resync, "b.img is not what was a leg of the mirror");
    assert!(run(&["cat", IMAGE]).done() == bytes(LENGTH, 4));
}

#[test]
fn legs_that_were_exchanged_are_used_when_their_records_went_with_them() {
    let base = mirror();
    let exchange = |names: [&str; 3]| {
        let [one, other, third] = names.map(|name| base.path().join(name));
        fs::rename(&one, &third).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(&third, &other).unwrap();
    };
    exchange(["a.img", "b.img", "c"]);
    assert_eq!(conditions(base.path()).1, ["replaced"; 2]);
    exchange(["a.img.pagewell-mirror", "b.img.pagewell-mirror", "c"]);
    assert_eq!(conditions(base.path()).1, ["current"; 2]);
    assert!(run_in(base.path(), &["cat", IMAGE]).done() == bytes(LENGTH, 4));
}

/// An old copy in a new file is noticed, with its record or without; one that is written over the
/// file that is there is not.
#[test]
fn an_old_copy_is_another_file() {
    let base = mirror();
    let path = |name: &str| base.path().join(name);
    let record = "b.img.pagewell-mirror";
    fs::copy(path("b.img"), path("old")).unwrap();
    fs::copy(path(record), path("old-record")).unwrap();
    run_in(base.path(), &["cp", "newer", IMAGE]).done();
    fs::rename(path("old"), path("b.img")).unwrap();
    for _ in 0..2 {
        assert_eq!(conditions(base.path()).1, ["current", "replaced"]);
        let read = run_in(base.path(), &["cat", IMAGE]);
        assert!(warned(read, "b.img is not used") == bytes(LENGTH, 5));
        let _ = fs::rename(path("old-record"), path(record));
    }
}

#[test]
fn without_a_leg_a_mirror_is_read_and_written_to_when_asked() {
    for hides_record in [false, true] {
        let base = mirror();
        let run = |arguments: &[&str]| run_in(base.path(), arguments);
        let away = base.path().join("away");
        fs::create_dir(&away).unwrap();
        let carry = |names: &[&str], back: bool| {
            for name in names {
                let (here, there) = (base.path().join(name), away.join(name));
                let (from, to) = if back { (there, here) } else { (here, there) };
                fs::rename(from, to).unwrap();
            }
        };
        let all = ["a.img", "a.img.pagewell-mirror"];
        let carried = if hides_record { &all[..] } else { &all[..1] };
        carry(carried, false);
        let read = run(&["cat", IMAGE]);
        assert!(warned(read, "a.img is missing") == bytes(LENGTH, 4));
        let (code, found, problem) = conditions(base.path());
        assert_eq!(
            (code, found),
            (Some(1), vec!["missing".into(), "current".into()])
        );
        assert!(problem.contains("a.img: No such file"), "{problem}");
        let refused = run(&["cp", "newer", IMAGE]);
        assert_eq!(refused.code, Some(1), "{}", refused.err);
        for part in [
            "cannot be written",
            "a.img: No such file",
            "--write-degraded",
        ] {
            assert!(refused.err.contains(part), "{}", refused.err);
        }
        let line = run(&["mirror", "resync", MIRROR, "--from", "b.img"]).failed(1);
        assert!(line.contains("a.img: No such file"), "{line}");
        let written = run(&["cp", "--write-degraded", "newer", IMAGE]);
        warned(written, "a.img is missing");
        // It returns, and is known to be out of date.
        carry(carried, true);
        assert_eq!(conditions(base.path()).1, ["stale", "current"]);
        let read = run(&["cat", IMAGE]);
        assert!(warned(read, "a.img is not used: it missed writes") == bytes(LENGTH, 5));
        run(&["mirror", "resync", MIRROR]).text();
        assert!(
            contents(base.path())
                .iter()
                .all(|bytes| *bytes == self::bytes(LENGTH, 5))
        );
    }
}

/// Each was written to while the other was away: only somebody who knows can say which is right.
#[test]
fn legs_that_were_written_to_apart_are_not_put_together() {
    let base = mirror();
    let run = |arguments: &[&str]| run_in(base.path(), arguments);
    let path = |name: &str| base.path().join(name);
    for (name, record, content) in [
        ("a.img", "a.img.pagewell-mirror", "new"),
        ("b.img", "b.img.pagewell-mirror", "newer"),
    ] {
        fs::rename(path(name), path("disk")).unwrap();
        fs::rename(path(record), path("record")).unwrap();
        warned(
            run(&["cp", "--write-degraded", content, IMAGE]),
            "is missing",
        );
        fs::rename(path("disk"), path(name)).unwrap();
        fs::rename(path("record"), path(record)).unwrap();
    }
    let before = contents(base.path());
    assert_eq!(conditions(base.path()).1, ["split"; 2]);
    let line = run(&["cat", IMAGE]).failed(1);
    assert!(line.contains("no leg is there"), "{line}");
    let line = run(&["mirror", "resync", MIRROR]).failed(1);
    assert!(
        line.contains("were each written to") && line.contains("--from"),
        "{line}"
    );
    assert!(contents(base.path()) == before);
    let resync = run(&["mirror", "resync", MIRROR, "--from", "a.img"]);
    warned(resync, "a.img and another were written to apart");
    assert!(run(&["cat", IMAGE]).done() == before[0]);
}

/// Nothing tells that what is not there ever was a leg.
#[test]
fn a_leg_that_is_missing_from_files_without_records_is_an_error() {
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("a.img"), bytes(LENGTH, 3)).unwrap();
    for command in [&["cat", IMAGE][..], &["mirror", "resync", MIRROR]] {
        let line = run_in(base.path(), command).failed(1);
        assert!(line.contains("b.img: No such file"), "{line}");
    }
}
