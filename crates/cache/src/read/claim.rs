//! Claims: runs of units of one page that one thread fetches.
//!
//! A page is claimed under the lock of the fetches into its frame, so a unit is fetched once. At
//! the end the units that came become valid, then the fetch is in flight no more, then waiting
//! threads are woken.
//!
//! **Fills.** The rest of a unit written in part is wanted by a reader or a write of whole blocks.
//! It comes into a buffer, and from there to where nothing was dirty *when it was claimed*: all
//! else is on the device, and until the fetch ends no thread writes to the unit.

use std::ops::Range;
use std::sync::Arc;

use pagewell_counters::names::{CACHE_FETCH_ERRORS, CACHE_JOINED};
use pagewell_device::{Buffer, Error as DeviceError, Issuer, Operation, Segment, after_burst};
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::FrameIndex;

use crate::PAGE_BYTES;
use crate::dirty::set::DirtySet;
use crate::frame::Arena;
use crate::io_queue::{IoQueue, Transfer};
use crate::page::{PAGE, Part, Units, mask};
use crate::residency::in_flight::{Fetch, Fetches};
use crate::residency::pages::Found;
use crate::residency::pins::{OwnPages, OwnedPin};
use crate::table::{DIRTY, FULL, State};

pub(crate) struct Wanted {
    pub page: u64,
    pub units: Units,
    pub pin: OwnedPin,
    pub state: State,
}

impl Wanted {
    pub(crate) fn new(own: &Arc<OwnPages>, found: Found, page: u64, units: Units) -> Self {
        Self {
            page,
            units,
            pin: own.own(found),
            state: found.state,
        }
    }
}

pub(crate) struct Claim {
    fetcher: Arc<Fetcher>,
    offset: u64,
    length: u64,
    pin: OwnedPin,
    page: u64,
    fetch: Arc<Fetch>,
    fill: Option<Fill>,
}

#[derive(Default)]
pub(crate) struct Claims {
    pub ours: Vec<Claim>,
    pub joined: Vec<Arc<Fetch>>,
    /// Another page has the name by now: pin that, and claim again.
    pub stale: bool,
}

impl Claims {
    /// To be taken before the claims are sent.
    pub(crate) fn fetches(&mut self) -> Fetches {
        let ours = self.ours.iter().map(|claim| claim.fetch.clone());
        Fetches {
            ours: ours.collect(),
            joined: std::mem::take(&mut self.joined),
        }
    }
}

pub(crate) struct Fetcher {
    own: Arc<OwnPages>,
    dirty: Arc<DirtySet>,
    queue: Arc<IoQueue>,
    /// A second miss in a page fetches the rest of it; so does the first of a file's first byte.
    widens: bool,
}

impl Fetcher {
    pub(crate) fn new(dirty: Arc<DirtySet>, queue: Arc<IoQueue>, widens: bool) -> Self {
        Self {
            own: dirty.own().clone(),
            dirty,
            queue,
            widens,
        }
    }

    pub(crate) fn own(&self) -> &Arc<OwnPages> {
        &self.own
    }

    pub(crate) fn dirty(&self) -> &Arc<DirtySet> {
        &self.dirty
    }

    pub(crate) fn queue(&self) -> &Arc<IoQueue> {
        &self.queue
    }

    /// Joins fetches of wanted units, and claims the others. With `widen` a page met again, or a
    /// file's first, is fetched to its ends: most readers go on.
    pub(crate) fn claim(
        self: &Arc<Self>,
        wanted: &Wanted,
        ahead: bool,
        widen: bool,
        claims: &mut Claims,
    ) {
        let (frame, layout, pages) = (wanted.pin.frame(), self.own.layout(), self.own.pages());
        let mut fetches = pages.in_flight().lock(frame);
        if pages.table().key(wanted.pin.slot()) != layout.key(wanted.page) {
            // The rest would come from a device that is behind its writers.
            claims.stale |= wanted.units & !pages.valid(frame) != 0;
            return;
        }
        let valid = pages.valid(frame);
        let mut missing = wanted.units & !valid;
        if missing == 0 {
            return;
        }
        let mut in_flight = 0;
        for fetch in fetches.iter() {
            in_flight |= fetch.units();
            if fetch.units() & missing != 0 {
                CACHE_JOINED.add(u64::from(!ahead));
                claims.joined.push(fetch.clone());
            }
        }
        missing &= !in_flight;
        let is_begun = missing & 1 != 0 && layout.begins_file_at(wanted.page * PAGE);
        if missing != 0 && widen && self.widens && (is_begun || (valid | in_flight) != 0) {
            missing = layout.all_units(wanted.page) & !valid & !in_flight;
        }
        let longest = layout.request_bytes_max() / layout.unit_bytes();
        let (dirty, partial) = self.partly_dirty(wanted, missing);
        let mut runs = runs_of(missing & !partial, longest);
        runs.extend(runs_of(partial, longest));
        runs.sort_unstable_by_key(|units| units.trailing_zeros());
        for units in runs {
            let kept = (units & partial != 0).then_some(&dirty);
            let claim = self.make(wanted, units, ahead, kept);
            pages.in_flight().add(&mut fetches, claim.fetch.clone());
            claims.ours.push(claim);
        }
    }

    fn partly_dirty(&self, wanted: &Wanted, missing: Units) -> (Vec<Range<usize>>, Units) {
        if missing == 0 || !self.own.pages().table().state(wanted.pin.slot()).has(DIRTY) {
            return (Vec::new(), 0);
        }
        let dirty = self.dirty.in_page(&Part::whole(wanted.page));
        let units = dirty.iter().fold(0, |units, range| {
            units
                | self
                    .own
                    .layout()
                    .units(range.start as u64, range.len() as u64)
        });
        (dirty, units & missing)
    }

    fn make(
        self: &Arc<Self>,
        wanted: &Wanted,
        units: Units,
        ahead: bool,
        kept: Option<&Vec<Range<usize>>>,
    ) -> Claim {
        let layout = self.own.layout();
        let first = u64::from(units.trailing_zeros()) * layout.unit_bytes();
        let offset = wanted.page * PAGE + first;
        let end = offset + u64::from(units.count_ones()) * layout.unit_bytes();
        let length = end.min(layout.blocks_end()).saturating_sub(offset);
        self.dirty.note_fetch(Extent { offset, length });
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let fill = kept.map(|kept| {
            let (start, alignment) = (first as usize, self.queue.memory_alignment_bytes());
            Fill::new(start, length as usize, alignment, kept.clone())
        });
        Claim {
            fetcher: self.clone(),
            fill,
            offset,
            length,
            pin: wanted.pin.again(),
            page: wanted.page,
            fetch: Arc::new(Fetch::new(units, ahead.then_some(length))),
        }
    }

    pub(crate) fn send(self: &Arc<Self>, claims: Vec<Claim>, issuer: Issuer) {
        if claims.is_empty() {
            return;
        }
        let fetches = claims.iter().map(|claim| &claim.fetch);
        let guesses = fetches.filter(|fetch| fetch.is_ahead());
        let guesses: Vec<_> = guesses.cloned().collect();
        let transfers = self.grouped(claims).into_iter().map(|group| {
            let id = self.queue.name_request();
            group.iter().for_each(|claim| claim.fetch.name(id));
            (id, self.transfer(group, issuer))
        });
        let transfers = transfers.collect();
        // SAFETY: every segment is a run of units of a page that its `Claim` has pinned until the
        // completion has run, and that only this request may write: they were claimed, and writers
        // of them wait for the fetch. Or it is memory that the `Claim` owns.
        unsafe { self.queue.submit(transfers) };
        // Readers may have joined before the queue knew.
        let wanted: Vec<_> = guesses.iter().filter_map(|fetch| fetch.urgent()).collect();
        self.queue.promote(&wanted);
    }

    fn grouped(&self, claims: Vec<Claim>) -> Vec<Vec<Claim>> {
        let layout = self.own.layout();
        let mut groups: Vec<Vec<Claim>> = Vec::new();
        let mut group_bytes = 0;
        for claim in claims {
            let adjacent = groups.last().and_then(|group| group.last());
            let adjacent = adjacent.is_some_and(|last| last.offset + last.length == claim.offset)
                && !layout.begins_file_at(claim.offset);
            let fits = group_bytes + claim.length <= layout.request_bytes_max();
            match groups.last_mut() {
                Some(group) if adjacent && fits => {
                    group_bytes += claim.length;
                    group.push(claim);
                }
                _ => {
                    group_bytes = claim.length;
                    groups.push(vec![claim]);
                }
            }
        }
        groups
    }

    fn transfer(self: &Arc<Self>, mut group: Vec<Claim>, issuer: Issuer) -> Transfer {
        let offset = group.first().map_or(0, |claim| claim.offset);
        let length = group.iter().map(|claim| claim.length).sum();
        let segments = group.iter_mut().map(|claim| self.segment(claim)).collect();
        let this = self.clone();
        Transfer {
            destination: self.own.destination(),
            operation: Operation::Read,
            durable: false,
            extent: Extent { offset, length },
            segments,
            issuer,
            // The queue sends the next request first.
            completion: Box::new(move |transferred, result| {
                after_burst(move || this.arrived(group, offset + transferred as u64, result));
            }),
        }
    }

    fn segment(&self, claim: &mut Claim) -> Segment {
        if let Some(fill) = &mut claim.fill {
            return fill.buffer.as_segment();
        }
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let (start, length) = ((claim.offset % PAGE) as usize, claim.length as usize);
        assert!(start + length <= PAGE_BYTES);
        // SAFETY: inside the page.
        let start = unsafe {
            self.own
                .pages()
                .arena()
                .address(claim.pin.frame())
                .add(start)
        };
        Segment::new(start, length)
    }

    fn arrived(&self, group: Vec<Claim>, end: u64, result: Result<(), DeviceError>) {
        let layout = self.own.layout();
        for mut claim in group {
            // The last block may reach past the end.
            let needed = (claim.offset + claim.length).min(layout.length_bytes());
            let whole = (end.saturating_sub(claim.offset) / layout.unit_bytes()).min(32);
            let (units, outcome) = if end >= needed {
                (claim.fetch.units(), Ok(()))
            } else {
                CACHE_FETCH_ERRORS.add(1);
                let units = units_from(claim.fetch.units().trailing_zeros(), whole);
                let error = result.clone().err();
                let error = error.unwrap_or_else(|| self.queue.short(end));
                (claim.fetch.units() & units, Err(error))
            };
            claim.end(units, outcome);
        }
    }
}

impl Claim {
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn units(&self) -> Units {
        self.fetch.units()
    }

    pub(crate) fn end(&mut self, units: Units, outcome: Result<(), DeviceError>) {
        let (pages, layout) = (self.fetcher.own.pages(), &self.fetcher.own.layout());
        let (dirty, frame) = (&self.fetcher.dirty, self.pin.frame());
        if let Some(fill) = &self.fill {
            // SAFETY: pinned by us, and our fetch ends below.
            unsafe { fill.apply(pages.arena(), frame, layout.each(units)) };
        }
        let valid = pages.validate(frame, units);
        if valid == layout.all_units(self.page) {
            pages.table().set(self.pin.slot(), FULL);
        }
        pages.in_flight().end(frame, &self.fetch, outcome);
        if self.fill.is_some() {
            dirty.fetch_ended();
        }
    }
}

/// No thread waits for ever for a claim that was given up.
impl Drop for Claim {
    fn drop(&mut self) {
        if !self.fetch.has_ended() {
            let offset = self.offset;
            self.end(0, Err(DeviceError::Abandoned { offset }));
        }
    }
}

fn units_from(first: u32, count: u64) -> Units {
    mask(u64::from(first) + count) & !mask(first.into())
}

fn runs_of(mut units: Units, longest: u64) -> Vec<Units> {
    let mut runs = Vec::new();
    while units != 0 {
        let first = units.trailing_zeros();
        let length = u64::from((units >> first).trailing_ones()).min(longest.max(1));
        let run = units_from(first, length);
        runs.push(run);
        units &= !run;
    }
    runs
}

pub(crate) struct Fill {
    buffer: Buffer,
    start: usize,
    kept: Vec<Range<usize>>,
}

impl Fill {
    pub(crate) fn new(
        start: usize,
        length: usize,
        alignment_bytes: usize,
        kept: Vec<Range<usize>>,
    ) -> Self {
        assert!(start + length <= PAGE_BYTES);
        Self {
            buffer: Buffer::new(length, alignment_bytes),
            start,
            kept,
        }
    }

    /// Copies what came of these units to the page, but for what is kept.
    ///
    /// # Safety
    /// The page is pinned, and this run is a fetch that has not ended.
    pub(crate) unsafe fn apply(
        &self,
        arena: &Arena,
        frame: FrameIndex,
        units: impl Iterator<Item = (Units, Range<usize>)>,
    ) {
        let end = self.start + self.buffer.len();
        for (_, unit) in units {
            for gap in gaps(unit.start..unit.end.min(end), &self.kept) {
                assert!(gap.start >= self.start && gap.end <= end);
                let source = &self.buffer[gap.start - self.start..gap.end - self.start];
                // SAFETY: no reader has a slice of a unit that is not valid, writers of it wait for
                // this fetch, and write-back only reads what was dirty when it was claimed, which
                // is left out.
                unsafe { arena.fill(frame, gap.start, source) };
            }
        }
    }
}

/// What of a range is in none of `kept`, which ascend.
pub(crate) fn gaps(range: Range<usize>, kept: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    for one in kept {
        if one.start > at && at < range.end {
            gaps.push(at..one.start.min(range.end));
        }
        at = at.max(one.end);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_adjacent_units() {
        assert_eq!(runs_of(0, 32), []);
        assert_eq!(runs_of(0b1101_1000, 32), [0b1_1000, 0b1100_0000]);
        assert_eq!(runs_of(0b111, 1), [1, 2, 4]);
        assert_eq!(runs_of(u32::MAX, 32), [u32::MAX]);
        assert_eq!(runs_of(u32::MAX, 16), [0xffff, 0xffff_0000]);
        assert_eq!(units_from(31, 1), 1 << 31);
        assert_eq!(units_from(4, 0), 0);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod fill_tests {
    use super::*;

    fn pairs(range: (usize, usize), kept: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let kept: Vec<_> = kept.iter().map(|(start, end)| *start..*end).collect();
        let gaps = gaps(range.0..range.1, &kept);
        gaps.into_iter().map(|gap| (gap.start, gap.end)).collect()
    }

    #[test]
    fn gaps_are_what_is_not_kept() {
        assert_eq!(pairs((0, 10), &[]), [(0, 10)]);
        assert_eq!(pairs((0, 10), &[(0, 10)]), []);
        assert_eq!(pairs((0, 10), &[(2, 4), (6, 7)]), [(0, 2), (4, 6), (7, 10)]);
        assert_eq!(pairs((4, 10), &[(0, 5), (8, 20)]), [(5, 8)]);
        assert_eq!(pairs((4, 10), &[(0, 2), (12, 20)]), [(4, 10)]);
        assert_eq!(pairs((4, 10), &[(0, 4), (10, 20)]), [(4, 10)]);
    }
}
