//! Ranges that are discarded: nobody reads the old bytes, and what is pinned stays.

#![allow(clippy::unwrap_used)] // tests

mod support;

use std::sync::Arc;

use pagewell_cache::{
    Cache, CacheOptions, CachedDevice, OpenOptions, ReadAheadRule, ReadMode, WriteMode,
};
use pagewell_device::Geometry;
use support::disk::Disk;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 65_536;

fn open(disk: &Arc<Disk>) -> (Cache, CachedDevice) {
    let cache = Cache::new(CacheOptions::new(16 * MIB)).unwrap();
    let options = OpenOptions {
        read_ahead: ReadAheadRule::Off,
        ..cache.open_options()
    };
    let device = cache.open_with(disk.clone(), options);
    (cache, device)
}

fn read(device: &CachedDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read_at(offset, &mut bytes, ReadMode::WAIT).unwrap();
    bytes
}

fn write(device: &CachedDevice, offset: u64, byte: u8, length: usize) {
    let bytes = vec![byte; length];
    device.write_at(offset, &bytes, WriteMode::WAIT).unwrap();
}

/// Somebody else changes bytes of the device.
fn change(disk: &Disk, range: std::ops::Range<usize>) {
    disk.forget(range);
}

#[test]
fn clean_bytes_are_asked_for_again() {
    let disk = Disk::new("disk", vec![7; 4 << 20], Geometry::MEMORY);
    let (_cache, device) = open(&disk);
    assert_eq!(read(&device, 0, 2 << 20), vec![7; 2 << 20]);
    change(&disk, 0..2 << 20);
    assert_eq!(read(&device, 100, 50), [7; 50]);
    // In part of a page: the unit goes, the page stays.
    device.discard(4100, 10);
    assert_eq!(read(&device, 4096, 4096), [0; 4096]);
    assert_eq!(read(&device, 8192, 4096), [7; 4096]);
    assert_eq!(read(&device, 0, 4096), [7; 4096]);
    assert_eq!(device.resident_pages().0, 32);
    // Longer than anything.
    device.discard(PAGE, u64::MAX);
    assert_eq!(device.resident_pages().0, 1);
    assert_eq!(read(&device, PAGE, 1 << 20), vec![0; 1 << 20]);
    assert_eq!(read(&device, 0, 4096), [7; 4096]);
    device.discard(5 * MIB, 10);
    device.discard(0, 0);
}

#[test]
fn dirty_bytes_are_dropped_and_those_beside_them_stay() {
    let disk = Disk::new("disk", vec![1; 1 << 20], Geometry::MEMORY);
    let (_cache, device) = open(&disk);
    write(&device, 1000, 2, 10_000);
    assert!(device.has_dirty(0, 2000) && !device.has_dirty(0, 1000));
    device.discard(2000, 1000);
    assert_eq!(device.dirty_bytes(), 9000);
    assert!(!device.has_dirty(2000, 1000));
    let mut expected = vec![2; 10_000];
    expected[1000..2000].fill(1);
    assert_eq!(read(&device, 1000, 10_000), expected);
    device.sync().unwrap();
    assert_eq!(disk.bytes()[1000..11_000], expected);
    // Whole pages.
    write(&device, 0, 3, 300_000);
    device.discard(0, 300_000);
    assert_eq!((device.dirty_bytes(), device.dirty_pages()), (0, 0));
    assert_eq!(read(&device, 1000, 10_000), expected);
    let before = disk.counts();
    device.sync().unwrap();
    assert_eq!(disk.counts().writes, before.writes);
    drop(device);
    assert_eq!(disk.bytes()[1000..11_000], expected);
}

#[test]
fn what_is_pinned_does_not_change() {
    let disk = Disk::new("disk", vec![1; 1 << 20], Geometry::MEMORY);
    let (_cache, device) = open(&disk);
    let whole = device.pin_all(0, 65_536, ReadMode::WAIT).unwrap().unwrap();
    write(&device, PAGE, 9, 4096);
    write(&device, PAGE + 8192, 9, 4096);
    let dirty = device
        .pin_all(PAGE, 65_536, ReadMode::WAIT)
        .unwrap()
        .unwrap();
    change(&disk, 0..1 << 20);
    device.discard(0, PAGE + 4096);
    assert!(whole[0].as_ref().iter().all(|byte| *byte == 1));
    assert_eq!(dirty[0].as_ref()[..4096], [9; 4096]);
    assert_eq!(read(&device, 0, 65_536), vec![0; 65_536]);
    assert_eq!(read(&device, PAGE, 4096), [0; 4096]);
    assert_eq!(read(&device, PAGE + 8192, 4096), [9; 4096]);
    write(&device, 0, 5, 10);
    assert!(whole[0].as_ref().iter().all(|byte| *byte == 1));
    drop((whole, dirty));
    device.sync().unwrap();
    assert_eq!(disk.bytes()[8192 + 65_536..12_288 + 65_536], [9; 4096]);
    assert_eq!(disk.bytes()[65_536..65_536 + 4096], [0; 4096]);
}

#[test]
fn what_was_on_its_way_does_not_come_in() {
    let disk = Disk::new("disk", vec![1; 1 << 20], Geometry::MEMORY);
    let (_cache, device) = open(&disk);
    // A unit of this page is there, others are on their way.
    read(&device, 2 * PAGE, 4096);
    disk.hold();
    device.prefetch(0, PAGE);
    device.prefetch(2 * PAGE, PAGE);
    assert!(disk.held() > 0);
    device.discard(0, PAGE);
    device.discard(2 * PAGE + 8192, 4096);
    disk.release();
    change(&disk, 0..1 << 20);
    assert_eq!(read(&device, 0, 65_536), vec![0; 65_536]);
    assert_eq!(read(&device, 2 * PAGE + 8192, 4096), [0; 4096]);
}

#[test]
fn what_is_under_write_out_may_arrive_and_does_not_come_back() {
    let disk = Disk::new("disk", vec![1; 1 << 20], Geometry::MEMORY);
    let (_cache, device) = open(&disk);
    write(&device, 0, 2, 100_000);
    disk.hold();
    let other = device.clone();
    let writer = std::thread::spawn(move || other.write_out(0, 100_000));
    while disk.held() == 0 {
        std::thread::yield_now();
    }
    device.discard(0, MIB);
    assert_eq!(device.dirty_bytes(), 100_000, "on its way");
    disk.fail(1000, 0);
    disk.release();
    assert!(writer.join().unwrap().is_err());
    disk.fail(0, 0);
    assert_eq!((device.dirty_bytes(), device.dirty_pages()), (0, 0));
    let bytes = disk.bytes();
    assert_eq!(read(&device, 0, 1 << 20), bytes);
    device.sync().unwrap();
    assert_eq!(disk.bytes(), bytes);
}
