//! What is written next, and whether a writer may go on.
//!
//! Order: tagged bytes, in turn; due pages (30 s dirty, to be retried, or behind a sequential
//! writer); whole pages, above the background limit; any page, when all but an eighth of the limit
//! is dirty, down to the middle between the two. After four of the longest tagged writes another
//! goes. Writes go in C-LOOK order. Enough under write-out stops all, until it is 2/3.
//!
//! **Whole pages first.** One write cleans a whole page; a page with gaps costs a write for each
//! range, and each gap filled later saves one. So pages with gaps stay while there is room. Then
//! those go first that cost one write and were not written twice (*cheap*); others become whole.
//!
//! ```text
//!   |####|####|    |#   |# # | ## |####|      pages, # dirty
//!    1st  1st       3rd  4th   3rd  2nd       above the background limit: 1st, 2nd;
//!    one write                                above 7/8: 3rd; if there are none: 4th
//! ```
//!
//! Blocks in random order over N pages, with room for L pages with gaps, 16 blocks in a page: this
//! is `1 - 15/16 x L/N` writes for each block; no choice does much better.
//!
//! When one page expires, all past the middle of that time go along.
//!
//! **Kept bytes.** A server may lose writes when it restarts. What it took is *kept*; a flush
//! covers what is kept when it begins; a good flush makes that clean, a failed one makes all kept
//! bytes dirty again.
//!
//! ```text
//!                                  flush begins            flush is good
//!   under write-out -----> kept ----------------> covered ---------------> clean
//!                           |                        |
//!   dirty <-----------------+-----------------------+  flush failed
//! ```
//!
//! Kept pages count as dirty where writers ask for room. A flush is wanted when they are more than
//! the background limit, or an eighth of the limit while writers are about to be slowed, or when
//! the oldest expires. No deadlock: for a refused writer at most 7/8, less a page, is dirty and not
//! under write-out; the rest is kept once written.
//!
//! Weaknesses: a write never grows over clean bytes. A cheap page rewritten often, but never while
//! dirty, precedes finished ones with gaps.

use std::time::Duration;

use pagewell_base::spans::Span;

use super::dirty_map::{DirtyMap, Due, End};
use super::settings::{PAUSE_MAX, retry_delay};
use super::share::{Amount, Load, StoreShare};
use super::stream::{BEHIND_BYTES_MIN, Habit};
use super::tags::Tags;
use super::{Admission, Counts, Extent, Limits, Settings, Tag, TagState, Urgency, Write, WriteId};

/// With more kept spans a flush is wanted: their memory has no limit.
const SPANS_MAX: usize = 65_536;
/// Kept pages above this part of the background limit hinder writers.
const KEPT_DIVISOR: u64 = 4;
/// After a replay: the longer bytes wait for a flush, the likelier they are lost again.
const REPLAY_DELAY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Tag,
    Due(Due),
    Background,
}

#[derive(Debug, Default)]
struct Flushes {
    /// Of the oldest bytes that are kept and not covered.
    since: Option<Duration>,
    running: bool,
    retry_at: Duration,
    retry_delay: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct WriteBack {
    settings: Settings,
    now: Duration,
    map: DirtyMap,
    cursor: u64,
    tags: Tags,
    share: StoreShare,
    object: u64,
    habit: Habit,
    flushes: Flushes,
    counts: Counts,
}

impl WriteBack {
    /// Of the only object of a store.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::of_store(settings, &StoreShare::new(settings))
    }

    /// Of an object of a store.
    #[must_use]
    pub fn of_store(settings: Settings, share: &StoreShare) -> Self {
        let settings = settings.normalised();
        Self {
            settings,
            now: Duration::ZERO,
            map: DirtyMap::new(&settings, share),
            cursor: 0,
            tags: Tags::default(),
            share: share.clone(),
            object: share.add_object(),
            habit: Habit::default(),
            flushes: Flushes::default(),
            counts: Counts::default(),
        }
    }

    /// What of a range is dirty, under write-out or kept; ascending, apart.
    pub fn dirty_in(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let spans = self.map.unclean(extent.offset, extent.end());
        let spans: Vec<Span> = spans.iter().collect();
        spans.into_iter().map(Extent::of)
    }

    /// Whether any byte of a range is dirty, under write-out or kept.
    #[must_use]
    pub fn is_dirty(&self, extent: Extent) -> bool {
        self.is_unwritten(extent) || self.map.is_kept(extent.offset, extent.end())
    }

    /// The same, without what is kept.
    #[must_use]
    pub fn is_unwritten(&self, extent: Extent) -> bool {
        self.map.is_unwritten(extent.offset, extent.end())
    }

    /// Dirty bytes, without those only under write-out.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.map.dirty_bytes()
    }

    /// Bytes under write-out.
    #[must_use]
    pub fn flight_bytes(&self) -> u64 {
        self.map.amount(Amount::FlightBytes)
    }

    /// Pages with bytes that are dirty, under write-out or kept: what limits count.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.map.amount(Amount::HeldPages)
    }

    /// Their memory, in bytes.
    #[must_use]
    pub fn dirty_memory_bytes(&self) -> u64 {
        self.memory_bytes(self.dirty_pages())
    }

    /// The same of all objects of the store.
    #[must_use]
    pub fn store_memory_bytes(&self) -> u64 {
        self.memory_bytes(self.share.total(Amount::HeldPages))
    }

    /// Bytes that wait for a flush.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.map.kept_bytes()
    }

    /// Memory of pages that are only kept, in bytes.
    #[must_use]
    pub fn kept_memory_bytes(&self) -> u64 {
        self.memory_bytes(self.map.amount(Amount::OnlyKeptPages))
    }

    /// Whether any object waited for a place under write-out or for room, and may go on: then look
    /// at all. Says so once.
    pub fn take_waiting(&mut self) -> bool {
        self.share.take_waiting()
    }

    /// The store's limits now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.share.limits()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sets the arena's share for dirty memory; above, writers of new pages are refused.
    pub fn set_dirty_bytes_max(&mut self, bytes: u64) {
        self.share.set_dirty_bytes_max(bytes);
    }

    fn memory_bytes(&self, pages: u64) -> u64 {
        pages.saturating_mul(self.settings.page_bytes)
    }

    fn advance(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        self.now
    }

    /// Before a writer fills memory, for each page or a few. An extent above the hard limit is let
    /// in only when nothing is dirty.
    ///
    /// Reserves nothing: each thread between `admit` and [`WriteBack::wrote`] may exceed the limit
    /// by what it was granted. A writer that may not pause pays only when granted.
    pub fn admit(&mut self, extent: Extent, may_pause: bool, now: Duration) -> Admission {
        let now = self.advance(now);
        let (pages, held, dirty) = self.map.count(extent.offset, extent.end());
        let new_held = self.memory_bytes(pages - held);
        let new_dirty = self.memory_bytes(pages - dirty);
        let memory = self.store_memory_bytes();
        let hard_bytes = self.limits().hard_bytes;
        if new_held > 0 && memory > 0 && memory.saturating_add(new_held) > hard_bytes {
            self.counts.refused += 1;
            self.share.refuse();
            return Admission::Refused;
        }
        if new_dirty == 0 {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        let Some(pause) = self.share.pause(new_dirty, memory, may_pause, now) else {
            return Admission::Refused;
        };
        if pause.is_zero() {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        self.counts.paused += u64::from(may_pause);
        self.counts.would_pause += u64::from(!may_pause);
        Admission::Paused(pause.min(PAUSE_MAX))
    }

    /// After a writer put bytes into memory.
    pub fn wrote(&mut self, extent: Extent, now: Duration) -> Urgency {
        let now = self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        if start >= end {
            return Urgency::Later;
        }
        if self.map.is_empty() {
            self.cursor = 0; // nothing is left to go on with
        }
        let (habit, expire) = (&mut self.habit, self.settings.expire);
        let is_recent = |page| habit.is_recent(page, now, expire);
        let (new_bytes, flying_bytes) = self.map.write((start, end), now, is_recent);
        self.counts.redirtied_bytes += flying_bytes;
        self.counts.rewritten_bytes += end - start - new_bytes;
        if new_bytes > 0 {
            self.follow_streams(start, end, now);
        }
        if !self.share.is_stopped() && self.has_work() {
            return Urgency::Now;
        }
        Urgency::Later
    }

    /// After [`WriteBack::wrote`], for a device's block, all in memory. Several dirty ranges make
    /// all of it dirty: it is written as a whole. One stays: its ends show a sequential writer.
    pub fn join(&mut self, block: Extent) {
        self.map.join(block.offset, block.end());
    }

    fn follow_streams(&mut self, start: u64, end: u64, now: Duration) {
        if !self.settings.writes_early {
            return;
        }
        let behind_bytes = self.cluster_bytes().max(BEHIND_BYTES_MIN);
        let (map, counts) = (&self.map, &mut self.counts);
        let due = self
            .habit
            .step((start, end), behind_bytes, map, now, counts);
        for page in due.into_iter().flatten() {
            self.map.make_due(page, Due::Behind);
        }
    }

    /// What to write next, until `None`; never bytes under write-out.
    pub fn next(&mut self, now: Duration) -> Option<Write> {
        let now = self.advance(now);
        self.map.end_waits(now);
        self.map.expire(now);
        self.share.thin(self.unwritten_bytes());
        let cluster_bytes = self.cluster_bytes();
        let is_full = self.share.is_full(cluster_bytes, &mut self.counts);
        let has_tagged = self.tags.has_next(&self.map);
        if is_full || self.share.yields(self.object, has_tagged, cluster_bytes) {
            if has_tagged || self.has_work() {
                self.share.wait(self.object, has_tagged);
            }
            return None;
        }
        let chosen = self.choose(cluster_bytes);
        let tag_bytes = match &chosen {
            Some(((start, end), Reason::Tag)) => end - start,
            _ => 0,
        };
        let takes_turn = !has_tagged && chosen.is_some();
        self.share.serve(self.object, tag_bytes, takes_turn);
        let (span, reason) = chosen?;
        Some(self.hand_out(span, reason))
    }

    /// When [`WriteBack::next`] may have something, or a flush is wanted, without an event.
    #[must_use]
    pub fn next_at(&self, now: Duration) -> Option<Duration> {
        let now = self.now.max(now);
        let next = if self.share.is_stopped() {
            self.flush_at()
        } else if self.has_work() {
            Some(now)
        } else {
            let due = self.map.next_due_at();
            due.into_iter().chain(self.flush_at()).min()
        };
        next.map(|at| at.max(now))
    }

    fn has_work(&self) -> bool {
        self.map.has_due() || self.has_background_work() || self.tags.has_next(&self.map)
    }

    /// Others need not wait for an object without tagged bytes.
    fn leave_place(&self) {
        if !self.tags.has_next(&self.map) {
            self.share.leave(self.object);
        }
    }

    fn has_background_work(&self) -> bool {
        self.next_background(false, 0).is_some()
    }

    fn next_background(&self, is_turn: bool, from: u64) -> Option<u64> {
        let unwritten_bytes = self.unwritten_bytes();
        if unwritten_bytes <= self.limits().background_bytes {
            return None;
        }
        let thins = self.share.is_thinning(unwritten_bytes);
        self.map.next_background(thins, is_turn, from)
    }

    fn unwritten_bytes(&self) -> u64 {
        self.memory_bytes(self.share.total(Amount::UnwrittenPages))
    }

    fn cluster_bytes(&self) -> u64 {
        let third = self.limits().flight_bytes_max / 3;
        let bytes = self.settings.cluster_bytes_max.min(third);
        let pages = bytes / self.settings.page_bytes * self.settings.page_bytes;
        if pages > 0 { pages } else { bytes.max(1) }
    }

    fn choose(&mut self, cluster_bytes: u64) -> Option<(Span, Reason)> {
        if self.tags.take_turn(cluster_bytes)
            && let Some(other) = self.choose_other(true, cluster_bytes)
        {
            self.counts.tags_yielded += 1;
            return Some(other);
        }
        if let Some(span) = self.tags.choose(&self.map, cluster_bytes) {
            return Some((span, Reason::Tag));
        }
        self.choose_other(false, cluster_bytes)
    }

    fn choose_other(&self, is_turn: bool, cluster_bytes: u64) -> Option<(Span, Reason)> {
        // The rest of the page in which the last write ended comes first.
        let last = self.cursor / self.settings.page_bytes;
        let (_, last_end) = self.map.span(last);
        let has_rest = self.map.candidate(self.cursor, last_end).is_some();
        let from = if has_rest { last } else { last + 1 };
        let (page, reason) = match self.map.next_due(from) {
            Some((page, due)) => (page, Reason::Due(due)),
            None => (self.next_background(is_turn, from)?, Reason::Background),
        };
        let is_rest = has_rest && page == last;
        let byte = if is_rest { self.cursor } else { 0 };
        Some((self.map.grow(page, byte, cluster_bytes)?, reason))
    }

    fn hand_out(&mut self, span: Span, reason: Reason) -> Write {
        let (start, end) = span;
        let (id, pages) = self.map.begin(span, self.now);
        self.cursor = end;
        self.habit.note(pages, self.now, self.settings.expire);
        self.tags.begin(id, start, end);
        self.share.write_began(self.now);
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

    /// A write is over. If not `written`, its bytes are dirty again; their pages wait for 1 s,
    /// doubled at each further failure up to 30 s.
    pub fn finished(&mut self, id: WriteId, written: bool, now: Duration) {
        self.end(id, if written { End::Written } else { End::Failed }, now);
    }

    /// [`WriteBack::finished`], written, but the device may lose it.
    pub fn finished_unflushed(&mut self, id: WriteId, now: Duration) {
        if self.map.is_doubtful(id) {
            // One write may be several messages, some before the failed flush.
            return self.put_back(id, now);
        }
        if self.map.keep(id) {
            self.flushes.since.get_or_insert(self.now.max(now));
        }
        self.finished(id, true, now);
    }

    /// A write will not go, or may be lost at the device: unless discarded, it is dirty again at
    /// once, and tags wait for it as before.
    pub fn put_back(&mut self, id: WriteId, now: Duration) {
        self.end(id, End::PutBack, now);
    }

    fn end(&mut self, id: WriteId, end: End, now: Duration) {
        let now = self.advance(now);
        let Some(ended) = self.map.end(id, end, now) else {
            return;
        };
        let mut clean_bytes = None;
        match end {
            End::Written => {
                clean_bytes = Some(ended.bytes.max(ended.released_bytes));
                self.counts.written += 1;
                self.tags.end(id, true, &mut self.counts);
            }
            End::Failed => {
                self.counts.failed += 1;
                self.tags.end(id, false, &mut self.counts);
            }
            End::PutBack => self.tags.put_back(id, &ended.parts, &mut self.counts),
        }
        let load = self.load();
        self.share
            .write_ended(clean_bytes, load, now, &mut self.counts);
        if self.share.is_stopped() {
            // Else `next_at` waits for the end of a write, and this may be the last.
            let cluster_bytes = self.cluster_bytes();
            self.share.is_full(cluster_bytes, &mut self.counts);
        }
    }

    fn load(&self) -> Load {
        let total = |of| self.share.total(of);
        let dirty_pages = total(Amount::HeldPages);
        let idle_pages = total(Amount::OnlyKeptPages) + total(Amount::UnwrittenPages);
        let busy_bytes = self.memory_bytes(dirty_pages.saturating_sub(idle_pages));
        Load {
            dirty_bytes: self.memory_bytes(dirty_pages),
            is_flying: total(Amount::Flights) > 0,
            is_pressed: self.share.is_stopped()
                || self.has_background_work()
                || busy_bytes > self.limits().background_bytes,
        }
    }

    /// Asks for all of a range that is dirty or under write-out now: [`WriteBack::next`] hands it
    /// out first, without a wait after a failure. The tag lasts until [`WriteBack::tag_state`]
    /// reports its end, or [`WriteBack::untag`].
    pub fn tag(&mut self, extent: Extent, now: Duration) -> Tag {
        self.advance(now);
        let unwritten = self.map.unwritten(extent.offset, extent.end());
        self.tags.set(unwritten, &mut self.counts)
    }

    /// Forgets a tag; its bytes lose their precedence.
    pub fn untag(&mut self, tag: Tag) {
        self.tags.remove(tag);
        self.leave_place();
    }

    /// A tag's bytes not handed out, and writes that it waits for.
    #[must_use]
    pub fn tag_left(&self, tag: Tag) -> (u64, usize) {
        self.tags.left(tag)
    }

    /// When the oldest write that a tag waits for was handed out.
    #[must_use]
    pub fn tag_waits_since(&self, tag: Tag) -> Option<Duration> {
        self.map.began(self.tags.oldest_write(tag)?)
    }

    /// Forgets a tag whose end it reports.
    pub fn tag_state(&mut self, tag: Tag) -> TagState {
        self.tags.state(tag)
    }

    /// Forgets what is dirty of a range; no tag waits for it. Bytes under write-out do not become
    /// dirty again on failure; put a write back that was not sent ([`WriteBack::put_back`]).
    /// Returns how many bytes were dirty or under write-out.
    pub fn discard(&mut self, extent: Extent) -> u64 {
        let (start, end) = (extent.offset, extent.end());
        let bytes = self.map.discard(start, end);
        self.tags.discard(start, end, &mut self.counts);
        self.leave_place();
        bytes
    }

    /// Whether a write has lost bytes to [`WriteBack::discard`].
    #[must_use]
    pub fn is_cut(&self, id: WriteId) -> bool {
        self.map.is_cut(id)
    }

    /// Forgets all, even under write-out; tags fail. Returns the bytes not clean.
    pub fn forget(&mut self) -> u64 {
        let bytes = self.map.forget();
        self.tags.forget(&mut self.counts);
        self.leave_place();
        self.counts.forgotten_bytes += bytes;
        bytes
    }

    /// A flush begins; it covers what is kept now.
    pub fn flush_begins(&mut self) {
        self.flushes.running = true;
        self.flushes.since = None;
        self.map.cover();
    }

    /// The flush was good. Returns what it covered, now clean.
    pub fn flush_succeeded(&mut self) -> Vec<Extent> {
        self.flushes = Flushes {
            since: self.flushes.since,
            ..Flushes::default()
        };
        self.map.clean_covered()
    }

    /// A flush failed: all that is kept is dirty again. Returns how many bytes. `is_replay`: the
    /// device is well, so the next flush waits only a moment.
    pub fn flush_failed(&mut self, is_replay: bool, now: Duration) -> u64 {
        let now = self.advance(now);
        let flushes = &mut self.flushes;
        flushes.running = false;
        flushes.since = None;
        flushes.retry_delay = if is_replay {
            REPLAY_DELAY
        } else {
            retry_delay(flushes.retry_delay)
        };
        flushes.retry_at = now.saturating_add(flushes.retry_delay);
        let bytes = self.map.replay();
        self.counts.replayed_bytes += bytes;
        bytes
    }

    /// After [`WriteBack::flush_failed`] of a flush that was given up: another runs.
    pub fn flush_goes_on(&mut self) {
        self.flushes.running = true;
    }

    /// Whether a flush is wanted without a commit.
    #[must_use]
    pub fn wants_flush(&self, now: Duration) -> bool {
        self.flush_at().is_some_and(|at| at <= self.now.max(now))
    }

    fn flush_at(&self) -> Option<Duration> {
        let since = self.flushes.since.filter(|_| !self.flushes.running)?;
        if self.map.kept_spans() == 0 {
            return None; // all of it was discarded
        }
        let at = if self.is_pressed() {
            Duration::ZERO
        } else {
            since.saturating_add(self.settings.expire)
        };
        Some(at.max(self.flushes.retry_at))
    }

    fn is_pressed(&self) -> bool {
        let limits = self.limits();
        let kept_bytes = self.memory_bytes(self.share.total(Amount::OnlyKeptPages));
        let held_bytes = self.store_memory_bytes();
        // The limit may be a part of a page.
        let is_full = held_bytes.saturating_add(self.settings.page_bytes) > limits.hard_bytes;
        let is_tight = is_full || held_bytes > limits.free_run_bytes;
        let share_bytes = limits.background_bytes / KEPT_DIVISOR;
        let share_bytes = share_bytes - share_bytes % self.settings.page_bytes;
        kept_bytes > limits.background_bytes
            || is_tight && kept_bytes > 0 && kept_bytes >= share_bytes
            || self.map.kept_spans() > SPANS_MAX
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        self.share.leave(self.object);
    }
}
