//! Tests of how a page gets a frame.

#![allow(clippy::unwrap_used)] // tests

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use pagewell_counters::names::CACHE_CONFLICTS;
use pagewell_device::RamDevice;
use pagewell_policy::eviction::Arrival;

use crate::page::key_of;
use crate::residency::pages::Pages;
use crate::table::{PRESENT, WRITING};
use crate::{Cache, CacheOptions, ReadMode, WriteMode};

const MOVES: u32 = 2000;
/// A thread that looks keeps others from moving: not more often for each move, so that they
/// come to it.
const LOOKS: u32 = 500;

fn pages(size_bytes: u64) -> Arc<Pages> {
    Cache::new(CacheOptions::new(size_bytes))
        .unwrap()
        .pages()
        .clone()
}

/// A writer that wants to detach its page takes the lock of insertions while the page is marked as
/// being written. A thread that has that lock meanwhile may not wait for the mark to go.
#[test]
fn making_a_page_does_not_wait_for_its_writer_with_the_lock_that_it_needs() {
    let pages = pages(4 << 20);
    let key = key_of(1, 7);
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Another thread makes the page, and writes to it, after it was not found.
        let frame = || {
            let page = pages.find_or_make(key, Arrival::Demand, 0).unwrap();
            pages.table.set(page.slot, WRITING);
            let writer = pages.clone();
            std::thread::spawn(move || {
                // Until the other has come to it.
                std::thread::sleep(Duration::from_millis(50));
                let insertion = writer.lock_insertion(key);
                writer.table.clear(page.slot, WRITING);
                drop(insertion);
                writer.table.unpin(page.slot);
            });
            pages.allocate()
        };
        let free = pages.free.len();
        let found = pages.find_or_make_in(key, Arrival::Demand, 0, frame);
        let found = found.unwrap();
        assert!(found.state.has(PRESENT));
        assert_eq!(pages.free.len(), free - 1, "one frame for one page");
        pages.table.unpin(found.slot);
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// Where no two pages lie side by side, a page may find all lines of its extent taken: one of them
/// is given to it, and nearly all memory is used all the same.
#[test]
fn pages_that_lie_apart_fill_the_cache() {
    let pages = pages(256 << 20);
    let frames = u64::from(pages.arena().frames());
    let conflicts = CACHE_CONFLICTS.get();
    let key = |page: u64| key_of(1, page << 14);
    for page in 0..frames {
        let made = pages.find_or_make(key(page), Arrival::Demand, 0).unwrap();
        pages.table.unpin(made.slot);
    }
    assert!(CACHE_CONFLICTS.get() > conflicts, "the test tests nothing");
    let mut found = 0;
    for page in 0..frames {
        if let Some(page) = pages.find(key(page)) {
            assert_eq!(pages.owner(page.frame()), page.slot);
            pages.table.unpin(page.slot);
            found += 1;
        }
    }
    assert_eq!(found, pages.residency(1).0);
    assert!(found > frames - frames / 100, "{found} of {frames}");
    assert_eq!(u64::from(pages.free.len()), frames - found);
}

/// Frames of pages that go are given to those that come: in order, if they were, each time round.
#[test]
fn where_a_stream_longer_than_the_cache_lies_is_guessed() {
    let pages = pages(32 << 20);
    let frames = u64::from(pages.arena().frames());
    for lap in 0..3 {
        let range = lap * frames..(lap + 1) * frames;
        for page in range.clone() {
            let page = pages.find_or_make(key_of(1, page), Arrival::Demand, 0);
            pages.table.unpin(page.unwrap().slot);
        }
        let (mut resident, mut right) = (0, 0);
        for key in range.map(|page| key_of(1, page)) {
            if let Some(page) = pages.find(key) {
                resident += 1;
                right += u64::from(pages.table.guess(key) == Some(page.frame()));
                pages.table.unpin(page.slot);
            }
        }
        assert!(resident > frames / 2, "{lap}: {resident} of {frames}");
        assert!(right * 4 > resident * 3, "{lap}: {right} of {resident}");
    }
}

/// Memory that a thread still has may not be unmapped behind its back.
#[test]
#[should_panic(expected = "pinned")]
fn a_cache_that_ends_with_a_pin_says_so() {
    let pages = pages(4 << 20);
    pages.find_or_make(key_of(1, 7), Arrival::Demand, 0);
}

/// A page that is pinned moves at each write. It is in memory all the time.
#[test]
fn a_page_that_moves_is_always_found() {
    let cache = Cache::new(CacheOptions::new(4 << 20)).unwrap();
    let device = cache.open(Arc::new(RamDevice::new("ram", 64 << 20)));
    let own = device.reader().own().clone();
    let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
    device.write_at(0, &[1; 65_536], WriteMode::WAIT).unwrap();
    let missed = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            for moves in 1..=MOVES {
                let pinned = device.pin_all(0, 65_536, ReadMode::WAIT).unwrap();
                begun.store(moves, Ordering::Release);
                device.write_at(0, &[2; 16], WriteMode::WAIT).unwrap();
                ended.store(moves, Ordering::Release);
                drop(pinned);
            }
        });
        let (mut missed, mut seen) = (0, 0);
        while seen < MOVES && !mover.is_finished() {
            let moves = begun.load(Ordering::Acquire);
            if moves == seen {
                std::thread::yield_now();
                continue;
            }
            seen = moves;
            let mut looks = 0;
            while looks < LOOKS && ended.load(Ordering::Acquire) < seen {
                looks += 1;
                let found = own.pages().resident(own.layout().number(), 0..1 << 20);
                missed += usize::from(found.is_empty());
            }
        }
        missed
    });
    assert_eq!(missed, 0);
}
