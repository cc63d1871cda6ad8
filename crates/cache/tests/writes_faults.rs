//! Devices that do not take what was written: who is told, what stays, what is lost.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{
    Cache, CacheOptions, CachedDevice, Error, OpenOptions, ReadAheadRule, ReadMode, WriteMode,
};
use pagewell_counters::names::CACHE_FLUSHES_SHARED;
use pagewell_device::{Error as DeviceError, Geometry};
use support::disk::Disk;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 65_536;

fn options() -> CacheOptions {
    CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(16 * MIB)
    }
}

/// How long a device that does nothing is waited for in tests that wait for that: longer than a
/// busy machine keeps a thread from running.
const SHORT: Duration = Duration::from_secs(2);

/// A device beside one that is waited for so long.
fn open_patiently(cache: &Cache, disk: &Arc<Disk>) -> CachedDevice {
    let options = OpenOptions {
        write_timeout: Duration::from_secs(60),
        ..cache.open_options()
    };
    cache.open_with(disk.clone(), options)
}

fn write(device: &CachedDevice, offset: u64, byte: u8, length: usize) -> Result<(), Error> {
    device.write_at(offset, &vec![byte; length], WriteMode::WAIT)
}

#[test]
fn a_device_that_fails_stops_nobody_else_and_is_written_when_it_is_well() {
    let short = CacheOptions {
        write_timeout: SHORT,
        dirty_bytes_max: Some(20 * PAGE),
        ..options()
    };
    let cache = Cache::new(short).unwrap();
    let broken = Disk::new("broken", vec![0; 8 << 20], Geometry::MEMORY);
    let well = Disk::new("well", vec![0; 8 << 20], Geometry::MEMORY);
    let (bad, good) = (cache.open(broken.clone()), open_patiently(&cache, &well));
    broken.fail(1000, 0);
    // Its writers go on until memory for it is used up.
    let mut offset = 0;
    let refused = loop {
        match write(&bad, offset, 1, 4096) {
            Ok(()) => offset += PAGE,
            Err(error) => break error,
        }
        assert!(offset < 8 * MIB);
    };
    let expected = Error::Full {
        device: "broken".to_owned(),
        offset,
        seconds: SHORT.as_secs(),
    };
    assert_eq!(refused, expected);
    assert!(bad.dirty_pages() <= 20, "{}", bad.dirty_pages());
    // They learn it at a commit, at once.
    assert!(matches!(bad.commit(0, 10), Err(Error::Device(_))));
    assert!(matches!(bad.sync(), Err(Error::Device(_))));
    assert_eq!(bad.loss_epoch(), 0, "nothing is lost");
    let mut byte = [0];
    bad.read_at(PAGE, &mut byte, ReadMode::WAIT).unwrap();
    assert_eq!(byte, [1]);
    // Others do not notice.
    for offset in (0..8 * MIB).step_by(1 << 16) {
        write(&good, offset, 2, 65_536).unwrap();
    }
    good.sync().unwrap();
    assert!(well.bytes() == vec![2; 8 << 20]);
    broken.fail(0, 0);
    bad.sync().unwrap();
    let bytes = broken.bytes();
    for at in (0..offset).step_by(1 << 16) {
        let at = usize::try_from(at).unwrap();
        assert_eq!(bytes[at..at + 4096], [1; 4096]);
    }
    write(&bad, offset, 1, 4096).unwrap();
}

/// Room is not made by waiting. The time that the device has is not used up.
#[test]
fn writers_of_a_device_without_room_learn_of_it_soon_and_go_on_when_it_has_some() {
    let patient = CacheOptions {
        write_timeout: Duration::from_secs(3600),
        dirty_bytes_max: Some(20 * PAGE),
        ..options()
    };
    let disk = Disk::new("full", vec![0; 8 << 20], Geometry::MEMORY);
    let device = Cache::new(patient).unwrap().open(disk.clone());
    disk.fill(true);
    let mut offsets = (0..8 * MIB).step_by(65_536);
    let mut refused = || {
        let first = offsets.find_map(|at| write(&device, at, 1, 65_536).err());
        first.expect("a refusal")
    };
    for _ in 0..2 {
        let Error::Device(DeviceError::Failed { errno, .. }) = refused() else {
            panic!("another error");
        };
        assert_eq!(errno.raw_os_error(), 28, "ENOSPC");
    }
    disk.fill(false);
    write(&device, 0, 2, 8 << 20).unwrap();
    device.sync().unwrap();
    assert!(disk.bytes() == vec![2; 8 << 20]);
}

#[test]
fn a_write_that_failed_and_was_made_again_is_no_loss() {
    let disk = Disk::blocks(vec![0; 1 << 20], 512);
    let device = Cache::new(options()).unwrap().open(disk.clone());
    disk.fail(1000, 0);
    write(&device, 0, 1, 512).unwrap();
    assert!(device.sync().is_err());
    disk.fail(0, 0);
    device.sync().unwrap();
    assert_eq!(disk.bytes()[..512], [1; 512]);
    assert_eq!(device.loss_epoch(), 0);
}

#[test]
fn a_flush_that_failed_is_told_to_all_whose_writes_it_was_for() {
    let disk = Disk::blocks(vec![0; 1 << 20], 512);
    let device = Cache::new(options()).unwrap().open(disk.clone());
    for place in 0..4 {
        write(&device, place * 8192, 1, 4096).unwrap();
    }
    // Of this unit memory has only what is dirty, and nothing once it is written.
    write(&device, 5 * 8192, 1, 512).unwrap();
    // The device throws away what it has not made durable, as it may; memory still has it, so it is
    // written again, by the next commit of anybody.
    disk.fail(0, 1000);
    disk.lose_at_flush(0..1 << 20);
    let lost = device.commit(0, 65_536);
    let Err(Error::Lost { device: name, .. }) = &lost else {
        panic!("{lost:?}");
    };
    assert_eq!(name, "disk");
    assert_eq!(device.loss_epoch(), 1);
    disk.fail(0, 0);
    write(&device, 0, 2, 512).unwrap();
    device.commit(0, 8192).unwrap();
    device.commit(8192, 32_768).unwrap();
    assert!(matches!(device.sync(), Err(Error::Lost { .. })));
    write(&device, 5 * 8192, 4, 512).unwrap();
    device.sync().unwrap();
    let bytes = disk.bytes();
    assert_eq!(bytes[..512], [2; 512]);
    for place in 1..4 {
        assert_eq!(bytes[place * 8192..][..512], [1; 512], "{place}");
    }
    assert_eq!(device.loss_epoch(), 1);

    // One whose bytes had been written for another's commit.
    write(&device, 0, 3, 512).unwrap();
    write(&device, 8192, 3, 512).unwrap();
    disk.hold_flushes();
    let shared = CACHE_FLUSHES_SHARED.get();
    std::thread::scope(|scope| {
        let device = &device;
        let first = scope.spawn(|| device.sync());
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        let others = [(0, 512), (8192, 512), (0, 1 << 20)];
        let others = others.map(|(at, length)| scope.spawn(move || device.commit(at, length)));
        while CACHE_FLUSHES_SHARED.get() < shared + 3 {
            std::thread::yield_now();
        }
        disk.fail(0, 1000);
        disk.release();
        assert!(first.join().unwrap().is_err());
        for other in others {
            assert!(
                other.join().unwrap().is_err(),
                "it waited for the same flush"
            );
        }
    });
    disk.fail(0, 0);
    device.sync().unwrap();
    assert_eq!(device.loss_epoch(), 2);
}

#[test]
fn those_who_commit_at_the_same_time_share_a_flush() {
    const COMMITTERS: u64 = 7;
    let disk = Disk::blocks(vec![0; 1 << 20], 512);
    let device = Cache::new(options()).unwrap().open(disk.clone());
    write(&device, 0, 1, 512).unwrap();
    write(&device, 8192, 1, 512).unwrap();
    disk.hold_flushes();
    std::thread::scope(|scope| {
        let first = device.clone();
        scope.spawn(move || first.commit(0, 16_384).unwrap());
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        for place in 1..=COMMITTERS {
            let device = device.clone();
            scope.spawn(move || {
                write(&device, place * PAGE, 2, 512).unwrap();
                device.commit(place * PAGE, 512).unwrap();
            });
        }
        while disk.counts().writes < 2 + COMMITTERS {
            std::thread::yield_now();
        }
        disk.release();
    });
    // Those whose writes ended before the flush was released need one more, all together; who
    // was slow to come back from its write may need another.
    let flushes = disk.counts().flushes;
    assert!((2..=3).contains(&flushes), "{flushes}");
}

#[test]
fn what_cannot_be_written_at_the_end_is_counted_as_lost() {
    use pagewell_counters::names::{CACHE_DIRTY_BYTES, CACHE_LOST_BYTES};
    let disk = Disk::new("hopeless", vec![0; 1 << 20], Geometry::MEMORY);
    let cache = Cache::new(options()).unwrap();
    let device = cache.open(disk.clone());
    write(&device, 0, 1, 100_000).unwrap();
    let pinned = device.pin_all(0, 1000, ReadMode::WAIT).unwrap().unwrap();
    disk.fail(1000, 0);
    let before = CACHE_LOST_BYTES.get();
    drop(device);
    assert!(CACHE_LOST_BYTES.get() >= before + 34_464);
    assert_eq!(pinned[0].as_ref(), [1; 1000]);
    drop(pinned);
    let _ = CACHE_DIRTY_BYTES.get();
    // Its memory is free for others.
    let other = Disk::new("other", vec![3; 20 << 20], Geometry::MEMORY);
    let other = cache.open(other);
    let mut target = vec![0; 16 << 20];
    other.read_at(0, &mut target, ReadMode::WAIT).unwrap();
    assert!(target == vec![3; 16 << 20]);
}

#[test]
fn a_device_that_does_not_answer_is_given_up_in_time() {
    let short = CacheOptions {
        write_timeout: SHORT,
        ..options()
    };
    let disk = Disk::blocks(vec![0; 1 << 20], 512);
    let device = Cache::new(short).unwrap().open(disk.clone());
    write(&device, 0, 1, 512).unwrap();
    disk.hold();
    for _ in 0..2 {
        let result = device.sync();
        let expected = pagewell_device::Error::TimedOut {
            device: "disk".to_owned(),
            offset: 0,
            seconds: SHORT.as_secs(),
        };
        assert_eq!(result, Err(Error::Device(expected)));
    }
    disk.release();
    device.sync().unwrap();
    assert_eq!(disk.bytes()[..512], [1; 512]);
}

/// A page that is being written out where a read error keeps a block from being completed.
#[test]
fn a_block_that_cannot_be_read_cannot_be_written_in_part() {
    let source = support::Scripted::with_geometry(
        MIB,
        Geometry {
            logical_block_bytes: 4096,
            memory_alignment_bytes: 512,
            ..Geometry::MEMORY
        },
    );
    let device = Cache::new(options()).unwrap().open(source.clone());
    source.spoil(5000..5001);
    write(&device, 4100, 1, 10).unwrap();
    let result = device.sync();
    assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    assert!(Arc::strong_count(&source) > 1 && device.dirty_bytes() == 10);
    // The whole block can.
    write(&device, 4096, 1, 4096).unwrap();
    let _ = device.sync();
    assert_eq!(source.requests().last(), Some(&(4096, 4096)));
}

#[test]
fn a_device_that_panics_at_one_write_gets_the_others_later() {
    let disk = Disk::blocks(vec![0; 8 << 20], 512);
    let short = CacheOptions {
        write_timeout: Duration::from_secs(60),
        ..options()
    };
    let device = Cache::new(short).unwrap().open(disk.clone());
    for place in 0..4 {
        write(&device, place * MIB, 1, 512).unwrap();
    }
    disk.panic_at_write();
    let other = device.clone();
    let panicked = std::thread::spawn(move || other.sync()).join();
    assert!(panicked.is_err(), "the panic is the caller's");
    device.sync().unwrap();
    let bytes = disk.bytes();
    for place in 0..4 {
        assert_eq!(bytes[place << 20..][..512], [1; 512], "{place}");
    }
    assert_eq!((device.dirty_bytes(), device.dirty_pages()), (0, 0));
}

#[test]
fn devices_that_are_stuck_leave_the_others_their_part_of_the_memory() {
    let options = CacheOptions {
        write_timeout: SHORT,
        dirty_bytes_max: Some(8 * MIB),
        ..options()
    };
    let cache = Cache::new(options).unwrap();
    let stuck: Vec<_> = (0..3)
        .map(|_| {
            let disk = Disk::new("stuck", vec![0; 16 << 20], Geometry::MEMORY);
            disk.fail(1000, 0);
            cache.open(disk)
        })
        .collect();
    for device in &stuck {
        let full = (0..256).find_map(|page| write(device, page * PAGE, 1, 100).err());
        assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
    }
    let pages = || -> u64 { stuck.iter().map(|device| device.dirty_pages()).sum() };
    assert!(pages() <= 128, "{}", pages());
    // The one that is well has what is for certain, and writes far more than that.
    let well = Disk::new("well", vec![0; 32 << 20], Geometry::MEMORY);
    let device = open_patiently(&cache, &well);
    for page in 0..512 {
        write(&device, page * PAGE, 7, 65_536).unwrap();
        assert!(device.dirty_pages() <= 16, "{}", device.dirty_pages());
    }
    device.sync().unwrap();
    assert!(well.bytes() == vec![7; 32 << 20]);
}

#[test]
fn a_commit_whose_own_write_hangs_is_over_in_time_whatever_others_do() {
    let short = CacheOptions {
        write_timeout: SHORT,
        ..options()
    };
    let cache = Cache::new(short).unwrap();
    let disk = Disk::new("disk", vec![0; 8 << 20], Geometry::MEMORY);
    let device = cache.open(disk.clone());
    write(&device, 0, 1, 4096).unwrap();
    disk.hold();
    std::thread::scope(|scope| {
        let hung = scope.spawn(|| device.commit(0, 4096));
        while disk.held() == 0 {
            std::thread::yield_now();
        }
        disk.keep_held();
        // Others make progress all the time.
        let mut byte = 0;
        while !hung.is_finished() {
            write(&device, 4 * MIB, byte, 4096).unwrap();
            device.write_out(4 * MIB, 4096).unwrap();
            byte = byte.wrapping_add(1);
        }
        let result = hung.join().unwrap();
        assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    });
    disk.release();
    device.sync().unwrap();
    assert_eq!(disk.bytes()[..4096], [1; 4096]);
}

#[test]
fn a_device_that_is_given_up_ends_every_wait() {
    let patient = CacheOptions {
        write_timeout: Duration::MAX,
        read_timeout: Duration::MAX,
        dirty_bytes_max: Some(2 * PAGE),
        ..options()
    };
    let cache = Cache::new(patient).unwrap();
    let disk = Disk::new("disk", vec![0; 8 << 20], Geometry::MEMORY);
    let device = cache.open(disk.clone());
    write(&device, 0, 1, 4096).unwrap();
    disk.hold();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| device.sync());
        let reader = scope.spawn(|| device.read_at(MIB, &mut [0; 10], ReadMode::WAIT));
        let writer = scope.spawn(|| {
            let pages = 20..40;
            { pages }.find_map(|page| write(&device, page * PAGE, 1, 4096).err())
        });
        while disk.held() < 2 || device.dirty_pages() < 2 {
            std::thread::yield_now();
        }
        let lost = device.close_within(Duration::from_millis(200));
        assert!(lost > 4096, "{lost}");
        let is_abandoned = |error: Option<Error>| matches!(error, Some(Error::Device(_)));
        assert!(is_abandoned(commit.join().unwrap().err()));
        assert!(is_abandoned(reader.join().unwrap().err()));
        assert!(is_abandoned(writer.join().unwrap()));
    });
    assert!(write(&device, 0, 1, 10).is_err());
    assert_eq!(device.abandon(), 0);
    disk.release();
}

/// What a failed flush has lost is dirty again only as far as there is room for it.
#[test]
fn a_device_whose_flush_fails_takes_no_more_memory_than_its_part() {
    let options = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(4 * MIB)
    };
    let cache = Cache::new(options).unwrap();
    let disk = Disk::new("sick", vec![0; 4 << 20], Geometry::MEMORY);
    let bad = cache.open(disk.clone());
    let other = cache.open(Disk::new("other", vec![3; 4 << 20], Geometry::MEMORY));
    for page in 0..64 {
        write(&bad, page * PAGE, 1, 65_536).unwrap();
    }
    bad.write_out(0, 4 * MIB).unwrap();
    disk.fail(1000, 1000);
    assert!(bad.sync().is_err());
    assert!(bad.dirty_pages() <= 32, "{}", bad.dirty_pages());
    let mut byte = [0];
    other.read_at(0, &mut byte, ReadMode::WAIT).unwrap();
    assert_eq!(byte, [3]);
}

/// The same device is well again before its memory is used for anything else: a commit makes good
/// all of what was lost, portion by portion.
#[test]
fn what_was_lost_and_had_no_room_is_written_by_the_next_commit() {
    let cache = Cache::new(options()).unwrap();
    let disk = Disk::new("disk", vec![0; 15 << 20], Geometry::MEMORY);
    let device = cache.open(disk.clone());
    for page in 0..240 {
        write(&device, page * PAGE, 1, 65_536).unwrap();
    }
    device.write_out(0, 15 * MIB).unwrap();
    disk.fail(0, 1000);
    disk.lose_at_flush(0..15 << 20);
    assert!(device.sync().is_err());
    disk.fail(0, 0);
    assert!(device.dirty_pages() < 240, "{}", device.dirty_pages());
    device.sync().unwrap();
    assert!(disk.bytes() == vec![1; 15 << 20]);
}

/// Memory has the first unit, and of the second nothing any more once it is written.
#[test]
fn a_unit_that_memory_has_not_does_not_keep_another_from_being_written_again() {
    let disk = Disk::blocks(vec![0; 1 << 20], 512);
    let device = Cache::new(options()).unwrap().open(disk.clone());
    write(&device, 0, 1, 4096 + 512).unwrap();
    device.write_out(0, PAGE).unwrap();
    disk.fail(0, 1000);
    disk.lose_at_flush(0..1 << 20);
    assert!(device.sync().is_err());
    disk.fail(0, 0);
    device.commit(0, 4096).unwrap();
    assert_eq!(disk.bytes()[..4096], [1; 4096]);
    assert!(matches!(device.commit(4096, 512), Err(Error::Lost { .. })));
}

/// Bytes between those that were written are not lost with them.
#[test]
fn a_flush_that_fails_loses_nothing_that_was_not_written() {
    let disk = Disk::new("disk", vec![0; 4 << 20], Geometry::MEMORY);
    let device = Cache::new(options()).unwrap().open(disk.clone());
    let write_all = || {
        for place in 0..4200 {
            write(&device, place * 512, 1, 1).unwrap();
        }
    };
    write_all();
    device.write_out(0, 4 * MIB).unwrap();
    disk.fail(0, 1000);
    assert!(device.sync().is_err());
    disk.fail(0, 0);
    write_all();
    device.sync().unwrap();
}

/// It takes a page in a fiftieth of the time after which a device is dead, so of so many writers
/// some wait for longer than that.
#[test]
fn a_slow_device_fails_no_writer() {
    // A busy machine may hold up the device itself for that long: then slower, all the same.
    let are_well = (0..6).any(|doublings| are_writers_well(Duration::from_secs(1 << doublings)));
    assert!(are_well, "at no speed");
}

/// Whether all writers to a device have written that is dead after so long.
fn are_writers_well(timeout: Duration) -> bool {
    const WRITERS: u64 = 64;
    let short = CacheOptions {
        write_timeout: timeout,
        dirty_bytes_max: Some(MIB),
        ..options()
    };
    let disk = Disk::new("slow", vec![0; 16 << 20], Geometry::MEMORY);
    let device = &Cache::new(short).unwrap().open(disk.clone());
    disk.hold();
    let are_well = std::thread::scope(|scope| {
        let write_two = |writer| {
            // Apart, so that each page is a request.
            [writer, writer + WRITERS].map(|page| write(device, 2 * page * PAGE, 1, 65_536).is_ok())
        };
        let writers = (0..WRITERS).map(|writer| scope.spawn(move || write_two(writer)));
        let writers: Vec<_> = writers.collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            std::thread::sleep(timeout / 50);
            disk.release_one();
        }
        let written = writers.into_iter().map(|writer| writer.join().unwrap());
        written.flatten().all(|is_well| is_well)
    });
    disk.release();
    are_well
}
