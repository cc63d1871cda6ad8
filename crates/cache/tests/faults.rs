//! Devices that fail, stall, shrink: who is told, and that nobody else is.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{
    BYTES_MIN, Cache, CacheOptions, CachedDevice, Error, ReadAheadRule, ReadMode,
};
use pagewell_counters::names::CACHE_JOINED;
use pagewell_device::Error as DeviceError;
use support::Scripted;

const MIB: u64 = 1 << 20;

fn options() -> CacheOptions {
    CacheOptions {
        read_timeout: Duration::from_secs(60),
        ..CacheOptions::new(8 * MIB)
    }
}

fn open(options: CacheOptions, source: &Arc<Scripted>) -> CachedDevice {
    Cache::new(options).unwrap().open(source.clone())
}

fn read(device: &CachedDevice, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
    let mut target = vec![0; length];
    device.read_at(offset, &mut target, ReadMode::WAIT)?;
    Ok(target)
}

#[test]
fn one_request_however_many_readers() {
    let source = Scripted::new(8 * MIB);
    let device = open(options(), &source);
    source.hold();
    let joined = CACHE_JOINED.get();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (device, source) = (device.clone(), source.clone());
            scope.spawn(move || {
                let bytes = read(&device, MIB, 4096).unwrap();
                assert_eq!(source.pattern().check(MIB, &bytes), Ok(()));
            });
        }
        // Other tests count here, too: what is asserted holds however many have joined.
        while source.held() == 0 || CACHE_JOINED.get() < joined + 7 {
            std::thread::yield_now();
        }
        assert_eq!(source.requests().len(), 1);
        source.release();
    });
    assert_eq!(source.requests(), [(MIB, 4096)]);
}

#[test]
fn a_bad_place_is_an_error_to_its_reader_alone_and_can_heal() {
    let source = Scripted::new(8 * MIB);
    let off = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..options()
    };
    let device = open(off, &source);
    source.spoil(20_480..20_481);
    let error = read(&device, 0, 65_536).unwrap_err();
    let expected = DeviceError::Failed {
        device: "scripted".to_owned(),
        offset: 20_480,
        errno: rustix::io::Errno::IO,
    };
    assert_eq!(error, Error::Device(expected));
    assert_eq!(
        error.to_string(),
        "scripted: at byte 20480: Input/output error (os error 5)"
    );
    // What came before the bad place was kept; what is behind it can be read.
    let before = source.requests().len();
    let bytes = read(&device, 0, 20_480).unwrap();
    assert_eq!(source.pattern().check(0, &bytes), Ok(()));
    assert_eq!(source.requests().len(), before);
    let bytes = read(&device, 24_576, 8192).unwrap();
    assert_eq!(source.pattern().check(24_576, &bytes), Ok(()));
    assert!(read(&device, 20_000, 1000).is_err());
    source.repair();
    let bytes = read(&device, 0, 65_536).unwrap();
    assert_eq!(source.pattern().check(0, &bytes), Ok(()));
}

#[test]
fn read_ahead_into_a_bad_place_is_no_error_before_it_is_read() {
    let source = Scripted::new(8 * MIB);
    let device = open(options(), &source);
    let bad = 3 * MIB + 4096;
    source.spoil(bad..bad + 1);
    for offset in (0..8 * MIB).step_by(4096) {
        let result = read(&device, offset, 4096);
        if offset == bad {
            assert!(result.is_err());
        } else {
            assert_eq!(
                source.pattern().check(offset, &result.unwrap()),
                Ok(()),
                "{offset}"
            );
        }
    }
}

#[test]
fn a_stalled_device_fails_its_reader_in_time_and_nobody_else() {
    let source = Scripted::new(8 * MIB);
    let short = CacheOptions {
        read_timeout: Duration::from_millis(30),
        ..options()
    };
    let device = open(short, &source);
    read(&device, 4 * MIB, 4096).unwrap();
    source.hold();
    let error = read(&device, 0, 4096).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Device(DeviceError::TimedOut { offset: 0, .. })
        ),
        "{error}"
    );
    assert!(error.to_string().contains("scripted"), "{error}");
    read(&device, 4 * MIB, 4096).unwrap();
    source.release();
    let bytes = read(&device, 0, 4096).unwrap();
    assert_eq!(source.pattern().check(0, &bytes), Ok(()));
}

#[test]
fn who_may_not_wait_is_told_so_and_finds_it_later() {
    let source = Scripted::new(8 * MIB);
    let device = open(options(), &source);
    source.hold();
    let mut target = [0; 4096];
    for _ in 0..3 {
        let result = device.read_at(MIB, &mut target, ReadMode::TRY);
        assert_eq!(result, Err(Error::WouldBlock));
        assert!(matches!(
            device.pin_all(MIB, 4096, ReadMode::TRY),
            Err(Error::WouldBlock)
        ));
    }
    assert_eq!(source.requests(), [(MIB, 4096)], "it was asked for once");
    source.release();
    device.read_at(MIB, &mut target, ReadMode::TRY).unwrap();
    assert_eq!(source.pattern().check(MIB, &target), Ok(()));
}

#[test]
fn a_truncated_image_is_an_error_and_never_zeros() {
    let source = Scripted::new(8 * MIB);
    let device = open(options(), &source);
    source.truncate(2 * MIB + 1000);
    let bytes = read(&device, 2 * MIB - 4096, 4096).unwrap();
    assert_eq!(source.pattern().check(2 * MIB - 4096, &bytes), Ok(()));
    assert!(read(&device, 2 * MIB, 4096).is_err());
    assert!(read(&device, 7 * MIB, 1).is_err());
}

#[test]
fn pages_that_are_pinned_stay_and_pinning_has_an_end() {
    let source = Scripted::new(32 * MIB);
    let off = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(BYTES_MIN)
    };
    let device = open(off, &source);
    let mut pinned = Vec::new();
    let mut offset = 0;
    while let Some(pages) = device.pin_all(offset, 1 << 18, ReadMode::WAIT).unwrap() {
        pinned.push((offset, pages));
        offset += 1 << 18;
    }
    assert_eq!(offset, BYTES_MIN / 2, "half of the cache");
    for at in (8 * MIB..32 * MIB).step_by(1 << 16) {
        read(&device, at, 1 << 16).unwrap();
    }
    for (offset, pages) in &pinned {
        let mut at = *offset;
        for page in pages {
            assert_eq!(source.pattern().check(at, page.as_ref()), Ok(()));
            at += page.as_ref().len() as u64;
        }
    }
    drop(pinned);
    assert!(
        device
            .pin_all(0, 1 << 18, ReadMode::WAIT)
            .unwrap()
            .is_some()
    );
}

#[test]
fn when_every_page_is_held_a_reader_waits_and_then_gives_up() {
    let source = Scripted::new(32 * MIB);
    let short = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        read_timeout: Duration::from_millis(30),
        ..CacheOptions::new(BYTES_MIN)
    };
    let device = open(short, &source);
    let pins: Vec<_> = (0..BYTES_MIN >> 16)
        .map(|page| device.pin(page << 16, 1, ReadMode::WAIT).unwrap())
        .collect();
    let error = read(&device, 16 * MIB, 1).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    let mut target = [0];
    let result = device.read_at(16 * MIB, &mut target, ReadMode::TRY);
    assert_eq!(result, Err(Error::WouldBlock));
    drop(pins);
    read(&device, 16 * MIB, 1).unwrap();
}

#[test]
fn closing_a_device_with_requests_under_way_gives_everything_back() {
    let source = Scripted::new(32 * MIB);
    let cache = Cache::new(CacheOptions::new(BYTES_MIN)).unwrap();
    let device = cache.open(source.clone());
    source.hold();
    device.prefetch(0, MIB);
    assert!(source.held() > 0);
    drop(device);
    source.release();
    let again = cache.open(source.clone());
    // The first device left nothing behind: every place can be had at the same time.
    let pins: Vec<_> = (0..BYTES_MIN >> 16)
        .map(|page| again.pin(page << 16, 1, ReadMode::WAIT).unwrap())
        .collect();
    assert_eq!(pins.len() as u64, BYTES_MIN >> 16);
}

/// Readers that share a page with a bad place, and with one that wants it again and again.
#[test]
fn the_error_of_a_bad_place_never_reaches_those_who_share_its_request() {
    let source = Scripted::new(8 * MIB);
    let off = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..options()
    };
    source.spoil(0..1);
    for _ in 0..100 {
        let device = open(off, &source);
        source.hold();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let device = device.clone();
                scope.spawn(move || assert!(read(&device, 0, 65_536).is_err()));
            }
            while source.held() == 0 {
                std::thread::yield_now();
            }
            let (reader, pattern) = (device.clone(), source.clone());
            scope.spawn(move || {
                let bytes = read(&reader, 20_480, 4096).unwrap();
                assert_eq!(pattern.pattern().check(20_480, &bytes), Ok(()));
            });
            source.release();
        });
    }
}

#[test]
fn a_device_that_panics_fails_its_readers_and_goes_on() {
    let source = Scripted::new(8 * MIB);
    let device = open(options(), &source);
    source.panic_at(1);
    let other = device.clone();
    let panicked = std::thread::spawn(move || read(&other, MIB, 4096)).join();
    assert!(panicked.is_err(), "the panic is the caller's");
    let bytes = read(&device, MIB, 4096).unwrap();
    assert_eq!(source.pattern().check(MIB, &bytes), Ok(()));
    let bytes = read(&device, 5 * MIB, 4096).unwrap();
    assert_eq!(source.pattern().check(5 * MIB, &bytes), Ok(()));
}

#[test]
fn read_ahead_takes_a_part_of_the_memory_and_goes_on_while_there_is_more() {
    let source = Scripted::new(64 * MIB);
    let device = open(options(), &source);
    device.prefetch(0, 64 * MIB);
    let (pages, _) = device.resident_pages();
    assert!(pages <= MIB >> 16, "an eighth at a time, not {pages}");
    // Windows that nobody reads fill the rest, but never keep a reader from its own.
    for at in (0..64 * MIB).step_by(1 << 18) {
        read(&device, at, 4096).unwrap();
        read(&device, at + 4096, 4096).unwrap();
    }
    let before = device.read_ahead_counts();
    for at in (0..4 * MIB).step_by(4096) {
        read(&device, 40 * MIB + at, 4096).unwrap();
    }
    let after = device.read_ahead_counts();
    assert!(after.planned_bytes > before.planned_bytes, "{after:?}");
}
