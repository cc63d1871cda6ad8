//! A process that journals is killed at any moment. What it had acknowledged is there, as it was.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use pagewell_base::mix::Random;
use pagewell_device::testing::{PATIENCE, request};
use pagewell_device::{Buffer, Operation};
use pagewell_staging::{Opened, Record, StagedFile, Staging};

const FOLDER: &str = "PAGEWELL_STAGING_FOLDER";
const LENGTH: u64 = 300_000;

fn open(folder: &Path) -> Opened {
    Staging::open(folder, "s3://bucket", 64 << 20).unwrap()
}

/// The write of a step, and the length of the file after it.
fn step(number: u64) -> (u64, Vec<u8>) {
    let mut mix = Random(number);
    let start = mix.below(LENGTH - 1);
    let length = 1 + mix.below((LENGTH - start).min(100_000));
    let byte = mix.below(255) as u8;
    (start, vec![byte; length as usize])
}

/// All bytes after this many steps; those of the beginning are dirty from the first step.
fn content(steps: u64) -> Vec<u8> {
    let mut bytes = vec![255; LENGTH as usize];
    for number in 1..=steps {
        let (start, written) = step(number);
        bytes[start as usize..][..written.len()].copy_from_slice(&written);
    }
    bytes
}

fn transfer(file: &StagedFile, operation: Operation, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut buffer = Buffer::new(bytes.len(), 512);
    buffer.copy_from_slice(bytes);
    let (request, pending) = request(operation, offset, buffer);
    file.submit(request);
    let (outcome, buffer) = pending.recv_timeout(PATIENCE).unwrap();
    outcome.result.unwrap();
    buffer.to_vec()
}

fn record(step: u64) -> Record {
    Record {
        key: "key".to_owned(),
        base: None,
        base_bytes: 0,
        length_bytes: LENGTH,
        dirty: vec![(0, LENGTH)],
        metadata: Vec::new(),
        token: step.to_string(),
        journaled_at: UNIX_EPOCH,
    }
}

/// Journals one step after the other, and says which it has, until it is killed.
fn journal_for_ever(folder: &Path) -> ! {
    let opened = open(folder);
    let file = opened.staging.create("key");
    transfer(&file, Operation::Write, 0, &content(0));
    file.journal(&record(0)).unwrap();
    let mut said = std::io::stderr();
    for number in 1.. {
        let (start, bytes) = step(number);
        transfer(&file, Operation::Write, start, &bytes);
        file.journal(&record(number)).unwrap();
        writeln!(said, "journaled {number}").unwrap();
    }
    unreachable!("there are numbers enough");
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        journal_for_ever(Path::new(&folder));
    }
    let mut mix = Random(23);
    for round in 0..25 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "what_was_acknowledged_survives_a_kill",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let until = 1 + mix.below(12);
        let numbers = lines.map_while(Result::ok).filter_map(|line| {
            let number = line.strip_prefix("journaled ")?;
            number.parse::<u64>().ok()
        });
        let acknowledged = numbers.take_while(|number| *number < until).last();
        // It goes on meanwhile.
        std::thread::sleep(std::time::Duration::from_micros(mix.below(3000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = open(folder.path());
        let [found] = opened.journaled.as_slice() else {
            panic!("round {round}: {} files", opened.journaled.len());
        };
        let steps: u64 = found.record.token.parse().unwrap();
        assert!(
            steps >= acknowledged.unwrap_or(0).max(until),
            "round {round}"
        );
        let bytes = transfer(&found.file, Operation::Read, 0, &vec![0; LENGTH as usize]);
        assert!(bytes == content(steps), "round {round}: step {steps}");
    }
}
