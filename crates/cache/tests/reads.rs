//! Reads give the device's bytes, whatever the size of the cache, the mode and the order.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use pagewell_cache::{
    BYTES_MIN, Cache, CacheOptions, CachedDevice, Error, ReadAheadRule, ReadMode,
};
use pagewell_device::{Device, Geometry};
use support::{Random, Scripted};

const MIB: u64 = 1 << 20;

fn open(options: CacheOptions, device: &Arc<Scripted>) -> CachedDevice {
    Cache::new(options).unwrap().open(device.clone())
}

fn check(device: &CachedDevice, source: &Scripted, offset: u64, length: usize) {
    let mut target = vec![0; length];
    device.read_at(offset, &mut target, ReadMode::WAIT).unwrap();
    assert_eq!(
        source.pattern().check(offset, &target),
        Ok(()),
        "{length} at {offset}"
    );
}

fn every_mode() -> Vec<CacheOptions> {
    let base = CacheOptions::new(BYTES_MIN);
    vec![
        base,
        support::baseline(BYTES_MIN),
        CacheOptions {
            read_ahead: ReadAheadRule::Off,
            ..base
        },
        CacheOptions {
            elevator: false,
            ..base
        },
        CacheOptions {
            merge: false,
            ..base
        },
        CacheOptions {
            unit_bytes: 2048,
            ..base
        },
        CacheOptions {
            memory_is_file: true,
            ..base
        },
    ]
}

#[test]
fn random_and_sequential_reads_through_a_small_cache_are_right_in_every_mode() {
    for options in every_mode() {
        // Five times the cache, and not a whole number of anything.
        let source = Scripted::new(20 * MIB + 4321);
        let device = open(options, &source);
        let length = source.length_bytes();
        let mut random = Random(1);
        for _ in 0..600 {
            let offset = random.below(length);
            let wanted = 1 + random.below(200_000).min(length - offset - 1);
            check(&device, &source, offset, usize::try_from(wanted).unwrap());
        }
        let mut at = length - 6 * MIB;
        while at < length {
            let wanted = (1 + random.below(30_000)).min(length - at);
            check(&device, &source, at, usize::try_from(wanted).unwrap());
            at += wanted;
        }
        check(&device, &source, length - 1, 1);
        check(&device, &source, length, 0);
        let past = device.read_at(length, &mut [0], ReadMode::WAIT);
        assert!(matches!(past, Err(Error::Device(_))), "{past:?}");
        let past = device.read_at(u64::MAX, &mut [0; 2], ReadMode::WAIT);
        assert!(matches!(past, Err(Error::Device(_))), "{past:?}");
    }
}

#[test]
fn many_threads_read_streams_and_random_places_through_a_small_cache() {
    let source = Scripted::new(32 * MIB);
    let device = open(CacheOptions::new(BYTES_MIN), &source);
    std::thread::scope(|scope| {
        for lane in 0..4u64 {
            let (device, source) = (device.clone(), source.clone());
            scope.spawn(move || {
                let mut random = Random(lane);
                for step in 0..400 {
                    let offset = match lane {
                        0 | 1 => (lane * 12 * MIB + step * 20_000) % (31 * MIB),
                        _ => random.below(31 * MIB),
                    };
                    check(&device, &source, offset, 20_000);
                    if step % 16 == 0 {
                        let pinned = device.pin_all(offset, 100_000, ReadMode::WAIT).unwrap();
                        let mut at = offset;
                        for page in pinned.iter().flatten() {
                            let bytes: &[u8] = page.as_ref();
                            assert_eq!(source.pattern().check(at, bytes), Ok(()));
                            at += bytes.len() as u64;
                        }
                        assert!(pinned.is_none() || at == offset + 100_000);
                    }
                }
            });
        }
    });
    let (pages, full) = device.resident_pages();
    assert!(pages <= BYTES_MIN >> 16 && full <= pages, "{pages} {full}");
}

#[test]
fn the_baseline_asks_for_sectors_one_at_a_time() {
    let source = Scripted::new(MIB);
    let device = open(support::baseline(8 * MIB), &source);
    for offset in (0..MIB).step_by(8192) {
        check(&device, &source, offset, 8192);
    }
    let requests = source.requests();
    assert_eq!(requests.len(), 512);
    assert!(requests.iter().all(|(_, length)| *length == 2048));
    assert!(requests.is_sorted());
}

#[test]
fn a_random_read_fetches_no_more_than_its_chunks() {
    let source = Scripted::new(64 * MIB);
    let device = open(CacheOptions::new(8 * MIB), &source);
    check(&device, &source, 10 * MIB + 5000, 8192);
    assert_eq!(source.requests(), [(10 * MIB + 4096, 12288)]);
    // The page is met again: the rest of it comes too.
    check(&device, &source, 10 * MIB + 60_000, 100);
    assert_eq!(
        source.requests()[1..],
        [(10 * MIB, 4096), (10 * MIB + 16384, 49152)]
    );
    check(&device, &source, 10 * MIB, 65536);
    assert_eq!(source.requests().len(), 3);
}

#[test]
fn a_long_read_is_one_request_up_to_the_limit() {
    let source = Scripted::new(64 * MIB);
    let options = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(16 * MIB)
    };
    let device = open(options, &source);
    check(&device, &source, 30 * MIB, 2 << 20);
    assert_eq!(
        source.requests(),
        [(30 * MIB, 1 << 20), (31 * MIB, 1 << 20)]
    );
}

#[test]
fn blocks_are_whole_and_the_last_may_reach_past_the_end() {
    let geometry = Geometry {
        logical_block_bytes: 4096,
        ..Geometry::MEMORY
    };
    let source = Scripted::with_geometry(10_000, geometry);
    let device = open(CacheOptions::new(BYTES_MIN), &source);
    check(&device, &source, 9_999, 1);
    check(&device, &source, 0, 10_000);
    for (offset, length) in source.requests() {
        assert_eq!((offset % 4096, length % 4096), (0, 0));
    }
    assert_eq!(device.resident_pages(), (1, 1));
}

#[test]
fn a_sequential_reader_is_served_in_large_requests() {
    let source = Scripted::new(128 * MIB);
    let device = open(CacheOptions::new(64 * MIB), &source);
    for offset in (0..128 * MIB).step_by(8192) {
        check(&device, &source, offset, 8192);
    }
    let requests = source.requests().len();
    assert!(requests < 128 * 2, "{requests} requests for 128 MiB");
    let fetched: usize = source.requests().iter().map(|(_, length)| length).sum();
    assert_eq!(fetched as u64, 128 * MIB, "each byte once");
    let counts = device.read_ahead_counts();
    assert_eq!(counts.wasted_bytes, 0, "{counts:?}");
}

#[test]
fn a_stream_leaves_the_warm_set_where_it_is() {
    let warm_bytes = 4 * MIB;
    let source = Scripted::new(256 * MIB);
    let device = open(CacheOptions::new(16 * MIB), &source);
    for _ in 0..3 {
        for offset in (0..warm_bytes).step_by(4096) {
            check(&device, &source, offset, 4096);
        }
    }
    for offset in (warm_bytes..256 * MIB).step_by(32768) {
        check(&device, &source, offset, 32768);
    }
    let before = source.requests().len();
    let mut missed = 0;
    for offset in (0..warm_bytes).step_by(65536) {
        let mut target = [0; 4096];
        missed += u64::from(device.read_at(offset, &mut target, ReadMode::TRY).is_err());
    }
    let fetched = source.requests().len() - before;
    assert!(
        fetched as u64 <= warm_bytes / 65536 / 10,
        "{fetched} of the warm set were gone"
    );
    assert!(missed <= warm_bytes / 65536 / 10);
}

#[test]
fn memory_that_is_a_file_shows_what_is_pinned_and_cannot_be_written_to() {
    let source = Scripted::new(3 * MIB);
    let cache = Cache::new(CacheOptions {
        memory_is_file: true,
        ..CacheOptions::new(8 * MIB)
    });
    let cache = cache.unwrap();
    let device = cache.open(source.clone());
    let file = File::from(cache.memory_file().unwrap().try_clone_to_owned().unwrap());
    for offset in (0..3 * MIB).step_by(50_000) {
        let pinned = device.pin(offset, 8192, ReadMode::WAIT).unwrap();
        let mut shown = vec![0; pinned.len()];
        file.read_exact_at(&mut shown, pinned.memory_offset())
            .unwrap();
        assert_eq!(source.pattern().check(offset, &shown), Ok(()));
    }
    assert!(file.write_at(&[1], 0).is_err());
    assert!(file.set_len(0).is_err());
    let usual = Cache::new(CacheOptions::new(8 * MIB)).unwrap();
    assert!(usual.memory_file().is_none());
}

/// What is fetched at a time ends inside the range; what is behind that in its page is not there.
#[test]
fn long_reads_that_begin_inside_a_page_have_all_their_bytes() {
    for options in every_mode() {
        for offset in [1, 4095, 5000, 65_535, 100_000] {
            for length in [MIB + 4096, 3 * MIB / 2] {
                let source = Scripted::new(4 * MIB);
                let device = open(options, &source);
                check(&device, &source, offset, usize::try_from(length).unwrap());
                let again = open(options, &source);
                let pinned =
                    again.pin_all(offset, usize::try_from(length).unwrap(), ReadMode::WAIT);
                let mut at = offset;
                for page in pinned.unwrap().into_iter().flatten() {
                    let bytes = page.as_ref();
                    assert_eq!(source.pattern().check(at, bytes), Ok(()), "pinned at {at}");
                    at += bytes.len() as u64;
                }
            }
        }
    }
}

#[test]
fn read_ahead_is_no_more_than_stays_until_it_is_read() {
    let options = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        ..CacheOptions::new(64 * MIB)
    };
    let cache = Cache::new(options).unwrap();
    let source = Scripted::new(64 * MIB);
    let [cold, ahead] = [(); 2].map(|()| cache.open(source.clone()));
    for offset in (0..64 * MIB).step_by(65_536) {
        check(&cold, &source, offset, 65_536);
    }
    for part in 0..4 {
        ahead.prefetch(part * 4 * MIB, 4 * MIB);
    }
    assert!(ahead.resident_pages().0 > 0);
    assert_eq!(ahead.read_ahead_counts().wasted_bytes, 0);
}

/// The cache is so small that it is fetched in portions.
#[test]
fn a_random_read_in_portions_is_no_stream() {
    let source = Scripted::new(64 * MIB);
    let device = open(CacheOptions::new(BYTES_MIN), &source);
    check(&device, &source, 20 * MIB, 1 << 20);
    let counts = device.read_ahead_counts();
    assert_eq!((counts.random, counts.streams), (2, 0));
}
