//! Reading an image from its beginning to its end: what its device is asked for.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewell_cache::{Cache, CacheOptions, ReadAheadRule};
use pagewell_device::{Device, Geometry, Request};
use pagewell_fs::{Call, Credentials, FileSystem, Payload};
use pagewell_layers::Pattern;
use pagewell_source_image::{ImageFileSystem, Origin};

/// Counts requests and bytes.
struct Counting {
    inner: Pattern,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Device for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes
            .fetch_add(request.len() as u64, Ordering::Relaxed);
        self.inner.submit(request);
    }
}

/// Requests for an image of 64 MiB and bit, read in pieces of `step` bytes.
fn stream(options: CacheOptions, step: u32) -> u64 {
    let length = (64 << 20) + 1000;
    let device = Arc::new(Counting {
        inner: Pattern::new(length, 9),
        requests: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    let origin = Origin::of_memory(b"counting.img");
    let cache = Cache::new(options).unwrap();
    let image = ImageFileSystem::from_device(device.clone(), origin, &cache);
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let id = image
        .lookup(&call, &image.root(), b"counting.img")
        .unwrap()
        .id;
    let mut at = 0;
    loop {
        let reply = image.read(&call, &id, at, step).unwrap();
        let mut bytes = vec![0; reply.payload.len()];
        reply.payload.copy_to(&mut bytes, true).unwrap();
        assert!(matches!(reply.payload, Payload::Pages(_)), "at {at}");
        assert_eq!(device.inner.check(at, &bytes), Ok(()));
        at += bytes.len() as u64;
        if reply.end_of_file {
            break;
        }
    }
    assert_eq!(at, length);
    let read = device.bytes.load(Ordering::Relaxed);
    assert_eq!(read, length, "each byte once");
    device.requests.load(Ordering::Relaxed)
}

#[test]
fn a_stream_is_fetched_in_large_requests() {
    for step in [1 << 20, 128 << 10, 8192] {
        let requests = stream(CacheOptions::new(16 << 20), step);
        assert!(requests <= 256, "{requests} requests for 64 MiB by {step}");
    }
}

#[test]
fn without_the_engine_requests_are_sectors() {
    let options = CacheOptions {
        read_ahead: ReadAheadRule::Off,
        elevator: false,
        merge: false,
        free_behind: false,
        unit_bytes: 2048,
        ..CacheOptions::new(16 << 20)
    };
    let requests = stream(options, 64 << 10);
    assert_eq!(requests, (64 << 20) / 2048 + 1);
}
