//! One stream that reads on without gaps: its window, its distance and its marker.
//!
//! # Problem
//!
//! The reader must never wait, the device must get large contiguous requests, and memory must not
//! be filled with what nobody will read. Ordinary hits are not told, because telling costs.
//!
//! # Rule
//!
//! ```text
//!   released    back seek   position     marker            window_end
//!  ----|-----------|-----------|------------|------------------|------> offset
//!                                            <-- distance / 2 -->
//!                               <---------- distance ----------->
//! ```
//!
//! All up to `window_end` was asked for. When the reader touches the page of the marker, the window
//! is extended to `position + distance` in one piece (at least half a distance), and the marker
//! moves on. So each half is fetched while the other half is read.
//!
//! - The distance doubles at each step up to the grown distance (`Settings`). Then it grows by
//!   1/8, and only when a byte was touched before it had come. What was on its way already when the
//!   distance grew does not count: a reader that waits for every page of it was late once, not 32
//!   times. Where the device is far, it grows at once to what is needed
//!   (`bandwidth_delay.rs`). Where growing does not pay, it ends (`distance.rs`).
//! - Where windows go by blocks (`block_bytes`), the next block is asked for when the reader enters
//!   one, so that exactly a distance lies between the end of that one and the window's. There the
//!   distance of a stream that has not grown yet is four times what it has read in order.
//! - Waste above 1/4 of what was judged lately halves the distance and ends the doubling; so does
//!   refused memory. Then only being late lets it grow again.
//! - A miss inside the window means the rest of it is gone (evicted or refused): the window begins
//!   anew behind the miss. It counts as being late, unless bytes of the stream were wasted or
//!   refused since its last quiet step, or it is the second in a row: then memory is short, growing
//!   would make it worse, and the second one halves the distance.
//! - Free-behind names what lies behind the position *of the step before*, less the back seek. The
//!   position can be ahead of the true reader when some other reader touched the window; one step
//!   later it is not. Nor does it ever reach the access at hand, which may have begun before.
//! - A window ends at the bound of the file that the reader is in. A reader that goes straight on
//!   into what follows takes files as they lie (cpio, a copy of a disc): from then on the stream
//!   has no bound, and its distance begins small again. Straight on means that no other access was
//!   told in between; where several readers take turns that cannot be seen, and the second crossing
//!   counts. Where files lie apart, there are bounds for ever.
//! - Until a stream is proven, touches that need not be its reader's change nothing (`order.rs`).
//! - A budget too small for half a batch puts the step off to the middle of what is left, unless
//!   little is left.
//!
//! A stream knows only ascending offsets. Backward ones live in a mirrored space (`adaptive.rs`).
//!
//! # Weaknesses
//!
//! A device of unknown latency that is slower than its reader makes every batch late, so the
//! distance reaches the maximum without use. What lies behind the last step at the end of a file is
//! never released.
//! A bound keeps out what other files need soon, too: where all that is read fits into the cache
//! and a seek costs more than reading half a megabyte, a disc read out of order is faster without.

use std::ops::Range;
use std::time::Duration;

mod distance;
mod order;

use self::distance::{Gain, first_far};
use self::order::Order;
use super::bandwidth_delay::{Learnt, Pace, supposed};
use super::settings::{
    BACK_SEEK_BYTES, HOLE_DIVISOR, IDLE_FORGET, REORDER_BYTES, START_REQUESTS, Settings, down, up,
};
use super::{AccessKind, Bounds, Counts, Judged, Plan};

/// A part of a file and how it was found, in the space of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) kind: AccessKind,
    pub(super) budget_bytes: u64,
    pub(super) now: Duration,
    /// When the access before this one was told, whosever it was.
    pub(super) previous: Duration,
    /// Of the file, if they are known.
    pub(super) bounds: Option<Bounds>,
    /// Of the device.
    pub(super) latency: Option<Duration>,
    /// The distance that streams of this device have needed.
    pub(super) learnt: u64,
}

impl Touch {
    /// Where the file ends in the direction of the stream.
    pub(super) fn bound(&self) -> Option<u64> {
        self.bounds.map(|bounds| bounds.end)
    }

    /// The distance that a stream of this device may need.
    pub(super) fn far(&self) -> u64 {
        self.latency.map_or(0, supposed).max(self.learnt)
    }
}

/// How a touch lies to a stream; the smaller, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// At the position or in the window, so many bytes on.
    Inside(u64),
    /// Beyond the window by less than a quarter of the way.
    Skip(u64),
    /// Behind the position, and found.
    Behind(u64),
}

/// A stream. See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    pub(super) position: u64,
    pub(super) window_end: u64,
    pub(super) distance: u64,
    pub(super) last_used: Duration,
    start: u64,
    marker: Option<u64>,
    step_position: u64,
    released: u64,
    doubling: bool,
    /// What was on its way when the distance grew last ends here: that it is late says nothing.
    late_until: u64,
    /// When its first read was told.
    began: Option<Duration>,
    /// Bytes that were read in order, as far as touches show it.
    ordered: u64,
    /// What shows that it is no chance (`order.rs`), and when that was seen last.
    proof: u8,
    last_proof: Duration,
    /// Since its last touch in order it was touched anywhere, before it was proven.
    passed_over: bool,
    pace: Option<Pace>,
    gain: Gain,
    /// The distance was once too long for the memory there is.
    squeezed: bool,
    pressed: bool,
    judged: Judged,
    bound: Option<u64>,
    /// Bytes that its reader leaves out before each of its reads, of which a dense stride consists.
    gap: u64,
    /// At [`CROSSINGS_MAX`] there are no bounds any more.
    crossings: u8,
}

/// A reader that has crossed so many bounds takes files as they lie; going straight on is as good
/// as two.
const CROSSINGS_MAX: u8 = 2;
/// Pages of the distance with which a stream without bounds begins; it doubles from there.
const UNBOUND_PAGES: u64 = 4;

impl Stream {
    /// A stream that began at `start`, is now at `position`, and reads `request` bytes at a time
    /// from a device that may need a distance of `far`.
    pub(super) fn new(
        start: u64,
        position: u64,
        request: u64,
        far: u64,
        settings: &Settings,
    ) -> Self {
        let grown = settings.distance_bytes_grown();
        let first = request.saturating_mul(START_REQUESTS).min(grown);
        let first = first.max(first_far(request, far, settings));
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

    /// Its reader leaves out `gap` bytes before each read.
    pub(super) fn with_gap(self, gap: u64) -> Self {
        Self { gap, ..self }
    }

    /// The read before, of which this stream is the second.
    pub(super) fn follow(&mut self, seen: Duration, bound: Option<u64>) {
        self.last_used = seen;
        self.bound = bound;
        self.began = Some(seen);
        self.pace = Some(Pace::new(self.start, seen));
    }

    /// Whether the reader has reached the end of its file.
    pub(super) fn is_done(&self) -> bool {
        self.bound.is_some_and(|bound| self.position >= bound)
    }

    /// Whether the last that was seen of it may be another reader's.
    pub(super) fn is_doubtful(&self) -> bool {
        self.passed_over
    }

    /// Goes on as fast as `other` did.
    pub(super) fn inherit(&mut self, other: &Self) {
        self.distance = self.distance.max(other.distance);
        self.doubling = other.doubling;
    }

    /// How a touch lies to this stream, if it may belong to it.
    pub(super) fn relation(&self, touch: &Touch, settings: &Settings) -> Option<Relation> {
        let Touch { offset, end, .. } = *touch;
        if end <= self.position {
            let behind = self.position - end;
            let near = behind <= REORDER_BYTES && end > self.start;
            // The parts of one read ascend, those of a backward stream too.
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

    /// Takes a touch that belongs to the stream, and says what to do.
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
            self.begin_far(touch, settings);
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
            self.grow_far(touch, settings, counts, learnt);
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
        // The reader fetches its own bytes; a hole before them is bridged by read-ahead.
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

    /// Takes the bound of the file that the reader is in now. A touch without one was a hit in
    /// what this stream has asked for, or of a reader that knows no files.
    fn cross(&mut self, straight: bool, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        if self.crossings >= CROSSINGS_MAX {
            return;
        }
        // Where files lie apart, none lies behind the end of another: it has grown.
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
        // It may be chance. What was learnt inside files says nothing about this.
        self.distance = self.distance.min(UNBOUND_PAGES * settings.page_bytes);
        self.doubling = true;
    }

    /// Where the window has to end.
    fn last(&self, settings: &Settings) -> u64 {
        let bound = self.bound.map(|bound| up(bound, settings.unit_bytes));
        bound.unwrap_or(u64::MAX).min(settings.length_bytes)
    }

    /// Whether anything was ever asked for: being late needs that.
    fn has_asked(&self) -> bool {
        self.step_position > self.start
    }

    /// Where the reader has to be for the next batch to be due.
    fn due(&self, settings: &Settings) -> u64 {
        let ahead = if settings.block_bytes.is_some() {
            self.distance
        } else {
            self.distance / 2
        };
        down(self.window_end.saturating_sub(ahead), settings.page_bytes)
    }

    /// Where the window of a reader at the position ends.
    fn target(&self, is_proven: bool, settings: &Settings) -> u64 {
        let from = match settings.block_bytes {
            // The first window is no longer than it must be: there may be no second.
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
            self.double(touch.learnt, settings, counts);
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
            marker: self.marker,
            release,
        }
    }

    /// Cuts a window that the budget has shortened to pages, or at least to units.
    fn cut(&self, end: u64, whole: bool, settings: &Settings) -> u64 {
        let paged = down(end, settings.page_bytes);
        match () {
            () if whole => end,
            () if paged > self.window_end => paged,
            () => down(end, settings.unit_bytes),
        }
    }

    /// Moves the marker, if it is to lie in the window, and plans nothing else.
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

    /// Whether bytes at `offset` were asked for by this stream, and how far from its position.
    pub(super) fn owns(&self, offset: u64) -> Option<u64> {
        (self.start..self.window_end)
            .contains(&offset)
            .then(|| offset.abs_diff(self.position))
    }
}
