//! `cp -r` of so many objects that several threads copy them: what comes out, and what is told, is
//! what one thread would have made of it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Serve, bytes, program, run_in, tool};

/// Directories of files of some 0 to 4000 bytes, with links between them.
struct Many {
    base: tempfile::TempDir,
}

impl Many {
    fn new(directories: usize, files: usize) -> Self {
        let base = tempfile::tempdir().unwrap();
        for directory in 0..directories {
            let path = base.path().join(format!("tree/{directory:02}/below"));
            fs::create_dir_all(&path).unwrap();
            for file in 0..files {
                let seed = directory * files + file;
                let place = if file % 5 == 0 { "." } else { ".." };
                let path = path.join(place).join(format!("{file:03}"));
                fs::write(path, bytes(seed * 37 % 4001, seed as u64)).unwrap();
            }
            symlink("../00/001", path.join("link")).unwrap();
        }
        Self { base }
    }

    fn path(&self) -> &Path {
        self.base.path()
    }

    fn same(&self, copy: &str) {
        tool(
            self.path(),
            &["diff", "-r", "--no-dereference", "tree", copy],
        );
    }
}

#[test]
fn many_files_come_through_each_way_with_their_attributes() {
    let many = Many::new(12, 60);
    let tree = many.path().join("tree");
    tool(&tree, &["chmod", "-R", "u=rwX,g=rX,o=", "."]);
    tool(&tree, &["chmod", "700", "03/below", "04"]);
    let image = [
        "xorriso", "-as", "mkisofs", "-quiet", "-R", "-o", "x.iso", "tree",
    ];
    tool(many.path(), &image);
    fs::create_dir(many.path().join("exported")).unwrap();
    let exported = many.path().join("exported");
    let serve = Serve::start(&["--squash", "none", exported.to_str().unwrap()]);
    let url = serve.urls()[0];
    let (there, back) = (format!("{url}::/copy"), format!("{url}::/copy/."));
    run_in(many.path(), &["cp", "-rp", "x.iso", "unpacked"]).done();
    run_in(many.path(), &["cp", "-r", "tree", &there]).done();
    run_in(many.path(), &["cp", "-r", &back, "back"]).done();
    run_in(many.path(), &["cp", "-rp", "tree", "copy"]).done();
    // Over what is there.
    run_in(many.path(), &["cp", "-rp", "tree/.", "copy"]).done();
    for copy in ["unpacked", "exported/copy", "back", "copy"] {
        many.same(copy);
    }
    let describe = |place: &str| {
        let script = "find . -mindepth 1 -printf '%P %m %Ts\\n' | sort";
        tool(&many.path().join(place), &["sh", "-c", script])
    };
    assert!(describe("copy") == describe("tree"));
    assert!(describe("unpacked") == describe("tree"));
}

#[test]
fn what_is_told_comes_in_the_order_of_the_names() {
    let many = Many::new(10, 40);
    let copy = many.path().join("copy");
    // In the way: a directory where a file goes, and a file where a directory does.
    for place in ["01/007", "04/000", "08/039"] {
        fs::create_dir_all(copy.join(place)).unwrap();
    }
    fs::write(copy.join("06"), "").unwrap();
    let run = run_in(many.path(), &["cp", "-rv", "tree/.", "copy"]);
    assert_eq!(run.code, Some(1));
    let told: Vec<&str> = run.err.lines().collect();
    // What is called 04/000 in the tree is in 04/below.
    let parts = ["/01/007: ", "/06: ", "/08/039: ", " copied, 3 failed"];
    for (line, part) in told.iter().zip(parts) {
        assert!(line.contains(part), "{line} lacks {part}");
    }
    assert_eq!(told.len(), parts.len(), "{}", run.err);
    let lines = String::from_utf8(run.out).unwrap();
    let names: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split('\'').nth(1).unwrap().split('/').collect())
        .collect();
    assert!(names.is_sorted(), "{lines}");
    // Files and links but those in the way or below it, and directories that were not there.
    assert_eq!(names.len(), 9 * (40 + 1 + 1) - 2 + 6);
    assert_eq!(fs::read(copy.join("06")).unwrap(), b"");
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let many = Many::new(4, 50);
    let tree = many.path().join("tree");
    // Each file gets eight names, next to each other and far away.
    for file in (1..50).filter(|file| file % 5 != 0) {
        let first = tree.join(format!("00/{file:03}"));
        for name in 0..7 {
            let directory = name % 4;
            let other = tree.join(format!("{directory:02}/{file:03}-{name}"));
            fs::hard_link(&first, other).unwrap();
        }
    }
    let image = [
        "xorriso",
        "-as",
        "mkisofs",
        "-quiet",
        "-R",
        "--hardlinks",
        "-o",
        "x.iso",
        "tree",
    ];
    tool(many.path(), &image);
    fs::create_dir(many.path().join("exported")).unwrap();
    let exported = many.path().join("exported");
    let serve = Serve::start(&["--squash", "none", exported.to_str().unwrap()]);
    let url = serve.urls()[0];
    run_in(many.path(), &["cp", "-a", "tree", "copy"]).done();
    run_in(many.path(), &["cp", "-a", "x.iso", "unpacked"]).done();
    let options = ["cp", "-r", "--preserve=links"];
    let there = format!("{url}::/copy");
    run_in(many.path(), &[&options[..], &["tree", &there]].concat()).done();
    run_in(many.path(), &[&options[..], &[&there, "back"]].concat()).done();
    for copy in ["copy", "unpacked", "exported/copy", "back"] {
        many.same(copy);
        let mut groups: HashMap<u64, usize> = HashMap::new();
        let script = "find . -type f -links +1 -printf '%i\\n'";
        let listed = tool(&many.path().join(copy), &["sh", "-c", script]);
        for line in String::from_utf8(listed).unwrap().lines() {
            *groups.entry(line.parse().unwrap()).or_default() += 1;
        }
        assert_eq!(groups.len(), 40, "{copy}");
        assert!(groups.values().all(|names| *names == 8), "{copy}");
    }
}

#[test]
fn a_file_of_the_target_with_several_names_has_the_last_of_its_originals() {
    for _ in 0..5 {
        let many = Many::new(2, 60);
        let copy = many.path().join("copy/00");
        fs::create_dir_all(&copy).unwrap();
        fs::write(copy.join("001"), "old").unwrap();
        for file in (2..60).filter(|file| file % 5 != 0) {
            fs::hard_link(copy.join("001"), copy.join(format!("{file:03}"))).unwrap();
        }
        run_in(many.path(), &["cp", "-r", "tree/.", "copy"]).done();
        let last = fs::read(many.path().join("tree/00/059")).unwrap();
        assert!(fs::read(copy.join("001")).unwrap() == last);
        assert_eq!(copy.join("001").metadata().unwrap().nlink(), 48);
        let other = |place: &str| fs::read(many.path().join(place).join("01/below/005")).unwrap();
        assert!(other("copy") == other("tree"));
    }
}

#[test]
fn a_large_file_waits_for_the_smaller_ones_before_it() {
    let base = tempfile::tempdir().unwrap();
    let script = "mkdir s t; echo small >s/1; head -c 3000000 /dev/zero >s/2; echo last >s/3; \
                  cp s/2 s/4; echo old >t/1; ln t/1 t/2; echo old >t/3; ln t/3 t/4";
    tool(base.path(), &["sh", "-c", script]);
    run_in(base.path(), &["cp", "-r", "s/.", "t"]).done();
    tool(base.path(), &["cmp", "s/2", "t/1"]);
    tool(base.path(), &["cmp", "s/4", "t/3"]);
}

#[test]
fn a_signal_ends_the_copy_and_the_next_one_completes_it() {
    let many = Many::new(30, 150);
    for _ in 0..3 {
        let mut copying = program()
            .current_dir(many.path())
            .args(["cp", "-r", "tree", "copy"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !many.path().join("copy/00/011").exists() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "nothing is copied"
            );
            std::thread::yield_now();
        }
        let process = copying.id().to_string();
        tool(many.path(), &["kill", "-s", "TERM", &process]);
        let ended = copying.wait().unwrap();
        // It may have been done by then.
        assert!(ended.signal() == Some(15) || ended.success(), "{ended:?}");
        // What was begun is not complete, and no more than eight files of each thread were begun.
        let script = "diff -rq --no-dereference copy tree | grep -v '^Only in tree' || true";
        let differ = tool(many.path(), &["sh", "-c", script]);
        let differ = String::from_utf8(differ).unwrap();
        assert!(differ.lines().count() <= 4 * 8, "{differ}");
        run_in(many.path(), &["cp", "-r", "tree/.", "copy"]).done();
        many.same("copy");
        fs::remove_dir_all(many.path().join("copy")).unwrap();
    }
}
