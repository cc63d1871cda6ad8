//! The objects that share a cache: their numbers, the read-ahead policies that learn what became
//! of pages, and which pages each has.
//!
//! **Problem.** The table cannot say which pages of a range it has: asking for each costs the
//! length of the range, looking at every frame the size of the cache. A client that purges 50,000
//! small files can afford neither.
//!
//! **Rule.** An object that is one of many lists its pages (its number says so). A page is counted
//! before it comes into the table and taken off after it has left; counts, as the name may be given
//! anew in between. A device alone in its store has no list: it has most of the frames, and is
//! seldom purged. A number is given out again after its last page has left, the one free for
//! longest first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use pagewell_counters::names::CACHE_AHEAD_WASTED_BYTES;
use pagewell_policy::readahead::{Adaptive, Feedback};

use crate::page::{PAGE, object_of, page_of};
use crate::sync::{Mutex, Rank, Shards};

pub(crate) type Streams = Mutex<Adaptive>;

/// The bit of the number of an object whose pages are listed.
pub(crate) const LISTED: u32 = 1 << 31;
/// So many objects have places of their own for the policy of read-ahead, of so many bytes.
const SEEN_BITS: u32 = 15;
pub(crate) const SEEN_BYTES: u64 = 1 << 48;
pub(crate) const SEEN_FROM_BYTES_MAX: u64 = SEEN_BYTES << SEEN_BITS;

/// Where the policy of read-ahead, which knows one address space, sees the first byte of an object.
/// Of more than 32,768 objects some share a place, which costs a guess.
pub(crate) fn seen_from(number: u32) -> u64 {
    match number & LISTED {
        0 => 0,
        _ => u64::from(number & ((1 << SEEN_BITS) - 1)) * SEEN_BYTES,
    }
}

pub(crate) struct Objects {
    known: Shards<HashMap<u32, Known>>,
    numbers: Mutex<Numbers>,
}

struct Known {
    streams: Weak<Streams>,
    /// How often each page is in the table, or about to be.
    pages: BTreeMap<u64, u32>,
}

/// Which numbers are free: some, and all from `next` on.
#[derive(Default)]
struct Numbers {
    next: u32,
    free: VecDeque<u32>,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Self {
            known: Shards::new(Rank::Leaf),
            numbers: Mutex::default(),
        }
    }

    /// A number for one more object, whose pages are listed or not.
    pub(crate) fn add(&self, streams: &Arc<Streams>, is_listed: bool) -> u32 {
        let mut numbers = self.numbers.lock();
        let number = numbers.free.pop_front().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next
        });
        drop(numbers);
        // Each takes some hundred bytes of memory.
        assert!(number & LISTED == 0, "more objects than memory can hold");
        let number = if is_listed { number | LISTED } else { number };
        let known = Known {
            streams: Arc::downgrade(streams),
            pages: BTreeMap::new(),
        };
        self.known.lock(number.into()).insert(number, known);
        number
    }

    /// Forgets an object, of which no page is in the table.
    pub(crate) fn remove(&self, number: u32) {
        let known = self.known.lock(number.into()).remove(&number);
        debug_assert!(known.is_some_and(|known| known.pages.is_empty()));
        self.numbers.lock().free.push_back(number & !LISTED);
    }

    /// Tells the policy of a page that was fetched ahead and never read.
    pub(crate) fn wasted(&self, key: u64) {
        let number = object_of(key);
        let known = self.known.lock(number.into());
        let streams = known.get(&number).map(|known| known.streams.clone());
        drop(known);
        if let Some(streams) = streams.and_then(|streams| streams.upgrade()) {
            CACHE_AHEAD_WASTED_BYTES.add(PAGE);
            let (offset, length) = (seen_from(number) + page_of(key) * PAGE, PAGE);
            streams.lock().feedback(Feedback::Wasted { offset, length });
        }
    }

    pub(crate) fn page_comes(&self, key: u64) {
        let number = object_of(key);
        if number & LISTED != 0
            && let Some(known) = self.known.lock(number.into()).get_mut(&number)
        {
            *known.pages.entry(page_of(key)).or_default() += 1;
        }
    }

    pub(crate) fn page_left(&self, key: u64) {
        let (number, page) = (object_of(key), page_of(key));
        if number & LISTED == 0 {
            return;
        }
        let mut known = self.known.lock(number.into());
        let pages = known.get_mut(&number).map(|known| &mut known.pages);
        let count = pages.and_then(|pages| {
            let count = pages.get_mut(&page)?;
            *count -= 1;
            if *count == 0 {
                pages.remove(&page);
            }
            Some(())
        });
        // Else a purge would pass over a page that is in memory.
        assert!(count.is_some(), "{key:#x} was never listed");
    }

    /// The pages of a range of an object that lists them.
    pub(crate) fn pages(&self, number: u32, range: Range<u64>) -> Vec<u64> {
        let known = self.known.lock(number.into());
        let pages = known.get(&number).map(|known| known.pages.range(range));
        pages.into_iter().flatten().map(|(page, _)| *page).collect()
    }

    /// Whether an object that lists its pages has any.
    pub(crate) fn has_pages(&self, number: u32) -> bool {
        let known = self.known.lock(number.into());
        known
            .get(&number)
            .is_some_and(|known| !known.pages.is_empty())
    }
}
