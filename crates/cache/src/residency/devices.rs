//! The devices that share a cache: their numbers, the policies that are told what became of pages,
//! and the pages that some have listed.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use pagewell_counters::names::CACHE_AHEAD_WASTED_BYTES;
use pagewell_policy::readahead::{Adaptive, Feedback};

use crate::page::{PAGE, PAGE_BITS, device_of, key_of, page_of};
use crate::sync::Mutex;

const NUMBERS_MASK: u32 = (1 << (64 - PAGE_BITS)) - 1;

/// The read-ahead policy of one device.
pub(crate) type Streams = Mutex<Adaptive>;

/// See the module.
#[derive(Default)]
pub(crate) struct Devices {
    streams: Mutex<HashMap<u32, Weak<Streams>>>,
    next: AtomicU32,
}

impl Devices {
    /// A number for one more device, whose pages are listed or not.
    pub(crate) fn add(&self, streams: &Arc<Streams>, listed: bool) -> u32 {
        let flag = if listed { LISTED } else { 0 };
        let mut known = self.streams.lock();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let number = number & NUMBERS_MASK & !LISTED | flag;
            if number & !LISTED != 0 && !known.contains_key(&number) {
                known.insert(number, Arc::downgrade(streams));
                return number;
            }
        }
    }

    /// Forgets a device.
    pub(crate) fn remove(&self, number: u32) {
        self.streams.lock().remove(&number);
    }

    /// Tells the policy of its device of a page that read-ahead fetched, and that went before
    /// anything was read of it.
    pub(crate) fn wasted(&self, key: u64) {
        let streams = self.streams.lock().get(&device_of(key)).cloned();
        if let Some(streams) = streams.and_then(|streams| streams.upgrade()) {
            CACHE_AHEAD_WASTED_BYTES.add(PAGE);
            let (offset, length) = (page_of(key) * PAGE, PAGE);
            streams.lock().feedback(Feedback::Wasted { offset, length });
        }
    }
}

/// The bit of the number of a device whose pages are listed.
pub(crate) const LISTED: u32 = 1 << 23;

/// Pages that are in memory, in order: how often each is in the table, or about to come or go.
///
/// **Problem.** The table finds a page by its name; it cannot say which pages of a range it has.
/// Asking for each page number of a range costs its length, looking at every frame the size of the
/// cache. A client that purges 50,000 small files one after the other can afford neither.
///
/// **Rule.** Devices that ask for it (their numbers say so) have their pages in a list that is kept
/// in order. A page is counted before it comes into the table, and taken off after it has left: one
/// that is there is always in the list, and one that is in the list may just have gone. Counts,
/// as the name may be given anew before the page that left was taken off.
///
/// **Weakness.** One lock for all listed pages of a cache, taken for a moment whenever one comes
/// or goes.
#[derive(Default)]
pub(crate) struct Listed(Mutex<BTreeMap<u64, u32>>);

impl Listed {
    /// A page is about to come.
    pub(crate) fn add(&self, key: u64) {
        if device_of(key) & LISTED != 0 {
            *self.0.lock().entry(key).or_default() += 1;
        }
    }

    /// A page has left, or has not come after all.
    pub(crate) fn remove(&self, key: u64) {
        if device_of(key) & LISTED == 0 {
            return;
        }
        let mut pages = self.0.lock();
        let count = pages.get_mut(&key).map(|count| {
            *count -= 1;
            *count
        });
        // Else a purge would pass over a page that is in memory.
        assert!(count.is_some(), "{key:#x} was never listed");
        if count == Some(0) {
            pages.remove(&key);
        }
    }

    /// The pages of a range of a device that lists them.
    pub(crate) fn pages(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        let keys = key_of(number, range.start)..=key_of(number, range.end - 1);
        let pages = self.0.lock();
        pages.range(keys).map(|(key, _)| page_of(*key)).collect()
    }
}
