//! The bytes that are dirty, under write-out, or written and not safe yet, and the pages that hold
//! them: which of those may be written now is kept up to date page by page, so that nothing has to
//! be searched for when something is chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pagewell_base::spans::{Span, Spans};

use super::WriteId;
use super::share::StoreShare;

/// A write that was handed out.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: WriteId,
    pub(super) end: u64,
    /// What of it was dirty, and is still wanted.
    pub(super) parts: Vec<Span>,
    /// When the oldest of its pages became dirty.
    pub(super) since: Duration,
    /// When it was handed out.
    pub(super) began: Duration,
    /// Bytes of it were discarded since.
    pub(super) cut: bool,
    /// A flush failed meanwhile: a part that was at the device before it may be lost.
    pub(super) doubtful: bool,
    /// None of its bytes counts any more.
    pub(super) forgotten: bool,
}

/// All bytes that are not clean.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    /// Dirty bytes that are not under write-out, and those that became dirty again there.
    pub(super) dirty: Spans,
    /// Written, and in no flush yet.
    pub(super) kept: Spans,
    /// Written, and in the flush that is on its way.
    pub(super) covered: Spans,
    /// By first byte; they do not overlap.
    pub(super) flights: BTreeMap<u64, Flight>,
}

impl Bytes {
    /// The first bytes in `start..end` that are dirty and not under write-out.
    pub(super) fn candidate(&self, start: u64, end: u64) -> Option<Span> {
        let mut dirty = self.dirty.within(start, end);
        dirty.find_map(|(from, to)| self.grounded(from, to))
    }

    /// The first part of `start..end` that is not under write-out.
    fn grounded(&self, start: u64, end: u64) -> Option<Span> {
        let mut from = start;
        for ((flight, landing), _) in self.flying(start, end) {
            if from < flight {
                return Some((from, flight));
            }
            from = landing;
        }
        (from < end).then_some((from, end))
    }

    /// Whether any byte of `start..end` is under write-out, even if it was forgotten.
    pub(super) fn is_flying(&self, start: u64, end: u64) -> bool {
        self.flying(start, end).next().is_some()
    }

    /// Where the first write that may have bytes at `start` or after it begins.
    pub(super) fn first_flight(&self, start: u64) -> u64 {
        match self.flights.range(..start).next_back() {
            Some((&low, flight)) if flight.end > start => low,
            _ => start,
        }
    }

    /// What of `start..end` is under write-out, ascending.
    pub(super) fn flying(&self, start: u64, end: u64) -> impl Iterator<Item = (Span, &Flight)> {
        let from = self.first_flight(start);
        self.flights
            .range(from..end.max(from))
            .map(move |(&low, flight)| ((low.max(start), flight.end.min(end)), flight))
            .filter(|((low, high), _)| low < high)
    }

    /// The same without what was forgotten.
    pub(super) fn wanted(&self, start: u64, end: u64) -> impl Iterator<Item = (Span, &Flight)> {
        let flying = self.flying(start, end);
        flying.filter(|(_, flight)| !flight.forgotten)
    }

    /// What of `start..end` is dirty or kept.
    pub(super) fn held(&self, start: u64, end: u64) -> Spans {
        let mut spans = Spans::default();
        for set in [&self.dirty, &self.kept, &self.covered] {
            for (from, to) in set.within(start, end) {
                spans.insert(from, to);
            }
        }
        spans
    }

    /// Whether any byte of `start..end` waits for a flush.
    pub(super) fn is_kept(&self, start: u64, end: u64) -> bool {
        let holds = |spans: &Spans| !spans.is_empty() && spans.overlaps(start, end);
        holds(&self.kept) || holds(&self.covered)
    }
}

/// A page with a byte that is dirty, under write-out or kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Page {
    /// When it became dirty.
    pub(super) since: Duration,
    /// Writes under way that touch it.
    pub(super) flights: u32,
    /// It has a dirty byte.
    pub(super) dirty: bool,
    /// It has nothing but kept bytes.
    pub(super) only_kept: bool,
    /// It has a byte that may be written now.
    pub(super) ready: bool,
    /// Each of its dirty bytes was written once, and none to the device within the last expiry
    /// interval.
    pub(super) fresh: bool,
    /// A byte of it was written again while it was dirty or under write-out.
    pub(super) rewritten: bool,
    /// After a failure, until [`Page::retry_at`].
    pub(super) waiting: bool,
    /// When it is tried again.
    pub(super) retry_at: Duration,
    /// How long the last wait was; zero when the last write did not fail.
    pub(super) retry_delay: Duration,
}

/// Why a page is to be written although dirty memory is below the background limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Expired,
    Retry,
    Behind,
}

/// All pages with a byte that is dirty, under write-out or kept.
#[derive(Debug)]
pub(super) struct Pages {
    /// Bytes of a page, a power of two.
    pub(super) page_bytes: u64,
    /// By number.
    pub(super) all: BTreeMap<u64, Page>,
    /// How many are only kept.
    pub(super) only_kept: u64,
    /// How many have a dirty byte.
    pub(super) unwritten: u64,
    /// Pages with [`Page::ready`].
    pub(super) ready: BTreeSet<u64>,
    /// Those of them with nothing but dirty bytes: one write cleans each of them.
    pub(super) whole: BTreeSet<u64>,
    /// Those of the others with one range of dirty bytes that was written once.
    pub(super) cheap: BTreeSet<u64>,
    /// Those of [`Pages::ready`] that are due.
    pub(super) due: BTreeMap<u64, Due>,
    /// Those that are not, by the time since when they are dirty.
    pub(super) ages: BTreeSet<(Duration, u64)>,
    /// Pages that wait after a failure, by the time when they are tried again.
    pub(super) retries: BTreeSet<(Duration, u64)>,
    /// Where they are counted together with those of other objects.
    share: StoreShare,
}

impl Drop for Pages {
    fn drop(&mut self) {
        let totals = self.share.totals();
        totals.held.remove(self.held());
        totals.unwritten.remove(self.unwritten);
        totals.only_kept.remove(self.only_kept);
    }
}

impl Pages {
    /// None, of an object of a store.
    pub(super) fn new(share: &StoreShare, page_bytes: u64) -> Self {
        Self {
            page_bytes,
            all: BTreeMap::new(),
            only_kept: 0,
            unwritten: 0,
            ready: BTreeSet::new(),
            whole: BTreeSet::new(),
            cheap: BTreeSet::new(),
            due: BTreeMap::new(),
            ages: BTreeSet::new(),
            retries: BTreeSet::new(),
            share: share.clone(),
        }
    }

    /// A page that has a dirty byte from now on.
    pub(super) fn enter(&mut self, number: u64, make: impl FnOnce() -> Page) -> &mut Page {
        let share = &self.share;
        self.all.entry(number).or_insert_with(|| {
            share.totals().held.add(1);
            make()
        })
    }

    /// The bytes of a page.
    pub(super) fn span(&self, number: u64) -> Span {
        let start = number.saturating_mul(self.page_bytes);
        (start, start.saturating_add(self.page_bytes))
    }

    /// The pages of `start..end`.
    pub(super) fn numbers(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        if start >= end {
            return 0..0;
        }
        start / self.page_bytes..end.div_ceil(self.page_bytes)
    }

    /// The memory of so many pages, in bytes.
    pub(super) fn memory_bytes(&self, pages: u64) -> u64 {
        pages.saturating_mul(self.page_bytes)
    }

    /// How many there are.
    pub(super) fn held(&self) -> u64 {
        self.all.len() as u64
    }

    /// How many pages of a range are held, and how many are dirty.
    pub(super) fn count(&self, numbers: std::ops::Range<u64>) -> (u64, u64) {
        if numbers.end - numbers.start == 1 {
            let page = self.all.get(&numbers.start);
            return page.map_or((0, 0), |page| (1, page.dirty.into()));
        }
        let pages = self.all.range(numbers);
        pages.fold((0, 0), |(held, dirty), (_, page)| {
            (held + 1, dirty + u64::from(page.dirty))
        })
    }

    /// Takes a page out of what may be written.
    pub(super) fn withdraw(&mut self, number: u64) {
        let Some(page) = self.all.get_mut(&number) else {
            return;
        };
        if std::mem::take(&mut page.ready) {
            self.ages.remove(&(page.since, number));
            self.ready.remove(&number);
            self.due.remove(&number);
            self.rank(number, false, false);
        }
    }

    /// Notes what it costs to clean a page that may be written: one write that is worth it, one
    /// write, or several; or it will soon be dirty again.
    fn rank(&mut self, number: u64, is_whole: bool, is_cheap: bool) {
        for (pages, belongs) in [(&mut self.whole, is_whole), (&mut self.cheap, is_cheap)] {
            if belongs {
                pages.insert(number);
            } else {
                pages.remove(&number);
            }
        }
    }

    /// Brings a page up to date whose bytes changed; lets go of a clean one.
    pub(super) fn refresh(&mut self, bytes: &Bytes, number: u64) {
        let (start, end) = self.span(number);
        let Some(page) = self.all.get_mut(&number) else {
            return;
        };
        let (range, is_one) = bytes.dirty.last_within(start, end);
        let dirty = range.is_some();
        if dirty != std::mem::replace(&mut page.dirty, dirty) {
            let total = &self.share.totals().unwritten;
            if dirty {
                self.unwritten += 1;
                total.add(1);
            } else {
                self.unwritten -= 1;
                total.remove(1);
            }
        }
        let is_kept = bytes.is_kept(start, end);
        let only_kept = is_kept && !dirty && page.flights == 0;
        if only_kept != std::mem::replace(&mut page.only_kept, only_kept) {
            // It was written a moment ago.
            page.fresh = false;
            let total = &self.share.totals().only_kept;
            if only_kept {
                self.only_kept += 1;
                total.add(1);
            } else {
                self.only_kept -= 1;
                total.remove(1);
            }
        }
        let may_write = dirty
            && !page.waiting
            && (bytes.flights.is_empty() || bytes.candidate(start, end).is_some());
        if may_write {
            if !std::mem::replace(&mut page.ready, true) {
                self.ages.insert((page.since, number));
                self.ready.insert(number);
            }
            let is_free = page.flights == 0;
            let is_whole = is_free && range == Some((start, end));
            let is_cheap = is_free && !is_whole && is_one && !page.rewritten;
            self.rank(number, is_whole, is_cheap);
            return;
        }
        let is_clean = !dirty && page.flights == 0 && !is_kept;
        let retry = page.waiting.then_some((page.retry_at, number));
        self.withdraw(number);
        if is_clean {
            if let Some(retry) = retry {
                self.retries.remove(&retry);
            }
            self.all.remove(&number);
            self.share.totals().held.remove(1);
        }
    }

    /// Makes a page due that may be written.
    pub(super) fn make_due(&mut self, number: u64, due: Due) {
        if let Some(page) = self.all.get(&number).filter(|page| page.ready) {
            self.ages.remove(&(page.since, number));
            self.due.insert(number, due);
        }
    }
}
