//! A set of bytes, kept as spans that neither overlap nor touch.

use std::collections::BTreeMap;

/// First byte and the byte after the last.
pub(super) type Span = (u64, u64);

/// The set.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Spans {
    /// Bytes in the set.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Spans in the set.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds the bytes of `start..end`, and says how many are new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let before = self.bytes;
        let (mut low, mut high) = (start, end);
        // Whatever overlaps or touches melts into the new one; the last of them comes first.
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

    /// Takes the bytes of `start..end` out, and says which of them were in.
    pub(super) fn take(&mut self, start: u64, end: u64) -> Vec<Span> {
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

    /// The parts of `start..end` that are in the set, ascending.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Span> {
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

    /// The last part of `start..end` that is in the set, and whether there is no other. Looks for
    /// one place in the set only: it is asked at every write.
    pub(super) fn last_within(&self, start: u64, end: u64) -> (Option<Span>, bool) {
        let parts = self.ends.range(..end.max(start)).rev();
        let mut parts = parts.take_while(|(_, high)| **high > start);
        let last = parts.next();
        let last = last.map(|(&low, &high)| (low.max(start), high.min(end)));
        (
            last.filter(|(low, high)| low < high),
            parts.next().is_none(),
        )
    }

    /// Whether any byte of `start..end` is in the set.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.within(start, end).next().is_some()
    }

    /// Whether every byte of `start..end` is in the set.
    pub(super) fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.within(start, end).next() == Some((start, end))
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spans: &Spans) -> Vec<Span> {
        spans.within(0, u64::MAX).collect()
    }

    #[test]
    fn what_overlaps_or_touches_melts() {
        let mut spans = Spans::default();
        assert_eq!(spans.insert(10, 20), 10);
        assert_eq!(spans.insert(30, 40), 10);
        assert_eq!(spans.insert(12, 18), 0);
        assert_eq!(spans.insert(20, 30), 10);
        assert_eq!(all(&spans), [(10, 40)]);
        assert_eq!(spans.insert(0, 100), 70);
        assert_eq!(spans.insert(5, 5), 0);
        assert_eq!((all(&spans), spans.bytes()), (vec![(0, 100)], 100));
    }

    #[test]
    fn taking_splits() {
        let mut spans = Spans::default();
        spans.insert(0, 10);
        spans.insert(20, 30);
        assert_eq!(spans.take(5, 22), [(5, 10), (20, 22)]);
        assert_eq!(all(&spans), [(0, 5), (22, 30)]);
        assert_eq!(spans.take(24, 26), [(24, 26)]);
        assert_eq!(all(&spans), [(0, 5), (22, 24), (26, 30)]);
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
}
