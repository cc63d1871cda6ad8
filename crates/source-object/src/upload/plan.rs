//! Which bytes of a changed object are sent, and which the store copies from the base.
//!
//! A store makes an object of one body, or of parts behind each other: bodies, and ranges of its
//! objects. All parts but the last have at least [`Sizes::part_bytes_min`], and there are at most
//! [`Sizes::parts_max`]. So a change of 6 bytes costs a part of 5 MiB, unless it is at the end.
//!
//! ```text
//!   dirty         ....x..................xx..x.......xxxx    behind the base all is dirty
//!   regions       [========]      [============]     [===    sent
//!   gaps                    (cccc)              (ccc)        copied
//! ```
//!
//! A gap that is smaller than a part joins the regions beside it. A small region takes bytes of the
//! gap before it, as many as leave that one a part, and the rest of the gap behind: each gap is
//! used up before the next is touched. Few bytes go before few requests. A plan with too many parts
//! is made again with larger gaps joined.
//!
//! Weaknesses: regions are placed one by one, so where gaps of one to three parts lie close
//! together another order would sometimes send fewer bytes. Zeros are sent as bytes.

use std::ops::Range;

use pagewell_base::spans::{Span, Spans};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// Of an object, at most (S3: 5 TiB).
    pub object_bytes_max: u64,
    /// Up to this size an object may be one body. Larger ones go faster in parts, side by side.
    pub whole_bytes_max: u64,
    /// Of all parts but the last (S3: 5 MiB).
    pub part_bytes_min: u64,
    /// Of a part that is sent, unless there would be too many.
    pub part_bytes: u64,
    /// Of a part that is sent, as it has to be in memory: what an object of 5 TiB needs.
    pub part_bytes_max: u64,
    /// Of a part that is copied, unless there would be too many: a large one takes longer than a
    /// caller is patient.
    pub copy_bytes: u64,
    /// Of a part that is copied, at most (S3: 5 GiB; Azure: 4,000 MiB).
    pub copy_bytes_max: u64,
    pub parts_max: u64,
    /// Bytes that may be sent to spare a request: they take about the same time.
    pub request_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            object_bytes_max: 5 << 40,
            whole_bytes_max: 16 * MIB,
            part_bytes_min: 5 * MIB,
            part_bytes: 8 * MIB,
            part_bytes_max: 528 * MIB,
            copy_bytes: GIB,
            copy_bytes_max: 4_000 * MIB,
            parts_max: 10_000,
            request_bytes: MIB,
        }
    }
}

impl Sizes {
    /// The bytes of one of the parts that are sent while an object is written.
    pub(super) fn slot(&self, slot: u32) -> Range<u64> {
        let start = u64::from(slot) * self.part_bytes;
        start..start + self.part_bytes
    }

    /// How far an object has to be written before the slot is sent: what is smaller when it ends
    /// costs no other requests than without, and what programs write again soon is behind that.
    /// None: no further part is sent, so that those behind may be large.
    pub(super) fn slot_is_due_at(&self, slot: u32) -> Option<u64> {
        let may = u64::from(slot) < self.parts_max / 2;
        may.then(|| self.slot(slot).end + self.whole_bytes_max)
    }

    /// The same where an object is copied in one part or not at all.
    pub(super) fn of_whole_copies(&self) -> Self {
        Self {
            copy_bytes: self.object_bytes_max,
            copy_bytes_max: self.object_bytes_max,
            ..self.clone()
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub length_bytes: u64,
    /// Its first bytes that the base has and the store can copy.
    pub base_bytes: u64,
    /// What differs, also behind them.
    pub dirty: &'a Spans,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub range: Range<u64>,
    pub is_copied: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Whole,
    Parts(Vec<Piece>),
}

/// The plan; none for what is larger than an object can be.
pub(super) fn plan(change: &Change<'_>, sizes: &Sizes) -> Option<Plan> {
    let length = change.length_bytes;
    if length > sizes.object_bytes_max {
        return None;
    }
    if length == 0 {
        return Some(Plan::Whole);
    }
    let mut joined_bytes = sizes.part_bytes_min.max(1);
    loop {
        let regions = extended(&joined(change, joined_bytes), length, sizes);
        if let Some(pieces) = cut(&regions, length, sizes) {
            let sent: u64 = regions.iter().map(|(start, end)| end - start).sum();
            let requests = pieces.len() as u64 + 2;
            let in_parts = sent.saturating_add(requests.saturating_mul(sizes.request_bytes));
            let is_small = length <= sizes.whole_bytes_max;
            let is_whole = is_small && length + sizes.request_bytes <= in_parts;
            return Some(if is_whole {
                Plan::Whole
            } else {
                Plan::Parts(pieces)
            });
        }
        if joined_bytes > length {
            return None;
        }
        joined_bytes = joined_bytes.saturating_mul(2);
    }
}

/// The parts of an object of which nothing is copied, the first `slots` of them of
/// [`Sizes::part_bytes`], as they were sent while it was written. None where it should be begun
/// anew.
pub(super) fn plan_behind(slots: u32, length: u64, sizes: &Sizes) -> Option<Vec<Piece>> {
    if length <= sizes.whole_bytes_max || length > sizes.object_bytes_max {
        return None;
    }
    let part_bytes = sizes.part_bytes;
    let slots = u64::from(slots).min(length.div_ceil(part_bytes));
    let slot = |number: u64| Piece {
        range: number * part_bytes..length.min((number + 1) * part_bytes),
        is_copied: false,
    };
    let mut pieces: Vec<_> = (0..slots).map(slot).collect();
    let before = pieces.last().map_or(0, |piece| piece.range.end);
    if before < length {
        let parts_max = sizes.parts_max.checked_sub(slots + 1)?;
        let wanted = (length - before).div_ceil(parts_max.max(1)).max(part_bytes);
        if wanted > sizes.part_bytes_max {
            return None;
        }
        pieces.extend(split((before, length), wanted, sizes, false));
    }
    Some(pieces)
}

/// Regions that have to be sent, joined over smaller gaps.
fn joined(change: &Change<'_>, gap_bytes_min: u64) -> Vec<Span> {
    let length = change.length_bytes;
    let base = change.base_bytes.min(length);
    let behind = (base < length).then_some((base, length));
    let mut regions: Vec<Span> = Vec::new();
    for (start, end) in change.dirty.within(0, base).chain(behind) {
        let before = regions.last().map_or(0, |(_, end)| *end);
        let is_joined = start - before < gap_bytes_min;
        match regions.last_mut() {
            Some(last) if is_joined => last.1 = end,
            _ if is_joined => regions.push((0, end)),
            _ => regions.push((start, end)),
        }
    }
    regions
}

/// Regions that are parts or more, but for the last, with gaps that are, too. Gaps between those
/// given, and before the first, are at least a part.
fn extended(regions: &[Span], length: u64, sizes: &Sizes) -> Vec<Span> {
    let least = sizes.part_bytes_min;
    let mut found: Vec<Span> = Vec::with_capacity(regions.len());
    for (at, &(mut start, mut end)) in regions.iter().enumerate() {
        // The region before may have taken of this gap what it needed.
        let before = found.last().map_or(0, |(_, end)| *end);
        if start - before < least
            && let Some((first, _)) = found.pop()
        {
            start = first;
        }
        let missing = least.saturating_sub(end - start);
        let behind = length - end;
        // The last part may be small, so what is left may be sent with it.
        let is_last = at + 1 == regions.len();
        if is_last && behind <= missing.saturating_add(sizes.request_bytes) {
            end = length;
        } else {
            let before = found.last().map_or(0, |(_, end)| *end);
            let to_spare = (start - before).saturating_sub(least);
            let taken = missing.min(to_spare);
            start -= taken;
            end = end.saturating_add(missing - taken).min(length);
        }
        found.push((start, end));
    }
    found
}

fn cut(regions: &[Span], length: u64, sizes: &Sizes) -> Option<Vec<Piece>> {
    let sent: u64 = regions.iter().map(|(start, end)| end - start).sum();
    let copied = length - sent;
    let copy_bytes = (copied / (sizes.parts_max / 10).max(1))
        .max(sizes.copy_bytes)
        .min(sizes.copy_bytes_max);
    let mut gaps = Vec::with_capacity(regions.len() + 1);
    let mut before = 0;
    for &(start, end) in regions.iter().chain(&[(length, length)]) {
        gaps.push((before, start));
        before = end;
    }
    let copies: u64 = gaps
        .iter()
        .map(|(start, end)| (end - start).div_ceil(copy_bytes))
        .sum();
    let rest = sizes.parts_max.checked_sub(copies)?;
    let rest = rest.checked_sub(regions.len() as u64)?;
    let part_bytes = sent.div_ceil(rest.max(1)).max(sizes.part_bytes);
    if part_bytes > sizes.part_bytes_max {
        return None;
    }
    let mut pieces = Vec::new();
    let mut regions = regions.iter();
    for gap in gaps {
        pieces.extend(split(gap, copy_bytes, sizes, true));
        if let Some(&region) = regions.next() {
            pieces.extend(split(region, part_bytes, sizes, false));
        }
    }
    Some(pieces)
}

/// Parts of about one size, a little larger than wanted where they would be too small.
fn split(
    (start, end): Span,
    wanted_bytes: u64,
    sizes: &Sizes,
    is_copied: bool,
) -> impl Iterator<Item = Piece> {
    let length = end - start;
    let mut count = length.div_ceil(wanted_bytes.max(1));
    if count > 1 && length / count < sizes.part_bytes_min {
        count -= 1;
    }
    let (each, more) = match count {
        0 => (0, 0),
        count => (length / count, length % count),
    };
    let offset = move |number: u64| start + each * number + more.min(number);
    (0..count).map(move |number| Piece {
        range: offset(number)..offset(number + 1),
        is_copied,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small enough to try every plan.
    fn small() -> Sizes {
        Sizes {
            object_bytes_max: 10_000,
            whole_bytes_max: 0,
            part_bytes_min: 5,
            part_bytes: 8,
            part_bytes_max: 1_000,
            copy_bytes: 30,
            copy_bytes_max: 100,
            parts_max: 100,
            request_bytes: 0,
        }
    }

    fn spans(of: &[Span]) -> Spans {
        let mut spans = Spans::default();
        for &(start, end) in of {
            spans.insert(start, end);
        }
        spans
    }

    fn parts(length_bytes: u64, base_bytes: u64, dirty: &[Span]) -> Vec<Piece> {
        let dirty = spans(dirty);
        let change = Change {
            length_bytes,
            base_bytes,
            dirty: &dirty,
        };
        match plan(&change, &Sizes::default()) {
            Some(Plan::Parts(pieces)) => pieces,
            other => panic!("{other:?}"),
        }
    }

    fn is_whole(length_bytes: u64, base_bytes: u64, dirty: &[Span]) -> bool {
        let dirty = spans(dirty);
        let change = Change {
            length_bytes,
            base_bytes,
            dirty: &dirty,
        };
        plan(&change, &Sizes::default()) == Some(Plan::Whole)
    }

    fn sent(pieces: &[Piece]) -> u64 {
        let pieces = pieces.iter().filter(|piece| !piece.is_copied);
        pieces
            .map(|piece| piece.range.end - piece.range.start)
            .sum()
    }

    fn kinds(pieces: &[Piece]) -> String {
        let letter = |piece: &Piece| if piece.is_copied { 'c' } else { 's' };
        pieces.iter().map(letter).collect()
    }

    const OLD: u64 = 200_000_000;

    #[test]
    fn an_append_sends_what_is_new() {
        let pieces = parts(OLD + 4, OLD, &[(OLD, OLD + 4)]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("cs", 4));
    }

    #[test]
    fn a_change_in_the_middle_sends_one_part() {
        let pieces = parts(OLD, OLD, &[(100_000_000, 100_000_006)]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("csc", 5 * MIB));
        // At the beginning, and near the end, where the last part may be small.
        let pieces = parts(OLD, OLD, &[(3, 9)]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("sc", 5 * MIB));
        let pieces = parts(OLD, OLD, &[(OLD - 1_000, OLD - 994)]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("cs", 1_000));
    }

    #[test]
    fn a_shorter_object_is_copied_and_a_longer_one_gets_zeros() {
        let pieces = parts(OLD / 2, OLD / 2, &[]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("c", 0));
        let pieces = parts(OLD + MIB, OLD, &[]);
        assert_eq!((kinds(&pieces).as_str(), sent(&pieces)), ("cs", MIB));
    }

    #[test]
    fn small_objects_are_one_body() {
        assert!(is_whole(0, 0, &[]));
        assert!(is_whole(1_000, 1_000, &[(3, 9)]));
        assert!(is_whole(16 * MIB, 0, &[]));
        assert!(!is_whole(16 * MIB + 1, 0, &[]));
        assert!(!is_whole(
            10 * MIB + 4,
            10 * MIB,
            &[(10 * MIB, 10 * MIB + 4)]
        ));
    }

    #[test]
    fn the_largest_object_has_as_many_parts_as_there_may_be() {
        let pieces = parts(5 << 40, 0, &[]);
        assert!(pieces.len() <= 10_000, "{}", pieces.len());
        let largest = pieces
            .iter()
            .map(|piece| piece.range.end - piece.range.start);
        assert!(largest.max().unwrap_or(0) <= 525 * MIB);
        let pieces = parts(5 << 40, 5 << 40, &[(7, 9)]);
        assert!(pieces.len() <= 1_400 && sent(&pieces) == 5 * MIB);
        let dirty = Spans::default();
        let change = Change {
            length_bytes: (5 << 40) + 1,
            base_bytes: 0,
            dirty: &dirty,
        };
        assert_eq!(plan(&change, &Sizes::default()), None);
    }

    #[test]
    fn too_many_changes_are_sent_together() {
        let dirty: Vec<Span> = (0..100_000)
            .map(|at| (at * 20 * MIB, at * 20 * MIB + 1))
            .collect();
        let pieces = parts(100_000 * 20 * MIB, 100_000 * 20 * MIB, &dirty);
        assert!(pieces.len() <= 10_000, "{}", pieces.len());
    }

    /// What has to be true of any plan.
    fn check(pieces: &[Piece], change: &Change<'_>, sizes: &Sizes) {
        assert!(pieces.len() as u64 <= sizes.parts_max);
        let mut at = 0;
        for (number, piece) in pieces.iter().enumerate() {
            let Range { start, end } = piece.range;
            assert!(start == at && end > start, "{pieces:?}");
            at = end;
            let is_last = number + 1 == pieces.len();
            assert!(is_last || end - start >= sizes.part_bytes_min, "{pieces:?}");
            if piece.is_copied {
                assert!(end - start <= sizes.copy_bytes_max);
                assert!(end <= change.base_bytes && !change.dirty.overlaps(start, end));
            } else {
                assert!(end - start <= sizes.part_bytes_max);
            }
        }
        assert_eq!(at, change.length_bytes);
    }

    /// The fewest bytes that any plan sends.
    fn fewest(change: &Change<'_>, sizes: &Sizes) -> u64 {
        let (length, least) = (change.length_bytes, sizes.part_bytes_min);
        let mut best = vec![u64::MAX; length as usize + 1];
        best[0] = 0;
        for end in 1..=length {
            for start in 0..end {
                if end - start < least && end < length || best[start as usize] == u64::MAX {
                    continue;
                }
                let is_copied = end <= change.base_bytes && !change.dirty.overlaps(start, end);
                let cost = if is_copied { 0 } else { end - start };
                let total = best[start as usize] + cost;
                best[end as usize] = best[end as usize].min(total);
            }
        }
        best[length as usize]
    }

    /// A random change, and numbers from which it came.
    fn random_change(random: &mut u64) -> (u64, u64, Spans) {
        let mut next = |below: u64| {
            *random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*random >> 33) % below
        };
        let (length_bytes, base_bytes) = (1 + next(80), next(90));
        let mut dirty = Spans::default();
        for _ in 0..next(5) {
            let start = next(80);
            dirty.insert(start, start + 1 + next(4));
        }
        (length_bytes, base_bytes, dirty)
    }

    #[test]
    fn random_plans_are_right_and_send_little() {
        let (mut random, sizes) = (7, small());
        let (mut sent_bytes, mut fewest_bytes) = (0, 0);
        for _ in 0..20_000 {
            let (length_bytes, base_bytes, dirty) = random_change(&mut random);
            let change = Change {
                length_bytes,
                base_bytes,
                dirty: &dirty,
            };
            let Some(Plan::Parts(pieces)) = plan(&change, &sizes) else {
                panic!("no parts for {change:?}");
            };
            check(&pieces, &change, &sizes);
            let (own, fewest) = (sent(&pieces), fewest(&change, &sizes));
            assert!(own <= fewest * 2, "{own} and {fewest}: {change:?}");
            sent_bytes += own;
            fewest_bytes += fewest;
        }
        // All together, less than a thousandth above the least.
        assert!(sent_bytes * 1_000 <= fewest_bytes * 1_001);
    }

    #[test]
    fn random_plans_of_few_parts_are_right() {
        let mut random = 8;
        for round in 0..20_000 {
            let (length_bytes, base_bytes, dirty) = random_change(&mut random);
            let sizes = Sizes {
                parts_max: 2 + round % 5,
                copy_bytes: 7,
                ..small()
            };
            let change = Change {
                length_bytes,
                base_bytes,
                dirty: &dirty,
            };
            let Some(Plan::Parts(pieces)) = plan(&change, &sizes) else {
                panic!("no parts for {change:?}");
            };
            check(&pieces, &change, &sizes);
        }
    }
}
