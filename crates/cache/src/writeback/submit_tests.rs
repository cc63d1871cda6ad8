//! Tests of write-out against the end of a device.

use std::sync::Arc;
use std::time::Duration;

use pagewell_device::RamDevice;

use crate::page::PAGE;
use crate::table::state::DIRTY;
use crate::{Cache, CacheOptions, ReadMode, WriteMode, WriteRule};

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
    dirty
        .policy
        .tag(crate::dirty::set::FILE, extent, object.now());
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

/// Under the rules of the report a write spans the clean bytes between dirty ones. When they have
/// come from the device somebody must look, or the write waits until somebody does by chance.
#[test]
fn a_write_that_waits_for_clean_bytes_is_looked_at_when_they_have_come() {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let mut options = cache.open_options();
    (options.write_rule, options.block_bytes) = (WriteRule::BlockEnd, PAGE);
    let ram = Arc::new(RamDevice::new("ram", 1 << 20));
    let device = cache.open_with(ram, options);
    let object = device.object.clone();
    object.writes.lock().driving = true;
    for offset in [2 * PAGE, 3 * PAGE - 8192] {
        let bytes = [1; 8192];
        device.write_at(offset, &bytes, WriteMode::WAIT).unwrap();
    }
    let (chosen, _) = object.choose();
    assert_eq!(chosen.len(), 1);
    object.writes.lock().again = false;
    object.write_out(chosen[0], false);
    // Waits for the same fetch.
    let mut bytes = [7; 8192];
    let middle = 2 * PAGE + PAGE / 2;
    device.read_at(middle, &mut bytes, ReadMode::WAIT).unwrap();
    assert_eq!(bytes, [0; 8192]);
    let mut looks = 0;
    while !object.writes.lock().again {
        looks += 1;
        assert!(looks < 1000, "nobody is told");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (chosen, _) = object.choose();
    assert_eq!(chosen.len(), 1, "it may go");
    object.write_out(chosen[0], false);
    object.writes.lock().driving = false;
    device.sync().unwrap();
}
