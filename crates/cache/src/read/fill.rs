//! Filling: units of which some bytes are newer than the device.
//!
//! **Problem.** A unit was written in part, and now the rest is wanted: by a reader, or by a
//! write-back that has to write whole blocks. The device's bytes must not come over the new ones.
//!
//! **Rule.** The unit is claimed like any that is missing, so writers of it wait for the fetch.
//! Its bytes do not go straight into the page but into a buffer, and from there to where nothing
//! was dirty *when it was claimed*. That is enough: bytes that were dirty or under write-back then
//! are in the page and newer; all others are on the device, as every write of them was complete
//! before this read was sent; and until it ends no thread writes to this unit in memory. What is
//! written meanwhile is in the page all the same.

use std::ops::Range;

use pagewell_device::Buffer;

use crate::PAGE_BYTES;
use crate::frame::arena::Arena;
use crate::page::Units;
use pagewell_policy::eviction::FrameIndex;

/// Where the bytes of a run of units come, and what stays as it is.
pub(crate) struct Fill {
    pub(crate) buffer: Buffer,
    /// First byte of the run in the page.
    start: usize,
    /// Dirty bytes of the page, ascending.
    kept: Vec<Range<usize>>,
}

impl Fill {
    pub(crate) fn new(
        start: usize,
        length: usize,
        alignment_bytes: usize,
        kept: Vec<Range<usize>>,
    ) -> Self {
        assert!(start + length <= PAGE_BYTES);
        Self {
            buffer: Buffer::new(length, alignment_bytes),
            start,
            kept,
        }
    }

    /// Copies what came of these units to the page, but for what is kept.
    ///
    /// # Safety
    /// The page is pinned, and this run is a fetch that has not ended.
    pub(crate) unsafe fn apply(
        &self,
        arena: &Arena,
        frame: FrameIndex,
        units: impl Iterator<Item = (Units, Range<usize>)>,
    ) {
        let end = self.start + self.buffer.len();
        for (_, unit) in units {
            for gap in gaps(unit.start..unit.end.min(end), &self.kept) {
                assert!(gap.start >= self.start && gap.end <= end);
                let source = &self.buffer[gap.start - self.start..gap.end - self.start];
                // SAFETY: no reader has a slice of a unit that is not valid, writers of it wait for
                // this fetch, and write-back only reads what was dirty when it was claimed, which
                // is left out.
                unsafe { arena.fill(frame, gap.start, source) };
            }
        }
    }
}

/// What of a range is in none of `kept`, which ascend.
pub(crate) fn gaps(range: Range<usize>, kept: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    for one in kept {
        if one.start > at && at < range.end {
            gaps.push(at..one.start.min(range.end));
        }
        at = at.max(one.end);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn pairs(range: (usize, usize), kept: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let kept: Vec<_> = kept.iter().map(|(start, end)| *start..*end).collect();
        let gaps = gaps(range.0..range.1, &kept);
        gaps.into_iter().map(|gap| (gap.start, gap.end)).collect()
    }

    #[test]
    fn gaps_are_what_is_not_kept() {
        assert_eq!(pairs((0, 10), &[]), [(0, 10)]);
        assert_eq!(pairs((0, 10), &[(0, 10)]), []);
        assert_eq!(pairs((0, 10), &[(2, 4), (6, 7)]), [(0, 2), (4, 6), (7, 10)]);
        assert_eq!(pairs((4, 10), &[(0, 5), (8, 20)]), [(5, 8)]);
        assert_eq!(pairs((4, 10), &[(0, 2), (12, 20)]), [(4, 10)]);
        assert_eq!(pairs((4, 10), &[(0, 4), (10, 20)]), [(4, 10)]);
    }
}
