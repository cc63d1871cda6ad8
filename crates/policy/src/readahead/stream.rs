//! One stream without gaps: its window, its distance and its marker.
//!
//! The reader must never wait, the device get large contiguous requests, and memory hold no waste.
//! Hits are not reported, as that costs time.
//!
//! ```text
//!   released    back seek   position     marker            window_end
//!  ----|-----------|-----------|------------|------------------|------> offset
//!                                            <-- distance / 2 -->
//!                               <---------- distance ----------->
//! ```
//!
//! A touch of the marker's page grows the window to `position + distance`, by at least 1/2 of it,
//! and moves the marker on.
//!
//! - The distance doubles at each step up to the grown distance (`Settings`). Then it grows by 1/8
//!   when a byte was touched before it had come, but not for bytes on their way when it grew last;
//!   with latency it grows at once (`bandwidth_delay.rs`).
//! - By blocks (`block_bytes`), the next is requested when the reader enters one; a young stream's
//!   distance is four times what it has read in order.
//! - Waste above 1/4, or refused memory, halves the distance and ends the doubling.
//! - After a miss inside it the window begins anew. The miss counts as late unless bytes were
//!   wasted or refused since the last quiet step; a second in a row halves the distance.
//! - Free-behind names what lies behind the last step's position, less the back seek.
//! - A window ends at the bound of the reader's file. A reader that goes straight on, or crosses
//!   twice, takes files as they lie (cpio), without bounds, unless files lie apart.
//! - A budget below 1/2 of a batch puts the step off to the middle of what is left.
//!
//! Backward streams live in a mirrored space (`adaptive.rs`).
//!
//! # Whether a stream is one
//!
//! Of a thousand random reads among sixteen thousand blocks, two begin where another ended; a
//! window that follows chance fetches the whole file.
//!
//! ```text
//!       position         next page          page         window_end
//!   -------|--------|--------|--------------|---------------|------> offset
//!         [ next ]         [ page ]    [ anywhere ]      [ page ]
//! ```
//!
//! A reader in order touches the position, the beginning of a page, or the end of the window; a
//! late read may have overtaken one other; the `gap` of a dense stride belongs to the read behind
//! it. Of random reads of 4 KiB, 15 in 16 hit anywhere. Two touches in order, or four among reads
//! elsewhere, prove a stream; each one anywhere takes some of it back. Until then a touch anywhere
//! moves the marker to the next page, and a new stream may take the place.
//!
//! # Does a longer distance pay?
//!
//! A stream whose device is slower than its reader is late at any distance. With 20 MiB on their
//! way instead of 4, nfs-ganesha took 1.8 times the processor time for the same bytes.
//!
//! ```text
//!   late      . . . . | . . . . | . . . . |          . . . .
//!   best         r0   |    r1   |    r2   |
//!   distance    stays |  grows  |  grows  | back to what it was before the last round, as
//!                         r1 > 9/8 r0      r2 < 9/8 r1; for sixteen rounds
//! ```
//!
//! A round is four times late; its best rate counts. Only servers are judged, where windows go by
//! blocks: on a disk of 3 GB/s growth brought 8 %. A rate halved ends the sixteen rounds early.
//!
//! # Weaknesses
//!
//! A device of unknown latency, slower than its reader, takes the distance to the maximum. What
//! lies behind the last step is never released. Where seeks are dear and all fits into the cache, a
//! disc read out of order is faster without bounds. A reader that leaves out beginnings of pages at
//! unequal distances has one window. Among random reads a new reader can lose its place until its
//! marker.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::bandwidth_delay::{Learnt, Pace, supposed};
use super::settings::{
    BACK_SEEK_BYTES, HOLE_DIVISOR, IDLE_FORGET, LATE_GROWTH_DIVISOR, LATENCY_TIMES, LEARNT_TIMES,
    REORDER_BYTES, START_REQUESTS, Settings, down, up,
};
use super::{AccessKind, Bounds, Counts, Feedback, Judged, Plan};

/// Bounds crossed by a reader that takes files as they lie.
const CROSSINGS_MAX: u8 = 2;
/// Pages of the first distance without bounds.
const UNBOUND_PAGES: u64 = 4;
const PROOF_MIN: u8 = 4;
/// Of a touch in order straight after the one before.
const PROOF_STRAIGHT: u8 = 2;
/// Of one after accesses elsewhere.
const PROOF: u8 = 1;
const ROUND_TIMES: u8 = 4;
const GAIN_DIVISOR: u64 = 8;
/// Rounds before a longer distance is tried again.
const ROUNDS_KEPT: u8 = 16;

/// An access, in the space of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub offset: u64,
    pub end: u64,
    pub kind: AccessKind,
    pub budget_bytes: u64,
    pub now: Duration,
    /// Of the access before this one.
    pub previous: Duration,
    pub bounds: Option<Bounds>,
    pub latency: Option<Duration>,
    /// The distance that others have needed.
    pub learnt: u64,
}

impl Touch {
    pub(super) fn bound(&self) -> Option<u64> {
        self.bounds.map(|bounds| bounds.end)
    }

    /// The distance that a stream may need.
    pub(super) fn needed(&self) -> u64 {
        self.latency.map_or(0, supposed).max(self.learnt)
    }
}

/// How a touch lies to a stream; the smaller, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// At the position or in the window, by so many bytes.
    Inside(u64),
    /// Beyond the window by less than 1/4 of the way.
    Skip(u64),
    /// Behind the position, and found.
    Behind(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// At the position, or behind a read that was overtaken.
    Next,
    /// Over the beginning of a page or the end of the window.
    Page,
    Anywhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    On,
    Stop,
    Back(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Gain {
    times: u8,
    /// Best rates of this round and of the one to compare with, in bytes per second.
    best: u64,
    before: u64,
    distance: u64,
    kept: u8,
}

impl Gain {
    fn late(&mut self, rate: u64, distance: u64) -> Growth {
        self.best = self.best.max(rate);
        self.times += 1;
        if self.times < ROUND_TIMES {
            return self.so_far();
        }
        let best = std::mem::take(&mut self.best);
        self.times = 0;
        if self.kept > 0 {
            self.kept = match best < self.before / 2 {
                true => 0,
                false => self.kept - 1,
            };
            if self.kept == 0 {
                (self.before, self.distance) = (best, distance);
            }
            return self.so_far();
        }
        if best > self.before.saturating_add(self.before / GAIN_DIVISOR) {
            (self.before, self.distance) = (best, distance);
            return Growth::On;
        }
        self.kept = ROUNDS_KEPT;
        Growth::Back(self.distance)
    }

    fn so_far(self) -> Growth {
        if self.kept > 0 || self.before == 0 {
            Growth::Stop
        } else {
            Growth::On
        }
    }
}

/// The first distance where one of `needed` may be needed; 0 where that is short.
fn first_with_latency(request: u64, needed: u64, settings: &Settings) -> u64 {
    let needed = needed.min(settings.distance_bytes_max);
    if needed > settings.distance_bytes_grown() {
        request.saturating_mul(LATENCY_TIMES).min(needed)
    } else {
        0
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    position: u64,
    window_end: u64,
    distance: u64,
    last_used: Duration,
    start: u64,
    marker: Option<u64>,
    step_position: u64,
    released: u64,
    doubling: bool,
    /// End of the bytes on their way when the distance last grew.
    late_until: u64,
    began: Option<Duration>,
    ordered: u64,
    /// How sure it is no chance, and when that last grew.
    proof: u8,
    last_proof: Duration,
    /// Touched anywhere since its last touch in order.
    passed_over: bool,
    pace: Option<Pace>,
    gain: Gain,
    /// Memory was too short for the distance.
    squeezed: bool,
    pressed: bool,
    judged: Judged,
    bound: Option<u64>,
    /// Bytes left out before each read of a dense stride.
    gap: u64,
    crossings: u8,
}

impl Stream {
    /// Reads `request` bytes at a time, and may need a distance of `needed`.
    pub(super) fn new(
        start: u64,
        position: u64,
        request: u64,
        needed: u64,
        settings: &Settings,
    ) -> Self {
        let grown = settings.distance_bytes_grown();
        let first = request.saturating_mul(START_REQUESTS).min(grown);
        let first = first.max(first_with_latency(request, needed, settings));
        let first = first.max(request.saturating_mul(START_REQUESTS / 2));
        let distance = up(first, settings.page_bytes);
        Self {
            position,
            window_end: position,
            distance: distance.clamp(settings.page_bytes, settings.distance_bytes_max),
            start,
            step_position: start,
            released: up(start, settings.page_bytes),
            doubling: true,
            ordered: position.saturating_sub(start),
            ..Self::default()
        }
    }

    pub(super) fn with_gap(self, gap: u64) -> Self {
        Self { gap, ..self }
    }

    pub(super) fn follow(&mut self, seen: Duration, bound: Option<u64>) {
        self.last_used = seen;
        self.bound = bound;
        self.began = Some(seen);
        self.pace = Some(Pace::new(self.start, seen));
    }

    pub(super) fn is_done(&self) -> bool {
        self.bound.is_some_and(|bound| self.position >= bound)
    }

    pub(super) fn window_end(&self) -> u64 {
        self.window_end
    }

    pub(super) fn last_used(&self) -> Duration {
        self.last_used
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.passed_over
    }

    pub(super) fn inherit(&mut self, other: &Self) {
        self.distance = self.distance.max(other.distance);
        self.doubling = other.doubling;
    }

    pub(super) fn relation(&self, touch: &Touch, settings: &Settings) -> Option<Relation> {
        let Touch { offset, end, .. } = *touch;
        if end <= self.position {
            let behind = self.position - end;
            let near = behind <= REORDER_BYTES && end > self.start;
            // The parts of one read ascend, in a backward stream too.
            let known = touch.kind != AccessKind::Miss || touch.now == self.last_used;
            return (near && known).then_some(Relation::Behind(behind));
        }
        if offset <= self.window_end {
            return Some(Relation::Inside(offset.saturating_sub(self.position)));
        }
        let hole = offset - self.window_end;
        let near = hole <= REORDER_BYTES && hole <= (end - self.position) / HOLE_DIVISOR;
        let by_chance = !self.is_proven() && self.order(touch, settings) == Order::Anywhere;
        (near && !by_chance).then_some(Relation::Skip(hole))
    }

    pub(super) fn touch(
        &mut self,
        touch: &Touch,
        settings: &Settings,
        counts: &mut Counts,
        learnt: &mut Learnt,
    ) -> Plan {
        if touch.now.saturating_sub(self.last_used) > IDLE_FORGET {
            self.distance = self.distance.min(settings.distance_bytes_grown());
        }
        let order = self.order(touch, settings);
        if order == Order::Anywhere && !self.is_proven() {
            return self.pass_over(touch, settings);
        }
        let straight = self.last_used >= touch.previous;
        self.last_used = touch.now;
        if touch.end <= self.position {
            return Plan::default();
        }
        self.passed_over = false;
        self.cross(straight, touch, settings, counts);
        self.began.get_or_insert(touch.now);
        self.pace.get_or_insert(Pace::new(self.position, touch.now));
        self.prove(order, straight, touch);
        if self.began == Some(touch.now) {
            self.begin_with_latency(touch, settings);
        }
        self.position = touch.end;
        let missed = touch.kind == AccessKind::Miss;
        let late = (missed && !self.pressed) || touch.kind == AccessKind::Late;
        self.pressed &= missed;
        let first_late = late && touch.offset >= self.late_until && self.has_asked();
        if first_late {
            self.grow(touch, settings, counts);
        }
        if first_late || touch.end < self.late_until {
            self.grow_with_latency(touch, settings, learnt);
        }
        if first_late {
            self.pace = Some(Pace::new(touch.offset, touch.now));
        }
        if missed && touch.offset <= self.window_end && touch.end < self.window_end {
            self.window_end = up(touch.end, settings.unit_bytes);
            self.marker = None;
            if std::mem::replace(&mut self.pressed, true) {
                self.shrink(settings);
                counts.shrunk += 1;
            }
        }
        // The reader fetches its own bytes; read-ahead bridges a hole before them.
        if touch.offset <= self.window_end {
            self.window_end = self.window_end.max(up(touch.end, settings.unit_bytes));
            self.window_end = self.window_end.min(settings.length_bytes);
        }
        let marked = touch.kind == AccessKind::Marker;
        let passed = self.marker.is_none_or(|marker| touch.end > marker);
        if !(missed || marked || first_late || passed) {
            return Plan::default();
        }
        let plan = self.step(touch, settings, counts);
        if first_late {
            self.late_until = self.window_end;
        }
        plan
    }

    /// Takes the bound of the reader's file; hits have none.
    fn cross(&mut self, straight: bool, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        if self.crossings >= CROSSINGS_MAX {
            return;
        }
        // Where files lie apart, a file that is crossed has grown.
        let may_cross = settings.file_alignment_bytes.is_none();
        if may_cross && self.bound.is_some_and(|bound| touch.end > bound) {
            self.crossings += if straight { CROSSINGS_MAX } else { 1 };
            self.bound = None;
        }
        if self.crossings < CROSSINGS_MAX {
            self.bound = touch.bound().or(self.bound);
            return;
        }
        counts.unbound += 1;
        // It may be chance, and distances inside files say nothing.
        self.distance = self.distance.min(UNBOUND_PAGES * settings.page_bytes);
        self.doubling = true;
    }

    fn last(&self, settings: &Settings) -> u64 {
        let bound = self.bound.map(|bound| up(bound, settings.unit_bytes));
        bound.unwrap_or(u64::MAX).min(settings.length_bytes)
    }

    fn has_asked(&self) -> bool {
        self.step_position > self.start
    }

    /// Where the next batch is due.
    fn due(&self, settings: &Settings) -> u64 {
        let ahead = if settings.block_bytes.is_some() {
            self.distance
        } else {
            self.distance / 2
        };
        down(self.window_end.saturating_sub(ahead), settings.page_bytes)
    }

    fn target(&self, is_proven: bool, settings: &Settings) -> u64 {
        let from = match settings.block_bytes {
            // There may be no second window.
            Some(block) if is_proven => self.position.div_ceil(block).saturating_mul(block),
            _ => self.position,
        };
        up(from.saturating_add(self.distance), settings.page_bytes)
    }

    fn step(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) -> Plan {
        let page = settings.page_bytes;
        let last = self.last(settings);
        if self.window_end >= last {
            self.marker = None;
            let release = self.release(touch.offset, settings);
            self.step_position = self.position;
            return Plan {
                release,
                ..Plan::default()
            };
        }
        let untouched = up(self.position, page);
        let due = self.due(settings);
        if due >= untouched && due < self.window_end {
            return self.rearm(due);
        }
        // The parts of its first read prove nothing.
        let is_proven = self.has_asked() && self.began < Some(touch.now);
        if self.doubling && is_proven {
            self.double(touch.learnt, settings);
        }
        let target = self.target(is_proven, settings);
        let wanted = target.min(last).saturating_sub(self.window_end);
        counts.bounded += u64::from(last < target.min(settings.length_bytes));
        let allowed = wanted.min(touch.budget_bytes);
        counts.budget_cuts += u64::from(allowed < wanted);
        let left = self.window_end - self.position.min(self.window_end);
        let crumbs = allowed < wanted.min(settings.batch_bytes_min.max(page)) / 2;
        let middle = down(self.position.saturating_add(left / 2), page);
        if allowed < wanted && crumbs && left > self.distance / 4 && middle >= untouched {
            return self.rearm(middle);
        }
        let end = self.cut(self.window_end + allowed, allowed == wanted, settings);
        if end <= self.window_end {
            return self.rearm(middle.max(untouched));
        }
        let fetch = std::iter::once(self.window_end..end).collect();
        self.window_end = end;
        let release = self.release(touch.offset, settings);
        self.step_position = self.position;
        let marker = self.due(settings).max(untouched);
        let more = end < last && marker < end;
        self.marker = more.then_some(marker);
        Plan {
            fetch,
            along: None,
            marker: self.marker,
            release,
        }
    }

    fn cut(&self, end: u64, whole: bool, settings: &Settings) -> u64 {
        let paged = down(end, settings.page_bytes);
        match () {
            () if whole => end,
            () if paged > self.window_end => paged,
            () => down(end, settings.unit_bytes),
        }
    }

    fn rearm(&mut self, marker: u64) -> Plan {
        let is_new = marker < self.window_end && self.marker.replace(marker) != Some(marker);
        Plan {
            marker: is_new.then_some(marker),
            ..Plan::default()
        }
    }

    fn release(&mut self, offset: u64, settings: &Settings) -> Option<Range<u64>> {
        let passed = self.step_position.min(offset);
        let end = passed.saturating_sub(BACK_SEEK_BYTES);
        let end = down(end, settings.page_bytes);
        let range = self.released..end;
        self.released = self.released.max(end);
        (range.start < range.end).then_some(range)
    }

    /// How far from the position a requested byte is.
    pub(super) fn owns(&self, offset: u64) -> Option<u64> {
        (self.start..self.window_end)
            .contains(&offset)
            .then(|| offset.abs_diff(self.position))
    }

    fn order(&self, touch: &Touch, settings: &Settings) -> Order {
        let length = touch.end - touch.offset;
        let overtakes = touch.kind == AccessKind::Late;
        let hole = if overtakes { length } else { 0 };
        let next = self.position.saturating_add(hole);
        // What a dense stride leaves out belongs to the read behind it.
        let page = up(touch.offset.saturating_sub(self.gap), settings.page_bytes);
        let goes_on = touch.offset <= self.window_end && touch.end > self.window_end;
        match () {
            () if touch.offset <= next => Order::Next,
            () if goes_on || page < touch.end => Order::Page,
            () => Order::Anywhere,
        }
    }

    fn is_proven(&self) -> bool {
        self.proof >= PROOF_MIN
    }

    fn prove(&mut self, order: Order, is_straight: bool, touch: &Touch) {
        let is_later = self.began < Some(touch.now) && self.last_proof < touch.now;
        if order == Order::Anywhere {
            self.proof = self.proof.saturating_sub(PROOF_STRAIGHT);
        } else if is_later {
            let proof = if is_straight { PROOF_STRAIGHT } else { PROOF };
            self.proof = (self.proof + proof).min(PROOF_MIN);
            self.last_proof = touch.now;
        }
        let from = match order {
            Order::Next => self.position,
            Order::Page if self.is_proven() => self.position,
            Order::Page | Order::Anywhere => touch.offset,
        };
        self.ordered = self.ordered.saturating_add(touch.end - from.min(touch.end));
    }

    /// A touch that may be chance; a reader that reads on shows it at the next page.
    fn pass_over(&mut self, touch: &Touch, settings: &Settings) -> Plan {
        self.passed_over = true;
        // A page's marker goes with the first touch of any kind.
        let of_page = |marker: u64| {
            touch.end > marker && touch.offset < marker.saturating_add(settings.page_bytes)
        };
        let is_marked = touch.kind == AccessKind::Marker || self.marker.is_some_and(of_page);
        if !is_marked {
            return Plan::default();
        }
        self.marker = None;
        self.rearm(up(touch.end, settings.page_bytes))
    }

    fn begin_with_latency(&mut self, touch: &Touch, settings: &Settings) {
        let first = first_with_latency(self.ordered, touch.needed(), settings);
        self.distance = self.distance.max(up(first, settings.page_bytes));
    }

    fn grow(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        if self.distance >= grown {
            if settings.block_bytes.is_some() && !self.growth_pays(touch, grown) {
                return;
            }
            let longer = self.distance + self.distance / LATE_GROWTH_DIVISOR;
            self.distance = longer.min(settings.distance_bytes_max);
        } else if !self.doubling {
            self.distance = self.distance.saturating_mul(2).min(grown);
        } else {
            return;
        }
        counts.grown += 1;
    }

    /// Whether growth paid; else takes it back.
    fn growth_pays(&mut self, touch: &Touch, grown: u64) -> bool {
        let timed = self.pace.zip(touch.latency);
        let rate = timed.and_then(|(pace, latency)| pace.rate(touch.offset, touch.now, latency));
        let Some(rate) = rate else {
            return true;
        };
        match self.gain.late(rate, self.distance) {
            Growth::On => true,
            Growth::Stop => false,
            Growth::Back(distance) => {
                self.distance = self.distance.min(distance.max(grown));
                false
            }
        }
    }

    /// Grows to what latency asks for, and only here teaches others: what waste halved is not to be
    /// learnt again.
    fn grow_with_latency(&mut self, touch: &Touch, settings: &Settings, learnt: &mut Learnt) {
        let Some((pace, latency)) = self.pace.zip(touch.latency).filter(|_| !self.squeezed) else {
            return;
        };
        let needed = pace.needed(touch.offset, touch.now, latency);
        if needed.is_some_and(|needed| self.widen(needed, LATENCY_TIMES, settings)) {
            learnt.learn(self.distance, latency);
        }
    }

    fn widen(&mut self, needed: u64, times: u64, settings: &Settings) -> bool {
        let allowed = needed.min(self.ordered.saturating_mul(times));
        let distance = up(allowed, settings.page_bytes).min(settings.distance_bytes_max);
        let is_longer = distance > self.distance;
        self.distance = self.distance.max(distance);
        is_longer
    }

    /// Doubles a young distance, or takes what others learnt.
    fn double(&mut self, learnt: u64, settings: &Settings) {
        let grown = settings.distance_bytes_grown();
        let longer = if settings.block_bytes.is_some() {
            // A distance has many steps.
            up(
                self.ordered.saturating_mul(START_REQUESTS),
                settings.page_bytes,
            )
        } else {
            self.distance.saturating_mul(2)
        };
        self.distance = self.distance.max(longer.min(grown));
        let learnt = learnt.min(settings.distance_bytes_max);
        if learnt > grown {
            self.widen(learnt, LEARNT_TIMES, settings);
        }
        self.doubling = self.distance < grown.max(learnt);
    }

    /// True: the distance shrank because of waste.
    pub(super) fn feedback(&mut self, feedback: Feedback, settings: &Settings) -> bool {
        let recent = self.distance.saturating_mul(2);
        match feedback {
            Feedback::Useful { length, .. } => {
                self.judged.useful(length, recent);
                false
            }
            Feedback::Wasted { length, .. } => {
                self.pressed = true;
                let is_too_much = self.judged.wasted(length, self.distance / 2, recent);
                if is_too_much {
                    self.shrink(settings);
                }
                is_too_much
            }
            Feedback::Refused { offset } => {
                self.window_end = self.window_end.min(offset.max(self.position));
                self.marker = self.marker.filter(|marker| *marker < self.window_end);
                self.pressed = true;
                self.shrink(settings);
                false
            }
        }
    }

    fn shrink(&mut self, settings: &Settings) {
        self.distance = up(self.distance / 2, settings.page_bytes);
        self.doubling = false;
        self.squeezed = true;
    }
}
