//! Power cuts: what was committed is there afterwards.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, WriteMode};
use pagewell_layers::PowerCut;
use support::Random;
use support::disk::Disk;

/// Records lie in sectors, which are never torn.
const RECORD_BYTES: usize = 128;
const RECORDS: usize = 4096;

/// What is known of each record.
struct Versions {
    committed: Vec<u32>,
    latest: Vec<u32>,
}

fn record(index: usize, version: u32) -> Vec<u8> {
    let place = u32::try_from(index).unwrap();
    let words = [place.wrapping_mul(version), version];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.cycle().take(RECORD_BYTES).collect()
}

/// Writes and commits at random until the power is gone; how many commits succeeded.
fn work(disk: &Arc<Disk>, commits_each: bool, seed: u64, versions: &mut Versions) -> u32 {
    let mut random = Random(seed);
    let power = PowerCut::new(disk.clone(), 1 << 20).unwrap();
    let handle = power.handle();
    handle.cut_after(random.below(40), seed);
    let options = CacheOptions {
        // Without power nothing is written any more.
        write_timeout: Duration::from_millis(20),
        // Small, so that much is written before anybody commits it.
        dirty_bytes_max: Some(4 << 16),
        ..CacheOptions::new(BYTES_MIN)
    };
    let device = Cache::new(options).unwrap().open(Arc::new(power));
    let mut commits = 0;
    let mut version = 0;
    loop {
        let first = usize::try_from(random.below(RECORDS as u64)).unwrap();
        let count = usize::try_from(1 + random.below(40)).unwrap();
        let end = (first + count).min(RECORDS);
        let offset = (first * RECORD_BYTES) as u64;
        if random.below(8) == 0 {
            let length = ((end - first) * RECORD_BYTES) as u64;
            let before = versions.latest[first..end].to_vec();
            if device.commit(offset, length).is_err() {
                break;
            }
            versions.committed[first..end].copy_from_slice(&before);
            commits += 1;
        } else {
            version += 1;
            let bytes: Vec<u8> = (first..end).flat_map(|at| record(at, version)).collect();
            // A write that fails may have been made in part.
            versions.latest[first..end].fill(version);
            if device.write_at(offset, &bytes, WriteMode::WAIT).is_err() {
                break;
            }
            if commits_each {
                if device.commit(offset, bytes.len() as u64).is_err() {
                    break;
                }
                versions.committed[first..end].fill(version);
                commits += 1;
            }
        }
        if handle.is_cut() {
            break;
        }
    }
    drop(device);
    let _ = handle.cut(seed);
    commits
}

#[test]
fn two_hundred_power_cuts_lose_nothing_that_was_committed() {
    let mut commits = 0;
    for seed in 0..200 {
        let mut disk = vec![0; RECORDS * RECORD_BYTES];
        for (index, bytes) in disk.chunks_exact_mut(RECORD_BYTES).enumerate() {
            bytes.copy_from_slice(&record(index, 0));
        }
        let block_bytes = [512, 4096][usize::try_from(seed % 2).unwrap()];
        let disk = Disk::blocks(disk, block_bytes);
        let mut versions = Versions {
            committed: vec![0; RECORDS],
            latest: vec![0; RECORDS],
        };
        commits += work(&disk, seed % 5 == 0, seed, &mut versions);
        for (index, bytes) in disk.bytes().chunks_exact(RECORD_BYTES).enumerate() {
            let version = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
            assert!(
                bytes == record(index, version),
                "seed {seed}: record {index} is torn"
            );
            let (least, most) = (versions.committed[index], versions.latest[index]);
            assert!(
                (least..=most).contains(&version),
                "seed {seed}: record {index}: {version}, not from {least} to {most}"
            );
        }
    }
    assert!(commits > 200, "{commits}");
}
