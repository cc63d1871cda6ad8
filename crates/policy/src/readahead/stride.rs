//! Streams that read and skip in turn, up or down: a column of a table, the headers of equal
//! records.
//!
//! The stride is the last distance between reads of no stream, if it has the majority among the
//! last 4, 8, 16 or 32 (Leap, ATC 2020).
//!
//! ```text
//!   position      +1         +2         +3         +4       planned = 4
//!  ---[##]-------[##]-------[##]-------[##]-------[##]----> offset
//!                          marker
//! ```
//!
//! Four pieces are planned, doubled at each step up to 64. The marker lies on the first piece of
//! the second half in another page than the reader. Waste and refusal halve the number; then only a
//! late piece lets it grow. A stride below 4 pieces or two units becomes a stream without gaps:
//! bytes cost less than requests.
//!
//! Weaknesses: two interleaved strides hide each other. Nothing is released behind a stride.

use std::ops::Range;
use std::time::Duration;

use super::settings::{Settings, down, up};
use super::stream::Touch;
use super::{AccessKind, Counts, Feedback, Judged, Plan};

const DELTAS_MAX: usize = 32;
const DELTAS_MIN: usize = 4;
const PIECES_START: u64 = 4;
const PIECES_MAX: u64 = 64;
/// A shorter stride is read without gaps, as is one of fewer units.
const DENSE_PIECES: u64 = 4;
const DENSE_UNITS: u64 = 2;
/// Below it a stride gives its place to any stream.
const CONFIRMATIONS_MIN: u64 = 4;
/// Pieces that the reader may leave out.
const LEAP_PIECES: i128 = 2;

const _: () = assert!(DELTAS_MAX.is_power_of_two() && DELTAS_MIN.is_power_of_two());
const _: () = assert!(CONFIRMATIONS_MIN >= 1);
const _: () = assert!(PIECES_START >= 2 && PIECES_START <= PIECES_MAX);

#[derive(Clone, Debug, Default)]
pub(super) struct Vote {
    deltas: [i64; DELTAS_MAX],
    count: usize,
    previous: Option<(u64, u64)>,
}

impl Vote {
    /// Takes a read. Returns the stride and the length of a piece.
    pub(super) fn take(&mut self, offset: u64, length: u64) -> Option<(i64, u64)> {
        let (previous, last_length) = self.previous.replace((offset, length))?;
        // Beyond 2^63 the sign is wrong, and no piece is found.
        let delta = offset.wrapping_sub(previous).cast_signed();
        self.deltas[self.count % DELTAS_MAX] = delta;
        self.count = self.count.wrapping_add(1);
        let length = length.max(last_length);
        (delta != 0 && self.majority(delta)).then_some((delta, length))
    }

    pub(super) fn extend(&mut self, offset: u64, end: u64) {
        if let Some((start, length)) = &mut self.previous
            && start.checked_add(*length) == Some(offset)
        {
            *length = end - *start;
        }
    }

    fn majority(&self, delta: i64) -> bool {
        let mut votes = 0;
        for age in 0..self.count.min(DELTAS_MAX) {
            let place = self.count.wrapping_sub(1 + age) % DELTAS_MAX;
            votes += usize::from(self.deltas[place] == delta);
            let asked = age + 1;
            if asked >= DELTAS_MIN && asked.is_power_of_two() && 2 * votes > asked {
                return true;
            }
        }
        false
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

pub(super) fn is_dense(delta: i64, length: u64, settings: &Settings) -> bool {
    let dense = length.saturating_mul(DENSE_PIECES);
    delta.unsigned_abs() <= dense.max(settings.unit_bytes * DENSE_UNITS)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stride {
    last_used: Duration,
    confirmations: u64,
    delta: i64,
    length: u64,
    position: u64,
    planned: u64,
    pieces: u64,
    doubling: bool,
    judged: Judged,
}

impl Stride {
    pub(super) fn new(position: u64, delta: i64, length: u64) -> Self {
        Self {
            delta,
            length,
            position,
            pieces: PIECES_START,
            doubling: true,
            ..Self::default()
        }
    }

    pub(super) fn last_used(&self) -> Duration {
        self.last_used
    }

    /// Which piece, from `position` on, has one of `bytes` from `offset`.
    fn piece_in(&self, offset: u64, bytes: u64) -> Option<i128> {
        let delta = i128::from(self.delta);
        let more = i128::from(bytes) - 1;
        let way = i128::from(offset) + more - i128::from(self.position);
        let within = way.rem_euclid(delta.abs());
        let index = way.div_euclid(delta.abs()) * delta.signum();
        (within < i128::from(self.length) + more).then_some(index)
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.confirmations < CONFIRMATIONS_MIN
    }

    /// How many pieces on a touch of the stream is.
    pub(super) fn relation(&self, touch: &Touch) -> Option<u64> {
        let index = self.piece_in(touch.offset, 1)?;
        let ahead = (0..=i128::from(self.planned) + LEAP_PIECES).contains(&index);
        let found = touch.kind != AccessKind::Miss;
        let behind = found && (-i128::from(PIECES_MAX)..0).contains(&index);
        let pieces = u64::try_from(index.max(0)).ok();
        pieces.filter(|_| ahead || behind)
    }

    pub(super) fn touch(
        &mut self,
        ahead: u64,
        touch: &Touch,
        settings: &Settings,
        counts: &mut Counts,
    ) -> Plan {
        self.last_used = touch.now;
        if ahead == 0 && (self.planned > 0 || touch.kind != AccessKind::Miss) {
            return Plan::default(); // another part of the piece, or a look back
        }
        let Some(position) = self.start_of(ahead) else {
            return Plan::default();
        };
        counts.skips += u64::from(ahead > self.planned + 1);
        self.position = position;
        self.confirmations += u64::from(ahead > 0);
        let missed = touch.kind == AccessKind::Miss;
        let gone = missed && ahead <= self.planned;
        self.planned = if gone {
            0
        } else {
            self.planned.saturating_sub(ahead)
        };
        let late = missed || touch.kind == AccessKind::Late;
        if late && !self.doubling && self.pieces < PIECES_MAX {
            self.pieces = (self.pieces * 2).min(PIECES_MAX);
            counts.grown += 1;
        }
        if self.planned > self.pieces / 2 {
            return Plan::default();
        }
        self.plan(touch, settings, counts)
    }

    fn plan(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) -> Plan {
        let most = self.pieces_max(settings);
        let mut fetch = Vec::new();
        let mut budget_bytes = touch.budget_bytes.min(settings.distance_bytes_max);
        let wanted = self.pieces.min(most);
        while self.planned < wanted {
            let Some(range) = self.range_of(self.planned + 1, settings) else {
                break;
            };
            let bytes = range.end - range.start;
            if bytes > budget_bytes {
                counts.budget_cuts += 1;
                break;
            }
            budget_bytes -= bytes;
            self.planned += 1;
            fetch.push(range);
        }
        if self.doubling {
            self.pieces = (self.pieces * 2).min(PIECES_MAX);
            self.doubling = self.pieces < PIECES_MAX;
        }
        Plan {
            fetch,
            marker: self.marker(touch, settings),
            ..Plan::default()
        }
    }

    fn pieces_max(&self, settings: &Settings) -> u64 {
        let fit = settings.distance_bytes_max / self.length.max(settings.unit_bytes);
        fit.clamp(1, PIECES_MAX)
    }

    fn marker(&self, touch: &Touch, settings: &Settings) -> Option<u64> {
        let page = |offset: u64| down(offset, settings.page_bytes);
        let here = page(touch.offset)..=page(touch.end - 1);
        (self.planned.div_ceil(2)..=self.planned)
            .filter_map(|index| self.start_of(index))
            .find(|offset| !here.contains(&page(*offset)))
    }

    fn start_of(&self, index: u64) -> Option<u64> {
        let way = self.delta.checked_mul(i64::try_from(index).ok()?)?;
        self.position.checked_add_signed(way)
    }

    fn range_of(&self, index: u64, settings: &Settings) -> Option<Range<u64>> {
        let start = self.start_of(index)?;
        let end = up(start.checked_add(self.length)?, settings.unit_bytes);
        let range = down(start, settings.unit_bytes)..end.min(settings.length_bytes);
        (range.start < range.end).then_some(range)
    }

    /// How far from the position a page is that the stream requested.
    pub(super) fn owns(&self, offset: u64, settings: &Settings) -> Option<u64> {
        let index = self.piece_in(offset, settings.page_bytes)?;
        let near = -i128::from(PIECES_MAX) * 4..=i128::from(self.planned);
        near.contains(&index)
            .then(|| offset.abs_diff(self.position))
    }

    /// True: the number of pieces shrank because of waste.
    pub(super) fn feedback(&mut self, feedback: Feedback, settings: &Settings) -> bool {
        let bytes = self.length.max(settings.page_bytes);
        let [least, recent] = [PIECES_START, PIECES_MAX].map(|count| bytes.saturating_mul(count));
        match feedback {
            Feedback::Useful { length, .. } => {
                self.judged.useful(length, recent);
                false
            }
            Feedback::Wasted { length, .. } => {
                let is_too_much = self.judged.wasted(length, least, recent);
                if is_too_much {
                    self.shrink();
                }
                is_too_much
            }
            Feedback::Refused { offset } => {
                if let Some(index) = self.piece_in(offset, settings.unit_bytes) {
                    let kept = u64::try_from(index - 1).unwrap_or(0);
                    self.planned = self.planned.min(kept);
                }
                self.shrink();
                false
            }
        }
    }

    fn shrink(&mut self) {
        self.pieces = (self.pieces / 2).max(2);
        self.doubling = false;
    }
}
