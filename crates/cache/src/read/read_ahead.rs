//! Read-ahead at work: telling the policy, and doing what it plans.

use std::ops::Range;
use std::sync::Arc;

use pagewell_counters::names::{
    CACHE_AHEAD_PLANNED_BYTES, CACHE_AHEAD_REFUSED, CACHE_AHEAD_USEFUL_BYTES,
};
use pagewell_device::Issuer;
use pagewell_policy::eviction::Arrival;
use pagewell_policy::readahead::{Access, AccessKind, Bounds, Feedback, Plan};

use crate::object::Object;
use crate::page::PAGE;
use crate::read::claim::Claims;
use crate::read::miss::Wanted;
use crate::residency::batch::Places;
use crate::table::page_table::SlotIndex;
use crate::table::state::{AHEAD, FULL, MARKER, STREAM};

impl Object {
    /// Tells the policy of a read, and where the file lies that is read if that is known, and does
    /// what it plans.
    pub(crate) fn tell(
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
            budget_bytes: self.core.ahead_budget_bytes(),
            now: self.origin.elapsed(),
            bounds,
            // Where one head serves one request at a time, waiting is not for the way.
            latency: self.queue.least_latency().filter(|_| !self.rotational),
        };
        let plan = self.streams.lock().access(&access);
        self.run_plan(plan);
    }

    /// A page with a mark was touched. Says whether its mark was to be told.
    pub(crate) fn touch(&self, slot: SlotIndex, page: u64) -> bool {
        let before = self.core.table.clear(slot, AHEAD | MARKER);
        if before.has(AHEAD) {
            self.core.count_read();
            CACHE_AHEAD_USEFUL_BYTES.add(PAGE);
            self.streams.lock().feedback(Feedback::Useful {
                offset: page * PAGE,
                length: PAGE,
            });
        }
        before.has(MARKER)
    }

    /// Fetches a range that will be wanted.
    pub(crate) fn run_plan(self: &Arc<Self>, plan: Plan) {
        if let Some(range) = plan.release.filter(|_| self.core.options.free_behind) {
            for page in range.start.div_ceil(PAGE)..range.end / PAGE {
                self.core.free_behind(self.key(page));
            }
        }
        let mut claims = Claims::default();
        for range in plan.fetch {
            if let Err(offset) = self.claim_ahead(range, &mut claims) {
                CACHE_AHEAD_REFUSED.add(1);
                self.streams.lock().feedback(Feedback::Refused { offset });
                break;
            }
        }
        // Before the bytes can come, so that no reader gets past it.
        if let Some(page) = plan.marker.map(|offset| offset / PAGE)
            && let Some(found) = self.core.find(self.key(page))
        {
            self.core.table.set(found.slot, MARKER);
            self.core.table.unpin(found.slot);
        }
        let bytes = claims.runs.iter().map(|run| run.length()).sum();
        CACHE_AHEAD_PLANNED_BYTES.add(bytes);
        self.send(claims.runs, Issuer::ReadAhead);
    }

    /// Claims what is missing of a range, or says where memory ran out.
    fn claim_ahead(self: &Arc<Self>, range: Range<u64>, claims: &mut Claims) -> Result<(), u64> {
        let end = range.end.min(self.length_bytes);
        let mut places = Places::new(&self.core);
        let mut at = range.start;
        while at < end {
            let page = at / PAGE;
            let start = at % PAGE;
            let inside = (PAGE - start).min(end - at);
            let rest = (end - page * PAGE).div_ceil(PAGE);
            let found = self
                .core
                .find_or_place(self.key(page), Arrival::Stream, AHEAD | STREAM, || {
                    places.take(rest)
                })
                .ok_or(at)?;
            let wanted = Wanted {
                page,
                units: self.units(start, inside),
                held: self.hold(found),
                state: found.state,
            };
            if !found.state.has(FULL) {
                self.claim(&wanted, true, self.widens, claims);
            }
            at += inside;
        }
        Ok(())
    }
}
