//! Writes one at a time: what reaches the device when, and what readers see.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{
    BYTES_MIN, Cache, CacheOptions, CachedDevice, Error, ReadAheadRule, ReadMode, WriteMode,
};
use pagewell_device::{Device, Geometry};
use pagewell_policy::writeback::Counts as Policy;
use support::disk::{Counts, Disk};

const MIB: u64 = 1 << 20;

fn options() -> CacheOptions {
    CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(8 * MIB)
    }
}

fn open(options: CacheOptions, disk: &Arc<Disk>) -> CachedDevice {
    Cache::new(options).unwrap().open(disk.clone())
}

fn old(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn read(device: &CachedDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut target = vec![0; length];
    device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
    target
}

#[test]
fn a_write_is_read_at_once_and_is_on_the_device_after_a_commit() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    device
        .write_at(1000, b"something", WriteMode::WAIT)
        .unwrap();
    assert_eq!(disk.counts(), Counts::default());
    assert_eq!(device.dirty_bytes(), 9);
    let mut expected = old(MIB);
    expected[1000..1009].copy_from_slice(b"something");
    assert_eq!(read(&device, 900, 300), expected[900..1200]);
    assert_eq!(disk.counts().writes, 0);
    device.commit(1000, 9).unwrap();
    assert_eq!(disk.bytes(), expected);
    let counts = disk.counts();
    assert_eq!((counts.writes, counts.write_bytes), (1, 512));
    assert_eq!((counts.durable_writes, counts.flushes), (1, 0));
    assert_eq!(device.dirty_bytes(), 0);
    device.sync().unwrap();
    assert_eq!(disk.counts(), counts, "nothing to do");
}

#[test]
fn writes_of_whole_blocks_read_nothing_and_adjacent_ones_go_together() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(CacheOptions::new(32 * MIB), &disk);
    for offset in (0..256).rev().map(|block| block * 4096) {
        device
            .write_at(offset, &[7; 4096], WriteMode::WAIT)
            .unwrap();
    }
    device.sync().unwrap();
    assert_eq!(disk.bytes(), vec![7; 1 << 20]);
    let counts = disk.counts();
    assert_eq!((counts.reads, counts.writes), (0, 1), "{counts:?}");
}

#[test]
fn a_flush_makes_many_writes_durable_at_once() {
    let disk = Disk::blocks(old(4 * MIB), 512);
    let device = open(options(), &disk);
    for offset in (0..4 * MIB).step_by(1 << 20) {
        device.write_at(offset, &[1; 512], WriteMode::WAIT).unwrap();
    }
    device.sync().unwrap();
    let counts = disk.counts();
    assert_eq!(
        (counts.writes, counts.durable_writes, counts.flushes),
        (4, 0, 1)
    );
}

/// The report: blocks of a cached file, read and written, 10,000 times.
fn seek_read_write(blocks: u64, delay: bool) -> (Counts, u64, Policy) {
    let disk = Disk::blocks(old(blocks * 8192), 512);
    let below: Arc<dyn Device> = if delay {
        use pagewell_layers::Delay;
        Arc::new(Delay::new(disk.clone(), Duration::from_millis(5)).unwrap())
    } else {
        disk.clone()
    };
    let device = Cache::new(options()).unwrap().open(below);
    let order = [0, 5, 2, 7, 4, 1, 6, 3];
    let mut block = [0; 8192];
    for round in 0..10_000_u64 {
        let place = round % blocks;
        let place = place - place % 8 + order[usize::try_from(place % 8).unwrap()];
        device
            .read_at(place * 8192, &mut block, ReadMode::WAIT)
            .unwrap();
        block[0] = block[0].wrapping_add(1);
        device
            .write_at(place * 8192, &block, WriteMode::WAIT)
            .unwrap();
    }
    let counts = disk.counts();
    let writes_in_loop = counts.writes;
    let policy = device.write_back_counts();
    device.sync().unwrap();
    (disk.counts(), writes_in_loop, policy)
}

#[test]
fn rewriting_cached_blocks_writes_nothing_until_it_is_committed() {
    let (counts, in_loop, _) = seek_read_write(8, false);
    assert_eq!(in_loop, 0);
    assert!(counts.writes <= 8 && counts.reads <= 8, "{counts:?}");
}

/// The writer never waits for a write-out, however slow the device is.
#[test]
fn a_slow_device_is_not_waited_for() {
    let (_, in_loop, policy) = seek_read_write(16, true);
    assert_eq!(in_loop, 0);
    assert_eq!((policy.paused, policy.refused), (0, 0));
    assert_eq!(policy.granted, 10_000);
    // With a write-out always on its way, too.
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    disk.hold();
    std::thread::scope(|scope| {
        let committer = device.clone();
        device.write_at(0, &[0; 8192], WriteMode::TRY).unwrap();
        let commit = scope.spawn(move || committer.sync());
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        for round in 0..1000 {
            let byte = u8::try_from(round % 251).unwrap();
            device.write_at(0, &[byte; 8192], WriteMode::TRY).unwrap();
            assert_eq!(read(&device, 0, 8192), [byte; 8192]);
        }
        disk.release();
        commit.join().unwrap().unwrap();
    });
}

#[test]
fn a_page_under_write_out_is_read_and_written_without_waiting() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    device.write_at(0, &[1; 8192], WriteMode::WAIT).unwrap();
    disk.hold();
    std::thread::scope(|scope| {
        let committer = device.clone();
        let commit = scope.spawn(move || committer.commit(0, 8192));
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(read(&device, 0, 8192), [1; 8192]);
        device.write_at(0, &[2; 8192], WriteMode::TRY).unwrap();
        assert_eq!(read(&device, 0, 8192), [2; 8192]);
        disk.release();
        commit.join().unwrap().unwrap();
    });
    assert_eq!(
        disk.bytes()[..8192],
        [1; 8192],
        "the commit was of what came before it"
    );
    device.sync().unwrap();
    assert_eq!(disk.bytes()[..8192], [2; 8192]);
}

/// Two small writes of one block, the second while the first is on its way: the device gets them
/// one after the other (the disk checks that).
#[test]
fn writes_of_one_block_go_one_after_the_other() {
    let disk = Disk::blocks(old(MIB), 4096);
    let device = open(options(), &disk);
    read(&device, 0, 4096);
    device.write_at(10, &[1; 10], WriteMode::WAIT).unwrap();
    disk.hold();
    std::thread::scope(|scope| {
        let first = device.clone();
        let first = scope.spawn(move || first.commit(0, 100));
        while disk.held_writes() == 0 {
            std::thread::yield_now();
        }
        device.write_at(30, &[2; 10], WriteMode::WAIT).unwrap();
        let second = device.clone();
        let second = scope.spawn(move || second.commit(0, 100));
        std::thread::sleep(Duration::from_millis(20));
        // Nothing fails before the disk goes on: who waits for it would wait for ever.
        let held = disk.held_writes();
        disk.release();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
        assert_eq!(held, 1);
    });
    let bytes = disk.bytes();
    assert_eq!(
        (&bytes[10..20], &bytes[30..40]),
        (&[1; 10][..], &[2; 10][..])
    );
}

#[test]
fn what_is_pinned_does_not_change() {
    use pagewell_counters::names::CACHE_DETACHED_PAGES;
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    let before = CACHE_DETACHED_PAGES.get();
    let owned = device
        .pin_all(100, 100_000, ReadMode::WAIT)
        .unwrap()
        .unwrap();
    let pinned = device.pin(100, 1000, ReadMode::WAIT).unwrap();
    device.write_at(0, &[9; 200_000], WriteMode::TRY).unwrap();
    assert!(CACHE_DETACHED_PAGES.get() >= before + 2);
    let bytes: Vec<u8> = owned
        .iter()
        .flat_map(|page| page.as_ref().to_vec())
        .collect();
    assert_eq!(bytes, old(MIB)[100..100_100]);
    assert_eq!(pinned[..], old(MIB)[100..1100]);
    assert_eq!(read(&device, 0, 200_000), vec![9; 200_000]);
    // Whoever holds the new ones is left alone in turn.
    let again = device.pin_all(0, 65_536, ReadMode::WAIT).unwrap().unwrap();
    device.write_at(5, b"x", WriteMode::TRY).unwrap();
    assert_eq!(again[0].as_ref(), vec![9; 65_536]);
    drop((owned, pinned, again));
    device.sync().unwrap();
    assert_eq!(disk.bytes(), read(&device, 0, 1 << 20));
}

/// The page is detached because of its first unit; of another only some bytes are known.
#[test]
fn a_detached_page_takes_its_dirty_bytes_along() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    let mut expected = old(MIB);
    device
        .write_at(16_484, b"something", WriteMode::WAIT)
        .unwrap();
    expected[16_484..16_493].copy_from_slice(b"something");
    let pinned = device.pin_all(0, 4096, ReadMode::WAIT).unwrap().unwrap();
    device.write_at(10, b"else", WriteMode::TRY).unwrap();
    expected[10..14].copy_from_slice(b"else");
    assert_eq!(pinned[0].as_ref(), &old(4096)[..]);
    assert_eq!(read(&device, 0, 65_536), expected[..65_536]);
    device.sync().unwrap();
    assert_eq!(disk.bytes(), expected);
}

/// A reader waits in a page that is detached meanwhile, and what it waits for fails: where it
/// tries again are all the bytes that were written before it came.
#[test]
fn a_reader_leaves_a_detached_page_when_it_tries_again() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    let mut expected = old(MIB);
    read(&device, 0, 4096);
    device
        .write_at(8292, b"something", WriteMode::WAIT)
        .unwrap();
    expected[8292..8301].copy_from_slice(b"something");
    disk.hold();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&device, 4096, 8192));
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        device.write_at(10, b"else", WriteMode::TRY).unwrap();
        disk.fail_reads(1);
        disk.release();
        assert_eq!(reader.join().unwrap(), expected[4096..12_288]);
    });
    assert_eq!(read(&device, 4096, 8192), expected[4096..12_288]);
}

#[test]
fn detached_pages_come_back() {
    let disk = Disk::blocks(old(16 * MIB), 512);
    let device = open(CacheOptions::new(BYTES_MIN), &disk);
    for round in 0..2000_u64 {
        let offset = round * 65_536 % (16 * MIB);
        let pinned = device.pin_all(offset, 65_536, ReadMode::WAIT).unwrap();
        device.write_at(offset, &[3; 100], WriteMode::WAIT).unwrap();
        drop(pinned);
    }
    device.sync().unwrap();
    assert_eq!(read(&device, 0, 100), [3; 100]);
}

#[test]
fn a_writer_that_may_not_wait_is_told() {
    let disk = Disk::blocks(old(4 * MIB), 512);
    let device = open(options(), &disk);
    disk.hold();
    // On its way from the device.
    let missed = device.read_at(0, &mut [0; 4096], ReadMode::TRY);
    assert_eq!(missed, Err(Error::WouldBlock));
    let waits = device.write_at(0, &[1; 10], WriteMode::TRY);
    assert_eq!(waits, Err(Error::WouldBlock));
    // A part of the page that is not.
    device.write_at(16_384, &[1; 10], WriteMode::TRY).unwrap();
    disk.release();
    device.write_at(0, &[1; 10], WriteMode::TRY).unwrap();
    // Over the limit while nothing can be written.
    disk.hold();
    let mut offset = 0;
    while offset < 4 * MIB
        && device
            .write_at(offset, &[2; 65_536], WriteMode::TRY)
            .is_ok()
    {
        offset += 65_536;
    }
    assert!(offset < 4 * MIB && device.dirty_pages() * 65_536 <= 8 * MIB / 5 + 65_536);
    disk.release();
}

#[test]
fn dropping_a_device_commits_it() {
    let disk = Disk::blocks(old(MIB), 512);
    let device = open(options(), &disk);
    let other = device.clone();
    device
        .write_at(1000, &[5; 100_000], WriteMode::WAIT)
        .unwrap();
    drop(device);
    assert_eq!(disk.counts().writes, 0, "another thread has it still");
    drop(other);
    let mut expected = old(MIB);
    expected[1000..101_000].fill(5);
    assert_eq!(disk.bytes(), expected);
    let counts = disk.counts();
    assert!(counts.flushes + counts.durable_writes > 0);
}

#[test]
fn nothing_can_be_written_past_the_end() {
    let disk = Disk::blocks(old(10_000), 512);
    let device = open(options(), &disk);
    for (offset, length) in [(9_999, 2), (10_000, 1), (u64::MAX, 1), (u64::MAX - 1, 1)] {
        let result = device.write_at(offset, &vec![0; length], WriteMode::WAIT);
        assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    }
    device.write_at(10_000, &[], WriteMode::WAIT).unwrap();
    device.write_at(9_999, &[77], WriteMode::WAIT).unwrap();
    device.commit(0, u64::MAX).unwrap();
    let mut expected = old(10_000);
    expected[9_999] = 77;
    assert_eq!(disk.bytes(), expected);
    assert_eq!(read(&device, 9_990, 10), expected[9_990..]);
}

#[test]
fn many_small_ranges_in_a_unit_are_filled() {
    let disk = Disk::new("memory", old(MIB), Geometry::MEMORY);
    let device = open(options(), &disk);
    let mut expected = old(MIB);
    for at in (0..4096).step_by(16) {
        device.write_at(at, &[1], WriteMode::WAIT).unwrap();
        expected[usize::try_from(at).unwrap()] = 1;
    }
    assert_eq!(disk.counts().reads, 1);
    device.sync().unwrap();
    assert_eq!(disk.bytes(), expected);
}

#[test]
fn scattered_ranges_of_blocks_in_memory_go_together() {
    let disk = Disk::blocks(old(10 * 65_536 + 100), 512);
    let device = open(options(), &disk);
    let mut expected = old(10 * 65_536 + 100);
    assert_eq!(read(&device, 0, expected.len()), expected);
    for at in (0..20_000).step_by(20).chain([655_370, 655_400, 655_450]) {
        device.write_at(at, &[1; 10], WriteMode::WAIT).unwrap();
        let at = usize::try_from(at).unwrap();
        expected[at..at + 10].fill(1);
    }
    device.sync().unwrap();
    assert_eq!(disk.bytes(), expected);
    let counts = disk.counts();
    assert_eq!((counts.writes, counts.write_bytes), (2, 40 * 512 + 512));
    assert_eq!(device.dirty_bytes(), 0);
}

/// The limit of dirty memory changes while it is used: a lower one stops writers where it is, and a
/// higher one lets them go on, though the device takes nothing.
#[test]
fn the_limit_of_dirty_memory_changes_at_any_time() {
    const PAGE: u64 = pagewell_cache::PAGE_BYTES as u64;
    let disk = Disk::new("disk", vec![0; 8 << 20], Geometry::MEMORY);
    let device = open(options(), &disk);
    device.dirty_limit().set(Some(4 * PAGE));
    disk.hold();
    let page = vec![1; pagewell_cache::PAGE_BYTES];
    let write = |number: u64, mode| device.write_at(number * PAGE, &page, mode);
    let refused = (0..20).find(|number| write(*number, WriteMode::TRY).is_err());
    assert!((1..=4).contains(&refused.unwrap()), "{refused:?}");
    assert!(device.dirty_pages() <= 4, "{}", device.dirty_pages());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (20..30).try_for_each(|number| write(number, WriteMode::WAIT)));
        device.dirty_limit().set(None);
        writer.join().unwrap().unwrap();
    });
    assert!(device.dirty_pages() >= 10, "{}", device.dirty_pages());
    disk.release();
    device.sync().unwrap();
}
