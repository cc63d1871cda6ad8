//! Partitions of disks that sfdisk made: each with the number, the place and the length that it
//! lists, whatever the order in which they lie.
#![allow(clippy::unwrap_used, reason = "for tests")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use pagewell_container::partitions;
use pagewell_device::RamDevice;

const DISK_BYTES: u64 = 24 << 20;
const SECTOR_BYTES: u64 = 512;

/// Scripts for sfdisk: logical partitions, in order and made in another order, and a GPT.
const SCRIPTS: [&str; 3] = [
    "label: dos
     start=2048, size=4096, type=83
     start=8192, size=36864, type=5
     start=10240, size=2048, type=83
     start=14336, size=2048, type=17
     start=20480, size=2048, type=7",
    "label: dos
     start=2048, size=40000, type=f
     start=30720, size=2048, type=83
     start=10240, size=2048, type=83
     start=20480, size=2048, type=83",
    "label: gpt
     start=2048, size=2048
     start=8192, size=2048",
];

/// None without the program, which the test then says.
fn sfdisk(arguments: &[&str], disk: &Path, script: &str) -> Option<Output> {
    let command = Command::new("sfdisk")
        .args(arguments)
        .arg(disk)
        // Where Debian has it, for users without the directory on their path.
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    match command {
        Ok(mut child) => {
            child.stdin.take()?.write_all(script.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            Some(output)
        }
        Err(error) => {
            pagewell_skip::skip(format_args!("sfdisk: {error}"));
            None
        }
    }
}

/// `disk5 : start= 10240, size= 2048, type=83` as number, first sector and sectors.
fn listed(line: &str, disk: &Path) -> Option<(usize, u64, u64)> {
    let (name, rest) = line.strip_prefix(disk.to_str()?)?.split_once(':')?;
    let number_of = |key| {
        let (_, value) = rest.split_once(key)?;
        value.split(',').next()?.trim().parse().ok()
    };
    let number = name.trim().parse().ok()?;
    Some((number, number_of("start=")?, number_of("size=")?))
}

#[test]
fn partitions_are_those_that_sfdisk_lists() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    for script in SCRIPTS {
        let file = std::fs::File::create(&disk).unwrap();
        file.set_len(DISK_BYTES).unwrap();
        let script = script.lines().fold(String::new(), |mut text, line| {
            writeln!(text, "{}", line.trim()).unwrap();
            text
        });
        if sfdisk(&["--quiet"], &disk, &script).is_none() {
            return;
        }
        let Some(dump) = sfdisk(&["--dump"], &disk, "") else {
            return;
        };
        let dump = String::from_utf8(dump.stdout).unwrap();
        let expected: Vec<_> = dump
            .lines()
            .filter_map(|line| listed(line, &disk))
            .collect();
        assert_eq!(expected.len(), script.matches("start=").count(), "{dump}");
        let device = RamDevice::holding("disk", &std::fs::read(&disk).unwrap());
        // A GPT has a partition of the old kind over all of it besides.
        let (_, found) = partitions(&device).unwrap().swap_remove(0);
        let found: Vec<_> = found
            .into_iter()
            .map(|it| {
                let sectors = it.length_bytes / SECTOR_BYTES;
                (it.number, it.start / SECTOR_BYTES, sectors)
            })
            .collect();
        assert_eq!(found, expected, "{dump}");
    }
}
