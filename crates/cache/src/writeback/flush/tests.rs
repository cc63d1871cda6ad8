//! Flushes that are given up and fail later.

#![allow(clippy::unwrap_used)] // tests

use std::collections::VecDeque;

use pagewell_device::{Device, Geometry, Operation};
use rustix::io::Errno;

use super::*;
use crate::dirty::set::SPANS_MAX;
use crate::sync::Mutex;
use crate::{Cache, CacheOptions, CachedDevice, ReadMode, WriteMode};

const MIB: u64 = 1 << 20;

/// Its flushes wait for the test; the others of its requests are done at once.
#[derive(Default)]
struct Hanging(Mutex<State>);

#[derive(Default)]
struct State {
    flushes: VecDeque<Request>,
    writes: usize,
    answers: bool,
    /// Writes wait, too.
    holds: bool,
    held: Vec<Request>,
}

impl Device for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }
    fn length_bytes(&self) -> u64 {
        MIB
    }
    fn geometry(&self) -> Geometry {
        Geometry::MEMORY
    }
    fn submit(&self, request: Request) {
        let mut state = self.0.lock();
        state.writes += usize::from(request.operation() == Operation::Write);
        if request.operation() == Operation::Flush && !state.answers {
            return state.flushes.push_back(request);
        }
        if request.operation() == Operation::Write && state.holds {
            return state.held.push(request);
        }
        drop(state);
        request.succeed();
    }
}

impl Hanging {
    fn writes(&self) -> usize {
        self.0.lock().writes
    }

    fn flush(&self) -> Request {
        self.0.lock().flushes.pop_front().unwrap()
    }

    /// What hangs is answered, and what comes.
    fn go_on(&self) {
        let mut state = self.0.lock();
        state.answers = true;
        state.holds = false;
        let flushes = std::mem::take(&mut state.flushes);
        let writes = std::mem::take(&mut state.held);
        drop(state);
        writes.into_iter().chain(flushes).for_each(Request::succeed);
    }
}

fn flushes_of(device: &CachedDevice) -> &Arc<Flushes> {
    device.writer().submitter().flushes()
}

/// A page was written, and its flush given up; it was written again. That flush hangs still.
fn with_a_flush_that_was_given_up() -> (Cache, CachedDevice, Arc<Hanging>, Request) {
    let hanging = Arc::new(Hanging::default());
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(hanging.clone());
    device.write_at(0, &[1; 65_536], WriteMode::WAIT).unwrap();
    device.write_out(0, MIB).unwrap();
    let (dirty_set, flushes) = (device.writer().dirty(), flushes_of(&device));
    flushes.start_flush(dirty_set.lock());
    let given_up = hanging.flush();
    let no_answer = flushes.no_answer(0, Duration::from_secs(30));
    let mut dirty = dirty_set.lock();
    let flush = dirty.unflushed.needed(Extent::of((0, MIB))).unwrap();
    assert!(dirty.unflushed.answered(&flush, &Err(no_answer)));
    drop(dirty);
    flushes.settle();
    while hanging.writes() < 2 {
        // Another thread may have settled it, and be about to make the page dirty.
        std::thread::yield_now();
        device.write_out(0, MIB).unwrap();
    }
    assert!(device.has_unflushed(0, MIB) && !device.has_dirty(0, MIB));
    (cache, device, hanging, given_up)
}

fn fail(flush: Request) {
    let (device, offset, errno) = ("hanging".to_owned(), 0, Errno::IO);
    let error = DeviceError::Failed {
        device,
        offset,
        errno,
    };
    flush.fail(0, error);
}

/// The device has reported the loss with the old flush, and the new one is good; a commit that
/// began between the two is not, unless the page is written once more.
#[test]
fn a_flush_that_fails_after_it_was_given_up_is_not_made_good_by_the_next() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    flushes_of(&device).start_flush(device.writer().dirty().lock());
    let next = hanging.flush();
    fail(given_up);
    let committed = std::thread::scope(|scope| {
        let commit = scope.spawn(|| device.commit(0, MIB));
        while device.writer().dirty().lock().waiting.commits == 0 && !commit.is_finished() {
            std::thread::yield_now();
        }
        next.succeed();
        hanging.go_on();
        commit.join().unwrap()
    });
    assert!(
        committed.is_err() || hanging.writes() > 2,
        "a loss is reported"
    );
    device.sync().unwrap();
    assert_eq!(hanging.writes(), 3);
    assert!(!device.has_dirty(0, MIB) && !device.has_unflushed(0, MIB));
}

/// Memory has the bytes: nothing is lost that could not be written again.
#[test]
fn what_a_late_failure_may_have_lost_is_written_again() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    let losses = device.loss_epoch();
    fail(given_up);
    assert_eq!(device.loss_epoch(), losses + 1);
    hanging.go_on();
    device.sync().unwrap();
    assert_eq!(hanging.writes(), 3);
    assert_eq!(device.loss_epoch(), losses + 1);
    assert!(!device.has_dirty(0, MIB) && !device.has_unflushed(0, MIB));
}

/// What was discarded is not written again: another may have changed it since.
#[test]
fn what_is_discarded_after_a_late_failure_is_not_written_again() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    let mut dirty = device.writer().dirty().lock();
    let spans = dirty.unflushed.take_written();
    let error = DeviceError::Abandoned { offset: 0 };
    flushes_of(&device).flush_failed(&mut dirty, spans, error);
    drop(dirty);
    device.discard(0, MIB);
    let (all, dirty) = (Extent::of((0, MIB)), device.writer().dirty().lock());
    assert!(dirty.unflushed.unrecovered().is_empty() && !dirty.unflushed.has_lost(all));
    drop(dirty);
    drop(given_up);
    hanging.go_on();
    device.sync().unwrap();
}

/// As above, but only some of it is discarded, and what the device has is in memory again.
#[test]
fn what_is_discarded_while_the_lost_is_written_again_is_not() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    let mut dirty = device.writer().dirty().lock();
    let spans = dirty.unflushed.take_written();
    let error = DeviceError::Abandoned { offset: 0 };
    flushes_of(&device).flush_failed(&mut dirty, spans, error);
    drop(dirty);
    device.discard(4096, 8192);
    device.read_at(0, &mut [0; 65_536], ReadMode::WAIT).unwrap();
    flushes_of(&device).write_again();
    assert!(device.has_dirty(0, 4096) && device.has_dirty(12_288, MIB));
    assert!(!device.has_dirty(4096, 8192));
    drop(given_up);
    hanging.go_on();
}

/// It had to wait for room, and its memory was used for something else. What is in memory again is
/// what the device has.
#[test]
fn what_was_lost_and_is_read_anew_is_not_written_again() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    let mut dirty = device.writer().dirty().lock();
    let spans = dirty.unflushed.take_written();
    let error = DeviceError::Abandoned { offset: 0 };
    flushes_of(&device).flush_failed(&mut dirty, spans, error);
    drop(dirty);
    let own = device.reader().own();
    assert!(own.pages().give_up(own.layout().key(0)));
    device.read_at(0, &mut [0; 65_536], ReadMode::WAIT).unwrap();
    flushes_of(&device).write_again();
    assert!(!device.has_dirty(0, MIB));
    drop(given_up);
    hanging.go_on();
    assert!(matches!(device.sync(), Err(Error::Lost { .. })));
}

/// Memory has it still when the device is given up, and nobody will write it.
#[test]
fn what_was_lost_and_is_not_dirty_yet_is_lost_for_good_with_its_device() {
    let (_cache, device, _hanging, given_up) = with_a_flush_that_was_given_up();
    let mut dirty = device.writer().dirty().lock();
    let spans = dirty.unflushed.take_written();
    let error = DeviceError::Abandoned { offset: 0 };
    flushes_of(&device).flush_failed(&mut dirty, spans, error);
    drop(dirty);
    let losses = device.loss_epoch();
    assert_eq!(device.abandon(), 65_536);
    assert_eq!(device.loss_epoch(), losses + 1);
    assert!(device.writer().dirty().has_given_up());
    assert_eq!(device.abandon(), 0);
    drop(given_up);
}

/// Some of it is under write-out: it is lost once.
#[test]
fn what_was_lost_and_is_dirty_again_is_counted_once() {
    let (_cache, device, _hanging, given_up) = with_a_flush_that_was_given_up();
    device.write_at(100, &[2; 50], WriteMode::WAIT).unwrap();
    let mut lost = Spans::default();
    lost.insert(0, 120);
    device.writer().dirty().lock().unflushed.lose(lost);
    assert_eq!(device.abandon(), 150);
    drop(given_up);
}

/// Writers have so much dirty that the next one pauses. Else those that go on would keep what was
/// lost from being written again.
#[test]
fn what_was_lost_does_not_pause_as_writers_do() {
    let (_cache, device, hanging, given_up) = with_a_flush_that_was_given_up();
    hanging.0.lock().holds = true;
    let dirty_set = device.writer().dirty();
    let page = |number| Part::whole(number).extent();
    // The policy's time never goes back: it stands still from here on, however late threads are.
    let hour = Duration::from_hours(1);
    dirty_set.lock().policy.admit(page(1), false, hour);
    let mut next = 1;
    let admission = loop {
        let admission = dirty_set.admit(page(next), false);
        if admission != Admission::Granted {
            break admission;
        }
        let at = page(next).offset;
        device.write_at(at, &[3; 65_536], WriteMode::WAIT).unwrap();
        next += 1;
    };
    assert!(matches!(admission, Admission::Paused(_)), "{admission:?}");
    let mut dirty = dirty_set.lock();
    let spans = dirty.unflushed.take_written();
    let error = DeviceError::Abandoned { offset: 0 };
    flushes_of(&device).flush_failed(&mut dirty, spans, error);
    drop(dirty);
    flushes_of(&device).write_again();
    assert!(device.has_dirty(0, 65_536));
    drop(given_up);
    hanging.go_on();
    device.sync().unwrap();
}

/// They are dirty when the flush fails, and nothing else in memory says what they are.
#[test]
fn what_is_written_anew_before_its_flush_fails_is_not_lost() {
    let hanging = Arc::new(Hanging::default());
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(hanging.clone());
    device.write_at(0, &[1; 10], WriteMode::WAIT).unwrap();
    device.write_out(0, MIB).unwrap();
    flushes_of(&device).start_flush(device.writer().dirty().lock());
    let flush = hanging.flush();
    device.write_at(0, &[2; 10], WriteMode::WAIT).unwrap();
    fail(flush);
    flushes_of(&device).settle();
    hanging.go_on();
    device.sync().unwrap();
}

/// Else all that is not durable would become one range, and bytes between be lost with it.
#[test]
fn a_device_is_flushed_when_much_is_written_here_and_there() {
    let hanging = Arc::new(Hanging::default());
    let device = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = device.open(hanging.clone());
    device.writer().dirty().start();
    let mut dirty = device.writer().dirty().lock();
    for at in 0..=SPANS_MAX as u64 / 2 {
        dirty.unflushed.written(Extent {
            offset: at * 2,
            length: 1,
        });
    }
    drop(dirty);
    flushes_of(&device).tend();
    drop(hanging.flush());
    hanging.go_on();
}
