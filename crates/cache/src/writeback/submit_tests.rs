//! Tests of the submit loop against the end of a device.

use std::sync::Arc;
use std::time::Duration;

use pagewell_device::RamDevice;

use crate::dirty::set::close_wait;
use crate::table::DIRTY;
use crate::{Cache, CacheOptions, WriteMode};

/// A thread has chosen what to write and not yet sent it when the device is closed: nothing goes
/// any more, and the page keeps its frame until it is done.
#[test]
fn a_close_waits_for_the_submit_loop_which_sends_nothing_more() {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(Arc::new(RamDevice::new("ram", 1 << 20)));
    device.write_at(100, &[1; 10], WriteMode::WAIT).unwrap();
    let (own, writer) = (device.reader().own(), device.writer().clone());
    let key = own.layout().key(0);
    let mut dirty = writer.dirty().lock();
    assert!(dirty.sends.enter());
    let extent = pagewell_policy::elevator::Extent {
        offset: 0,
        length: 1 << 20,
    };
    dirty.policy.tag(extent, writer.dirty().now());
    drop(dirty);
    let submitter = writer.submitter();
    let (chosen, _) = submitter.choose();
    assert_eq!(chosen.len(), 1);
    let other = writer.clone();
    let closer = std::thread::spawn(move || other.dirty().abandon(close_wait()));
    while !writer.dirty().is_abandoned() {
        std::thread::yield_now();
    }
    for write in chosen {
        submitter.send(write, false);
    }
    let has_flag = || {
        let found = own.pages().table().locate(key);
        found.is_some_and(|(_, state)| state.has(DIRTY))
    };
    let mut dirty = writer.dirty().lock();
    assert_eq!(dirty.policy.flight_bytes(), 0, "not sent");
    assert!(!dirty.sends.has_postponed(), "nor put off");
    assert!(
        dirty.sends.is_submitting() && has_flag(),
        "the copy needs it"
    );
    dirty.sends.leave();
    drop(dirty);
    writer.dirty().notify();
    assert_eq!(closer.join().unwrap(), 10, "lost");
    assert!(!has_flag(), "its memory is free");
    // What was dirty is written no more.
    submitter.submit();
    let dirty = writer.dirty().lock();
    assert_eq!(dirty.policy.next_at(Duration::MAX), None);
}

/// With its flag a page keeps its frame: all that was dirty of it was purged while the write waited
/// for a fetch, which failed.
#[test]
fn a_page_is_clean_when_a_write_ends_of_which_nothing_is_left() {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(Arc::new(RamDevice::new("ram", 1 << 20)));
    let (own, writer) = (device.reader().own(), device.writer());
    device.write_at(100, &[1; 10], WriteMode::WAIT).unwrap();
    let mut dirty = writer.dirty().lock();
    dirty
        .policy
        .tag(own.layout().inside(0, 1 << 20), Duration::ZERO);
    let write = dirty.policy.next(Duration::ZERO).unwrap();
    drop(dirty);
    device.discard(0, 4096);
    writer.dirty().refuse(&mut writer.dirty().lock(), write);
    let (_, state) = own.pages().table().locate(own.layout().key(0)).unwrap();
    assert!(!state.has(DIRTY));
}
