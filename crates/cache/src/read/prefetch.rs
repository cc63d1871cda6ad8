//! Read-ahead at work: telling the policy of reads, and doing what it plans.

use std::ops::Range;
use std::sync::Arc;

use pagewell_counters::names::{
    CACHE_AHEAD_PLANNED_BYTES, CACHE_AHEAD_REFUSED, CACHE_AHEAD_USEFUL_BYTES,
};
use pagewell_device::Issuer;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::readahead::{Access, AccessKind, Bounds, Feedback, Plan};

use crate::page::{PAGE, parts};
use crate::read::claim::{Claims, Wanted};
use crate::read::reader::Reader;
use crate::residency::batch::Batch;
use crate::table::page_table::SlotIndex;
use crate::table::state::{AHEAD, FULL, MARKER, STREAM};

impl Reader {
    /// Tells the policy of a read, and where the file lies that is read if that is known, and does
    /// what it plans.
    pub(crate) fn note(
        self: &Arc<Self>,
        offset: u64,
        length: u64,
        kind: AccessKind,
        bounds: Option<Bounds>,
    ) {
        let access = Access {
            offset,
            length,
            kind,
            budget_bytes: self.pages.ahead_budget_bytes(),
            now: self.origin.elapsed(),
            bounds,
            // Where one head serves one request at a time, waiting is not for the way.
            latency: self.queue.least_latency().filter(|_| !self.rotational),
        };
        let plan = self.streams.lock().access(&access);
        self.run_plan(plan);
    }

    /// A page with a mark was touched. Says whether the policy wants to hear of it.
    pub(crate) fn touch(&self, slot: SlotIndex, page: u64) -> bool {
        let before = self.pages.table.clear(slot, AHEAD | MARKER);
        if before.has(AHEAD) {
            self.pages.unread.remove(1);
            CACHE_AHEAD_USEFUL_BYTES.add(PAGE);
            let (offset, length) = (page * PAGE, PAGE);
            let useful = Feedback::Useful { offset, length };
            self.streams.lock().feedback(useful);
        }
        before.has(MARKER)
    }

    /// Begins to fetch a range that will be wanted, as far as memory allows.
    pub(crate) fn prefetch(self: &Arc<Self>, offset: u64, length: u64) {
        let length = length.min(self.pages.ahead_budget_bytes());
        let end = offset.saturating_add(length);
        let end = end.min(self.layout.length_bytes);
        if offset < end {
            self.run_plan(Plan {
                fetch: std::iter::once(offset..end).collect(),
                ..Plan::default()
            });
        }
    }

    fn run_plan(self: &Arc<Self>, plan: Plan) {
        let (pages, layout) = (&self.pages, &self.layout);
        if let Some(range) = plan.release.filter(|_| self.drops_behind) {
            for page in range.start.div_ceil(PAGE)..range.end / PAGE {
                pages.drop_behind(layout.key(page));
            }
        }
        let mut claims = Claims::default();
        for range in plan.fetch {
            if let Err(offset) = self.claim_ahead(range, &mut claims) {
                CACHE_AHEAD_REFUSED.add(1);
                let refused = Feedback::Refused { offset };
                self.streams.lock().feedback(refused);
                break;
            }
        }
        // Before the bytes can come, so that no reader gets past it.
        if let Some(page) = plan.marker.map(|offset| offset / PAGE)
            && let Some(found) = pages.find(layout.key(page))
        {
            pages.table.set(found.slot, MARKER);
            pages.table.unpin(found.slot);
        }
        let bytes = claims.ours.iter().map(|claim| claim.length).sum();
        CACHE_AHEAD_PLANNED_BYTES.add(bytes);
        self.send(claims.ours, Issuer::ReadAhead);
    }

    /// Claims what is missing of a range, or says where memory ran out.
    fn claim_ahead(self: &Arc<Self>, range: Range<u64>, claims: &mut Claims) -> Result<(), u64> {
        let (pages, layout) = (&self.pages, &self.layout);
        let end = range.end.min(layout.length_bytes);
        let mut frames = Batch::new(pages);
        for part in parts(range.start..end) {
            let rest = (end - part.page * PAGE).div_ceil(PAGE);
            let frame = || frames.take(rest);
            let key = layout.key(part.page);
            let found = pages
                .find_or_make_in(key, Arrival::Stream, AHEAD | STREAM, frame)
                .ok_or(part.extent().offset)?;
            let wanted = Wanted::new(&self.own, found, part.page, layout.units_of(&part));
            if !found.state.has(FULL) {
                self.claim(&wanted, true, self.widens, claims);
            }
        }
        Ok(())
    }
}
