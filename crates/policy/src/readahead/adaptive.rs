//! Adaptive read-ahead: several streams of one file, found from offsets alone.
//!
//! Many readers share a file, in order or at random, over protocols without open files. Ordered
//! ones must find their bytes in memory, random ones cost nothing.
//!
//! ```text
//!             belongs to a stream? ──yes──> it moves on: window, marker, release (stream, stride)
//!   access ──┤
//!             no ──> next to a recent read? ──yes──> a new stream, and its first window
//!                      no ──> where a file begins? ──yes──> a new stream, and a small window
//!                               no ──> a stride has the majority? ──yes──> a new strided stream
//!                                        no ──> remembered (recent, scattered)
//! ```
//!
//! - An access belongs to the stream with the nearest position behind it, if it lies in its window
//!   or less than 1/4 of the way beyond: interleaved streams keep their windows (ZFS: up to 8).
//! - A new stream up to 16 MiB ahead of a silent one is its reader after a skip, and keeps the
//!   distance.
//! - At a marker of no stream, one that lost its place begins again.
//! - A place is free when its stream reached the end of the file, was silent for 1 s, or may be
//!   chance. Without a free place no stream begins.
//! - Backward streams are forward ones in a mirrored file ([`Space`]).
//! - Where files lie apart, plans are cut at both ends of the reader's file.
//!
//! **Recent reads.** The last 32 reads of no stream are kept in a ring. A read that begins where
//! one of them ended, or in its last unit, is the second of a stream. Two in a row that each end
//! where the one before began are a backward stream; one is not enough, as threads that share a
//! file swap their reads. Parts of one read have one time and meet at a page boundary, up to 1 MiB.
//!
//! Weaknesses: hits are not reported, so positions are as old as the last marker, and readers
//! inside one window look like one. More than 32 readers that begin at once push each other out.
//! With a coarse clock two reads look like one, and streams begin later.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::bandwidth_delay::Learnt;
use super::scattered::Scattered;
use super::settings::{IDLE_REUSE, READ_BYTES_MAX, REORDER_BYTES, Settings, down, up};
use super::stream::{Relation, Stream, Touch};
use super::stride::{Stride, Vote, is_dense};
use super::{Access, AccessKind, Counts, Feedback, Plan};

/// Pieces of a backward batch, the last one first.
const BACKWARD_PIECES: u64 = 4;
const RECENT_MAX: usize = 32;
/// Steps down in a row that make a backward stream.
const DESCENTS_MIN: u8 = 2;

/// The file, or its mirror of whole pages: offset `x` is `mirror - x`.
#[derive(Clone, Copy, Debug)]
struct Space {
    settings: Settings,
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

    fn byte(&self, offset: u64) -> Option<u64> {
        if !self.is_mirrored {
            return Some(offset);
        }
        self.settings
            .length_bytes
            .checked_sub(offset)?
            .checked_sub(1)
    }

    /// Of refused bytes `offset` is where the plan was cut.
    fn feedback(&self, feedback: Feedback) -> Feedback {
        match feedback {
            Feedback::Refused { offset } if self.is_mirrored => Feedback::Refused {
                offset: self.settings.length_bytes.saturating_sub(offset),
            },
            _ => feedback,
        }
    }

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
            along: plan.along,
            // The page that begins at the marker in the mirror ends there.
            marker: plan.marker.and_then(|marker| self.byte(marker)),
            release: plan.release.and_then(turn),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    start: u64,
    end: u64,
    seen: Duration,
    bound: Option<u64>,
    descents: u8,
}

#[derive(Clone, Copy, Debug)]
enum Found {
    /// The second of a stream, which began with this.
    Forward(Recent),
    /// The third of a backward stream: this read, whole.
    Backward(Recent),
    /// A further part of a read, or a repetition.
    Same,
    /// Perhaps the second of a backward stream.
    Descent,
    New,
}

#[derive(Clone, Debug, Default)]
struct RecentReads {
    ring: [Recent; RECENT_MAX],
    next: usize,
}

impl RecentReads {
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

    /// A further part of a read, or a repetition. An unused place ends at 0.
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

    /// Whether the read in `place` ends where another began.
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

/// See the module.
#[derive(Clone, Debug)]
pub struct Adaptive {
    settings: Settings,
    spaces: [Space; 2],
    places: Vec<Place>,
    recent: RecentReads,
    vote: Vote,
    scattered: Scattered,
    learnt: Learnt,
    counts: Counts,
    told: Duration,
}

impl Adaptive {
    /// Takes the nearest settings that fit together.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = settings.normalised();
        Self {
            settings,
            spaces: [false, true].map(|is_mirrored| Space::new(settings, is_mirrored)),
            places: Vec::new(),
            recent: RecentReads::default(),
            vote: Vote::default(),
            scattered: Scattered::default(),
            learnt: Learnt::default(),
            counts: Counts::default(),
            told: Duration::ZERO,
        }
    }

    /// The settings taken.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

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

    fn begin(&mut self, touch: &Touch, spare_bytes: u64) -> Plan {
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
            None => self.at_random(touch, spare_bytes),
        }
    }

    fn at_random(&mut self, touch: &Touch, spare_bytes: u64) -> Plan {
        self.counts.random += 1;
        let is_miss = touch.kind == AccessKind::Miss && self.settings.brings_along;
        let piece = is_miss.then(|| self.scattered.miss(touch, spare_bytes, &self.settings));
        Plan {
            along: piece.flatten(),
            ..Plan::default()
        }
    }

    /// A touch of a stride, unless it goes on with the read before it.
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

    fn second(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let skipped = self.skipped(recent, touch);
        let request = touch.end - touch.offset;
        let request = request.max(touch.offset.saturating_sub(recent.start));
        let needed = touch.needed();
        let mut stream = Stream::new(recent.start, touch.offset, request, needed, &self.settings);
        if let Some(Place::Stream(_, old)) = skipped.and_then(|index| self.places.get(index)) {
            stream.inherit(old);
        }
        stream.follow(recent.seen, recent.bound);
        self.settle(Place::Stream(Way::Forward, stream), skipped, touch)
    }

    /// The third read of a backward stream; it may have come in parts.
    fn third(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let (offset, end) = (recent.start, recent.end);
        let whole = Touch {
            offset,
            end,
            ..*touch
        };
        self.first(Way::Backward, 0, &whole)
    }

    fn first(&mut self, way: Way, gap: u64, touch: &Touch) -> Plan {
        let space = self.spaces[way as usize];
        let Touch { offset, end, .. } = space.touch(touch);
        let stream = Stream::new(
            offset,
            offset,
            end - offset,
            touch.needed(),
            &space.settings,
        );
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

    /// The silent stream behind a new one, which may be its reader.
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

    /// A free place, else the longest silent of finished streams, doubtful strides, silent streams,
    /// or streams that may be chance.
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

    /// What to do after an access.
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
            None => self.begin(&touch, access.spare_bytes),
        };
        if let Some(file) = file {
            let end = up(file.end, self.settings.unit_bytes);
            self.counts.outside += u64::from(plan.cut(&(file.start..end)));
        }
        if !plan.fetch.is_empty() || plan.along.is_some() {
            self.counts.plans += 1;
            let ranges = plan.fetch.iter().chain(&plan.along);
            let bytes: u64 = ranges.map(|range| range.end - range.start).sum();
            self.counts.planned_bytes = self.counts.planned_bytes.saturating_add(bytes);
        }
        plan
    }

    /// The object that began at `start` is gone; another may begin there.
    pub fn gone(&mut self, start: u64) {
        self.scattered.gone(start);
    }

    /// Notes what became of a plan.
    pub fn feedback(&mut self, feedback: Feedback) {
        let counts = &mut self.counts;
        let offset = match feedback {
            Feedback::Useful { offset, .. } => offset,
            Feedback::Wasted { offset, length } => {
                counts.wasted_bytes = counts.wasted_bytes.saturating_add(length);
                self.scattered.wasted(offset);
                offset
            }
            Feedback::Refused { offset } => {
                counts.refused += 1;
                offset
            }
        };
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

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn is_whole(touch: &Touch) -> bool {
    touch.bound().is_some_and(|bound| bound <= touch.end)
}
