//! What is left in the target when something of a copy fails, and what a copy does not take over
//! from its target.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::support::{Fixture, Run, Serve, bytes, is_root, run_in, tool};

/// Runs the program where a system call fails.
fn run_failing(fixture: &Fixture, call: &str, error: &str, arguments: &[&str]) -> Run {
    let injected = format!("inject={call}:error={error}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &injected]);
    command.arg(env!("CARGO_BIN_EXE_pagewell")).args(arguments);
    command.env("LC_ALL", "C").current_dir(fixture.path());
    command.output().unwrap().into()
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
