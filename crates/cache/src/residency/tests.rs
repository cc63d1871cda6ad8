//! Tests of how a place for a page is found.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use pagewell_counters::names::CACHE_CONFLICTS;
use pagewell_policy::eviction::Arrival;

use crate::CacheOptions;
use crate::page::key_of;
use crate::residency::pages::Core;
use crate::table::state::WRITING;

/// A writer who wants to detach his page takes the lock of insertions while the page is marked as
/// being written. Whoever has that lock meanwhile may not wait for the mark to go.
#[test]
fn who_makes_a_page_does_not_wait_for_its_writer_with_the_lock_he_needs() {
    let core = Arc::new(Core::new(CacheOptions::new(4 << 20)).unwrap());
    let key = key_of(1, 7);
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Somebody makes the page, and writes to it, after it was not found.
        let place = || {
            let page = core.find_or_make(key, Arrival::Demand, 0).unwrap();
            core.table.set(page.slot, WRITING);
            let writer = core.clone();
            std::thread::spawn(move || {
                // Until the other has come to it.
                std::thread::sleep(Duration::from_millis(50));
                writer.with_insertion(key, || writer.table.clear(page.slot, WRITING));
            });
            core.allocate()
        };
        let free = core.free.len();
        let found = core.find_or_place(key, Arrival::Demand, 0, place).unwrap();
        assert!(found.state.has(crate::table::state::PRESENT));
        assert_eq!(core.free.len(), free - 1, "one place for one page");
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(30)).unwrap();
}

/// Where no two pages lie side by side, a page may find all lines of its extent taken: one of them
/// is given to it, and nearly all memory is used all the same.
#[test]
fn pages_far_from_each_other_fill_the_cache() {
    let core = Core::new(CacheOptions::new(256 << 20)).unwrap();
    let frames = u64::from(core.arena.frames());
    let conflicts = CACHE_CONFLICTS.get();
    let key = |page: u64| key_of(1, page << 14);
    for page in 0..frames {
        let made = core.find_or_make(key(page), Arrival::Demand, 0).unwrap();
        core.table.unpin(made.slot);
    }
    assert!(CACHE_CONFLICTS.get() > conflicts, "the test tests nothing");
    let mut found = 0;
    for page in 0..frames {
        if let Some(page) = core.find(key(page)) {
            assert_eq!(core.owner(page.frame), page.slot);
            core.table.unpin(page.slot);
            found += 1;
        }
    }
    assert_eq!(found, core.residency(1).0);
    assert!(found > frames - frames / 100, "{found} of {frames}");
    assert_eq!(u64::from(core.free.len()), frames - found);
}
