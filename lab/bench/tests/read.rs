//! `pagewell bench read`: every switch and model gives the bytes of the image.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn read(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_pagewell-bench");
    let mut command = Command::new(program);
    command.arg("read").args(arguments).output().unwrap()
}

#[test]
fn every_switch_and_model_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..700_001_u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let path = directory.path().join("disk.img");
    std::fs::write(&path, &bytes).unwrap();
    let image = format!("image:{}", path.display());
    for options in [
        &[][..],
        &["--no-readahead"],
        &["--no-elevator"],
        &["--no-merge"],
        &["--no-free-behind"],
        &["--no-page-chunk"],
        &["--baseline"],
        &["--device-model", "dvd,speed=1000"],
        &["--baseline", "--device-model", "nvme", "--cache", "5000k"],
    ] {
        let output = read(&[options, &[&image]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && output.stdout == bytes,
            "{options:?}: {error}"
        );
        assert!(error.contains(" requests, 684 KiB"), "{error}");
        assert_eq!(error.contains("busy for"), options.len() > 1, "{error}");
    }
    let count = |options: &[&str]| {
        let output = read(&[options, &[&image]].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        let before = error.split(" requests").next().unwrap();
        let number = before.rsplit(' ').next().unwrap();
        number.parse::<u64>().unwrap()
    };
    // Of 2 KiB each, or of the block of the device.
    assert!(count(&["--baseline"]) > 170);
    assert!(count(&[]) < 50);
}
