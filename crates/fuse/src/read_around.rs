//! Reading around small reads.
//!
//! Problem: for a program that reads here and there in a file (a database, say) the kernel asks for
//! one page at a time. Each request takes some 25 us, most of it to wake threads; to copy 64 KiB
//! takes 10 us.
//!
//! Rule: a table remembers the regions of [`REGION_BYTES`] with small reads. The second small read
//! of a region puts what is in memory here of it into the kernel's pages, from the piece that was
//! read on. A read of a piece that was put says that the kernel has dropped it: the region begins
//! anew. Only in sources that never change, and after the answer, as in [`crate::kernel_prefill`].
//!
//! ```text
//!   region   |........|........|........|
//!   reads       1        x   2                 1, x: the first reads of these regions
//!   put                  ########              2: the second read of the region of x
//! ```
//!
//! Weaknesses: two reads that happen to meet in one region cost a region's copy, some 100 us. The
//! kernel holds pages that no program may read; it drops them like all that was read.

use pagewell_base::mix::mix;
use pagewell_base::sync::Mutex;

const REGION_BYTES: u64 = PIECE_BYTES * PIECES;
/// The size of one read of the source: a page of the cache.
pub(crate) const PIECE_BYTES: u64 = 64 << 10;
const PIECES: u64 = 8;
/// Longer reads are the read-ahead of the kernel.
const SMALL_BYTES_MAX: u32 = 16 << 10;
/// Regions of the table; a later one overwrites an earlier one at its place.
const REGIONS: usize = 4096;

pub(crate) struct ReadAround {
    regions: Mutex<Vec<Region>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Region {
    /// 0: none.
    node: u64,
    /// Counted from the start of the file.
    number: u64,
    /// A bit for each piece in the kernel's pages.
    put: u8,
}

impl Default for ReadAround {
    fn default() -> Self {
        Self {
            regions: Mutex::new(vec![Region::default(); REGIONS]),
        }
    }
}

impl Region {
    fn of(node: u64, offset: u64) -> Self {
        let number = offset / REGION_BYTES;
        Self {
            node,
            number,
            put: 0,
        }
    }

    #[allow(clippy::cast_possible_truncation)] // less than REGIONS
    fn place(&self) -> usize {
        mix(self.node ^ mix(self.number)) as usize % REGIONS
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.node, self.number) == (other.node, other.number)
    }
}

fn bit_of(offset: u64) -> u8 {
    1 << (offset % REGION_BYTES / PIECE_BYTES)
}

impl ReadAround {
    /// Notes a read of `size` bytes at `offset`; returns the offsets of the pieces to put.
    pub(crate) fn asked(&self, node: u64, offset: u64, size: u32) -> impl Iterator<Item = u64> {
        let there = if size <= SMALL_BYTES_MAX {
            self.there(node, offset)
        } else {
            None
        };
        let start = offset - offset % REGION_BYTES;
        let first = offset % REGION_BYTES / PIECE_BYTES;
        let pieces = (first..first + PIECES).map(move |index| start + index % PIECES * PIECE_BYTES);
        pieces.filter(move |piece| there.is_some_and(|there| there & bit_of(*piece) == 0))
    }

    /// The pieces that the kernel has, if the rest of the region is to follow.
    fn there(&self, node: u64, offset: u64) -> Option<u8> {
        let region = Region::of(node, offset);
        let mut regions = self.regions.lock();
        let known = regions.get_mut(region.place())?;
        if known.is_same(&region) && known.put & bit_of(offset) == 0 {
            return Some(known.put);
        }
        *known = region;
        None
    }

    pub(crate) fn put(&self, node: u64, offset: u64) {
        let region = Region::of(node, offset);
        let mut regions = self.regions.lock();
        if let Some(known) = regions.get_mut(region.place())
            && known.is_same(&region)
        {
            known.put |= bit_of(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_of_a_region_brings_all_of_it_and_a_lost_piece_begins_anew() {
        let around = ReadAround::default();
        let asked = |node, offset| around.asked(node, offset, 4096).collect::<Vec<u64>>();
        let far = 7 * REGION_BYTES;
        let pieces: Vec<u64> = (0..PIECES).map(|index| far + index * PIECE_BYTES).collect();
        assert_eq!(asked(3, far + 4096), [0; 0], "the first read");
        assert_eq!(asked(4, far), [0; 0], "another file");
        assert_eq!(asked(3, far - 4096), [0; 0], "another region");
        let long = around.asked(3, far, SMALL_BYTES_MAX + 1);
        assert_eq!(long.count(), 0, "the kernel reads ahead");
        assert_eq!(asked(3, far + 9000), pieces);
        around.put(3, pieces[0]);
        around.put(3, pieces[1]);
        let last = far + REGION_BYTES - 1;
        let rest = [
            &pieces[PIECES as usize - 1..],
            &pieces[2..PIECES as usize - 1],
        ]
        .concat();
        assert_eq!(
            asked(3, last),
            rest,
            "that of the read first, and none twice"
        );
        assert_eq!(asked(3, pieces[1]), [0; 0], "the kernel has lost it");
        assert_eq!(asked(3, far), pieces);
    }

    #[test]
    fn reads_strewn_over_much_more_than_is_remembered_bring_little() {
        let around = ReadAround::default();
        let regions = 64 * REGIONS as u64;
        let brought = (0..50_000).filter(|number| {
            let offset = mix(*number) % regions * REGION_BYTES;
            around.asked(9, offset, 4096).next().is_some()
        });
        let brought = brought.count();
        assert!(brought < 1000, "{brought}");
    }

    #[test]
    fn regions_next_to_each_other_have_places_of_their_own() {
        let places: std::collections::HashSet<_> = (0..1000)
            .map(|number| Region::of(5, number * REGION_BYTES).place())
            .collect();
        assert!(places.len() > 850, "{}", places.len());
    }
}
