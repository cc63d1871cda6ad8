//! Tests of commits against what happens beside them.

#![allow(clippy::unwrap_used)] // tests

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_device::{Device, Error as DeviceError, Geometry, Operation, RamDevice, Request};
use rustix::io::Errno;

use crate::dirty::set::close_wait;
use crate::page::Part;
use crate::sync::Mutex;
use crate::write::Piece;
use crate::{Cache, CacheOptions, CachedDevice, WriteMode};

const PAGE: u64 = 65_536;
const MIB: u64 = 1 << 20;

fn open(device: Arc<dyn Device>) -> (Cache, CachedDevice) {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(device);
    (cache, device)
}

/// Writes wait when that is wanted; the first flush fails.
#[derive(Default)]
struct Faulty {
    holds: AtomicBool,
    held: Mutex<VecDeque<Request>>,
    failed: AtomicBool,
    /// How long a write takes.
    write_time: Mutex<Duration>,
}

impl Device for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn length_bytes(&self) -> u64 {
        MIB
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
    fn submit(&self, request: Request) {
        let is_flush = request.operation() == Operation::Flush;
        if is_flush && !self.failed.swap(true, Ordering::SeqCst) {
            let (device, offset, errno) = ("faulty".to_owned(), 0, Errno::IO);
            let error = DeviceError::Failed {
                device,
                offset,
                errno,
            };
            return request.fail(0, error);
        }
        if request.operation() == Operation::Write && self.holds.load(Ordering::SeqCst) {
            return self.held.lock().push_back(request);
        }
        if request.operation() == Operation::Write {
            let write_time = *self.write_time.lock();
            std::thread::sleep(write_time);
        }
        request.succeed();
    }
}

/// A flush has failed, and one page of two that it has lost is dirty again. A commit that begins
/// now is good only if the other page is durable too.
#[test]
fn a_commit_waits_until_all_that_was_lost_is_dirty_again() {
    let faulty = Arc::new(Faulty::default());
    let (_cache, device) = open(faulty.clone());
    let both = vec![1; 2 * 65_536];
    device.write_at(0, &both, WriteMode::WAIT).unwrap();
    device.write_out(0, MIB).unwrap();
    let own = device.reader().own();
    let second = own.pages().lock_page(own.layout().key(1));
    faulty.holds.store(true, Ordering::SeqCst);
    let results = std::thread::scope(|scope| {
        let first = scope.spawn(|| device.commit(0, MIB));
        while device.loss_epoch() == 0 || !device.has_dirty(0, PAGE) {
            std::thread::yield_now();
        }
        let other = scope.spawn(|| device.commit(0, MIB));
        // It has written the page that is dirty again, or it waits for the other.
        for _ in 0..100 {
            if faulty.held.lock().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(second);
        while !device.has_dirty(PAGE, PAGE) {
            std::thread::yield_now();
        }
        faulty.holds.store(false, Ordering::SeqCst);
        let held = std::mem::take(&mut *faulty.held.lock());
        held.into_iter().for_each(Request::succeed);
        let other = other.join().unwrap();
        let is_durable = !device.has_dirty(0, MIB) && !device.has_unflushed(0, MIB);
        (first.join().unwrap(), other, is_durable)
    });
    let (first, other, is_durable) = results;
    assert!(first.is_err(), "its flush has failed");
    assert!(other.is_err() || is_durable, "reported as durable");
    device.sync().unwrap();
}

/// Little may be dirty, so what was lost is written again in small parts: in all that takes longer
/// than a commit is patient, but it goes on.
#[test]
fn a_commit_has_patience_as_long_as_what_was_lost_becomes_less() {
    // A busy machine may hold up the device itself for that long: then slower, all the same.
    let patiences = (0..8).map(|doublings| Duration::from_millis(500 << doublings));
    let lost: Vec<u64> = patiences
        .map(lost_when_closed)
        .take_while(|bytes| *bytes > 0)
        .collect();
    assert!(lost.len() < 8, "{lost:?}");
}

/// What is lost of 16 pages that a flush has lost, when each takes a fifth of the patience.
fn lost_when_closed(patience: Duration) -> u64 {
    let faulty = Arc::new(Faulty::default());
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let mut options = cache.open_options();
    options.dirty_bytes_max = Some(PAGE);
    let device = cache.open_with(faulty.clone(), options);
    for page in 0..16 {
        let bytes = vec![1; 65_536];
        device
            .write_at(page * PAGE, &bytes, WriteMode::WAIT)
            .unwrap();
    }
    *faulty.write_time.lock() = patience / 5;
    assert!(device.commit(0, MIB).is_err(), "its flush has failed");
    let began = Instant::now();
    let bytes = device.close_within(patience);
    assert!(began.elapsed() > patience, "{:?}", began.elapsed());
    assert_eq!(device.writer().dirty().has_given_up(), bytes > 0);
    bytes
}

/// What ends meanwhile does not end a pause.
#[test]
fn a_rest_is_as_long_as_it_is_to_be() {
    let (_cache, device) = open(Arc::new(RamDevice::new("ram", 1 << 20)));
    let (writer, end) = (device.writer(), AtomicBool::new(false));
    let pause = Duration::from_millis(30);
    let rested = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                writer.dirty().notify();
                std::thread::yield_now();
            }
        });
        let began = Instant::now();
        writer.dirty().rest(pause);
        end.store(true, Ordering::Relaxed);
        began.elapsed()
    });
    assert!(rested >= pause);
    writer.dirty().abandon(close_wait());
    // Given up: there is nothing to wait for.
    writer.dirty().rest(Duration::from_secs(3600));
}

/// The writer is past the place where it would have been told.
#[test]
fn a_write_that_meets_the_end_of_its_device_is_not_called_durable() {
    let (_cache, device) = open(Arc::new(RamDevice::new("ram", 1 << 20)));
    let (writer, losses) = (device.writer(), device.loss_epoch());
    writer.dirty().start();
    writer.dirty().abandon(close_wait());
    let (page, start, length) = (0, 0, 10);
    let part = Part {
        page,
        start,
        length,
    };
    let source = &[1; 10];
    writer.try_piece(&Piece { part, source });
    assert!(device.commit(0, 10).is_err());
    assert_eq!(device.loss_epoch(), losses + 1);
}
