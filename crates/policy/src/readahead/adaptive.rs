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
//!   may be chance (`order.rs`). Without one no stream begins: more live streams than places would
//!   only throw each other out.
//! - Backward streams are forward streams in a mirrored file: offset `x` is `mirror - x`, where the
//!   mirror is the length rounded up to a page, so that pages stay pages. Their bound is where the
//!   file begins.
//! - Where files lie apart, nothing outside of the reader's file is planned, whatever a stream
//!   wants: each plan is cut at both ends of the file.
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

use std::time::Duration;

mod mirror;

use self::mirror::backward_plan;
use super::bandwidth_delay::Learnt;
use super::recent::{Found, Recent, RecentReads};
use super::settings::{Settings, up};
use super::stream::{Relation, Step, Stream, Touch};
use super::stride::{Stride, Vote, is_dense};
use super::{Access, AccessKind, Counts, Feedback, Plan, ReadAhead};

#[derive(Clone, Copy, Debug)]
enum Place {
    Forward(Stream),
    Backward(Stream),
    Strided(Stride),
}

impl Place {
    /// The reader has come to the end of its file, or to its beginning.
    fn is_done(&self) -> bool {
        matches!(self, Self::Forward(stream) | Self::Backward(stream) if stream.is_done())
    }

    fn last_used(&self) -> Duration {
        match self {
            Self::Forward(stream) | Self::Backward(stream) => stream.last_used,
            Self::Strided(stride) => stride.last_used,
        }
    }
}

/// Adaptive read-ahead. See the module.
#[derive(Clone, Debug)]
pub struct Adaptive {
    settings: Settings,
    /// The settings of the mirrored space.
    mirrored: Settings,
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
        let mirror = up(settings.length_bytes, settings.page_bytes);
        Self {
            settings,
            mirrored: Settings {
                length_bytes: mirror,
                ..settings
            },
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

    fn mirror(&self, touch: &Touch) -> Touch {
        let mirror = self.mirrored.length_bytes;
        Touch {
            offset: mirror - touch.end,
            end: mirror - touch.offset,
            bounds: touch.bounds.map(|bounds| bounds.mirrored(mirror)),
            ..*touch
        }
    }

    /// The place that a touch belongs to.
    fn find(&self, touch: &Touch) -> Option<(usize, Relation)> {
        let back = self.mirror(touch);
        let mut nearest: Option<(usize, Relation)> = None;
        for (index, place) in self.places.iter().enumerate() {
            let relation = match place {
                Place::Forward(stream) => stream.relation(touch, &self.settings),
                Place::Backward(stream) => stream.relation(&back, &self.mirrored),
                Place::Strided(stride) => stride.relation(touch).map(Relation::Inside),
            };
            if let Some(relation) = relation
                && nearest.is_none_or(|(_, best)| relation < best)
            {
                nearest = Some((index, relation));
            }
        }
        nearest
    }

    /// Moves the stream of a place on.
    fn go_on(&mut self, index: usize, relation: Relation, touch: &Touch) -> Plan {
        let back = self.mirror(touch);
        let (settings, mirrored) = (self.settings, self.mirrored);
        match self.places.get_mut(index) {
            Some(Place::Forward(stream)) => {
                let step = stream.touch(touch, &settings, &mut self.counts);
                // At no other time: neither is the latency of later ones that of this, nor is to
                // be learnt again what waste or refused memory has halved.
                if let (Some(bytes), Some(latency)) = (step.needed, touch.latency) {
                    self.learnt.learn(bytes, latency);
                }
                forward_plan(step)
            }
            Some(Place::Backward(stream)) => {
                let step = stream.touch(&back, &mirrored, &mut self.counts);
                backward_plan(step, &settings, mirrored.length_bytes)
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
        match touch.kind {
            AccessKind::Marker => {
                let place = self.forward(touch.offset, touch.offset, touch, None);
                return self.settle(place, None, touch);
            }
            AccessKind::Miss | AccessKind::Late => {}
        }
        match self.recent.take(touch, &self.settings) {
            Found::Forward(recent) => return self.second(&recent, touch),
            Found::Backward(recent) => return self.backward(&recent, touch),
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
                let place = self.forward(touch.offset, touch.offset, touch, None);
                return self.settle(place, None, touch);
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
                Found::Backward(recent) => return self.backward(&recent, touch),
                Found::Same | Found::Descent | Found::New => {}
            }
        }
        self.counts.sequential += 1;
        self.go_on(index, relation, touch)
    }

    /// The second read of a stream.
    fn second(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let skipped = self.skipped(recent, touch);
        let mut place = self.forward(recent.start, touch.offset, touch, skipped);
        if let Place::Forward(stream) = &mut place {
            stream.follow(recent.seen, recent.bound);
        }
        self.settle(place, skipped, touch)
    }

    fn forward(&self, start: u64, position: u64, touch: &Touch, skipped: Option<usize>) -> Place {
        let request = touch.end - touch.offset;
        let request = request.max(touch.offset.saturating_sub(start));
        let mut stream = Stream::new(start, position, request, touch.far(), &self.settings);
        if let Some(Place::Forward(old)) = skipped.and_then(|index| self.places.get(index)) {
            stream.inherit(old);
        }
        Place::Forward(stream)
    }

    /// The third read of a backward stream, which may have come in parts.
    fn backward(&mut self, recent: &Recent, touch: &Touch) -> Plan {
        let (offset, end) = (recent.start, recent.end);
        let whole = Touch {
            offset,
            end,
            ..*touch
        };
        let start = self.mirror(&whole).offset;
        let stream = Stream::new(start, start, end - offset, touch.far(), &self.mirrored);
        self.settle(Place::Backward(stream), None, &whole)
    }

    fn strided(&mut self, delta: i64, length: u64, touch: &Touch) -> Plan {
        let dense = is_dense(delta, length, &self.settings);
        let gap = delta.unsigned_abs().saturating_sub(length);
        let (request, far) = (touch.end - touch.offset, touch.far());
        let place = match (dense, delta > 0) {
            (true, true) => {
                let start = touch.offset;
                let stream = Stream::new(start, start, request, far, &self.settings);
                Place::Forward(stream.with_gap(gap))
            }
            (true, false) => {
                let start = self.mirrored.length_bytes - touch.end;
                let stream = Stream::new(start, start, request, far, &self.mirrored);
                Place::Backward(stream.with_gap(gap))
            }
            (false, _) => Place::Strided(Stride::new(touch.offset, delta, length)),
        };
        self.vote.clear();
        self.settle(place, None, touch)
    }

    /// The silent stream behind the beginning of a new one, which may be its reader.
    fn skipped(&self, recent: &Recent, touch: &Touch) -> Option<usize> {
        let behind = |place: &Place| match place {
            Place::Forward(stream) => {
                let gap = recent.start.checked_sub(stream.window_end)?;
                let silent = stream.last_used <= recent.seen && stream.last_used < touch.now;
                (gap <= self.settings.reorder_bytes && silent).then_some(gap)
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
        self.counts.backward += u64::from(matches!(place, Place::Backward(_)));
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
        let is_idle = |last_used| now.saturating_sub(last_used) >= self.settings.idle_reuse;
        let rank = |place: &Place| match place {
            _ if place.is_done() => Some(0),
            Place::Strided(stride) if stride.is_doubtful() => Some(1),
            _ if is_idle(place.last_used()) => Some(2),
            Place::Forward(stream) | Place::Backward(stream) if stream.is_doubtful() => Some(3),
            _ => None,
        };
        let places = self.places.iter().enumerate();
        let ranks =
            places.filter_map(|(index, place)| Some((rank(place)?, place.last_used(), index)));
        ranks.min().map(|(.., index)| index)
    }

    /// The place that asked for the bytes at `offset`.
    fn owner(&mut self, offset: u64) -> Option<&mut Place> {
        let mirror = self.mirrored.length_bytes;
        let settings = &self.settings;
        let way = |place: &Place| match place {
            Place::Forward(stream) => stream.owns(offset),
            Place::Backward(stream) => stream.owns(mirror.checked_sub(offset)?.checked_sub(1)?),
            Place::Strided(stride) => stride.owns(offset, settings),
        };
        let ways = self.places.iter_mut();
        let ways = ways.filter_map(|place| Some((way(place)?, place)));
        ways.min_by_key(|(way, _)| *way).map(|(_, place)| place)
    }
}

/// Whether the file ends with this read.
fn is_whole(touch: &Touch) -> bool {
    touch.bound().is_some_and(|bound| bound <= touch.end)
}

fn forward_plan(step: Step) -> Plan {
    Plan {
        fetch: step.fetch.into_iter().collect(),
        marker: step.marker,
        release: step.release,
    }
}

impl ReadAhead for Adaptive {
    fn access(&mut self, access: &Access) -> Plan {
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

    fn feedback(&mut self, feedback: Feedback) {
        self.counts.feedback(feedback);
        let (settings, mirrored) = (self.settings, self.mirrored);
        let shrunk = match (feedback, self.feedback_owner(feedback)) {
            (_, None) => false,
            (Feedback::Useful { length, .. }, Some(place)) => {
                match place {
                    Place::Forward(stream) | Place::Backward(stream) => stream.useful(length),
                    Place::Strided(stride) => stride.useful(length),
                }
                false
            }
            (Feedback::Wasted { length, .. }, Some(place)) => match place {
                Place::Forward(stream) | Place::Backward(stream) => {
                    stream.wasted(length, &settings)
                }
                Place::Strided(stride) => stride.wasted(length),
            },
            (Feedback::Refused { offset }, Some(place)) => {
                match place {
                    Place::Forward(stream) => stream.refused(offset, &settings),
                    Place::Backward(stream) => {
                        let end = mirrored.length_bytes.saturating_sub(offset);
                        stream.refused(end, &mirrored);
                    }
                    Place::Strided(stride) => stride.refused(offset, &settings),
                }
                false
            }
        };
        self.counts.shrunk += u64::from(shrunk);
        if shrunk || matches!(feedback, Feedback::Refused { .. }) {
            self.learnt.halve();
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

impl Adaptive {
    fn feedback_owner(&mut self, feedback: Feedback) -> Option<&mut Place> {
        let (Feedback::Useful { offset, .. }
        | Feedback::Wasted { offset, .. }
        | Feedback::Refused { offset }) = feedback;
        self.owner(offset)
    }
}

#[cfg(test)]
mod tests;
