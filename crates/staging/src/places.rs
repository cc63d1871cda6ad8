//! Which bytes of a staged file are where.
//!
//! ```text
//!   record     |0000000000|11111|          |     the home of each byte that a record promises
//!   now        |0000|1111111|000000|000000|      the home of its newest bytes
//!   a write goes to
//!              |1111111111|00000|0000000000|     never to the home that the record has
//! ```
//!
//! No byte is promised in both homes, so there is always one to write to. What is not promised lies
//! in home 0.

use pagewell_base::spans::{Span, Spans};

/// 0 or 1: `N.data` or `N.other`.
pub(crate) type Home = usize;

/// Bytes in one home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Which bytes.
    pub span: Span,
    /// Where they are.
    pub home: Home,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Places {
    now: [Spans; 2],
    promised: [Spans; 2],
}

impl Places {
    /// Of a record.
    pub(crate) fn promised(parts: &[Part]) -> Self {
        let mut places = Self::default();
        for part in parts {
            let (start, end) = part.span;
            for spans in [&mut places.now, &mut places.promised] {
                if let Some(home) = spans.get_mut(part.home) {
                    home.insert(start, end);
                }
            }
        }
        places
    }

    /// Where to write bytes, ascending.
    pub(crate) fn targets(&self, start: u64, end: u64) -> Vec<Part> {
        let mut parts = Vec::with_capacity(1);
        let mut at = start;
        let mut push = |from: u64, to: u64, home| {
            if from < to {
                let span = (from, to);
                parts.push(Part { span, home });
            }
        };
        for (from, to) in self.promised[0].within(start, end) {
            push(at, from, 0);
            push(from, to, 1);
            at = to;
        }
        push(at, end, 0);
        parts
    }

    /// Bytes were written. Returns how many are new.
    pub(crate) fn written(&mut self, part: Part) -> u64 {
        let before = self.bytes();
        let (start, end) = part.span;
        for (home, spans) in self.now.iter_mut().enumerate() {
            if home == part.home {
                spans.insert(start, end);
            } else {
                spans.take(start, end);
            }
        }
        self.bytes().saturating_sub(before)
    }

    /// Forgets what is behind. Returns how many bytes.
    pub(crate) fn cut(&mut self, length_bytes: u64) -> u64 {
        let before = self.bytes();
        for spans in &mut self.now {
            spans.take(length_bytes, u64::MAX);
        }
        before - self.bytes()
    }

    /// How many bytes are not stored.
    pub(crate) fn missing(&self, start: u64, end: u64) -> u64 {
        let stored = self.now.iter().flat_map(|spans| spans.within(start, end));
        end.saturating_sub(start) - stored.map(|(from, to)| to - from).sum::<u64>()
    }

    /// Bytes stored.
    pub(crate) fn bytes(&self) -> u64 {
        self.now.iter().map(Spans::bytes).sum()
    }

    /// Where bytes are stored, ascending.
    pub(crate) fn within(&self, start: u64, end: u64) -> Vec<Part> {
        let homes = self.now.iter().enumerate();
        let parts = homes.flat_map(|(home, spans)| {
            let spans = spans.within(start, end);
            spans.map(move |span| Part { span, home })
        });
        let mut parts: Vec<Part> = parts.collect();
        parts.sort_unstable_by_key(|part| part.span);
        parts
    }

    /// What is stored, ascending.
    pub(crate) fn spans_within(&self, start: u64, end: u64) -> Vec<Span> {
        joined(&self.within(start, end))
    }

    /// Whether all is stored.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.spans_within(start, end) == [(start, end)]
    }

    /// A new record promises these bytes.
    pub(crate) fn promise(&mut self, parts: &[Part]) {
        self.promised = Self::promised(parts).promised;
    }

    /// How long each home must be.
    pub(crate) fn ends(&self) -> [u64; 2] {
        let end = |spans: &Spans| spans.iter().last().map_or(0, |(_, end)| end);
        let both = self.now.iter().zip(&self.promised);
        let mut ends = both.map(|(now, promised)| end(now).max(end(promised)));
        std::array::from_fn(|_| ends.next().unwrap_or(0))
    }
}

/// The spans of ascending parts; those that touch are one.
pub(crate) fn joined(parts: &[Part]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for part in parts {
        match spans.last_mut() {
            Some(last) if last.1 == part.span.0 => last.1 = part.span.1,
            _ => spans.push(part.span),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_base::mix::Random;

    const LENGTH: u64 = 64;

    /// Two files with a number in each byte, and which of them a record has.
    #[test]
    fn no_write_changes_what_a_record_has() {
        let mut mix = Random(5);
        for _ in 0..200 {
            let mut places = Places::default();
            let mut homes = [[0_u32; LENGTH as usize]; 2];
            let mut model = [None; LENGTH as usize];
            let mut snapshot = (Vec::new(), model);
            for number in 1..200 {
                let start = mix.below(LENGTH);
                let end = (start + 1 + mix.below(12)).min(LENGTH);
                match mix.below(10) {
                    0 => {
                        let parts = places.within(0, LENGTH);
                        places.promise(&parts);
                        snapshot = (parts, model);
                    }
                    1 => {
                        let stored = |spans: &[Option<u32>]| spans.iter().flatten().count() as u64;
                        assert_eq!(places.cut(start), stored(&model[start as usize..]));
                        model[start as usize..].fill(None);
                    }
                    _ => {
                        let parts = places.targets(start, end);
                        assert_eq!(joined(&parts), [(start, end)]);
                        for part in parts {
                            let range = part.span.0 as usize..part.span.1 as usize;
                            homes[part.home][range.clone()].fill(number);
                            let new = model[range.clone()].iter().filter(|it| it.is_none());
                            let new = new.count() as u64;
                            assert_eq!(places.written(part), new);
                            model[range].fill(Some(number));
                        }
                    }
                }
                let stored = |parts: &[Part]| {
                    let mut found = [None; LENGTH as usize];
                    for part in parts {
                        for at in part.span.0 as usize..part.span.1 as usize {
                            assert!(part.span.1 <= places.ends()[part.home]);
                            found[at] = Some(homes[part.home][at]);
                        }
                    }
                    found
                };
                assert_eq!(stored(&places.within(0, LENGTH)), model);
                assert_eq!(stored(&snapshot.0), snapshot.1);
                let all = model[start as usize..end as usize]
                    .iter()
                    .all(Option::is_some);
                assert_eq!(places.covers(start, end), all);
                assert_eq!(places.missing(start, end) == 0, all);
            }
        }
    }

    #[test]
    fn what_is_never_promised_has_one_home() {
        let mut places = Places::default();
        for start in [10, 0, 5] {
            for part in places.targets(start, start + 10) {
                assert_eq!(part.home, 0);
                places.written(part);
            }
        }
        assert_eq!(places.ends(), [20, 0]);
        assert_eq!(places.spans_within(3, 30), [(3, 20)]);
        places.cut(7);
        assert_eq!(places.ends(), [7, 0]);
    }
}
