//! What is left in the target when something of a copy fails, and what a copy does not take over
//! from its target.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::support::{Fixture, Run, Serve, bytes, is_root, run_in, tool, unprivileged};

/// Length of the large file of a fixture.
const BIG: usize = (3 << 20) + 17;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Runs the program where a system call fails.
fn run_failing(fixture: &Fixture, call: &str, error: &str, arguments: &[&str]) -> Run {
    let injected = format!("inject={call}:error={error}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &injected]);
    command.arg(env!("CARGO_BIN_EXE_pagewell")).args(arguments);
    command.env("LC_ALL", "C").current_dir(fixture.path());
    command.output().unwrap().into()
}

/// The tree as an image that ends within its large file.
fn cut_image(fixture: &Fixture) {
    let small = |name: &str| name != "big";
    for entry in fs::read_dir(fixture.tree()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && small(path.file_name().unwrap().to_str().unwrap()) {
            fs::remove_file(path).unwrap();
        }
    }
    let image = fs::OpenOptions::new().write(true).open(fixture.iso());
    image.unwrap().set_len(BIG as u64 / 2).unwrap();
}

#[test]
fn an_existing_name_stays_until_a_link_can_take_its_place() {
    for error in ["EMLINK", "EPERM", "EXDEV", "EIO"] {
        let fixture = Fixture::new();
        let script = "mkdir s t; echo new >s/a; ln s/a s/b; ln -s a s/l; cp -p s/a t/a; \
                      echo old >t/b; ln -s old t/l; touch -d 2001-01-01 t/b; \
                      touch -h -d 2001-01-01 t/l";
        tool(fixture.path(), &["sh", "-c", script]);
        let run = run_failing(&fixture, "linkat", error, &["cp", "-au", "s/.", "t"]);
        let (code, left) = match error {
            "EIO" => (1, "old\n"),
            _ => (0, "new\n"),
        };
        assert_eq!(run.code, Some(code), "{error}: {}", run.err);
        let there = fs::read_to_string(fixture.path().join("t/b"));
        assert_eq!(there.unwrap(), left, "{error}");
        let run = run_failing(&fixture, "symlinkat", error, &["cp", "-a", "s/l", "t"]);
        assert_eq!(run.code, Some(1), "{error}");
        run_in(fixture.path(), &["cp", "-au", "s/.", "t"]).done();
        assert_eq!(fs::read_dir(fixture.path().join("t")).unwrap().count(), 3);
    }
}

#[test]
fn a_link_and_a_symbolic_link_take_the_place_of_what_is_there() {
    let fixture = Fixture::new();
    let script = "mkdir s t; echo new >s/a; ln s/a s/b; ln -s a s/l; ln s/l s/m; \
                  echo old >t/a; echo old >t/b; ln -s old t/l; ln -s older t/m";
    tool(fixture.path(), &["sh", "-c", script]);
    run_in(fixture.path(), &["cp", "-a", "s/.", "t"]).done();
    tool(
        fixture.path(),
        &["diff", "-r", "--no-dereference", "s", "t"],
    );
    let number = |name: &str| {
        let path = fixture.path().join("t").join(name);
        fs::symlink_metadata(path).unwrap().ino()
    };
    assert_eq!(number("a"), number("b"));
    assert_eq!(number("l"), number("m"));
}

#[test]
fn nothing_is_removed_when_a_symbolic_link_has_taken_the_place_of_another() {
    let fixture = Fixture::new();
    tool(
        fixture.path(),
        &["sh", "-c", "mkdir s t; ln -s a s/l; ln -s old t/l"],
    );
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "calls", "-e", "trace=unlink,unlinkat"]);
    command
        .arg(env!("CARGO_BIN_EXE_pagewell"))
        .args(["cp", "-a", "s/l", "t"]);
    let run: Run = command.current_dir(fixture.path()).output().unwrap().into();
    run.done();
    let calls = fs::read_to_string(fixture.path().join("calls")).unwrap();
    assert!(!calls.contains(".pagewell-"), "{calls}");
}

#[test]
fn a_file_that_is_filled_stays_when_its_owner_cannot_be_kept() {
    if !is_root() {
        pagewell_skip::skip("needs root, whose files a server gives to nobody");
        return;
    }
    let fixture = Fixture::new();
    let exported = fixture.path().join("exported");
    fs::create_dir(&exported).unwrap();
    fs::set_permissions(&exported, PermissionsExt::from_mode(0o777)).unwrap();
    let serve = Serve::start(&[exported.to_str().unwrap()]);
    let target = format!("{}::/copy", serve.urls()[0]);
    let run = run_in(fixture.path(), &["cp", "-a", "tree/sub/script", &target]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    let copy = fs::read(exported.join("copy")).unwrap();
    assert_eq!(copy, bytes(100, 100));
}

#[test]
fn what_was_not_copied_to_its_end_is_older_than_its_original() {
    let fixture = Fixture::new();
    cut_image(&fixture);
    for _ in 0..3 {
        let run = run_in(fixture.path(), &["cp", "-au", "tree.iso::/big", "copy"]);
        assert_eq!(run.code, Some(1), "{}", run.err);
        let part = fs::read(fixture.path().join("copy")).unwrap();
        assert!(!part.is_empty() && part.len() < BIG);
        assert!(bytes(BIG, BIG as u64).starts_with(&part));
    }
}

#[test]
fn a_copy_that_is_there_stays_when_its_original_cannot_be_opened() {
    if !is_root() {
        pagewell_skip::skip("needs root to have a file that another user may not read");
        return;
    }
    let fixture = Fixture::new();
    let script = "chmod 777 .; echo new >s; chmod 600 s; echo old >t; ln t u; chown 65534 t";
    tool(fixture.path(), &["sh", "-c", script]);
    for option in ["-v", "-av"] {
        let mut copying = unprivileged(fixture.path());
        let copying = copying.current_dir(fixture.path());
        let run: Run = copying
            .args(["cp", option, "s", "t"])
            .output()
            .unwrap()
            .into();
        assert_eq!(run.code, Some(1), "{option}: {}", run.err);
        assert_eq!(run.out, b"'s' -> 't'\n");
        let left = fs::read_to_string(fixture.path().join("t"));
        assert_eq!(left.unwrap(), "old\n", "{option}");
    }
}

/// A default access control list by which user 1234 may do all.
fn default_list() -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 7, 1234),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 5, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[test]
fn a_mode_that_is_kept_is_not_opened_by_lists_of_the_target() {
    let fixture = Fixture::odd();
    fixture.iso();
    let target = fixture.path().join("target");
    let exported = fixture.tree();
    let serve = Serve::start(&["--squash", "none", exported.to_str().unwrap()]);
    let url = format!("{}::/", serve.urls()[0]);
    for (option, source) in [
        ("-rp", "tree/."),
        ("-a", "tree/."),
        ("-a", "tree.iso"),
        ("-rp", &url),
    ] {
        fs::create_dir(&target).unwrap();
        let flags = XattrFlags::empty();
        let list = "system.posix_acl_default";
        if setxattr(&target, list, &default_list(), flags).is_err() {
            pagewell_skip::skip("needs access control lists");
            return;
        }
        fs::create_dir(target.join("sub")).unwrap();
        let run = run_in(fixture.path(), &["cp", option, source, "target"]);
        assert_eq!(run.code, Some(0), "{option} {source}: {}", run.err);
        for name in [
            "a",
            "none",
            "sub",
            "sub/deep",
            "sub/deep/x y",
            "empty",
            "fifo",
        ] {
            let path = target.join(name);
            if !path.exists() {
                assert!(name == "fifo", "{source}: {name}");
                continue;
            }
            assert_eq!(mode(&path), mode(&fixture.tree().join(name)), "{name}");
            for list in ["system.posix_acl_access", "system.posix_acl_default"] {
                let found = getxattr(&path, list, &mut [0; 256][..]);
                assert!(found.is_err(), "{option} {source}: {name} has {list}");
            }
        }
        fs::remove_dir_all(&target).unwrap();
    }
}
