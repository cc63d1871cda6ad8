//! What write-back knows.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewell_base::spans::Span;

use super::kept::Flushes;
use super::pages::{Bytes, Flight, Pages};
use super::share::StoreShare;
use super::stream::Habit;
use super::tags::Tags;
use super::{Counts, Extent, Limits, Settings, WriteId};

/// Write-back of one object.
#[derive(Debug)]
pub struct WriteBack {
    pub(super) settings: Settings,
    pub(super) now: Duration,
    pub(super) bytes: Bytes,
    pub(super) pages: Pages,
    /// Where each write that was handed out begins.
    pub(super) starts: BTreeMap<WriteId, u64>,
    pub(super) next_id: u64,
    pub(super) flight_bytes: u64,
    /// Where the last write ended.
    pub(super) cursor: u64,
    pub(super) tags: Tags,
    pub(super) share: StoreShare,
    /// Its number in the share.
    pub(super) object: u64,
    pub(super) habit: Habit,
    pub(super) flushes: Flushes,
    pub(super) counts: Counts,
}

impl WriteBack {
    /// Nothing is dirty of the only object of a store.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::of_store(settings, &StoreShare::new(settings))
    }

    /// Nothing is dirty of an object of a store.
    #[must_use]
    pub fn of_store(settings: Settings, share: &StoreShare) -> Self {
        let settings = settings.normalised();
        Self {
            settings,
            now: Duration::ZERO,
            bytes: Bytes::default(),
            pages: Pages::new(share, settings.page_bytes),
            starts: BTreeMap::new(),
            next_id: 0,
            flight_bytes: 0,
            cursor: 0,
            tags: Tags::default(),
            share: share.clone(),
            object: share.gate().add_object(),
            habit: Habit::default(),
            flushes: Flushes::default(),
            counts: Counts::default(),
        }
    }

    /// What of a range is dirty, under write-out or kept, ascending, not touching: what memory
    /// alone has for certain.
    pub fn dirty_in(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let (start, end) = (extent.offset, extent.end());
        let mut spans = self.bytes.held(start, end);
        for (_, flight) in self.bytes.wanted(start, end) {
            for &(from, to) in &flight.parts {
                spans.insert(from.max(start), to.min(end));
            }
        }
        let spans: Vec<Span> = spans.iter().collect();
        spans.into_iter().map(Extent::of)
    }

    /// Whether any byte of a range is dirty, under write-out or kept.
    #[must_use]
    pub fn is_dirty(&self, extent: Extent) -> bool {
        self.is_unwritten(extent) || self.bytes.is_kept(extent.offset, extent.end())
    }

    /// Whether any byte of a range is dirty or under write-out.
    #[must_use]
    pub fn is_unwritten(&self, extent: Extent) -> bool {
        let (start, end) = (extent.offset, extent.end());
        self.bytes.dirty.overlaps(start, end) || self.bytes.wanted(start, end).next().is_some()
    }

    /// Bytes that are dirty, without those that are only under write-out.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.bytes.dirty.bytes()
    }

    /// Bytes under write-out.
    #[must_use]
    pub fn flight_bytes(&self) -> u64 {
        self.flight_bytes
    }

    /// Pages with a byte that is dirty, under write-out or kept: what the limits are about.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.pages.held()
    }

    /// The memory of those pages, in bytes.
    #[must_use]
    pub fn dirty_memory_bytes(&self) -> u64 {
        self.pages.memory_bytes(self.pages.held())
    }

    /// The memory of those pages of all objects of the store, in bytes.
    #[must_use]
    pub fn store_memory_bytes(&self) -> u64 {
        self.pages.memory_bytes(self.share.totals().held.get())
    }

    /// Whether an object of the store had to wait, for a place under write-out or for room for its
    /// writer, and may try again: then the caller looks at all of them. It is said once.
    pub fn take_waiting(&mut self) -> bool {
        self.share.gate().take_waiting()
    }

    /// The limits of dirty memory of the store now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.share.gate().pacing.limits()
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// From now on there is another share of the arena for dirty memory, in bytes. When it is less
    /// than what is dirty, writers of new pages are refused until it is not.
    pub fn set_dirty_bytes_max(&mut self, bytes: u64) {
        self.share.gate().pacing.set_dirty_bytes_max(bytes);
    }

    /// The write of this name.
    pub(super) fn flight(&self, id: WriteId) -> Option<&Flight> {
        self.bytes.flights.get(self.starts.get(&id)?)
    }

    /// Brings the pages of a range up to date.
    pub(super) fn refresh(&mut self, start: u64, end: u64) {
        let mut numbers = self.pages.numbers(start, end);
        // Those that there are: the range may be all numbers.
        while let Some((&number, _)) = self.pages.all.range(numbers.clone()).next() {
            self.pages.refresh(&self.bytes, number);
            numbers.start = number + 1;
        }
    }

    /// Time never goes back.
    pub(super) fn advance(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        self.now
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        let totals = self.share.totals();
        totals.flight_bytes.remove(self.flight_bytes);
        totals.flights.remove(self.starts.len() as u64);
        self.share.gate().serve(self.object, 0);
    }
}
