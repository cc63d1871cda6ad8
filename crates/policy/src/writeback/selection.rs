//! What to write next.
//!
//! In this order: tagged bytes, the tags taking turns; pages that are due (dirty for 30 s, to be
//! retried, or behind a sequential writer); whole pages, while dirty memory is above the background
//! limit; any page, when all but an eighth of the limit is dirty, until that is half way back to
//! the background limit. After four of the longest writes of tagged bytes the others have one, so
//! that endless commits hold up no other write.
//!
//! The writes ascend from where the last one ended and begin anew at the lowest (C-LOOK), so that
//! a writer at the beginning does not keep those at the end from being written.
//!
//! **Whole pages first.** What memory costs is pages, what writing costs is writes. A page that is
//! dirty from end to end is cleaned by one write, often shared with its neighbours, and nothing is
//! gained by waiting. One with gaps costs a write for each range, and each gap that is filled later
//! saves one. So pages with gaps stay while there is room. When there is none, those go first that
//! cost one write and in which nothing was written twice (*cheap* ones): pages in which much has
//! gathered stay and become whole.
//!
//! ```text
//!   |####|####|    |#   |# # | ## |####|      pages, # dirty
//!    1st  1st       3rd  4th   3rd  2nd       above the background limit: 1st, 2nd;
//!    one write                                above 7/8: 3rd; if there are none: 4th
//! ```
//!
//! Blocks in random order, each once, over N pages, with room for L pages with gaps: pages that
//! stay from beginning to end cost one write or less, all others a write for each block. With 16
//! blocks in a page this is `1 - 15/16 x L/N` writes for each block, and no choice of pages does
//! much better, as no page becomes whole before nearly all blocks were written. Ascending order
//! alone throws pages out when they cost most, half full.
//!
//! A write grows over adjacent dirty bytes, and stops at bytes that are under write-out, at a page
//! that waits after a failure, and at the longest write: what the device likes, and a third of
//! what may be under write-out.
//!
//! Expiry is looked for at every tick. When one page has expired, all that are past half of
//! the time go along: they are written in ascending order, and not each in turn as its time comes.
//!
//! Enough under write-out stops everything, until it is down to 2/3.
//!
//! Known weaknesses: a write never grows over clean bytes, so small random writes over more than
//! memory may hold are not merged. A cheap page that is written again and again, but not while it
//! is dirty, goes each time, though one with gaps that nobody fills any more would be the better
//! one; that one goes when it expires.

use std::collections::BTreeSet;
use std::time::Duration;

use pagewell_base::spans::Span;

use super::pages::{Due, Flight};
use super::settings::TICK;
use super::share::TAG_WRITES;
use super::tags::Tagged;
use super::{Extent, Tag, Write, WriteBack, WriteId};

/// Why a write is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Tag,
    Due(Due),
    Background,
}

/// Pages that are dirty for longer than this part of the expiry time go along with expired ones.
const EXPIRE_ALONG_DIVISOR: u32 = 2;

impl WriteBack {
    /// What to write next, until `None`. Never bytes that are under write-out.
    pub fn next(&mut self, now: Duration) -> Option<Write> {
        let now = self.advance(now);
        self.end_waits(now);
        self.expire(now);
        let is_thinning = self.is_thinning();
        self.share.gate().thinning = is_thinning;
        let (is_full, has_tagged) = (self.is_flight_full(), self.has_tagged());
        let cluster_bytes = self.cluster_bytes();
        if is_full
            || self
                .share
                .gate()
                .yields(self.object, has_tagged, cluster_bytes)
        {
            if has_tagged || self.has_work() {
                self.share.gate().wait(self.object, has_tagged);
            }
            return None;
        }
        let chosen = self.choose();
        let tag_bytes = match &chosen {
            Some(((start, end), Reason::Tag)) => end - start,
            _ => 0,
        };
        self.share.gate().serve(self.object, tag_bytes);
        let (span, reason) = chosen?;
        Some(self.hand_out(span, reason))
    }

    /// When [`WriteBack::next`] may have something, or a flush is wanted, without any other event.
    /// `None` when nothing is dirty or kept, or only the end of a write or of a flush can change
    /// that.
    #[must_use]
    pub fn next_at(&self, now: Duration) -> Option<Duration> {
        let now = self.now.max(now);
        let is_stopped = self.share.gate().flight_stopped;
        if is_stopped {
            return self.flush_at().map(|at| at.max(now));
        }
        if self.has_work() {
            return Some(now);
        }
        let ages = self.pages.ages.first();
        let expiry = ages.map(|&(since, _)| self.expires_at(since));
        let retry = self.pages.retries.first().map(|&(at, _)| at);
        let next = [expiry, retry, self.flush_at()].into_iter().flatten().min();
        next.map(|at| at.max(now))
    }

    /// Whether there is something to write at once.
    pub(super) fn has_work(&self) -> bool {
        !self.pages.due.is_empty() || self.has_background_work() || self.has_tagged()
    }

    /// Whether a commit waits for something that can be handed out.
    fn has_tagged(&self) -> bool {
        let mut pending = self.tags.pending.values();
        pending.any(|tagged| self.tagged(tagged).is_some())
    }

    /// Tags have gone: if none is left that waits for a place, others need not go after this one.
    pub(super) fn leave_place(&self) {
        if !self.has_tagged() {
            self.share.gate().leave(self.object);
        }
    }

    /// Whether pages are to be written because so much memory is dirty.
    pub(super) fn has_background_work(&self) -> bool {
        self.background_pages(false).is_some()
    }

    /// The pages that are written because so much memory is dirty. When it is the turn of those
    /// that do not commit (`is_turn`), whole pages come first only as long as others may wait.
    fn background_pages(&self, is_turn: bool) -> Option<&BTreeSet<u64>> {
        let (whole, cheap, ready) = (&self.pages.whole, &self.pages.cheap, &self.pages.ready);
        if self.unwritten_bytes() <= self.limits().background_bytes {
            return None;
        }
        let thins = self.is_thinning() && !ready.is_empty();
        if whole.is_empty() || is_turn && thins {
            return thins.then_some(if cheap.is_empty() { ready } else { cheap });
        }
        Some(whole)
    }

    fn unwritten_bytes(&self) -> u64 {
        let pages = self.share.totals().unwritten.get();
        self.pages.memory_bytes(pages)
    }

    /// Whether pages with gaps are written: from the one limit down to the other.
    pub(super) fn is_thinning(&self) -> bool {
        let gate = self.share.gate();
        let (limits, is_thinning) = (gate.pacing.limits(), gate.thinning);
        drop(gate);
        let most_bytes = match is_thinning {
            true => limits.background_bytes.midpoint(limits.thin_bytes),
            false => limits.thin_bytes,
        };
        self.unwritten_bytes() > most_bytes
    }

    /// Pages whose time after a failure is over are due again.
    fn end_waits(&mut self, now: Duration) {
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

    /// The tick at which a page has expired.
    fn expires_at(&self, since: Duration) -> Duration {
        let expiry = since.saturating_add(self.settings.expire).as_nanos();
        let tick = TICK.as_nanos();
        let nanoseconds = expiry.div_ceil(tick).saturating_mul(tick);
        // Past the last moment there is, it never comes.
        u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
    }

    fn expire(&mut self, now: Duration) {
        let oldest = self.pages.ages.first();
        if oldest.is_none_or(|&(since, _)| self.expires_at(since) > now) {
            return;
        }
        let along = self.settings.expire / EXPIRE_ALONG_DIVISOR;
        while let Some(&(since, number)) = self.pages.ages.first()
            && since.saturating_add(along) <= now
        {
            self.pages.ages.pop_first();
            self.pages.make_due(number, Due::Expired);
        }
    }

    /// Whether so much is under write-out that nothing more is handed out.
    pub(super) fn is_flight_full(&mut self) -> bool {
        let most = self.limits().flight_bytes_max;
        let flight_bytes = self.share.totals().flight_bytes.get();
        let full = flight_bytes > 0 && flight_bytes + self.cluster_bytes() > most;
        let mut gate = self.share.gate();
        if gate.flight_stopped {
            gate.flight_stopped = full || flight_bytes > most / 3 * 2;
        } else if full {
            gate.flight_stopped = true;
            self.counts.flight_stops += 1;
            gate.pacing.pressed();
        }
        gate.flight_stopped
    }

    /// The longest write now: whole pages, if it is at least one.
    pub(super) fn cluster_bytes(&self) -> u64 {
        let third = self.limits().flight_bytes_max / 3;
        let bytes = self.settings.cluster_bytes_max.min(third);
        let pages = bytes / self.settings.page_bytes * self.settings.page_bytes;
        if pages > 0 { pages } else { bytes.max(1) }
    }

    fn choose(&mut self) -> Option<(Span, Reason)> {
        if self.tags.bytes_in_row >= self.cluster_bytes().saturating_mul(TAG_WRITES) {
            self.tags.bytes_in_row = 0;
            if let Some(other) = self.choose_other(true) {
                self.counts.tags_yielded += 1;
                return Some(other);
            }
        }
        if let Some(span) = self.choose_tagged() {
            return Some((span, Reason::Tag));
        }
        self.choose_other(false)
    }

    /// What of a tag can be handed out now.
    fn tagged(&self, tagged: &Tagged) -> Option<Span> {
        let mut todo = tagged.todo.iter();
        todo.find_map(|(start, end)| self.bytes.candidate(start, end))
    }

    fn choose_tagged(&mut self) -> Option<Span> {
        let pending = &self.tags.pending;
        let after = self.tags.last.map_or(0, |tag| tag.0.saturating_add(1));
        let (tag, (start, end)) = pending
            .range(Tag(after)..)
            .chain(pending.range(..Tag(after)))
            .find_map(|(&tag, tagged)| Some((tag, self.tagged(tagged)?)))?;
        self.tags.last = Some(tag);
        let end = end.min(start.saturating_add(self.cluster_bytes()));
        self.tags.bytes_in_row = self.tags.bytes_in_row.saturating_add(end - start);
        Some((start, end))
    }

    /// What is due or in the way.
    fn choose_other(&self, is_turn: bool) -> Option<(Span, Reason)> {
        // What is left of the page in which the last write ended comes first.
        let last = self.cursor / self.settings.page_bytes;
        let (_, last_end) = self.pages.span(last);
        let has_rest = self.bytes.candidate(self.cursor, last_end).is_some();
        let from = if has_rest { last } else { last + 1 };
        let due = &self.pages.due;
        let (page, reason) = if due.is_empty() {
            let pages = self.background_pages(is_turn)?;
            let next = pages.range(from..).next();
            (*next.or_else(|| pages.first())?, Reason::Background)
        } else {
            let next = due.range(from..).next();
            let (&page, &due) = next.or_else(|| due.first_key_value())?;
            (page, Reason::Due(due))
        };
        let is_rest = has_rest && page == last;
        let span = self.grow(page, if is_rest { self.cursor } else { 0 })?;
        Some((span, reason))
    }

    /// Where a write begins that would begin at a byte: what is dirty in the page before goes along
    /// when it touches, as it would be a write of its own later. Not a whole page: that has come
    /// anew behind the last write, and is not next.
    fn begin(&self, byte: u64) -> u64 {
        let before = match byte.checked_sub(1) {
            Some(last) if byte.is_multiple_of(self.settings.page_bytes) => {
                last / self.settings.page_bytes
            }
            _ => return byte,
        };
        let (start, _) = self.pages.span(before);
        if !self.pages.ready.contains(&before) || self.pages.whole.contains(&before) {
            return byte;
        }
        let range = self.bytes.dirty.within(start, byte).last();
        let is_free = |&(from, to): &Span| to == byte && !self.bytes.is_flying(from, to);
        range.filter(is_free).map_or(byte, |(from, _)| from)
    }

    /// The write that begins in a page, at a byte or after it.
    fn grow(&self, page: u64, byte: u64) -> Option<Span> {
        let (page_start, page_end) = self.pages.span(page);
        let (start, mut end) = self.bytes.candidate(page_start.max(byte), page_end)?;
        let start = self.begin(start);
        let most = start.saturating_add(self.cluster_bytes());
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

    /// From now on the bytes are under write-out.
    fn hand_out(&mut self, span: Span, reason: Reason) -> Write {
        let (start, end) = span;
        let id = WriteId(self.next_id);
        self.next_id += 1;
        let numbers = self.pages.numbers(start, end);
        let mut since = self.now;
        for (_, page) in self.pages.all.range_mut(numbers.clone()) {
            page.flights += 1;
            since = since.min(page.since);
        }
        let flight = Flight {
            id,
            end,
            parts: self.bytes.dirty.take(start, end),
            since,
            began: self.now,
            cut: false,
            doubtful: false,
            forgotten: false,
        };
        self.bytes.flights.insert(start, flight);
        self.starts.insert(id, start);
        self.cursor = end;
        self.refresh(start, end);
        self.habit.note(numbers, self.now, self.settings.expire);
        self.tags.begin(id, start, end);
        self.flight_bytes += end - start;
        let totals = self.share.totals();
        totals.flight_bytes.add(end - start);
        totals.flights.add(1);
        self.share.gate().pacing.began(self.now);
        self.counts.writes += 1;
        self.counts.write_bytes += end - start;
        match reason {
            Reason::Tag => self.counts.tagged_writes += 1,
            Reason::Due(Due::Expired) => self.counts.expired_writes += 1,
            Reason::Due(Due::Retry) => self.counts.retry_writes += 1,
            Reason::Due(Due::Behind) => self.counts.behind_writes += 1,
            Reason::Background => self.counts.background_writes += 1,
        }
        Write {
            id,
            extent: Extent::of(span),
        }
    }
}
