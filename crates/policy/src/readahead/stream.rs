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
//!   (`bandwidth_delay.rs`). Where growing does not pay, it ends.
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
//! - Until a stream is proven, touches that need not be its reader's change nothing.
//! - A budget too small for half a batch puts the step off to the middle of what is left, unless
//!   little is left.
//!
//! A stream knows only ascending offsets. Backward ones live in a mirrored space (`adaptive.rs`).
//!
//! # Whether a stream is one
//!
//! Of a thousand reads in random order among sixteen thousand blocks, two begin where another
//! ended. So each makes a stream with a window, further reads fall into it, and a window that
//! follows them grows like that of a reader: a file that is read at random is fetched whole.
//!
//! ```text
//!       position         next page          page         window_end
//!   -------|--------|--------|--------------|---------------|------> offset
//!         [ next ]         [ page ]    [ anywhere ]      [ page ]
//! ```
//!
//! A reader that reads on touches the byte at the position, or, as hits are not told, goes over the
//! beginning of a page or over the end of the window. A read that finds its bytes on their way may
//! have overtaken one other. What the reader of a dense stride leaves out (`gap`) belongs to the
//! read behind it: such a read goes over the beginning of a page, too, if its gap does. All others
//! hit anywhere: of reads of 4 KiB by chance 15 in 16, and a window has few pages that are told.
//!
//! A touch in order proves something, and more when nobody has read elsewhere since the last one:
//! two such touches prove a stream, or four among others. Each one anywhere takes some of it back
//! from a proven stream, and nothing from others. As long as a stream is not proven
//!
//! - what hits anywhere is passed over. If it touches the page of the marker, the marker moves to
//!   the next page, as the cache forgets that of a page that is touched, whatever it tells about
//!   the touch: a reader that reads on from there shows it at that page;
//! - a stream that was passed over since its last touch in order gives its place to a new stream
//!   that finds no other;
//! - what lies between the position and a page does not count as read, so that the distance stays
//!   what the first request asks for.
//!
//! # Does a longer distance pay?
//!
//! A stream whose device is slower than its reader is late each time, however far ahead it is. If
//! it grows by an eighth for each of them it ends at the most there is, and nobody reads faster:
//! all that is on its way stands in a queue. That takes memory, and a server's buffers, which were
//! in its processor's cache, no longer are: nfs-ganesha took 1.8 times the processor time for the
//! same bytes with 20 MiB on their way instead of 4.
//!
//! ```text
//!   late      . . . . | . . . . | . . . . |          . . . .
//!   best         r0   |    r1   |    r2   |
//!   distance    stays |  grows  |  grows  | back to what it was before the last round, as
//!                         r1 > 9/8 r0      r2 < 9/8 r1; for sixteen rounds
//! ```
//!
//! Each time that the stream is late, what came since the last time tells the rate. A round is
//! four of them, and the best of a round counts, as others may have held it up but nobody makes it
//! faster. In the first the distance stays: where it is right already, growing costs, and it must
//! not cost twice. In a round that grows the distance becomes half as much again and more. If the
//! rate is not an eighth better for that, the distance goes back, and stays for [`ROUNDS_KEPT`]
//! rounds or until the rate has fallen to less than half: then it is tried again.
//!
//! A device of which no latency is known is not judged. Nor is a disk, but only a server, where
//! windows go by blocks: at a disk of 3 GB/s what eighths bring one by one was 8 % of the rate, and
//! more on its way takes nothing from anybody.
//!
//! # Weaknesses
//!
//! A device of unknown latency that is slower than its reader makes every batch late, so the
//! distance reaches the maximum without use. What lies behind the last step at the end of a file is
//! never released.
//! A bound keeps out what other files need soon, too: where all that is read fits into the cache
//! and a seek costs more than reading half a megabyte, a disc read out of order is faster without.
//!
//! A reader that leaves out the beginning of each page, and not at equal distances, is not read
//! ahead of for longer than one window. Where gaps are long, nearly all that hits the window of a
//! dense stride by chance counts for its reader.
//! Where places are short, a reader that begins among random reads can lose its own to the next
//! stream, and begins again at its marker.
//!
//! What pays less than an eighth for half as much again is not found.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::bandwidth_delay::{Learnt, Pace, supposed};
use super::settings::{
    BACK_SEEK_BYTES, FAR_TIMES, HOLE_DIVISOR, IDLE_FORGET, LATE_GROWTH_DIVISOR, LEARNT_TIMES,
    REORDER_BYTES, START_REQUESTS, Settings, down, up,
};
use super::{AccessKind, Bounds, Counts, Feedback, Judged, Plan};

/// A reader that has crossed so many bounds takes files as they lie; going straight on is as good
/// as two.
const CROSSINGS_MAX: u8 = 2;
/// Pages of the distance with which a stream without bounds begins; it doubles from there.
const UNBOUND_PAGES: u64 = 4;
/// What proves a stream.
const PROOF_MIN: u8 = 4;
/// A touch in order that comes straight after the one before.
const PROOF_STRAIGHT: u8 = 2;
/// One after accesses elsewhere: of other readers, or of one that reads anywhere.
const PROOF: u8 = 1;
/// Times late that make a round.
const ROUND_TIMES: u8 = 4;
/// The rate has to grow by one part in this many.
const GAIN_DIVISOR: u64 = 8;
/// Rounds after which a longer distance is tried again.
const ROUNDS_KEPT: u8 = 16;

/// A part of a file and how it was found, in the space of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub offset: u64,
    pub end: u64,
    pub kind: AccessKind,
    pub budget_bytes: u64,
    pub now: Duration,
    /// When the access before this one was told, whosever it was.
    pub previous: Duration,
    /// Of the file, if they are known.
    pub bounds: Option<Bounds>,
    /// Of the device.
    pub latency: Option<Duration>,
    /// The distance that streams of this device have needed.
    pub learnt: u64,
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

/// How a touch goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// At the position, or behind a read that was overtaken.
    Next,
    /// Over the beginning of a page, or the end of the window.
    Page,
    /// Neither.
    Anywhere,
}

/// What is to be done with the distance of a stream that was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It may grow.
    On,
    /// It stays.
    Stop,
    /// It goes back to this.
    Back(u64),
}

/// What growing has brought. See the module.
#[derive(Clone, Copy, Debug, Default)]
struct Gain {
    /// Times late in this round.
    times: u8,
    /// The best rate of this round, in bytes for each second, and of the one to compare it with.
    best: u64,
    before: u64,
    /// The distance in the round to compare with.
    distance: u64,
    /// Rounds to go until a longer distance is tried again; 0 while one is tried.
    kept: u8,
}

impl Gain {
    /// The stream is late at this distance, and so many bytes came each second since the last time.
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

/// The first distance on a device that may need one of `far`; 0 when that is not long.
fn first_far(request: u64, far: u64, settings: &Settings) -> u64 {
    let far = far.min(settings.distance_bytes_max);
    if far > settings.distance_bytes_grown() {
        request.saturating_mul(FAR_TIMES).min(far)
    } else {
        0
    }
}

/// A stream. See the module.
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
    /// What was on its way when the distance grew last ends here: that it is late says nothing.
    late_until: u64,
    /// When its first read was told.
    began: Option<Duration>,
    /// Bytes that were read in order, as far as touches show it.
    ordered: u64,
    /// What shows that it is no chance ("Whether a stream is one"), and when that was seen last.
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

    /// Up to where all was asked for.
    pub(super) fn window_end(&self) -> u64 {
        self.window_end
    }

    /// When it was touched last.
    pub(super) fn last_used(&self) -> Duration {
        self.last_used
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

    /// How a touch goes on with this stream.
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

    /// Whether a touch anywhere in its window may be the reader's.
    fn is_proven(&self) -> bool {
        self.proof >= PROOF_MIN
    }

    /// Counts a touch that is about to move the position.
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

    /// It may be chance. A reader that reads on from there shows it at the next page.
    fn pass_over(&mut self, touch: &Touch, settings: &Settings) -> Plan {
        self.passed_over = true;
        // The marker of a page goes with its first touch, also when that is told as another kind.
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

    /// Takes the parts of the first read for one request, where the device is far.
    fn begin_far(&mut self, touch: &Touch, settings: &Settings) {
        let first = first_far(self.ordered, touch.far(), settings);
        self.distance = self.distance.max(up(first, settings.page_bytes));
    }

    /// Grows the distance because read-ahead was late.
    fn grow(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        if self.distance >= grown {
            if settings.block_bytes.is_some() && !self.growth_pays(touch, grown, counts) {
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

    /// Whether growing has paid until now, if that can be told. If not, takes back what did not.
    fn growth_pays(&mut self, touch: &Touch, grown: u64, counts: &mut Counts) -> bool {
        let timed = self.pace.zip(touch.latency);
        let rate = timed.and_then(|(pace, latency)| pace.rate(touch.offset, touch.now, latency));
        let Some(rate) = rate else {
            return true;
        };
        match self.gain.late(rate, self.distance) {
            Growth::On => true,
            Growth::Stop => false,
            Growth::Back(distance) => {
                counts.unpaid += 1;
                self.distance = self.distance.min(distance.max(grown));
                false
            }
        }
    }

    /// Grows the distance to what the latency of the device asks for, and lets others learn it. At
    /// no other time: neither is the latency of later ones that of this, nor is to be learnt again
    /// what waste or refused memory has halved.
    fn grow_far(
        &mut self,
        touch: &Touch,
        settings: &Settings,
        counts: &mut Counts,
        learnt: &mut Learnt,
    ) {
        let Some((pace, latency)) = self.pace.zip(touch.latency).filter(|_| !self.squeezed) else {
            return;
        };
        let needed = pace.needed(touch.offset, touch.now, latency);
        if needed.is_some_and(|needed| self.widen(needed, FAR_TIMES, settings)) {
            counts.far += 1;
            learnt.learn(self.distance, latency);
        }
    }

    /// Takes the distance to what a far device needs, as far as the stream is proven.
    fn widen(&mut self, needed: u64, times: u64, settings: &Settings) -> bool {
        let allowed = needed.min(self.ordered.saturating_mul(times));
        let distance = up(allowed, settings.page_bytes).min(settings.distance_bytes_max);
        let is_longer = distance > self.distance;
        self.distance = self.distance.max(distance);
        is_longer
    }

    /// The distance of a stream that has not come to what is usual, or to what others have learnt.
    fn double(&mut self, learnt: u64, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        let longer = if settings.block_bytes.is_some() {
            // There are many steps to a distance.
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
            counts.far += u64::from(self.widen(learnt, LEARNT_TIMES, settings));
        }
        self.doubling = self.distance < grown.max(learnt);
    }

    /// What became of bytes that it asked for. True if the distance shrank because of waste.
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
