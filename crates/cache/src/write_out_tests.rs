//! Tests of write-out against the end of a device.

use std::sync::Arc;
use std::time::Duration;

use pagewell_device::RamDevice;

use crate::state::DIRTY;
use crate::{Cache, CacheOptions, WriteMode};

/// Somebody has chosen what to write and not yet sent it when the device is closed: nothing goes
/// any more, and the page keeps its place until he is done.
#[test]
fn a_close_waits_for_who_drives_and_he_sends_nothing_more() {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(Arc::new(RamDevice::new("ram", 1 << 20)));
    device.write_at(100, &[1; 10], WriteMode::WAIT).unwrap();
    let object = device.object.clone();
    let key = object.key(0);
    let mut dirty = object.writes.lock();
    assert!(!std::mem::replace(&mut dirty.driving, true));
    let extent = pagewell_policy::elevator::Extent {
        offset: 0,
        length: 1 << 20,
    };
    dirty.policy.tag(crate::dirty::FILE, extent, object.now());
    drop(dirty);
    let (chosen, _) = object.choose();
    assert_eq!(chosen.len(), 1);
    let other = object.clone();
    let closer = std::thread::spawn(move || other.drop_dirty());
    while !object.writes.lock().closed {
        std::thread::yield_now();
    }
    for write in chosen {
        object.write_out(write, false);
    }
    let has_flag = || {
        let place = object.core.table.locate(key);
        place.is_some_and(|(_, state)| state.has(DIRTY))
    };
    let mut dirty = object.writes.lock();
    assert_eq!(dirty.policy.flight_bytes(), 0, "not sent");
    assert!(dirty.postponed.is_empty(), "nor put off");
    assert!(dirty.driving && has_flag(), "who copies it needs it");
    dirty.driving = false;
    drop(dirty);
    object.writes.notify();
    assert_eq!(closer.join().unwrap(), 10, "lost");
    assert!(!has_flag(), "its memory is free");
    // What was dirty is nobody's any more.
    object.drive();
    let dirty = object.writes.lock();
    assert_eq!(dirty.policy.next_at(Duration::MAX), None);
}
