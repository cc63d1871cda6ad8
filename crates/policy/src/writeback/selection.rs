//! What to write next.
//!
//! In this order: blocks that the report's rules want at once; tagged bytes, the tags taking
//! turns; pages that are due (dirty for 30 s, to be retried, or behind a sequential writer); whole
//! pages, while dirty memory is above the background limit; any page, when all but an eighth of the
//! limit is dirty, until that is half way back to the background limit.
//! After four of the longest writes of tagged
//! bytes the others have one, so that endless commits starve nobody.
//!
//! Files take turns. A file keeps its turn for a chunk: half a second of bandwidth, at most 1/8 of
//! the hard limit, at least 4 MiB. Within a file the writes ascend from where the last one ended
//! and begin anew at the lowest (C-LOOK), so that a writer at the beginning does not keep
//! those at the end from being written.
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
//! the time go along, of all files: they are written in ascending order, and not each in turn as
//! its time comes.
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

use super::file::{Due, File, Flight};
use super::state::Flying;
use super::{Extent, FileNumber, Rule, Tag, Write, WriteBack, WriteId};

/// Why a write is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Block,
    Tag,
    Due(Due),
    Background,
}

/// After tagged bytes of so many of the longest writes the others have one.
const TAG_WRITES: u64 = 4;
/// Pages that are dirty for longer than this part of the expiry time go along with expired ones.
const EXPIRE_ALONG_DIVISOR: u32 = 2;

impl WriteBack {
    /// What to write next, until `None`. Never bytes that are under write-out.
    pub fn next(&mut self, now: Duration) -> Option<Write> {
        let now = self.advance(now);
        self.end_waits(now);
        self.expire(now);
        self.thinning = self.is_thinning();
        if self.is_flight_full() {
            return None;
        }
        let (file, span, reason) = self.choose()?;
        Some(self.hand_out(file, span, reason))
    }

    /// When [`WriteBack::next`] may have something, or a flush is wanted, without any other event.
    /// `None` when nothing is dirty or kept, or only the end of a write or of a flush can change
    /// that.
    #[must_use]
    pub fn next_at(&self, now: Duration) -> Option<Duration> {
        let now = self.now.max(now);
        if self.flight_stopped {
            return self.flush_at().map(|at| at.max(now));
        }
        if self.has_work() {
            return Some(now);
        }
        let ages = self.index.ages.first();
        let expiry = ages.map(|&(since, ..)| self.expires_at(since));
        let retry = self.index.retries.first().map(|&(at, ..)| at);
        let next = [expiry, retry, self.flush_at()].into_iter().flatten().min();
        next.map(|at| at.max(now))
    }

    /// Whether there is something to write at once.
    pub(super) fn has_work(&self) -> bool {
        !self.due_blocks.is_empty()
            || !self.index.due_files.is_empty()
            || self.has_background_work()
            || self
                .tags
                .waiting
                .iter()
                .any(|&tag| self.tagged(tag).is_some())
    }

    /// Whether pages are to be written because so much memory is dirty.
    pub(super) fn has_background_work(&self) -> bool {
        self.background_files(false).is_some()
    }

    /// The files with pages that are written because so much memory is dirty, and whether it has to
    /// be the whole pages of them.
    fn background_files(&self, is_turn: bool) -> Option<(&BTreeSet<FileNumber>, bool)> {
        let (whole, ready) = (&self.index.whole_files, &self.index.ready_files);
        if self.unwritten_bytes() <= self.pacing.limits().background_bytes {
            return None;
        }
        let thinned = (self.is_thinning() && !ready.is_empty()).then_some((ready, false));
        if whole.is_empty() || is_turn && thinned.is_some() {
            return thinned;
        }
        Some((whole, true))
    }

    fn unwritten_bytes(&self) -> u64 {
        let pages = self.index.unwritten_pages;
        pages.saturating_mul(self.settings.page_bytes)
    }

    /// Whether pages with gaps are written: from the one limit down to the other.
    pub(super) fn is_thinning(&self) -> bool {
        let limits = self.pacing.limits();
        let most_bytes = match self.thinning {
            true => limits.background_bytes.midpoint(limits.thin_bytes),
            false => limits.thin_bytes,
        };
        self.index.block_bytes.is_some() || self.unwritten_bytes() > most_bytes
    }

    /// Pages whose time after a failure is over are due again.
    fn end_waits(&mut self, now: Duration) {
        while let Some(&(at, number, page)) = self.index.retries.first()
            && at <= now
        {
            self.index.retries.pop_first();
            let Some(file) = self.files.get_mut(&number) else {
                continue;
            };
            if let Some(page) = file.pages.get_mut(&page) {
                page.waiting = false;
                self.counts.retried_pages += 1;
            }
            self.index.refresh(number, file, page);
            self.index.make_due(number, file, page, Due::Retry);
        }
    }

    /// The tick at which a page has expired.
    fn expires_at(&self, since: Duration) -> Duration {
        let expiry = since.saturating_add(self.settings.expire).as_nanos();
        let tick = self.settings.tick.as_nanos().max(1);
        let nanoseconds = expiry.div_ceil(tick).saturating_mul(tick);
        // Past the last moment there is, it never comes.
        u64::try_from(nanoseconds).map_or(Duration::MAX, Duration::from_nanos)
    }

    fn expire(&mut self, now: Duration) {
        let Some(&(since, ..)) = self.index.ages.first() else {
            return;
        };
        if self.expires_at(since) > now {
            return;
        }
        let along = self.settings.expire / EXPIRE_ALONG_DIVISOR;
        while let Some(&(since, number, page)) = self.index.ages.first()
            && since.saturating_add(along) <= now
        {
            self.index.ages.pop_first();
            if let Some(file) = self.files.get_mut(&number) {
                self.index.make_due(number, file, page, Due::Expired);
            }
        }
    }

    /// Whether so much is under write-out that nothing more is handed out.
    pub(super) fn is_flight_full(&mut self) -> bool {
        let most = self.pacing.limits().flight_bytes_max;
        let full = self.flight_bytes > 0 && self.flight_bytes + self.cluster_bytes() > most;
        if self.flight_stopped {
            self.flight_stopped = full || self.flight_bytes > most / 3 * 2;
        } else if full {
            self.flight_stopped = true;
            self.counts.flight_stops += 1;
            self.pacing.pressed();
        }
        self.flight_stopped
    }

    /// The longest write now: a block where blocks are written one by one; else whole pages, if
    /// it is at least one.
    pub(super) fn cluster_bytes(&self) -> u64 {
        if let Some(block_bytes) = self.index.block_bytes {
            return block_bytes;
        }
        let third = self.pacing.limits().flight_bytes_max / 3;
        let bytes = self.settings.cluster_bytes_max.min(third);
        let pages = bytes / self.settings.page_bytes * self.settings.page_bytes;
        if pages > 0 { pages } else { bytes.max(1) }
    }

    fn choose(&mut self) -> Option<(FileNumber, Span, Reason)> {
        while let Some((number, block)) = self.due_blocks.pop_front() {
            let Some(file) = self.files.get_mut(&number) else {
                continue;
            };
            file.due_blocks.remove(&block);
            let end = block.saturating_add(self.settings.block_bytes);
            if let Some(span) = file.candidate(block, end, self.index.block_bytes) {
                return Some((number, span, Reason::Block));
            }
        }
        let yields = self.tags.bytes_in_row >= self.cluster_bytes().saturating_mul(TAG_WRITES);
        if yields {
            self.tags.bytes_in_row = 0;
            if self.turn.file.is_none() || self.turn.file == self.tags.last_file {
                // The file that is being committed had its turn.
                self.turn.file = self.tags.last_file;
                self.turn.bytes_left = 0;
            }
            if let Some(other) = self.choose_other(true) {
                self.counts.tags_yielded += 1;
                return Some(other);
            }
        }
        if let Some((file, span)) = self.choose_tagged() {
            return Some((file, span, Reason::Tag));
        }
        self.choose_other(false)
    }

    /// What of a tag can be handed out now.
    fn tagged(&self, tag: Tag) -> Option<(FileNumber, Span)> {
        let tagged = self.tags.pending.get(&tag)?;
        let file = self.files.get(&tagged.file)?;
        let mut todo = tagged.todo.within(0, u64::MAX);
        let block_bytes = self.index.block_bytes;
        let span = todo.find_map(|(start, end)| file.candidate(start, end, block_bytes))?;
        Some((tagged.file, span))
    }

    fn choose_tagged(&mut self) -> Option<(FileNumber, Span)> {
        let waiting = &self.tags.waiting;
        let after = self.tags.last.map_or(0, |tag| tag.0.saturating_add(1));
        let (tag, file, span) = waiting
            .range(Tag(after)..)
            .chain(waiting.range(..Tag(after)))
            .find_map(|&tag| self.tagged(tag).map(|(file, span)| (tag, file, span)))?;
        self.tags.last = Some(tag);
        self.tags.last_file = Some(file);
        let (start, mut end) = span;
        if self.index.block_bytes.is_none() {
            end = end.min(start.saturating_add(self.cluster_bytes()));
        }
        self.tags.bytes_in_row = self.tags.bytes_in_row.saturating_add(end - start);
        Some((file, (start, end)))
    }

    /// What is due or in the way. When it is the turn of those that do not commit (`is_turn`),
    /// whole pages come first only as long as others may wait.
    fn choose_other(&mut self, is_turn: bool) -> Option<(FileNumber, Span, Reason)> {
        let due = !self.index.due_files.is_empty();
        let (files, is_whole) = match due {
            true => (&self.index.due_files, false),
            false => self.background_files(is_turn)?,
        };
        let number = self.turn_of(files)?;
        self.take_turn(number);
        let file = self.files.get(&number)?;
        // What is left of the page in which the last write ended comes first.
        let last = file.cursor / self.settings.page_bytes;
        let (_, last_end) = self.index.span(last);
        let rest = file.candidate(file.cursor, last_end, self.index.block_bytes);
        let (from, byte) = match rest {
            Some(_) => (last, file.cursor),
            None => (last + 1, 0),
        };
        let (page, reason) = if due {
            let next = file.due.range(from..).next();
            let (&page, &due) = next.or_else(|| file.due.first_key_value())?;
            (page, Reason::Due(due))
        } else {
            let pages = match is_whole {
                true => &file.whole,
                false if file.cheap.is_empty() => &file.ready,
                false => &file.cheap,
            };
            let next = pages.range(from..).next();
            (*next.or_else(|| pages.first())?, Reason::Background)
        };
        let byte = if page == last { byte } else { 0 };
        let span = self.grow(number, page, byte)?;
        self.turn.bytes_left = self.turn.bytes_left.saturating_sub(span.1 - span.0);
        Some((number, span, reason))
    }

    /// The file whose turn it is.
    fn turn_of(&self, files: &BTreeSet<FileNumber>) -> Option<FileNumber> {
        let last = self.turn.file;
        let stays = |file: &FileNumber| self.turn.bytes_left > 0 && files.contains(file);
        if last.as_ref().is_some_and(stays) {
            return last;
        }
        let after = last.map_or(0, |file| file.0.saturating_add(1));
        let next = files.range(FileNumber(after)..).next();
        next.or_else(|| files.first()).copied()
    }

    /// A file has its turn, still or from now on.
    fn take_turn(&mut self, file: FileNumber) {
        let last = self.turn.file;
        if last == Some(file) && self.turn.bytes_left > 0 {
            return;
        }
        if last != Some(file) {
            self.counts.turns += 1;
            self.counts.chunks_used_up += u64::from(last.is_some() && self.turn.bytes_left == 0);
        }
        self.turn.file = Some(file);
        self.turn.bytes_left = self.pacing.chunk_bytes();
    }

    /// Where a write begins that would begin at a byte: what is dirty in the page before goes along
    /// when it touches, as it would be a write of its own later. Not a whole page: that has come
    /// anew behind the last write, and is not next.
    fn begin(&self, file: &File, byte: u64) -> u64 {
        let before = match byte.checked_sub(1) {
            Some(last) if byte.is_multiple_of(self.settings.page_bytes) => {
                last / self.settings.page_bytes
            }
            _ => return byte,
        };
        let (start, _) = self.index.span(before);
        if !file.ready.contains(&before) || file.whole.contains(&before) {
            return byte;
        }
        let range = file.dirty.within(start, byte).last();
        let is_free = |&(from, to): &Span| to == byte && !file.is_flying(from, to);
        range.filter(is_free).map_or(byte, |(from, _)| from)
    }

    /// The write that begins in a page, at a byte or after it.
    fn grow(&self, number: FileNumber, page: u64, byte: u64) -> Option<Span> {
        let file = self.files.get(&number)?;
        let block_bytes = self.index.block_bytes;
        let (page_start, page_end) = self.index.span(page);
        let (start, mut end) = file.candidate(page_start.max(byte), page_end, block_bytes)?;
        if block_bytes.is_some() {
            return Some((start, end));
        }
        let start = self.begin(file, start);
        let most = start.saturating_add(self.cluster_bytes());
        let mut page = page;
        while end < most && end == self.index.span(page).1 {
            page += 1;
            let (next_start, next_end) = self.index.span(page);
            if !file.ready.contains(&page) {
                break;
            }
            match file.candidate(next_start, next_end, None) {
                Some((from, to)) if from == end => end = to,
                _ => break,
            }
        }
        Some((start, end.min(most)))
    }

    /// From now on the bytes are under write-out.
    fn hand_out(&mut self, number: FileNumber, span: Span, reason: Reason) -> Write {
        let (start, end) = span;
        let id = WriteId(self.next_id);
        self.next_id += 1;
        let mut flying = Flying {
            file: number,
            start,
            end,
            parts: Vec::new(),
            since: self.now,
            began: self.now,
            cut: false,
            doubtful: false,
        };
        if let Some(file) = self.files.get_mut(&number) {
            flying.parts = file.dirty.take(start, end);
            file.flights.insert(
                start,
                Flight {
                    end,
                    id,
                    forgotten: false,
                },
            );
            file.cursor = end;
            for page_number in self.index.pages(start, end) {
                if let Some(page) = file.pages.get_mut(&page_number) {
                    page.flights += 1;
                    flying.since = flying.since.min(page.since);
                }
                self.index.refresh(number, file, page_number);
            }
        }
        if self.settings.rule == Rule::Delayed {
            let pages = self.index.pages(start, end);
            self.habits
                .note(number, pages, self.now, self.settings.expire);
        }
        self.tags.begin(id, number, start, end);
        self.flying.insert(id, flying);
        self.flight_bytes += end - start;
        self.pacing.began(self.now);
        self.counts.writes += 1;
        self.counts.write_bytes += end - start;
        match reason {
            Reason::Block => self.counts.block_writes += 1,
            Reason::Tag => self.counts.tagged_writes += 1,
            Reason::Due(Due::Expired) => self.counts.expired_writes += 1,
            Reason::Due(Due::Retry) => self.counts.retry_writes += 1,
            Reason::Due(Due::Behind) => self.counts.behind_writes += 1,
            Reason::Background => self.counts.background_writes += 1,
        }
        Write {
            id,
            file: number,
            extent: Extent::of(span),
        }
    }
}
