//! Which page is in which slot, and which slot goes next.

use std::collections::HashMap;

use super::record::{PageName, RECORD_BYTES, Record};

/// Of a block of records, as written.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Records of a block.
pub(super) const BLOCK_RECORDS: usize = BLOCK_BYTES / RECORD_BYTES;

#[derive(Clone, Copy)]
enum Slot {
    Free,
    /// A page is on its way there.
    Writing,
    Kept {
        record: Record,
        is_used: bool,
    },
}

/// See the module's text.
pub(super) struct Index {
    slots: Vec<Slot>,
    places: HashMap<PageName, u32>,
    /// All slots that are free, and others that were.
    free: Vec<u32>,
    /// The slot that the hand is at.
    hand: usize,
}

impl Index {
    /// Slots that have nothing.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots: vec![Slot::Free; slots],
            places: HashMap::new(),
            free: (0..u32::try_from(slots).unwrap_or(u32::MAX))
                .rev()
                .collect(),
            hand: 0,
        }
    }

    /// Takes the records of a block over.
    pub(super) fn load(&mut self, block: usize, bytes: &[u8]) {
        let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
        let first = block * BLOCK_RECORDS;
        for (number, record) in (first..self.slots.len()).zip(records) {
            let (Some(record), Ok(place)) = (Record::decode(record), u32::try_from(number)) else {
                continue;
            };
            if let Some(slot) = self.slots.get_mut(number) {
                *slot = Slot::Kept {
                    record,
                    is_used: false,
                };
                self.places.insert(record.name, place);
            }
        }
    }

    /// The block with the record of a slot, and its bytes.
    pub(super) fn block_of(&self, slot: u32) -> (usize, [u8; BLOCK_BYTES]) {
        let block = slot as usize / BLOCK_RECORDS;
        let mut bytes = [0; BLOCK_BYTES];
        let (records, _) = bytes.as_chunks_mut::<RECORD_BYTES>();
        let slots = self.slots.iter().skip(block * BLOCK_RECORDS);
        for (record, slot) in records.iter_mut().zip(slots) {
            if let Slot::Kept { record: kept, .. } = slot {
                *record = kept.encode();
            }
        }
        (block, bytes)
    }

    /// Pages that are kept, or on their way.
    pub(super) fn pages(&self) -> usize {
        self.places.len()
    }

    /// Whether a page is kept.
    pub(super) fn has(&self, name: &PageName) -> bool {
        let slot = self
            .places
            .get(name)
            .and_then(|slot| self.slots.get(*slot as usize));
        matches!(slot, Some(Slot::Kept { .. }))
    }

    /// Where a page is, which is marked as used.
    pub(super) fn find(&mut self, name: &PageName) -> Option<(u32, Record)> {
        let place = *self.places.get(name)?;
        match self.slots.get_mut(place as usize)? {
            Slot::Kept { record, is_used } => {
                *is_used = true;
                Some((place, *record))
            }
            Slot::Free | Slot::Writing => None,
        }
    }

    /// A slot for a page, and whether another page had it; `None`: the page is there, or all slots
    /// are being written.
    pub(super) fn take(&mut self, name: PageName) -> Option<(u32, bool)> {
        if self.places.contains_key(&name) {
            return None;
        }
        while let Some(place) = self.free.pop() {
            if let Some(slot @ Slot::Free) = self.slots.get_mut(place as usize) {
                *slot = Slot::Writing;
                self.places.insert(name, place);
                return Some((place, false));
            }
        }
        // Twice: the first round may only take marks back.
        for _ in 0..2 * self.slots.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let slot = self.slots.get_mut(at)?;
            let had = match slot {
                Slot::Writing => continue,
                Slot::Kept { is_used, .. } if *is_used => {
                    *is_used = false;
                    continue;
                }
                Slot::Kept { record, .. } => Some(record.name),
                Slot::Free => None,
            };
            *slot = Slot::Writing;
            let place = u32::try_from(at).ok()?;
            if let Some(had) = had
                && self.places.get(&had) == Some(&place)
            {
                self.places.remove(&had);
            }
            self.places.insert(name, place);
            return Some((place, had.is_some()));
        }
        None
    }

    /// A page has reached its slot.
    pub(super) fn keep(&mut self, slot: u32, record: Record) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            *slot = Slot::Kept {
                record,
                is_used: false,
            };
        }
    }

    /// A slot has not what is said of it.
    pub(super) fn free(&mut self, slot: u32, name: &PageName) {
        if self.places.get(name) != Some(&slot) {
            return;
        }
        self.places.remove(name);
        self.free.push(slot);
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            *slot = Slot::Free;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(page: u64) -> PageName {
        PageName {
            object: [3; 16],
            page,
        }
    }

    fn put(index: &mut Index, page: u64) -> Option<(u32, bool)> {
        let taken = index.take(name(page))?;
        index.keep(taken.0, Record::of(name(page), &page.to_le_bytes()));
        Some(taken)
    }

    #[test]
    fn what_is_read_again_stays() {
        let mut index = Index::new(4);
        for page in 0..4 {
            assert_eq!(put(&mut index, page), Some((page as u32, false)));
        }
        assert_eq!(put(&mut index, 2), None, "there already");
        for page in 4..20 {
            assert!(index.find(&name(1)).is_some());
            assert!(put(&mut index, page).is_some_and(|(_, had)| had));
            assert!(index.has(&name(1)) && index.has(&name(page)));
            assert_eq!(index.pages(), 4);
        }
    }

    #[test]
    fn slots_that_are_written_are_not_given_away() {
        let mut index = Index::new(2);
        let (first, _) = index.take(name(1)).unwrap();
        assert!(index.find(&name(1)).is_none() && !index.has(&name(1)));
        index.take(name(2)).unwrap();
        assert_eq!(index.take(name(3)), None);
        index.free(first, &name(1));
        assert_eq!(index.take(name(3)), Some((first, false)));
    }

    #[test]
    fn blocks_come_back_in_an_index_of_another_length() {
        let mut index = Index::new(100);
        for page in 0..100 {
            put(&mut index, page);
        }
        let blocks = [index.block_of(0), index.block_of(99)];
        for slots in [70, 100, 200] {
            let mut other = Index::new(slots);
            for (block, bytes) in &blocks {
                other.load(*block, bytes);
            }
            assert_eq!(other.pages(), slots.min(100));
            let (slot, record) = other.find(&name(65)).unwrap();
            assert_eq!((slot, record.length), (65, 8));
        }
    }
}
