//! Data and holes of a file: finding them, reserving space, and making holes.
//!
//! Holes begin where a block of 4096 bytes does, as on other file systems.

use std::sync::Arc;

use pagewell_fs::{Result, Seek};

use super::data::{FileData, Pages, ZEROS, split};
use super::memory::{PAGE_BYTES, capacity_for};
use super::quota::Storage;

/// The block of a file, as programs assume it.
const BLOCK_BYTES: u64 = 4096;

/// The end of a range in its page `number`; the range ends at `end` in page `last`.
fn reach(number: u64, last: u64, end: u64) -> usize {
    if number == last {
        split(end - 1).1 + 1
    } else {
        PAGE_BYTES
    }
}

impl FileData {
    /// The first data, or hole, from `offset` on; `None` when there is none before the end, which
    /// is no hole itself.
    pub(super) fn seek(&self, offset: u64, wanted: Seek) -> Option<u64> {
        if offset >= self.size() {
            return None;
        }
        let mut at = offset;
        for (number, page) in self.pages.range(split(offset).0..) {
            let start = number * PAGE_BYTES as u64;
            let held = (**page).as_ref().len() as u64;
            let end = start + held.next_multiple_of(BLOCK_BYTES);
            // A page may be reserved space alone.
            if held == 0 || end <= at {
                continue;
            }
            match wanted {
                Seek::Data => return Some(at.max(start)),
                Seek::Hole if at < start => break,
                Seek::Hole => at = end,
            }
        }
        match wanted {
            Seek::Data => None,
            Seek::Hole => Some(at.min(self.size())),
        }
    }

    /// Allocates space for the bytes from `offset` to `end`, or for none: a page without written
    /// bytes is empty, and reads as zeros.
    pub(super) fn reserve(&mut self, offset: u64, end: u64, storage: &Storage) -> Result<()> {
        let (first, last) = (split(offset).0, split(end - 1).0);
        let wanted = |number| capacity_for(reach(number, last, end));
        let there: usize = self
            .pages
            .range(first..=last)
            .map(|(number, page)| page.capacity().min(wanted(*number)))
            .sum();
        let missing = (last - first) * PAGE_BYTES as u64 + wanted(last) as u64 - there as u64;
        storage.quota.take(missing)?;
        self.charged_bytes += missing;
        let mut left = missing;
        for number in first..=last {
            let held = self.pages.get(&number).map_or(0, |page| page.capacity());
            if held >= wanted(number) {
                continue;
            }
            let page = self.copy_of(number, wanted(number), PAGE_BYTES, storage);
            let page = page.inspect_err(|_| self.release(left, storage))?;
            self.pages.insert(number, Arc::new(page));
            left -= (wanted(number) - held) as u64;
        }
        Ok(())
    }

    /// Makes the bytes from `offset` to `end` a hole.
    pub(super) fn punch(&mut self, offset: u64, end: u64, storage: &Storage) -> Result<Pages> {
        let ((first, start), (last, stop)) = (split(offset), split(end));
        if first == last {
            self.clear(first, start, stop, storage)?;
            return Ok(Pages::default());
        }
        let from = if start > 0 {
            self.clear(first, start, PAGE_BYTES, storage)?;
            first + 1
        } else {
            first
        };
        self.clear(last, 0, stop, storage)?;
        let pages = self.pages.extract_if(from..last, |_, _| true).collect();
        Ok(self.discard(pages, storage))
    }

    fn clear(&mut self, number: u64, start: usize, stop: usize, storage: &Storage) -> Result<()> {
        let (held, capacity) = match self.pages.get(&number) {
            Some(page) => ((**page).as_ref().len(), page.capacity()),
            None => return Ok(()),
        };
        if stop < held {
            self.write_page(number, start, &ZEROS[..stop - start], storage)
        } else if start < held {
            // Reserved space may follow the hole.
            let needed = if stop < capacity {
                capacity
            } else {
                capacity_for(start)
            };
            self.cut_page(number, needed, start, storage)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::Error;

    fn content(data: &FileData) -> Vec<u8> {
        let slices = data.read(0, u32::try_from(data.size()).unwrap());
        slices.iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn what_was_reserved_can_be_written_when_all_else_is_full() {
        let storage = Storage::new(300_000).unwrap();
        let mut data = FileData::default();
        data.write(70_000, b"here", &storage).unwrap();
        assert_eq!(
            data.reserve(0, i64::MAX as u64, &storage),
            Err(Error::NoSpace)
        );
        assert_eq!(storage.quota.used_bytes(), data.charged_bytes);
        data.reserve(10, 200_000, &storage).unwrap();
        assert_eq!(storage.quota.used_bytes(), data.charged_bytes);
        storage
            .quota
            .take(300_000 - storage.quota.used_bytes())
            .unwrap();
        // It is all hole but for what was written.
        drop(data.set_size(200_000, &storage).unwrap());
        assert_eq!(data.seek(0, Seek::Data), Some(65_536));
        assert_eq!(data.seek(90_000, Seek::Data), None);
        assert_eq!(&content(&data)[70_000..70_004], b"here");
        assert_eq!(data.write(0, &[7; 200_000], &storage), Ok(200_000));
        assert!(content(&data) == [7; 200_000]);
        let size = data.size();
        data.reserve(0, size, &storage).unwrap();
    }

    #[test]
    fn what_was_reserved_behind_a_hole_stays() {
        let storage = Storage::new(300_000).unwrap();
        let mut data = FileData::default();
        data.reserve(0, 65_536, &storage).unwrap();
        data.write(0, &[7; 10_240], &storage).unwrap();
        drop(data.punch(4096, 12_288, &storage).unwrap());
        assert_eq!(data.seek(0, Seek::Hole), Some(4096));
        let rest = 300_000 - storage.quota.used_bytes();
        storage.quota.take(rest).unwrap();
        assert_eq!(data.write(20_000, b"x", &storage), Ok(1));
        assert!(content(&data)[4096..20_000] == [0; 20_000 - 4096]);
        // What the hole itself had is given back.
        drop(data.punch(4096, 65_536, &storage).unwrap());
        assert_eq!(data.charged_bytes, 4096);
    }

    #[test]
    fn punched_bytes_are_zeros_and_cost_nothing_where_pages_were() {
        let storage = Storage::new(1 << 20).unwrap();
        for (start, end) in [
            (0, 1),
            (5, 65_536),
            (65_536, 131_072),
            (9, 199_999),
            (0, 1 << 40),
        ] {
            let mut data = FileData::default();
            data.write(0, &[7; 200_000], &storage).unwrap();
            let pinned = data.read(0, 200_000);
            drop(data.punch(start, end, &storage).unwrap());
            assert!(
                pinned
                    .iter()
                    .all(|slice| slice.iter().all(|byte| *byte == 7))
            );
            let bytes = content(&data);
            assert_eq!(bytes.len(), 200_000);
            for (at, byte) in bytes.iter().enumerate() {
                let is_hole = (start..end).contains(&(at as u64));
                assert_eq!(*byte == 0, is_hole, "{start} {end} {at}");
            }
            assert_eq!(storage.quota.used_bytes(), data.charged_bytes);
            drop(data.set_size(0, &storage).unwrap());
            assert_eq!(storage.quota.used_bytes(), 0);
        }
    }

    #[test]
    fn data_and_holes_are_where_they_were_made() {
        let storage = Storage::new(1 << 20).unwrap();
        let mut data = FileData::default();
        assert_eq!(data.seek(0, Seek::Hole), None);
        drop(data.set_size(1 << 40, &storage).unwrap());
        assert_eq!(data.seek(0, Seek::Data), None);
        assert_eq!(data.seek(7, Seek::Hole), Some(7));
        data.write(0, &[1; 70_000], &storage).unwrap();
        data.write(300_000, b"x", &storage).unwrap();
        assert_eq!(data.seek(0, Seek::Data), Some(0));
        assert_eq!(data.seek(69_999, Seek::Data), Some(69_999));
        assert_eq!(data.seek(0, Seek::Hole), Some(73_728)); // the end of the block
        let second = data.seek(73_728, Seek::Data).unwrap();
        assert!((73_729..=300_000).contains(&second));
        assert_eq!(data.seek(second, Seek::Hole), Some(303_104));
        assert_eq!(data.seek(303_104, Seek::Data), None);
        assert_eq!(data.seek((1 << 40) - 1, Seek::Hole), Some((1 << 40) - 1));
        assert_eq!(data.seek(1 << 40, Seek::Hole), None);
        drop(data.set_size(300_001, &storage).unwrap());
        assert_eq!(data.seek(300_000, Seek::Data), Some(300_000));
        assert_eq!(data.seek(300_000, Seek::Hole), Some(300_001));
        drop(data.set_size(65_536, &storage).unwrap());
        assert_eq!(data.seek(0, Seek::Hole), Some(65_536));
    }
}
