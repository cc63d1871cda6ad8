//! Adaptive read-ahead: several streams of one file, found from offsets alone.
//!
//! # Problem
//!
//! Many readers share a file, some in order, some at random, over protocols that know no open
//! files. Each ordered one must find its bytes in memory; the random ones must cost nothing.
//!
//! # Rule
//!
//! ```text
//!             belongs to a stream? ──yes──> it moves on: window, marker, release (stream, stride)
//!   access ──┤
//!             no ──> next to a recent read? ──yes──> a new stream, and its first window
//!                      no ──> where a file begins? ──yes──> a new stream, and a small window
//!                               no ──> a stride has the majority? ──yes──> a new strided stream
//!                                        no ──> remembered (recent), nothing else
//! ```
//!
//! - An access belongs to the stream whose position is nearest behind it, if it lies in that one's
//!   window, or so little beyond that three quarters of the way were read. So interleaved
//!   streams keep their windows (ZFS: up to 8 for each file).
//! - A new stream that begins up to 16 MiB ahead of one that has been silent since is that reader
//!   after a skip: it takes over the distance. The old place stays until it is needed.
//! - A marker that belongs to no stream was set by one that lost its place: its page is in memory,
//!   so the stream begins again there.
//! - A place is given away when its stream has come to the end of its file, was silent for 1 s, or
//!   may be chance (`stream.rs`). Without one no stream begins: more live streams than places would
//!   only throw each other out.
//! - Backward streams are forward streams in a mirrored file ([`Space`]). Their bound is where the
//!   file begins.
//! - Where files lie apart, nothing outside of the reader's file is planned, whatever a stream
//!   wants: each plan is cut at both ends of the file.
//!
//! # What streams begin from
//!
//! A random read must neither cause read-ahead nor cost a stream its place, but the first read of
//! a stream looks like a random one, and the second comes after those of other readers.
//!
//! The last 32 such reads are kept in a ring, apart from the streams. A read that begins where one
//! of them ended is the second of a stream. Reads fetch whole units, so one that begins in
//! the last unit of another is adjacent to it: what was between were hits. Two reads in a row that
//! end where the one before began are a backward stream; one is not enough, because threads that
//! share a file swap their reads.
//!
//! The parts of one read have the same time and meet at a page boundary: they are one read, up to
//! 1 MiB.
//!
//! # Cost
//!
//! O(streams + recent reads) for what is told, no memory taken unless something is asked for.
//!
//! # Weaknesses
//!
//! Hits are not told, so positions are as old as the last marker; readers inside one window look
//! like one reader. The first read of what is half in memory cannot see that the bytes before it
//! are there (Linux looks at the cache).
//!
//! More than 32 readers that begin at once push each other out. With a coarse clock two reads are
//! taken for one, and the stream begins a few reads later.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::bandwidth_delay::Learnt;
use super::settings::{IDLE_REUSE, READ_BYTES_MAX, REORDER_BYTES, Settings, down, up};
use super::stream::{Relation, Stream, Touch};
use super::stride::{Stride, Vote, is_dense};
use super::{Access, AccessKind, Counts, Feedback, Plan};

/// A backward batch is asked for in so many pieces, the last one first.
const BACKWARD_PIECES: u64 = 4;
/// Reads that belong to no stream, and are remembered.
const RECENT_MAX: usize = 32;
/// So many steps down in a row make a backward stream.
const DESCENTS_MIN: u8 = 2;

/// The file, or its mirror: offset `x` is `mirror - x`, where the mirror is the length rounded up
/// to a page, so that pages stay pages.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// In the mirror, its length is that of the mirror.
    settings: Settings,
    /// Bytes of the file.
    length_bytes: u64,
    is_mirrored: bool,
}

impl Space {
    fn new(settings: Settings, is_mirrored: bool) -> Self {
        let length_bytes = settings.length_bytes;
        let seen_bytes = match is_mirrored {
            true => up(length_bytes, settings.page_bytes),
            false => length_bytes,
        };
        Self {
            settings: Settings {
                length_bytes: seen_bytes,
                ..settings
            },
            length_bytes,
            is_mirrored,
        }
    }

    /// The touch as it is seen here.
    fn touch(&self, touch: &Touch) -> Touch {
        if !self.is_mirrored {
            return *touch;
        }
        let mirror = self.settings.length_bytes;
        Touch {
            offset: mirror - touch.end,
            end: mirror - touch.offset,
            bounds: touch.bounds.map(|bounds| bounds.mirrored(mirror)),
            ..*touch
        }
    }

    /// Where the byte at `offset` is seen.
    fn byte(&self, offset: u64) -> Option<u64> {
        if !self.is_mirrored {
            return Some(offset);
        }
        self.settings
            .length_bytes
            .checked_sub(offset)?
            .checked_sub(1)
    }

    /// What is told of the file, as it is told here. Of refused bytes `offset` is where the plan
    /// was cut, not a byte.
    fn feedback(&self, feedback: Feedback) -> Feedback {
        match feedback {
            Feedback::Refused { offset } if self.is_mirrored => Feedback::Refused {
                offset: self.settings.length_bytes.saturating_sub(offset),
            },
            _ => feedback,
        }
    }

    /// What is planned here, as a plan for the file.
    fn plan(&self, plan: Plan) -> Plan {
        if !self.is_mirrored {
            return plan;
        }
        let (page, mirror) = (self.settings.page_bytes, self.settings.length_bytes);
        let turn = |range: Range<u64>| {
            let start = mirror.saturating_sub(range.end);
            let end = mirror.saturating_sub(range.start).min(self.length_bytes);
            (start < end).then_some(start..end)
        };
        let mut fetch = Vec::new();
        for Range { mut start, end } in plan.fetch {
            let piece = up(((end - start) / BACKWARD_PIECES).max(1), page);
            while start < end {
                let next = end.min(down(start + piece, page));
                fetch.extend(turn(start..next));
                start = next;
            }
        }
        Plan {
            fetch,
            // The page that begins at the marker in the mirror ends there in the file.
            marker: plan.marker.and_then(|marker| self.byte(marker)),
            release: plan.release.and_then(turn),
        }
    }
}

/// A read that belongs to no stream.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    start: u64,
    end: u64,
    seen: Duration,
    bound: Option<u64>,
    descents: u8,
}

/// What a read is to the ones before it.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// The second of a stream that began with this.
    Forward(Recent),
    /// This read, whole: the third of a backward stream.
    Backward(Recent),
    /// A further part of a read, or the same again.
    Same,
    /// The second of what may be a backward stream.
    Descent,
    /// Nothing.
    New,
}

/// The ring.
#[derive(Clone, Debug, Default)]
struct RecentReads {
    ring: [Recent; RECENT_MAX],
    next: usize,
}

impl RecentReads {
    /// Looks for the read before this one, and remembers this one.
    fn take(&mut self, touch: &Touch, settings: &Settings) -> Found {
        if let Some(found) = self.again(touch, settings) {
            return found;
        }
        for recent in self.ring.iter_mut().filter(|recent| recent.end > 0) {
            let reach = up(recent.end, settings.unit_bytes);
            let adjacent = touch.offset > recent.start && touch.offset <= reach;
            if adjacent && touch.end > recent.end {
                return Found::Forward(std::mem::take(recent));
            }
        }
        let place = self.next;
        self.next = (place + 1) % RECENT_MAX;
        if let Some(recent) = self.ring.get_mut(place) {
            *recent = Recent {
                start: touch.offset,
                end: touch.end,
                seen: touch.now,
                bound: touch.bound(),
                descents: 0,
            };
        }
        self.descend(place, settings).unwrap_or(Found::New)
    }

    /// A further part of a read, or one that was seen before. An unused place ends at 0.
    fn again(&mut self, touch: &Touch, settings: &Settings) -> Option<Found> {
        let part = |recent: &Recent| {
            recent.seen == touch.now
                && recent.end == touch.offset
                && touch.offset.is_multiple_of(settings.page_bytes)
                && touch.end - recent.start <= READ_BYTES_MAX
        };
        let place = self.ring.iter().position(|recent| {
            let seen = touch.offset >= recent.start && touch.end <= recent.end;
            recent.end > 0 && (seen || part(recent))
        })?;
        let recent = self.ring.get_mut(place)?;
        recent.seen = touch.now;
        if touch.end <= recent.end {
            return Some(Found::Same);
        }
        recent.end = touch.end;
        recent.bound = touch.bound().or(recent.bound);
        Some(self.descend(place, settings).unwrap_or(Found::Same))
    }

    /// Whether the read in `place` ends where another begins. Takes over what that one has
    /// counted.
    fn descend(&mut self, place: usize, settings: &Settings) -> Option<Found> {
        let read = *self.ring.get(place)?;
        let above = self.ring.iter_mut().find(|above| {
            let below = down(above.start, settings.unit_bytes);
            read.start < above.start && (below..=above.start).contains(&read.end)
        })?;
        let descents = std::mem::take(above).descents + 1;
        let recent = self.ring.get_mut(place)?;
        recent.descents = descents;
        if descents < DESCENTS_MIN {
            return Some(Found::Descent);
        }
        Some(Found::Backward(std::mem::take(recent)))
    }
}

/// Which way a stream goes: the index of its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Stream(Way, Stream),
    Strided(Stride),
}

impl Place {
    /// The reader has come to the end of its file, or to its beginning.
    fn is_done(&self) -> bool {
        matches!(self, Self::Stream(_, stream) if stream.is_done())
    }

    fn last_used(&self) -> Duration {
        match self {
            Self::Stream(_, stream) => stream.last_used(),
            Self::Strided(stride) => stride.last_used(),
        }
    }
}

/// Adaptive read-ahead. See the module.
#[derive(Clone, Debug)]
pub struct Adaptive {
    settings: Settings,
    /// By [`Way`].
    spaces: [Space; 2],
    places: Vec<Place>,
    recent: RecentReads,
    vote: Vote,
    learnt: Learnt,
    counts: Counts,
    /// When the last access was told.
    told: Duration,
}

impl Adaptive {
    /// For a file or device. Settings that do not fit together are taken to the nearest that do.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = settings.normalised();
        Self {
            settings,
            spaces: [false, true].map(|is_mirrored| Space::new(settings, is_mirrored)),
            places: Vec::new(),
            recent: RecentReads::default(),
            vote: Vote::default(),
            learnt: Learnt::default(),
            counts: Counts::default(),
            told: Duration::ZERO,
        }
    }

    /// The settings it goes by.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The place that a touch belongs to.
    fn find(&self, touch: &Touch) -> Option<(usize, Relation)> {
        let seen = self.spaces.each_ref().map(|space| space.touch(touch));
        let relation = |place: &Place| match place {
            Place::Stream(way, stream) => {
                let settings = &self.spaces[*way as usize].settings;
                stream.relation(&seen[*way as usize], settings)
            }
            Place::Strided(stride) => stride.relation(touch).map(Relation::Inside),
        };
        let places = self.places.iter().enumerate();
        let related = places.filter_map(|(index, place)| Some((index, relation(place)?)));
        related.min_by_key(|(_, relation)| *relation)
    }

    /// Moves the stream of a place on.
    fn go_on(&mut self, index: usize, relation: Relation, touch: &Touch) -> Plan {
        let settings = self.settings;
        match self.places.get_mut(index) {
            Some(Place::Stream(way, stream)) => {
                let space = self.spaces[*way as usize];
                let seen = space.touch(touch);
                let (counts, learnt) = (&mut self.counts, &mut self.learnt);
                space.plan(stream.touch(&seen, &space.settings, counts, learnt))
            }
            Some(Place::Strided(stride)) => {
                let ahead = match relation {
                    Relation::Inside(ahead) => ahead,
                    _ => 0,
                };
                stride.touch(ahead, touch, &settings, &mut self.counts)
            }
            None => Plan::default(),
        }
    }

    /// Begins something at a touch that belongs to no stream, if there is a reason to.
    fn begin(&mut self, touch: &Touch) -> Plan {
        if touch.kind == AccessKind::Marker {
            return self.first(Way::Forward, 0, touch);
        }
        match self.recent.take(touch, &self.settings) {
            Found::Forward(recent) => return self.second(&recent, touch),
            Found::Backward(recent) => return self.third(&recent, touch),
            Found::Same => {
                self.vote.extend(touch.offset, touch.end);
                self.counts.random += 1;
                return Plan::default();
            }
            // The beginnings of files that are read whole are no stride.
            Found::New if self.settings.begins(touch.offset) && is_whole(touch) => {
                self.counts.random += 1;
                return Plan::default();
            }
            Found::New if self.settings.begins(touch.offset) => {
                return self.first(Way::Forward, 0, touch);
            }
            Found::New | Found::Descent => {}
        }
        match self.vote.take(touch.offset, touch.end - touch.offset) {
            Some((delta, length)) => self.strided(delta, length, touch),
            None => {
                self.counts.random += 1;
                Plan::default()
            }
        }
    }

    /// A touch that a strided stream would take. If it goes on with the read before it, that is
    /// the better explanation.
    fn strided_or_adjacent(&mut self, index: usize, relation: Relation, touch: &Touch) -> Plan {
        if touch.kind == AccessKind::Miss {
            match self.recent.take(touch, &self.settings) {
                Found::Forward(recent) => return self.second(&recent, touch),
                Found::Backward(recent) => return self.third(&recent, touch),
                Found::Same | Found::Descent | Found::New => {}
            }
        }
        self.counts.sequential += 1;
        self.go_on(index, relation, touch)
    }

    /// The second read of a stream.
    fn second(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let skipped = self.skipped(recent, touch);
        let request = touch.end - touch.offset;
        let request = request.max(touch.offset.saturating_sub(recent.start));
        let far = touch.far();
        let mut stream = Stream::new(recent.start, touch.offset, request, far, &self.settings);
        if let Some(Place::Stream(_, old)) = skipped.and_then(|index| self.places.get(index)) {
            stream.inherit(old);
        }
        stream.follow(recent.seen, recent.bound);
        self.settle(Place::Stream(Way::Forward, stream), skipped, touch)
    }

    /// The third read of a backward stream, which may have come in parts.
    fn third(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let (offset, end) = (recent.start, recent.end);
        let whole = Touch {
            offset,
            end,
            ..*touch
        };
        self.first(Way::Backward, 0, &whole)
    }

    /// A stream that begins with this touch, as that is seen in its direction.
    fn first(&mut self, way: Way, gap: u64, touch: &Touch) -> Plan {
        let space = self.spaces[way as usize];
        let Touch { offset, end, .. } = space.touch(touch);
        let stream = Stream::new(offset, offset, end - offset, touch.far(), &space.settings);
        self.settle(Place::Stream(way, stream.with_gap(gap)), None, touch)
    }

    fn strided(&mut self, delta: i64, length: u64, touch: &Touch) -> Plan {
        self.vote.clear();
        if !is_dense(delta, length, &self.settings) {
            let stride = Stride::new(touch.offset, delta, length);
            return self.settle(Place::Strided(stride), None, touch);
        }
        let way = if delta > 0 {
            Way::Forward
        } else {
            Way::Backward
        };
        let gap = delta.unsigned_abs().saturating_sub(length);
        self.first(way, gap, touch)
    }

    /// The silent stream behind the beginning of a new one, which may be its reader.
    fn skipped(&self, recent: &Recent, touch: &Touch) -> Option<usize> {
        let behind = |place: &Place| match place {
            Place::Stream(Way::Forward, stream) => {
                let gap = recent.start.checked_sub(stream.window_end())?;
                let last_used = stream.last_used();
                let silent = last_used <= recent.seen && last_used < touch.now;
                (gap <= REORDER_BYTES && silent).then_some(gap)
            }
            _ => None,
        };
        let gaps = self.places.iter().enumerate();
        let gaps = gaps.filter_map(|(index, place)| Some((behind(place)?, index)));
        gaps.min().map(|(_, index)| index)
    }

    /// Puts a new stream into a place, and lets it take its first step.
    fn settle(&mut self, place: Place, skipped: Option<usize>, touch: &Touch) -> Plan {
        let Some(index) = self.vacancy(touch.now).or(skipped) else {
            self.counts.crowded += 1;
            self.counts.random += 1;
            return Plan::default();
        };
        self.counts.sequential += 1;
        self.counts.streams += 1;
        self.counts.skips += u64::from(skipped.is_some());
        self.counts.backward += u64::from(matches!(place, Place::Stream(Way::Backward, _)));
        self.counts.strides += u64::from(matches!(place, Place::Strided(_)));
        match self.places.get_mut(index) {
            Some(old) => *old = place,
            None => self.places.push(place),
        }
        self.go_on(index, Relation::Inside(0), touch)
    }

    /// A free place, or that of a stream at its end, or that of a doubtful stride (the beginnings
    /// of streams at equal distances look like one), or of one that has been silent long enough,
    /// or of a stream that may be chance. Of several the one that has been silent longest.
    fn vacancy(&self, now: Duration) -> Option<usize> {
        if self.places.len() < self.settings.streams_max {
            return Some(self.places.len());
        }
        let is_idle = |last_used| now.saturating_sub(last_used) >= IDLE_REUSE;
        let rank = |place: &Place| match place {
            _ if place.is_done() => Some(0),
            Place::Strided(stride) if stride.is_doubtful() => Some(1),
            _ if is_idle(place.last_used()) => Some(2),
            Place::Stream(_, stream) if stream.is_doubtful() => Some(3),
            _ => None,
        };
        let places = self.places.iter().enumerate();
        let ranks =
            places.filter_map(|(index, place)| Some((rank(place)?, place.last_used(), index)));
        ranks.min().map(|(.., index)| index)
    }

    /// The place that asked for the bytes at `offset`.
    fn owner(&mut self, offset: u64) -> Option<&mut Place> {
        let (settings, spaces) = (&self.settings, &self.spaces);
        let distance = |place: &Place| match place {
            Place::Stream(way, stream) => stream.owns(spaces[*way as usize].byte(offset)?),
            Place::Strided(stride) => stride.owns(offset, settings),
        };
        let owners = self.places.iter_mut();
        let owners = owners.filter_map(|place| Some((distance(place)?, place)));
        let nearest = owners.min_by_key(|(distance, _)| *distance);
        nearest.map(|(_, place)| place)
    }

    /// Tells of an access and asks what to do.
    pub fn access(&mut self, access: &Access) -> Plan {
        let end = access
            .offset
            .saturating_add(access.length)
            .min(self.settings.length_bytes);
        self.counts.late += u64::from(access.kind == AccessKind::Late);
        if access.offset >= end {
            self.counts.random += 1;
            return Plan::default();
        }
        let file = self.settings.file(access.offset, access.bounds);
        let touch = Touch {
            offset: access.offset,
            end,
            kind: access.kind,
            budget_bytes: access.budget_bytes,
            now: access.now,
            previous: std::mem::replace(&mut self.told, access.now),
            bounds: access.bounds.or(file),
            latency: access.latency,
            learnt: access.latency.map_or(0, |latency| self.learnt.at(latency)),
        };
        let mut plan = match self.find(&touch) {
            Some((index, relation)) => match self.places.get(index) {
                Some(Place::Strided(_)) => self.strided_or_adjacent(index, relation, &touch),
                _ => {
                    self.counts.sequential += 1;
                    self.counts.skips += u64::from(matches!(relation, Relation::Skip(_)));
                    self.go_on(index, relation, &touch)
                }
            },
            None => self.begin(&touch),
        };
        if let Some(file) = file {
            let end = up(file.end, self.settings.unit_bytes);
            self.counts.outside += u64::from(plan.cut(&(file.start..end)));
        }
        if !plan.fetch.is_empty() {
            self.counts.plans += 1;
            let bytes: u64 = plan.fetch.iter().map(|range| range.end - range.start).sum();
            self.counts.planned_bytes = self.counts.planned_bytes.saturating_add(bytes);
        }
        plan
    }

    /// Tells what became of an earlier plan.
    pub fn feedback(&mut self, feedback: Feedback) {
        let counts = &mut self.counts;
        let (offset, bytes, count) = match feedback {
            Feedback::Useful { offset, length } => (offset, length, &mut counts.useful_bytes),
            Feedback::Wasted { offset, length } => (offset, length, &mut counts.wasted_bytes),
            Feedback::Refused { offset } => (offset, 1, &mut counts.refused),
        };
        *count = count.saturating_add(bytes);
        let (settings, spaces) = (self.settings, self.spaces);
        let shrunk = match self.owner(offset) {
            Some(Place::Stream(way, stream)) => {
                let space = &spaces[*way as usize];
                stream.feedback(space.feedback(feedback), &space.settings)
            }
            Some(Place::Strided(stride)) => stride.feedback(feedback, &settings),
            None => false,
        };
        self.counts.shrunk += u64::from(shrunk);
        if shrunk || matches!(feedback, Feedback::Refused { .. }) {
            self.learnt.halve();
        }
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Whether the file ends with this read.
fn is_whole(touch: &Touch) -> bool {
    touch.bound().is_some_and(|bound| bound <= touch.end)
}
