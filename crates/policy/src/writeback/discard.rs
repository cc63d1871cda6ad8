//! Bytes that nobody wants any more: a file was cut short, or its bytes are not the true ones.
//!
//! What is dirty is forgotten. What is under write-out cannot be called back: it may come to the
//! device or not, but if the write fails its bytes do not become dirty again. A write that was
//! handed out and not sent yet is [put back](WriteBack::put_back) when it was cut like that: what
//! is left of it is handed out anew.

use pagewell_base::spans::Span;

use super::{Extent, WriteBack, WriteId};

impl WriteBack {
    /// Forgets what is dirty of a range: it will not be written, unless it is under write-out
    /// already. Tags do not wait for it any more. Says how many bytes were dirty or under
    /// write-out.
    pub fn discard(&mut self, extent: Extent) -> u64 {
        let (start, end) = (extent.offset, extent.end());
        self.bytes.kept.take(start, end);
        self.bytes.covered.take(start, end);
        let taken = self.bytes.dirty.take(start, end);
        let mut bytes: u64 = taken.iter().map(|(from, to)| to - from).sum();
        let from = self.bytes.first_flight(start);
        for (_, flight) in self.bytes.flights.range_mut(from..end.max(from)) {
            if !flight.forgotten {
                flight.cut = true;
                bytes += cut(&mut flight.parts, start, end);
            }
        }
        self.refresh(start, end);
        self.tags.discard(start, end, &mut self.counts);
        self.leave_place();
        bytes
    }

    /// Whether a write that was handed out has lost bytes to [`WriteBack::discard`] since.
    #[must_use]
    pub fn is_cut(&self, id: WriteId) -> bool {
        self.flight(id).is_some_and(|flight| flight.cut)
    }

    /// Drops everything that is dirty: it will not be written, unless it is under write-out
    /// already. Pending tags fail. Says how many bytes were dirty, under write-out or kept.
    pub fn forget(&mut self) -> u64 {
        let mut unclean = self.bytes.held(0, u64::MAX);
        for (start, flight) in &mut self.bytes.flights {
            if !std::mem::replace(&mut flight.forgotten, true) {
                unclean.insert(*start, flight.end);
            }
        }
        let bytes = unclean.bytes();
        self.bytes.dirty.clear();
        self.bytes.kept.clear();
        self.bytes.covered.clear();
        for page in self.pages.all.values_mut() {
            page.flights = 0;
        }
        self.refresh(0, u64::MAX);
        self.tags.forget(&mut self.counts);
        self.leave_place();
        self.counts.forgotten_bytes += bytes;
        bytes
    }
}

/// Takes a range out of spans; says how many bytes of them that were.
fn cut(spans: &mut Vec<Span>, start: u64, end: u64) -> u64 {
    let mut bytes = 0;
    let mut left = Vec::with_capacity(spans.len() + 1);
    for &(from, to) in spans.iter() {
        if from < start.min(to) {
            left.push((from, start.min(to)));
        }
        if end.max(from) < to {
            left.push((end.max(from), to));
        }
        bytes += to.min(end).saturating_sub(from.max(start));
    }
    *spans = left;
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Settings, TagState};
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    fn policy() -> WriteBack {
        WriteBack::new(Settings::new(1 << 30))
    }

    fn dirty(policy: &WriteBack) -> Vec<(u64, u64)> {
        let spans = policy.dirty_in(extent(0, u64::MAX));
        spans.map(|span| (span.offset, span.length)).collect()
    }

    #[test]
    fn spans_are_cut() {
        let cut_out = |start, end| {
            let mut spans = vec![(10, 20), (30, 40)];
            let bytes = cut(&mut spans, start, end);
            (spans, bytes)
        };
        assert_eq!(cut_out(0, 10), (vec![(10, 20), (30, 40)], 0));
        assert_eq!(cut_out(12, 14), (vec![(10, 12), (14, 20), (30, 40)], 2));
        assert_eq!(cut_out(15, 35), (vec![(10, 15), (35, 40)], 10));
        assert_eq!(cut_out(0, 100), (vec![], 20));
        assert_eq!(cut_out(20, 30), (vec![(10, 20), (30, 40)], 0));
    }

    #[test]
    fn what_is_discarded_is_not_written_and_nobody_waits_for_it() {
        let mut policy = policy();
        policy.wrote(extent(0, 200_000), NOW);
        let all = policy.tag(extent(0, 200_000), NOW);
        let some = policy.tag(extent(70_000, 10), NOW);
        assert_eq!(policy.discard(extent(65_536, 100_000)), 100_000);
        assert_eq!(policy.tag_state(some), TagState::Written);
        assert_eq!(dirty(&policy), [(0, 65_536), (165_536, 34_464)]);
        let mut bytes = 0;
        while let Some(write) = policy.next(NOW) {
            bytes += write.extent.length;
            policy.finished(write.id, true, NOW);
        }
        assert_eq!(bytes, 100_000);
        assert_eq!(policy.tag_state(all), TagState::Written);
        assert_eq!((policy.dirty_pages(), policy.dirty_bytes()), (0, 0));
        assert_eq!(policy.discard(extent(0, u64::MAX)), 0);
    }

    #[test]
    fn what_was_under_write_out_does_not_come_back() {
        let mut policy = policy();
        policy.wrote(extent(0, 30_000), NOW);
        policy.tag(extent(0, 30_000), NOW);
        let write = policy.next(NOW).unwrap();
        assert!(!policy.is_cut(write.id));
        assert_eq!(policy.discard(extent(10_000, 10_000)), 10_000);
        assert!(policy.is_cut(write.id));
        assert_eq!(dirty(&policy), [(0, 10_000), (20_000, 10_000)]);
        policy.finished(write.id, false, NOW);
        assert_eq!(policy.dirty_bytes(), 20_000);
        assert_eq!(policy.discard(extent(0, 40_000)), 20_000);
        assert_eq!((policy.dirty_pages(), policy.dirty_bytes()), (0, 0));
        assert_eq!(policy.next_at(NOW), None);
    }

    #[test]
    fn what_is_put_back_is_handed_out_again_and_its_tag_waits() {
        let mut policy = policy();
        policy.wrote(extent(0, 30_000), NOW);
        let tag = policy.tag(extent(0, 30_000), NOW);
        let write = policy.next(NOW).unwrap();
        policy.discard(extent(0, 10_000));
        policy.put_back(write.id, NOW);
        assert_eq!(policy.tag_state(tag), TagState::Pending);
        let again = policy.next(NOW).unwrap();
        assert_eq!(again.extent, extent(10_000, 20_000));
        policy.discard(extent(0, 30_000));
        policy.put_back(again.id, NOW);
        assert_eq!(policy.tag_state(tag), TagState::Written);
        assert_eq!((policy.next(NOW), policy.dirty_pages()), (None, 0));
        assert_eq!(policy.flight_bytes(), 0);
    }
}
