//! Writers and readers at the same time.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell_cache::{BYTES_MIN, Cache, CacheOptions, CachedDevice, PagePin, ReadMode, WriteMode};
use support::Random;
use support::disk::Disk;

const MIB: u64 = 1 << 20;
const RECORD_BYTES: u64 = 512;
const WRITERS: u64 = 4;

/// A record: its place, its version and its writer's number, again and again.
fn stamp(place: u64, version: u64) -> Vec<u8> {
    let words = [place, version];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.cycle().take(RECORD_BYTES as usize).collect()
}

fn version(place: u64, record: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let pairs = record.chunks(16);
    pairs
        .map(|pair| {
            let found = word(&pair[..8]);
            assert!(found == place || found == 0, "{found} instead of {place}");
            word(&pair[8..])
        })
        .collect()
}

struct Shared {
    /// By record: the version that is complete, and the one that may be begun.
    complete: Vec<AtomicU64>,
    begun: Vec<AtomicU64>,
    stop: AtomicBool,
}

/// Reads records, and keeps some pages for a while, which may not change.
fn watch(device: &CachedDevice, shared: &Shared, mut random: Random) {
    let mut kept: Vec<(Vec<PagePin>, Vec<Vec<u8>>)> = Vec::new();
    let records = shared.complete.len() as u64;
    while !shared.stop.load(Ordering::SeqCst) {
        let record = random.below(records);
        let index = usize::try_from(record).unwrap();
        let least = shared.complete[index].load(Ordering::SeqCst);
        let mut bytes = vec![0; RECORD_BYTES as usize];
        let offset = record * RECORD_BYTES;
        device.read_at(offset, &mut bytes, ReadMode::WAIT).unwrap();
        let most = shared.begun[index].load(Ordering::SeqCst);
        for found in version(record + 1, &bytes) {
            assert!((least..=most).contains(&found), "{least} {found} {most}");
        }
        if random.below(20) > 0 {
            continue;
        }
        let start = random.below(records * RECORD_BYTES - 100_000);
        if let Some(pinned) = device.pin_all(start, 100_000, ReadMode::WAIT).unwrap() {
            let copies = pinned.iter().map(|page| page.as_ref().to_vec());
            let copies = copies.collect();
            kept.push((pinned, copies));
        }
        if kept.len() > 8 {
            let (pinned, copies) = kept.remove(0);
            for (page, copy) in pinned.iter().zip(&copies) {
                assert!(page.as_ref() == copy, "a pinned page has changed");
            }
        }
    }
}

/// Writers own every fourth record, so that they meet in pages, units and blocks; readers find in
/// each record only versions between the one complete before and the one begun after.
fn contend(length: u64, block_bytes: u32, rounds: u64) {
    let bytes = vec![0; usize::try_from(length).unwrap()];
    contend_on(&Disk::blocks(bytes, block_bytes), length, rounds, false);
}

/// On a server that forgets what was not flushed, its writers discard what they have made durable.
fn contend_on(disk: &Arc<Disk>, length: u64, rounds: u64, is_server: bool) {
    let device = Cache::new(CacheOptions::new(BYTES_MIN))
        .unwrap()
        .open(disk.clone());
    let records = length / RECORD_BYTES;
    let atomics = || (0..records).map(|_| AtomicU64::new(0)).collect();
    let shared = Arc::new(Shared {
        complete: atomics(),
        begun: atomics(),
        stop: AtomicBool::new(false),
    });
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (device, shared) = (device.clone(), shared.clone());
                scope.spawn(move || {
                    let mut random = Random(writer);
                    for round in 1..=rounds {
                        let record = random.below(records / WRITERS) * WRITERS + writer;
                        let index = usize::try_from(record).unwrap();
                        let place = record + 1;
                        shared.begun[index].store(round, Ordering::SeqCst);
                        let bytes = stamp(place, round);
                        let offset = record * RECORD_BYTES;
                        device.write_at(offset, &bytes, WriteMode::WAIT).unwrap();
                        shared.complete[index].store(round, Ordering::SeqCst);
                        if random.below(200) == 0 {
                            device.commit(offset, RECORD_BYTES).unwrap();
                        }
                        if is_server && random.below(50) == 0 {
                            device.commit(offset, RECORD_BYTES).unwrap();
                            device.discard(offset, RECORD_BYTES);
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            let (device, shared) = (device.clone(), shared.clone());
            scope.spawn(move || watch(&device, &shared, Random(100 + reader)));
        }
        if is_server {
            let shared = shared.clone();
            scope.spawn(move || {
                while !shared.stop.load(Ordering::SeqCst) {
                    disk.restart();
                    std::thread::sleep(std::time::Duration::from_millis(30));
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        shared.stop.store(true, Ordering::SeqCst);
    });
    device.sync().unwrap();
    assert_eq!(device.loss_epoch(), 0);
    let bytes = disk.bytes();
    for (index, record) in bytes.chunks_exact(RECORD_BYTES as usize).enumerate() {
        let expected = shared.complete[index].load(Ordering::SeqCst);
        let found = version(index as u64 + 1, record);
        assert!(
            found.iter().all(|version| *version == expected),
            "record {index}"
        );
    }
}

#[test]
fn records_of_many_writers_in_few_pages() {
    contend(MIB, 512, 3000);
    contend(MIB, 4096, 2000);
}

#[test]
fn records_of_many_writers_in_more_pages_than_memory() {
    contend(10 * MIB, 512, 1500);
    contend(10 * MIB, 16_384, 1000);
}

#[test]
fn records_on_a_server_that_forgets() {
    let zeros = |length: u64| vec![0; usize::try_from(length).unwrap()];
    for (length, rounds) in [(MIB, 2000), (6 * MIB, 300)] {
        let server = Disk::server(zeros(length));
        // Besides those at any time: these come between a write and its commit for certain.
        server.restart_at_flushes(3);
        contend_on(&server, length, rounds, true);
        assert!(server.replays() >= 3);
    }
}
