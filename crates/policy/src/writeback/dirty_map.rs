//! Which bytes of an object are dirty, under write-out or kept, and which pages may be written, and
//! why: the choice of a write searches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use pagewell_base::spans::{Span, Spans};

use super::settings::{TICK, retry_delay};
use super::share::{Amount, Amounts, StoreShare};
use super::stream::Fill;
use super::{Extent, Settings, WriteId};

/// Pages dirty for this part of the expiry time go along with expired ones.
const EXPIRE_ALONG_DIVISOR: u32 = 2;

#[derive(Debug)]
struct Flight {
    id: WriteId,
    end: u64,
    parts: Spans,
    /// When its oldest page became dirty, and when it was handed out.
    since: Duration,
    began: Duration,
    /// Bytes of it were discarded.
    cut: bool,
    /// A flush failed meanwhile, which may have lost a part.
    doubtful: bool,
    /// No byte of it counts.
    forgotten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Written,
    /// Its bytes are dirty again, and wait: the device may be full or away.
    Failed,
    PutBack,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub bytes: u64,
    pub released_bytes: u64,
    pub parts: Spans,
}

#[derive(Debug, Default)]
struct Bytes {
    /// Under write-out, too, if dirty again.
    dirty: Spans,
    /// Written, and in no flush yet, or in the one on its way.
    kept: Spans,
    covered: Spans,
    /// By first byte, not overlapping.
    flights: BTreeMap<u64, Flight>,
    starts: BTreeMap<WriteId, u64>,
}

impl Bytes {
    fn candidate(&self, start: u64, end: u64) -> Option<Span> {
        let mut dirty = self.dirty.within(start, end);
        dirty.find_map(|(from, to)| self.grounded(from, to))
    }

    /// The first part not under write-out.
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

    /// Where the first write begins that may reach past `start`.
    fn first_flight(&self, start: u64) -> u64 {
        match self.flights.range(..start).next_back() {
            Some((&low, flight)) if flight.end > start => low,
            _ => start,
        }
    }

    /// What is under write-out, ascending, even if forgotten.
    fn flying(&self, start: u64, end: u64) -> impl Iterator<Item = (Span, &Flight)> {
        let from = self.first_flight(start);
        self.flights
            .range(from..end.max(from))
            .map(move |(&low, flight)| ((low.max(start), flight.end.min(end)), flight))
            .filter(|((low, high), _)| low < high)
    }

    /// The same, not forgotten.
    fn wanted(&self, start: u64, end: u64) -> impl Iterator<Item = (Span, &Flight)> {
        let flying = self.flying(start, end);
        flying.filter(|(_, flight)| !flight.forgotten)
    }

    fn held(&self, start: u64, end: u64) -> Spans {
        let mut spans = Spans::default();
        for set in [&self.dirty, &self.kept, &self.covered] {
            for (from, to) in set.within(start, end) {
                spans.insert(from, to);
            }
        }
        spans
    }

    fn is_kept(&self, start: u64, end: u64) -> bool {
        let holds = |spans: &Spans| !spans.is_empty() && spans.overlaps(start, end);
        holds(&self.kept) || holds(&self.covered)
    }

    fn flight(&self, id: WriteId) -> Option<&Flight> {
        self.flights.get(self.starts.get(&id)?)
    }
}

/// A page with bytes that are dirty, under write-out or kept.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    since: Duration,
    flights: u32,
    dirty: bool,
    /// All its bytes are kept or clean.
    only_kept: bool,
    /// A byte may be written now.
    ready: bool,
    /// Dirty bytes were written once, none to the device within an expiry interval.
    fresh: bool,
    /// A byte was written again while dirty or under write-out.
    rewritten: bool,
    waiting: bool,
    retry_at: Duration,
    /// The last wait; zero after a good write.
    retry_delay: Duration,
}

/// Why a page is written below the background limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Expired,
    Retry,
    Behind,
}

#[derive(Debug)]
struct Pages {
    page_bytes: u64,
    all: BTreeMap<u64, Page>,
    ready: BTreeSet<u64>,
    /// Ready pages with nothing but dirty bytes.
    whole: BTreeSet<u64>,
    /// Others with one range of dirty bytes, written once.
    cheap: BTreeSet<u64>,
    /// Ready pages that are due.
    due: BTreeMap<u64, Due>,
    /// Other ready pages, by [`Page::since`].
    ages: BTreeSet<(Duration, u64)>,
    /// Pages that wait after a failure, by [`Page::retry_at`].
    retries: BTreeSet<(Duration, u64)>,
    amounts: Amounts,
}

impl Pages {
    fn span(&self, number: u64) -> Span {
        let start = number.saturating_mul(self.page_bytes);
        (start, start.saturating_add(self.page_bytes))
    }

    fn numbers(&self, start: u64, end: u64) -> Range<u64> {
        if start >= end {
            return 0..0;
        }
        start / self.page_bytes..end.div_ceil(self.page_bytes)
    }

    fn withdraw(&mut self, number: u64) {
        if let Some(page) = self.all.get_mut(&number)
            && std::mem::take(&mut page.ready)
        {
            self.ages.remove(&(page.since, number));
            self.ready.remove(&number);
            self.due.remove(&number);
            self.rank(number, false, false);
        }
    }

    fn rank(&mut self, number: u64, is_whole: bool, is_cheap: bool) {
        for (pages, belongs) in [(&mut self.whole, is_whole), (&mut self.cheap, is_cheap)] {
            if belongs {
                pages.insert(number);
            } else {
                pages.remove(&number);
            }
        }
    }

    /// Forgets a clean page.
    fn refresh(&mut self, bytes: &Bytes, number: u64) {
        let (start, end) = self.span(number);
        let Some(page) = self.all.get_mut(&number) else {
            return;
        };
        let (range, is_one) = bytes.dirty.last_within(start, end);
        let dirty = range.is_some();
        if dirty != std::mem::replace(&mut page.dirty, dirty) {
            self.amounts.count(Amount::UnwrittenPages, dirty);
        }
        let is_kept = bytes.is_kept(start, end);
        let only_kept = is_kept && !dirty && page.flights == 0;
        if only_kept != std::mem::replace(&mut page.only_kept, only_kept) {
            // It has just been written.
            page.fresh = false;
            self.amounts.count(Amount::OnlyKeptPages, only_kept);
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
            self.amounts.count(Amount::HeldPages, false);
        }
    }

    fn make_due(&mut self, number: u64, due: Due) {
        if let Some(page) = self.all.get(&number).filter(|page| page.ready) {
            self.ages.remove(&(page.since, number));
            self.due.insert(number, due);
        }
    }

    fn background(&self, thins: bool, is_turn: bool) -> Option<&BTreeSet<u64>> {
        let thins = thins && !self.ready.is_empty();
        if self.whole.is_empty() || is_turn && thins {
            let rest = match self.cheap.is_empty() {
                true => &self.ready,
                false => &self.cheap,
            };
            return thins.then_some(rest);
        }
        Some(&self.whole)
    }
}

#[derive(Debug)]
pub(super) struct DirtyMap {
    bytes: Bytes,
    pages: Pages,
    next_id: u64,
    expire: Duration,
}

impl DirtyMap {
    pub(super) fn new(settings: &Settings, share: &StoreShare) -> Self {
        let pages = Pages {
            page_bytes: settings.page_bytes,
            all: BTreeMap::new(),
            ready: BTreeSet::new(),
            whole: BTreeSet::new(),
            cheap: BTreeSet::new(),
            due: BTreeMap::new(),
            ages: BTreeSet::new(),
            retries: BTreeSet::new(),
            amounts: Amounts::new(share),
        };
        Self {
            bytes: Bytes::default(),
            pages,
            next_id: 0,
            expire: settings.expire,
        }
    }

    pub(super) fn unclean(&self, start: u64, end: u64) -> Spans {
        let mut spans = self.bytes.held(start, end);
        for (_, flight) in self.bytes.wanted(start, end) {
            for (from, to) in flight.parts.iter() {
                spans.insert(from.max(start), to.min(end));
            }
        }
        spans
    }

    pub(super) fn is_kept(&self, start: u64, end: u64) -> bool {
        self.bytes.is_kept(start, end)
    }

    pub(super) fn is_unwritten(&self, start: u64, end: u64) -> bool {
        self.bytes.dirty.overlaps(start, end) || self.bytes.wanted(start, end).next().is_some()
    }

    /// What is dirty, and the writes under way.
    pub(super) fn unwritten(&self, start: u64, end: u64) -> (Spans, BTreeSet<WriteId>) {
        let mut dirty = Spans::default();
        for (from, to) in self.bytes.dirty.within(start, end) {
            dirty.insert(from, to);
        }
        let flying = self.bytes.wanted(start, end);
        (dirty, flying.map(|(_, flight)| flight.id).collect())
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.bytes.dirty.bytes()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.bytes.kept.bytes() + self.bytes.covered.bytes()
    }

    /// Runs of bytes that no flush covers.
    pub(super) fn kept_spans(&self) -> usize {
        self.bytes.kept.count()
    }

    pub(super) fn amount(&self, of: Amount) -> u64 {
        self.pages.amounts.own(of)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.all.is_empty()
    }

    /// Pages, held ones, and dirty ones.
    pub(super) fn count(&self, start: u64, end: u64) -> (u64, u64, u64) {
        let numbers = self.pages.numbers(start, end);
        let pages = numbers.end - numbers.start;
        if pages == 1 {
            let page = self.pages.all.get(&numbers.start);
            return page.map_or((1, 0, 0), |page| (1, 1, page.dirty.into()));
        }
        let held = self.pages.all.range(numbers);
        held.fold((pages, 0, 0), |(pages, held, dirty), (_, page)| {
            (pages, held + 1, dirty + u64::from(page.dirty))
        })
    }

    pub(super) fn page_bytes(&self) -> u64 {
        self.pages.page_bytes
    }

    pub(super) fn span(&self, number: u64) -> Span {
        self.pages.span(number)
    }

    pub(super) fn next_page(&self, number: u64) -> Option<u64> {
        self.pages.all.range(number..).next().map(|(&page, _)| page)
    }

    pub(super) fn is_fresh(&self, number: u64) -> bool {
        self.pages.all.get(&number).is_some_and(|page| page.fresh)
    }

    pub(super) fn fill(&self, number: u64) -> Fill {
        let (start, end) = self.pages.span(number);
        match self.pages.all.get(&number) {
            None => Fill::Empty,
            Some(page) if !page.fresh || !page.ready => Fill::Stale,
            Some(_) if self.bytes.dirty.covers(start, end) => Fill::Full,
            Some(_) => Fill::Partial,
        }
    }

    pub(super) fn make_due(&mut self, number: u64, due: Due) {
        self.pages.make_due(number, due);
    }

    fn refresh(&mut self, start: u64, end: u64) {
        let mut numbers = self.pages.numbers(start, end);
        // Only pages that are held: the range may be all numbers.
        while let Some((&number, _)) = self.pages.all.range(numbers.clone()).next() {
            self.pages.refresh(&self.bytes, number);
            numbers.start = number + 1;
        }
    }

    /// `is_recent`: a page was written to the device lately. Returns how many bytes were clean, and
    /// are under write-out.
    pub(super) fn write(
        &mut self,
        (start, end): Span,
        now: Duration,
        mut is_recent: impl FnMut(u64) -> bool,
    ) -> (u64, u64) {
        let mut flying_bytes = 0;
        if !self.bytes.flights.is_empty() {
            let parts = self.bytes.flying(start, end);
            flying_bytes = parts.map(|((from, to), _)| to - from).sum();
        }
        let new_bytes = self.bytes.dirty.insert(start, end);
        let once = new_bytes == end - start && flying_bytes == 0;
        for number in self.pages.numbers(start, end) {
            let amounts = &mut self.pages.amounts;
            let page = self.pages.all.entry(number).or_insert_with(|| {
                amounts.count(Amount::HeldPages, true);
                Page {
                    fresh: once && !is_recent(number),
                    ..Page::default()
                }
            });
            page.fresh &= once;
            page.rewritten |= !once;
            if !page.dirty {
                page.since = now;
            }
            self.pages.refresh(&self.bytes, number);
        }
        (new_bytes, flying_bytes)
    }

    pub(super) fn join(&mut self, start: u64, end: u64) {
        let is_scattered = self.bytes.dirty.within(start, end).nth(1).is_some();
        if is_scattered {
            self.bytes.dirty.insert(start, end);
            self.refresh(start, end);
        }
    }

    /// Makes pages due whose wait after a failure is over.
    pub(super) fn end_waits(&mut self, now: Duration) {
        while let Some(&(at, number)) = self.pages.retries.first()
            && at <= now
        {
            self.pages.retries.pop_first();
            if let Some(page) = self.pages.all.get_mut(&number) {
                page.waiting = false;
            }
            self.pages.refresh(&self.bytes, number);
            self.pages.make_due(number, Due::Retry);
        }
    }

    /// The tick at which a page expires.
    fn expires_at(&self, since: Duration) -> Duration {
        let expiry = since.saturating_add(self.expire).as_nanos();
        let tick = TICK.as_nanos();
        let nanoseconds = expiry.div_ceil(tick).saturating_mul(tick);
        // Past the last moment: never.
        u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
    }

    pub(super) fn expire(&mut self, now: Duration) {
        let oldest = self.pages.ages.first();
        if oldest.is_none_or(|&(since, _)| self.expires_at(since) > now) {
            return;
        }
        let along = self.expire / EXPIRE_ALONG_DIVISOR;
        while let Some(&(since, number)) = self.pages.ages.first()
            && since.saturating_add(along) <= now
        {
            self.pages.ages.pop_first();
            self.pages.make_due(number, Due::Expired);
        }
    }

    pub(super) fn next_due_at(&self) -> Option<Duration> {
        let ages = self.pages.ages.first();
        let expiry = ages.map(|&(since, _)| self.expires_at(since));
        let retry = self.pages.retries.first().map(|&(at, _)| at);
        expiry.into_iter().chain(retry).min()
    }

    pub(super) fn has_due(&self) -> bool {
        !self.pages.due.is_empty()
    }

    /// The first due page from `from` on, else the lowest.
    pub(super) fn next_due(&self, from: u64) -> Option<(u64, Due)> {
        let due = &self.pages.due;
        let next = due.range(from..).next().or_else(|| due.first_key_value());
        next.map(|(&page, &due)| (page, due))
    }

    /// The same above the background limit: whole pages, and with `thins` those with gaps, which go
    /// first with `is_turn`.
    pub(super) fn next_background(&self, thins: bool, is_turn: bool, from: u64) -> Option<u64> {
        let pages = self.pages.background(thins, is_turn)?;
        let next = pages.range(from..).next().or_else(|| pages.first());
        next.copied()
    }

    /// The first bytes dirty and not under write-out.
    pub(super) fn candidate(&self, start: u64, end: u64) -> Option<Span> {
        self.bytes.candidate(start, end)
    }

    /// What touches a write in the page before goes along, unless that page is whole: then it came
    /// anew behind the last write.
    fn begin_at(&self, byte: u64) -> u64 {
        let page_bytes = self.pages.page_bytes;
        let before = match byte.checked_sub(1) {
            Some(last) if byte.is_multiple_of(page_bytes) => last / page_bytes,
            _ => return byte,
        };
        let (start, _) = self.pages.span(before);
        if !self.pages.ready.contains(&before) || self.pages.whole.contains(&before) {
            return byte;
        }
        let range = self.bytes.dirty.within(start, byte).last();
        let is_free =
            |&(from, to): &Span| to == byte && self.bytes.flying(from, to).next().is_none();
        range.filter(is_free).map_or(byte, |(from, _)| from)
    }

    /// The write that begins in a page, from a byte on.
    pub(super) fn grow(&self, page: u64, byte: u64, bytes_max: u64) -> Option<Span> {
        let (page_start, page_end) = self.pages.span(page);
        let (start, mut end) = self.bytes.candidate(page_start.max(byte), page_end)?;
        let start = self.begin_at(start);
        let most = start.saturating_add(bytes_max);
        let mut page = page;
        while end < most && end == self.pages.span(page).1 {
            page += 1;
            let (next_start, next_end) = self.pages.span(page);
            if !self.pages.ready.contains(&page) {
                break;
            }
            match self.bytes.candidate(next_start, next_end) {
                Some((from, to)) if from == end => end = to,
                _ => break,
            }
        }
        Some((start, end.min(most)))
    }

    pub(super) fn begin(&mut self, (start, end): Span, now: Duration) -> (WriteId, Range<u64>) {
        let id = WriteId(self.next_id);
        self.next_id += 1;
        let numbers = self.pages.numbers(start, end);
        let mut since = now;
        for (_, page) in self.pages.all.range_mut(numbers.clone()) {
            page.flights += 1;
            since = since.min(page.since);
        }
        let mut parts = Spans::default();
        for (from, to) in self.bytes.dirty.take(start, end) {
            parts.insert(from, to);
        }
        let flight = Flight {
            id,
            end,
            parts,
            since,
            began: now,
            cut: false,
            doubtful: false,
            forgotten: false,
        };
        self.bytes.flights.insert(start, flight);
        self.bytes.starts.insert(id, start);
        let amounts = &mut self.pages.amounts;
        amounts.add(Amount::FlightBytes, end - start);
        amounts.count(Amount::Flights, true);
        self.refresh(start, end);
        (id, numbers)
    }

    pub(super) fn began(&self, id: WriteId) -> Option<Duration> {
        self.bytes.flight(id).map(|flight| flight.began)
    }

    pub(super) fn is_cut(&self, id: WriteId) -> bool {
        self.bytes.flight(id).is_some_and(|flight| flight.cut)
    }

    pub(super) fn is_doubtful(&self, id: WriteId) -> bool {
        self.bytes.flight(id).is_some_and(|flight| flight.doubtful)
    }

    /// Keeps the bytes of a write. False: none counts.
    pub(super) fn keep(&mut self, id: WriteId) -> bool {
        let bytes = &mut self.bytes;
        let start = bytes.starts.get(&id);
        let flight = start.and_then(|start| bytes.flights.get(start));
        let Some(flight) = flight.filter(|flight| !flight.forgotten) else {
            return false;
        };
        for (start, end) in flight.parts.iter() {
            bytes.kept.insert(start, end);
        }
        true
    }

    pub(super) fn end(&mut self, id: WriteId, end: End, now: Duration) -> Option<Ended> {
        let start = self.bytes.starts.remove(&id)?;
        let (start, flight) = self.bytes.flights.remove_entry(&start)?;
        let bytes = flight.end - start;
        let amounts = &mut self.pages.amounts;
        amounts.count(Amount::Flights, false);
        amounts.remove(Amount::FlightBytes, bytes);
        // A page that is only kept needs no writing.
        let unclean =
            |map: &Self| map.amount(Amount::HeldPages) - map.amount(Amount::OnlyKeptPages);
        let before = unclean(self);
        self.land(start, &flight, end, now);
        let released = before.saturating_sub(unclean(self));
        Some(Ended {
            bytes,
            released_bytes: released.saturating_mul(self.pages.page_bytes),
            parts: flight.parts,
        })
    }

    fn land(&mut self, start: u64, flight: &Flight, end: End, now: Duration) {
        if flight.forgotten {
            self.refresh(start, flight.end);
            return;
        }
        for number in self.pages.numbers(start, flight.end) {
            if end == End::Failed {
                // Its place among the ages changes.
                self.pages.withdraw(number);
            }
            let Some(page) = self.pages.all.get_mut(&number) else {
                continue;
            };
            page.flights = page.flights.saturating_sub(1);
            if end == End::PutBack {
                continue;
            }
            let retries = &mut self.pages.retries;
            if std::mem::take(&mut page.waiting) {
                retries.remove(&(page.retry_at, number));
            }
            if end == End::Written {
                page.retry_delay = Duration::ZERO;
                continue;
            }
            page.since = match page.dirty {
                true => page.since.min(flight.since),
                false => flight.since,
            };
            page.retry_delay = retry_delay(page.retry_delay);
            page.retry_at = now.saturating_add(page.retry_delay);
            page.waiting = true;
            retries.insert((page.retry_at, number));
        }
        if end != End::Written {
            for (start, end) in flight.parts.iter() {
                self.bytes.dirty.insert(start, end);
            }
        }
        self.refresh(start, flight.end);
    }

    pub(super) fn cover(&mut self) {
        let kept = std::mem::take(&mut self.bytes.kept);
        self.bytes.covered.extend(kept);
    }

    pub(super) fn clean_covered(&mut self) -> Vec<Extent> {
        let clean: Vec<Span> = std::mem::take(&mut self.bytes.covered).iter().collect();
        for &(start, end) in &clean {
            self.refresh(start, end);
        }
        clean.into_iter().map(Extent::of).collect()
    }

    pub(super) fn replay(&mut self) -> u64 {
        for flight in self.bytes.flights.values_mut() {
            flight.doubtful = true;
        }
        let mut bytes = 0;
        for spans in [&mut self.bytes.kept, &mut self.bytes.covered].map(std::mem::take) {
            bytes += spans.bytes();
            for (start, end) in spans.iter() {
                self.bytes.dirty.insert(start, end);
                self.refresh(start, end);
            }
        }
        bytes
    }

    pub(super) fn discard(&mut self, start: u64, end: u64) -> u64 {
        self.bytes.kept.take(start, end);
        self.bytes.covered.take(start, end);
        let taken = |spans: &mut Spans| -> u64 {
            let parts = spans.take(start, end).into_iter();
            parts.map(|(from, to)| to - from).sum()
        };
        let mut bytes = taken(&mut self.bytes.dirty);
        let from = self.bytes.first_flight(start);
        for (_, flight) in self.bytes.flights.range_mut(from..end.max(from)) {
            if !flight.forgotten {
                flight.cut = true;
                bytes += taken(&mut flight.parts);
            }
        }
        self.refresh(start, end);
        bytes
    }

    pub(super) fn forget(&mut self) -> u64 {
        let mut unclean = self.bytes.held(0, u64::MAX);
        for flight in self.bytes.flights.values_mut() {
            if !std::mem::replace(&mut flight.forgotten, true) {
                for (start, end) in flight.parts.iter() {
                    unclean.insert(start, end);
                }
            }
        }
        self.bytes.dirty.clear();
        self.bytes.kept.clear();
        self.bytes.covered.clear();
        for page in self.pages.all.values_mut() {
            page.flights = 0;
        }
        self.refresh(0, u64::MAX);
        unclean.bytes()
    }
}
