//! Sets of bytes of a device, kept as spans that neither overlap nor touch.

use std::collections::BTreeMap;

use pagewell_policy::elevator::Extent;

/// More spans than this become one, from the first byte to the last: the set only has to name
/// every byte that was put in.
const SPANS_MAX: usize = 4096;

/// The set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(BTreeMap<u64, u64>);

impl Spans {
    /// Adds a range.
    pub(crate) fn insert(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.offset, extent.end());
        while let Some((&low, &high)) = self.0.range(..=end).next_back() {
            if high < start {
                break;
            }
            self.0.remove(&low);
            (start, end) = (start.min(low), end.max(high));
        }
        self.0.insert(start, end);
        if self.0.len() > SPANS_MAX {
            let first = self.0.first_key_value().map_or(0, |(start, _)| *start);
            let last = self.0.last_key_value().map_or(0, |(_, end)| *end);
            self.0.clear();
            self.0.insert(first, last);
        }
    }

    /// Adds another set.
    pub(crate) fn extend(&mut self, other: Self) {
        for (start, end) in other.0 {
            self.insert(Extent {
                offset: start,
                length: end - start,
            });
        }
    }

    /// Takes the bytes of a range out; whether there were any.
    pub(crate) fn take(&mut self, extent: Extent) -> bool {
        let (start, end) = (extent.offset, extent.end());
        let mut found = false;
        while let Some((&low, &high)) = self.0.range(..end).next_back() {
            if high <= start {
                break;
            }
            found = true;
            self.0.remove(&low);
            if low < start {
                self.0.insert(low, start);
            }
            if high > end {
                self.0.insert(end, high);
            }
        }
        found
    }

    /// The spans, ascending.
    pub(crate) fn extents(&self) -> impl Iterator<Item = Extent> {
        self.0.iter().map(|(start, end)| Extent {
            offset: *start,
            length: end - start,
        })
    }

    /// The parts of a range that are in it, ascending.
    pub(crate) fn within(&self, extent: Extent) -> Vec<Extent> {
        let (start, end) = (extent.offset, extent.end());
        let before = self.0.range(..start).next_back();
        let from = before.map_or(start, |(low, _)| *low);
        let spans = self.0.range(from..end);
        let parts = spans.map(|(low, high)| ((*low).max(start), (*high).min(end)));
        parts
            .filter(|(low, high)| low < high)
            .map(|(low, high)| Extent {
                offset: low,
                length: high - low,
            })
            .collect()
    }

    /// Whether a byte of a range is in it.
    pub(crate) fn overlaps(&self, extent: Extent) -> bool {
        let before = self.0.range(..extent.end()).next_back();
        before.is_some_and(|(_, end)| *end > extent.offset)
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set_of_bytes() {
        let mut random = 1_u64;
        let (mut spans, mut model) = (Spans::default(), [false; 100]);
        for _ in 0..5000 {
            random = crate::page::mix(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let (offset, length) = (random % 90, 1 + random / 128 % 9);
            let extent = Extent { offset, length };
            let range = usize::try_from(offset).unwrap()..usize::try_from(offset + length).unwrap();
            let expected = model[range.clone()].contains(&true);
            assert_eq!(spans.overlaps(extent), expected);
            let within = spans.within(extent);
            let bytes = within.iter().flat_map(|part| part.offset..part.end());
            let in_model = (offset..offset + length).filter(|at| model[*at as usize]);
            assert!(bytes.eq(in_model));
            if random >> 40 & 1 == 0 {
                spans.insert(extent);
                model[range].fill(true);
            } else {
                assert_eq!(spans.take(extent), expected);
                model[range].fill(false);
            }
            assert_eq!(spans.is_empty(), !model.contains(&true));
        }
    }

    #[test]
    fn too_many_spans_become_one_that_names_them_all() {
        let mut spans = Spans::default();
        for at in 0..=SPANS_MAX as u64 {
            let (offset, length) = (at * 10, 1);
            spans.insert(Extent { offset, length });
        }
        assert_eq!(spans.0.len(), 1);
        let (offset, length) = (SPANS_MAX as u64 * 10, 1);
        assert!(spans.overlaps(Extent { offset, length }));
    }
}
