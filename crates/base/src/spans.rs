//! A set of numbers, such as bytes of a file, as spans that neither overlap nor touch.

use std::collections::BTreeMap;

/// The first and the one after the last.
pub type Span = (u64, u64);

/// The set.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Spans {
    /// Numbers in the set.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Spans in the set.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds numbers. Returns how many are new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let before = self.bytes;
        let (mut low, mut high) = (start, end);
        // Spans that overlap or touch become one; the last comes first.
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            if other <= start && other_end >= end {
                return 0;
            }
            low = low.min(other);
            high = high.max(other_end);
            self.bytes -= other_end - other;
            self.ends.remove(&other);
        }
        self.ends.insert(low, high);
        self.bytes += high - low;
        self.bytes - before
    }

    /// Adds another set.
    pub fn extend(&mut self, other: Self) {
        for (start, end) in other.ends {
            self.insert(start, end);
        }
    }

    /// Makes more than `most` spans one, with what is between.
    pub fn melt(&mut self, most: usize) {
        if self.count() > most {
            let first = self.ends.first_key_value().map_or(0, |(start, _)| *start);
            let last = self.ends.last_key_value().map_or(0, |(_, end)| *end);
            self.insert(first, last);
        }
    }

    /// The spans, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Span> {
        self.ends.iter().map(|(start, end)| (*start, *end))
    }

    /// Removes numbers. Returns those that were in the set.
    pub fn take(&mut self, start: u64, end: u64) -> Vec<Span> {
        let taken: Vec<Span> = self.within(start, end).collect();
        for &(from, to) in &taken {
            let Some((&low, &high)) = self.ends.range(..=from).next_back() else {
                continue;
            };
            self.ends.remove(&low);
            if low < from {
                self.ends.insert(low, from);
            }
            if to < high {
                self.ends.insert(to, high);
            }
            self.bytes -= to - from;
        }
        taken
    }

    /// What is in the set, ascending.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Span> {
        let before = self.ends.range(..start).next_back();
        let from = match before {
            Some((&low, &high)) if high > start => low,
            _ => start,
        };
        self.ends
            .range(from..end.max(from))
            .map(move |(&low, &high)| (low.max(start), high.min(end)))
            .filter(|(low, high)| low < high)
    }

    /// The last span of a range, and whether there is no other. One look-up, as every write asks.
    pub fn last_within(&self, start: u64, end: u64) -> (Option<Span>, bool) {
        let parts = self.ends.range(..end.max(start)).rev();
        let mut parts = parts.take_while(|(_, high)| **high > start);
        let last = parts.next();
        let last = last.map(|(&low, &high)| (low.max(start), high.min(end)));
        (
            last.filter(|(low, high)| low < high),
            parts.next().is_none(),
        )
    }

    /// Whether any number is in the set.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.within(start, end).next().is_some()
    }

    /// Whether every number is in the set.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.within(start, end).next() == Some((start, end))
    }

    /// Removes all spans.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_or_touches_melts() {
        let mut spans = Spans::default();
        assert_eq!(spans.insert(10, 20), 10);
        assert_eq!(spans.insert(30, 40), 10);
        assert_eq!(spans.insert(12, 18), 0);
        assert_eq!(spans.insert(20, 30), 10);
        assert!(spans.iter().eq([(10, 40)]));
        assert_eq!(spans.insert(0, 100), 70);
        assert_eq!(spans.insert(5, 5), 0);
        assert!(spans.iter().eq([(0, 100)]));
        assert_eq!(spans.bytes(), 100);
    }

    #[test]
    fn taking_splits() {
        let mut spans = Spans::default();
        spans.insert(0, 10);
        spans.insert(20, 30);
        assert_eq!(spans.take(5, 22), [(5, 10), (20, 22)]);
        assert!(spans.iter().eq([(0, 5), (22, 30)]));
        assert_eq!(spans.take(24, 26), [(24, 26)]);
        assert!(spans.iter().eq([(0, 5), (22, 24), (26, 30)]));
        assert_eq!((spans.bytes(), spans.count()), (11, 3));
        assert!(spans.take(5, 22).is_empty());
        assert!(spans.take(9, 3).is_empty());
    }

    #[test]
    fn questions() {
        let mut spans = Spans::default();
        spans.insert(10, 20);
        assert!(spans.overlaps(0, 11) && spans.overlaps(19, 30) && spans.overlaps(12, 13));
        assert!(!spans.overlaps(0, 10) && !spans.overlaps(20, 30) && !spans.overlaps(15, 15));
        spans.insert(30, 40);
        assert_eq!(spans.last_within(0, 100), (Some((30, 40)), false));
        assert_eq!(spans.last_within(15, 35), (Some((30, 35)), false));
        assert_eq!(spans.last_within(20, 100), (Some((30, 40)), true));
        assert_eq!(spans.last_within(12, 30), (Some((12, 20)), true));
        assert_eq!(spans.last_within(20, 30), (None, true));
        assert_eq!(spans.last_within(35, 35), (None, true));
        spans.take(30, 40);
        assert!(spans.covers(10, 20) && spans.covers(12, 13) && spans.covers(3, 3));
        assert!(!spans.covers(9, 12) && !spans.covers(12, 21));
        spans.clear();
        assert!(spans.is_empty() && spans.bytes() == 0);
    }

    #[test]
    fn it_is_a_set_of_bytes() {
        let mut random = 1_u64;
        let (mut spans, mut model) = (Spans::default(), [false; 100]);
        for _ in 0..5000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (start, length) = ((random >> 33) % 90, 1 + (random >> 43) % 9);
            let (end, range) = (start + length, start as usize..(start + length) as usize);
            let inside = model[range.clone()].iter().filter(|is_in| **is_in).count() as u64;
            assert_eq!(spans.overlaps(start, end), inside > 0);
            assert_eq!(spans.covers(start, end), inside == length);
            let bytes = spans.within(start, end).flat_map(|(low, high)| low..high);
            assert!(bytes.eq((start..end).filter(|at| model[*at as usize])));
            if random >> 60 & 1 == 0 {
                assert_eq!(spans.insert(start, end), length - inside);
                model[range].fill(true);
            } else {
                let taken = spans.take(start, end);
                let taken: u64 = taken.iter().map(|(low, high)| high - low).sum();
                assert_eq!(taken, inside);
                model[range].fill(false);
            }
            let count = model.iter().filter(|is_in| **is_in).count();
            assert_eq!(
                (spans.bytes(), spans.is_empty()),
                (count as u64, count == 0)
            );
        }
    }

    #[test]
    fn too_many_spans_become_one_that_names_them_all() {
        let mut spans = Spans::default();
        for at in 0..5 {
            spans.insert(at * 10, at * 10 + 1);
        }
        let mut other = Spans::default();
        other.insert(70, 80);
        spans.extend(other);
        spans.melt(6);
        assert_eq!(spans.count(), 6);
        spans.melt(5);
        assert!(spans.iter().eq([(0, 80)]));
    }
}
