//! What `pagewell mount` finds in the place that it mounts on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::{Run, is_root, program, run};

/// A mount of some memory in the foreground, which is ready.
fn mounted(place: &Path) -> Child {
    let mut command = program();
    command.args(["mount", "--foreground", "ram:1m"]).arg(place);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line}");
    child
}

fn cannot_mount() -> bool {
    let cannot = !is_root() || !Path::new("/dev/fuse").exists();
    if cannot {
        pagewell_skip::skip("needs root and FUSE");
    }
    cannot
}

fn with_place(words: &[&str], place: &Path) -> Run {
    run(&[words, &[place.to_str().unwrap()]].concat())
}

#[test]
fn a_mount_whose_program_was_killed_gives_way_to_the_next() {
    if cannot_mount() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    let mut killed = mounted(place);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(fs::read_dir(place).is_err());
    let mut next = mounted(place);
    fs::write(place.join("file"), "text").unwrap();
    with_place(&["umount"], place).done();
    assert!(next.wait().unwrap().success());
    // Nothing is below it.
    let error = with_place(&["umount"], place).failed(1);
    assert!(error.contains("nothing is mounted"), "{error}");
}

#[test]
fn a_source_is_mounted_once_in_a_place() {
    if cannot_mount() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path();
    let mut first = mounted(place);
    let again = with_place(&["mount", "ram:1m"], place).failed(1);
    assert!(again.contains("ram:1m is mounted there already"), "{again}");
    with_place(&["umount"], place).done();
    assert!(first.wait().unwrap().success());
}

#[test]
fn a_folder_that_the_mount_would_hide_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    fs::write(&image, vec![0; 4096]).unwrap();
    let hidden = scratch.path().join("pages");
    let words = [
        "mount",
        "--cache-dir",
        hidden.to_str().unwrap(),
        image.to_str().unwrap(),
    ];
    let error = with_place(&words, scratch.path()).failed(2);
    assert!(error.contains("the mount hides it"), "{error}");
    assert!(!hidden.exists());
}
