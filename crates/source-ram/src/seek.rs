//! Where a file has data and where holes are.
//!
//! Holes begin where a block of 4096 bytes does, as on other file systems.

use pagewell_fs::Seek;

use super::data::{FileData, split};
use super::page::PAGE_BYTES;

/// What programs take for the block of a file.
const BLOCK_BYTES: u64 = 4096;

impl FileData {
    /// The first place from `offset` on that has data, or is a hole; `None` when there is none
    /// before the end, which counts as a hole but is none itself.
    pub(super) fn seek(&self, offset: u64, wanted: Seek) -> Option<u64> {
        if offset >= self.size() {
            return None;
        }
        let mut at = offset;
        for (number, held) in self.held_from(split(offset).0) {
            let start = number * PAGE_BYTES as u64;
            let end = start + held.next_multiple_of(BLOCK_BYTES);
            // A page may be there for what will be written.
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
}

#[cfg(test)]
mod tests {
    use super::super::quota::Storage;
    use super::*;

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
