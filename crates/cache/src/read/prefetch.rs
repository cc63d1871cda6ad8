//! Read-ahead at work: telling the policy of reads, and doing what it plans.
//!
//! The policy belongs to the store, as what it learns of one object is true of the next. It sees
//! all objects in one address space ([`seen_from`]) and plans inside of the one that is read.
//!
//! A request of 1 MiB fills sixteen pages. On a virtual disk sequential reads were 6 % faster with
//! one piece of memory for each request. So frames are taken many at a time and handed out in the
//! order of their addresses: what streams left behind comes back as one run, mostly backward.
//!
//! **Weakness.** Where random reads have scattered the free frames, they stay scattered. A plan of
//! which a part is in memory already may evict as many pages too early.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pagewell_counters::names::CACHE_AHEAD_USEFUL_BYTES;
use pagewell_device::Issuer;
use pagewell_policy::eviction::{Arrival, FrameIndex};
use pagewell_policy::readahead::{Access, AccessKind, Bounds, Counts, Feedback, Plan};

use crate::ReadMode;
use crate::page::{PAGE, parts};
use crate::read::claim::{Claims, Fetcher, Wanted};
use crate::residency::objects::{SEEN_BYTES, Streams, seen_from};
use crate::residency::pages::Pages;
use crate::residency::pins::OwnPages;
use crate::table::{AHEAD, FULL, MARKER, STREAM, SlotIndex};

/// With 16 the pages of a request came in five pieces, with 64 in three, with 256 in two.
const TAKEN_AT_ONCE: usize = 256;

/// Frames on their way from the free list to pages. What is left goes back.
struct Batch<'a> {
    pages: &'a Pages,
    taken: Vec<FrameIndex>,
}

impl<'a> Batch<'a> {
    fn new(pages: &'a Pages) -> Self {
        Self {
            pages,
            taken: Vec::new(),
        }
    }

    /// The next frame, for the first of `rest` pages; `None` when there is no frame now.
    fn take(&mut self, rest: u64) -> Option<FrameIndex> {
        if self.taken.is_empty() {
            let count = usize::try_from(rest).unwrap_or(TAKEN_AT_ONCE);
            for _ in 0..count.clamp(1, TAKEN_AT_ONCE) {
                let Some(frame) = self.pages.allocate() else {
                    break;
                };
                self.taken.push(frame);
            }
            self.taken
                .sort_unstable_by_key(|frame| std::cmp::Reverse(frame.0));
        }
        self.taken.pop()
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for frame in self.taken.drain(..) {
            self.pages.give_back(frame);
        }
    }
}

pub(crate) struct Reading {
    pub mode: ReadMode,
    /// The policy takes parts with the same time for one access.
    pub told: OnceCell<Duration>,
}

impl Reading {
    pub(crate) fn new(mode: ReadMode) -> Self {
        let told = OnceCell::new();
        Self { mode, told }
    }
}

pub(crate) struct ReadAhead {
    fetcher: Arc<Fetcher>,
    streams: Arc<Streams>,
    drops_behind: bool,
    rotational: bool,
}

impl ReadAhead {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        streams: Arc<Streams>,
        drops_behind: bool,
        rotational: bool,
    ) -> Self {
        Self {
            fetcher,
            streams,
            drops_behind,
            rotational,
        }
    }

    fn own(&self) -> &Arc<OwnPages> {
        self.fetcher.own()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.streams.lock().counts()
    }

    pub(crate) fn note(&self, offset: u64, length: u64, kind: AccessKind, reading: &Reading) {
        let now = *reading.told.get_or_init(|| self.fetcher.dirty().now());
        let base = seen_from(self.own().layout().number());
        let access = Access {
            offset: base + offset,
            length,
            kind,
            budget_bytes: self.own().pages().ahead_budget_bytes(),
            now,
            bounds: self.bounds(base, reading),
            // Where one head serves one request at a time, waiting is not for the way.
            latency: self
                .fetcher
                .queue()
                .least_latency()
                .filter(|_| !self.rotational),
        };
        let plan = self.streams.lock().access(&access);
        self.run_plan(plan, base);
    }

    fn bounds(&self, base: u64, reading: &Reading) -> Option<Bounds> {
        let moved = |bounds: Bounds| Bounds {
            start: base + bounds.start,
            end: base + bounds.end,
        };
        let length = self.own().layout().length_bytes();
        let whole = Bounds {
            start: 0,
            end: length,
        };
        let is_one_of_many = self.own().layout().is_file();
        let bounds = reading.mode.bounds.or(is_one_of_many.then_some(whole));
        bounds.map(moved)
    }

    /// Whether the policy wants to hear of the touch of a page.
    pub(crate) fn touch(&self, slot: SlotIndex, page: u64) -> bool {
        let before = self.own().pages().table().clear(slot, AHEAD | MARKER);
        if before.has(AHEAD) {
            self.own().pages().was_read();
            CACHE_AHEAD_USEFUL_BYTES.add(PAGE);
            let offset = seen_from(self.own().layout().number()) + page * PAGE;
            let length = PAGE;
            let useful = Feedback::Useful { offset, length };
            self.streams.lock().feedback(useful);
        }
        before.has(MARKER)
    }

    /// Begins to fetch a range, as far as memory allows.
    pub(crate) fn prefetch(&self, offset: u64, length: u64) {
        let length = length.min(self.own().pages().ahead_budget_bytes());
        let end = offset.saturating_add(length);
        let end = end.min(self.own().layout().length_bytes());
        if offset < end {
            let plan = Plan {
                fetch: std::iter::once(offset..end).collect(),
                ..Plan::default()
            };
            self.run_plan(plan, 0);
        }
    }

    /// Does what the policy plans, which sees the object from `base` on.
    fn run_plan(&self, plan: Plan, base: u64) {
        let in_object = |range: Range<u64>| {
            let end = range.end.saturating_sub(base).min(SEEN_BYTES);
            range.start.saturating_sub(base)..end
        };
        let (pages, layout) = (self.own().pages(), &self.own().layout());
        if let Some(range) = plan.release.filter(|_| self.drops_behind) {
            let range = in_object(range);
            for page in range.start.div_ceil(PAGE)..range.end / PAGE {
                pages.drop_behind(layout.key(page));
            }
        }
        let mut claims = Claims::default();
        for range in plan.fetch {
            if let Err(offset) = self.claim_ahead(in_object(range), &mut claims) {
                let offset = base + offset;
                let refused = Feedback::Refused { offset };
                self.streams.lock().feedback(refused);
                break;
            }
        }
        // Before the bytes can come, so that no reader gets past it.
        if let Some(page) = plan.marker.map(|offset| offset.saturating_sub(base) / PAGE)
            && let Some(found) = pages.find(layout.key(page))
        {
            pages.table().set(found.slot, MARKER);
            pages.table().unpin(found.slot);
        }
        self.fetcher.send(claims.ours, Issuer::ReadAhead);
    }

    /// Claims what is missing of a range, or says where memory ran out.
    fn claim_ahead(&self, range: Range<u64>, claims: &mut Claims) -> Result<(), u64> {
        let (pages, layout) = (self.own().pages(), &self.own().layout());
        let end = range.end.min(layout.length_bytes());
        let mut frames = Batch::new(pages);
        for part in parts(range.start..end) {
            let rest = (end - part.page * PAGE).div_ceil(PAGE);
            let frame = || frames.take(rest);
            let key = layout.key(part.page);
            let found = pages
                .find_or_make_in(key, Arrival::Stream, AHEAD | STREAM, frame)
                .ok_or(part.extent().offset)?;
            let wanted = Wanted::new(self.own(), found, part.page, layout.units_of(&part));
            if !found.state.has(FULL) {
                self.fetcher.claim(&wanted, true, true, claims);
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::{Cache, CacheOptions};

    #[test]
    fn frames_come_in_the_order_of_their_addresses_and_go_back() {
        let pages = Cache::new(CacheOptions::new(crate::BYTES_MIN))
            .unwrap()
            .pages()
            .clone();
        let all = u64::from(pages.arena().frames());
        // As drop-behind leaves them: the stack gives the last one first.
        let taken: Vec<_> = (0..all).filter_map(|_| pages.allocate()).collect();
        taken.iter().for_each(|frame| pages.give_back(*frame));
        let mut frames = Batch::new(&pages);
        let first: Vec<u32> = (0..8)
            .map(|done| frames.take(16 - done).unwrap().0)
            .collect();
        assert!(
            first.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "{first:?}"
        );
        drop(frames);
        let mut rest = Batch::new(&pages);
        let count = std::iter::from_fn(|| rest.take(all)).count();
        assert_eq!(count as u64, all - 8);
    }
}
