//! Complete writes that are not on the medium, in the order in which they came.

use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Later writes have larger ones.
    pub(super) sequence: u64,
    pub(super) offset: u64,
    pub(super) bytes: Arc<[u8]>,
}

impl Entry {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn touches(&self, first: u64, end: u64) -> bool {
        self.offset < end && first < self.end()
    }

    fn part(&self, first: u64, end: u64) -> Option<Self> {
        let (first, end) = (first.max(self.offset), end.min(self.end()));
        let place = |at: u64| usize::try_from(at - self.offset).ok();
        let range = (first < end).then(|| Some(place(first)?..place(end)?))??;
        Some(Self {
            sequence: self.sequence,
            offset: first,
            bytes: self.bytes.get(range)?.into(),
        })
    }

    /// Puts its bytes over `target`, the device's bytes from `offset`.
    pub(super) fn cover(&self, offset: u64, target: &mut [u8]) {
        let Some(part) = self.part(offset, offset.saturating_add(target.len() as u64)) else {
            return;
        };
        let place = usize::try_from(part.offset - offset).ok();
        let target = place.and_then(|place| target.get_mut(place..place + part.bytes.len()));
        if let Some(target) = target {
            target.copy_from_slice(&part.bytes);
        }
    }
}

#[derive(Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Log {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes.len();
        self.entries.push_back(entry);
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(super) fn pop(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.bytes.len();
        }
    }

    /// All entries over these bytes of the device, the oldest first.
    pub(super) fn over(&self, offset: u64, length: usize) -> Vec<Entry> {
        let end = offset.saturating_add(length as u64);
        let touched = self.entries.iter();
        let touched = touched.filter(|entry| entry.touches(offset, end));
        touched.cloned().collect()
    }

    /// The write of this number, if it is there as a whole.
    pub(super) fn find(&self, sequence: u64) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.sequence == sequence)
    }

    /// The write `durable` is on the medium: removes it and all older bytes under it.
    pub(super) fn supersede(&mut self, durable: &Entry) {
        let (first, end) = (durable.offset, durable.end());
        for entry in std::mem::take(&mut self.entries) {
            if entry.sequence > durable.sequence || !entry.touches(first, end) {
                self.entries.push_back(entry);
                continue;
            }
            self.entries.extend(entry.part(0, first));
            self.entries.extend(entry.part(end, u64::MAX));
        }
        self.bytes = self.entries.iter().map(|entry| entry.bytes.len()).sum();
    }

    pub(super) fn take(&mut self) -> Vec<Entry> {
        self.bytes = 0;
        std::mem::take(&mut self.entries).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: u64, offset: u64, length: usize) -> Entry {
        let byte = u8::try_from(sequence).unwrap();
        Entry {
            sequence,
            offset,
            bytes: vec![byte; length].into(),
        }
    }

    #[test]
    fn a_durable_write_takes_what_is_older_under_it() {
        let mut log = Log::default();
        for (sequence, offset, length) in [(1, 0, 100), (2, 40, 10), (3, 45, 20), (4, 30, 20)] {
            log.push(entry(sequence, offset, length));
        }
        let durable = log.find(3).unwrap().clone();
        log.supersede(&durable);
        let left = log.take();
        let expected = [
            entry(1, 0, 45),
            entry(1, 65, 35),
            entry(2, 40, 5),
            entry(4, 30, 20),
        ];
        assert_eq!(left, expected);
        assert_eq!((log.bytes(), log.first()), (0, None));
    }

    #[test]
    fn later_writes_cover_earlier_ones() {
        let mut log = Log::default();
        for (sequence, offset, length) in [(1, 10, 10), (2, 15, 10), (3, 100, 1)] {
            log.push(entry(sequence, offset, length));
        }
        assert_eq!(log.bytes(), 21);
        let mut target = [0; 8];
        let over = log.over(12, 8);
        assert_eq!(over.len(), 2);
        over.iter().for_each(|entry| entry.cover(12, &mut target));
        assert_eq!(target, [1, 1, 1, 2, 2, 2, 2, 2]);
        log.pop();
        assert_eq!((log.bytes(), log.first().unwrap().sequence), (11, 2));
    }
}
