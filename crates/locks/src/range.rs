//! Byte ranges of locks.

/// The last of a file (POSIX offsets).
const LAST_OFFSET: u64 = i64::MAX as u64;

/// At least one byte, up to a last one or to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    start: u64,
    /// `u64::MAX`: the end.
    last: u64,
}

impl Range {
    /// `length` 0, or past every offset: to the end of the file. `None`: it begins past every
    /// offset.
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        if offset > LAST_OFFSET {
            return None;
        }
        let last = match length {
            0 => u64::MAX,
            length => offset
                .checked_add(length - 1)
                .filter(|last| *last < LAST_OFFSET)
                .unwrap_or(u64::MAX),
        };
        Some(Self {
            start: offset,
            last,
        })
    }

    /// The first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes; 0 to the end of the file.
    pub fn length(&self) -> u64 {
        if self.last == u64::MAX {
            0
        } else {
            self.last - self.start + 1
        }
    }

    /// Whether both share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Whether this ends before `other` begins.
    pub fn ends_before(&self, other: &Self) -> bool {
        self.last < other.start
    }

    /// The parts before and behind `other`.
    pub fn without(&self, other: &Self) -> [Option<Self>; 2] {
        if !self.overlaps(other) {
            return [Some(*self), None];
        }
        let before = (self.start < other.start).then(|| Self {
            start: self.start,
            last: other.start - 1,
        });
        let behind = (self.last > other.last).then(|| Self {
            start: other.last + 1,
            last: self.last,
        });
        [before, behind]
    }

    /// The common part.
    pub fn within(&self, other: &Self) -> Option<Self> {
        self.overlaps(other).then(|| Self {
            start: self.start.max(other.start),
            last: self.last.min(other.last),
        })
    }

    /// Both as one, if `other` follows.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        (self.last.checked_add(1) == Some(other.start)).then_some(Self {
            start: self.start,
            last: other.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64) -> Range {
        Range::new(offset, length).unwrap()
    }

    #[test]
    fn the_end_is_past_everything() {
        assert_eq!(range(5, 0).length(), 0);
        assert_eq!(range(0, u64::MAX), range(0, 0));
        assert_eq!(range(7, LAST_OFFSET), range(7, 0));
        assert_eq!(range(LAST_OFFSET, 1), range(LAST_OFFSET, 0));
        assert_eq!(Range::new(LAST_OFFSET + 1, 1), None);
        assert!(range(5, 0).overlaps(&range(LAST_OFFSET - 1, 1)));
        assert_eq!(range(3, 4).length(), 4);
    }

    #[test]
    fn pieces_are_left_before_and_behind() {
        let whole = range(10, 10);
        let left = |offset, length| whole.without(&range(offset, length));
        assert_eq!(left(12, 3), [Some(range(10, 2)), Some(range(15, 5))]);
        assert_eq!(left(0, 15), [None, Some(range(15, 5))]);
        assert_eq!(left(15, 0), [Some(range(10, 5)), None]);
        assert_eq!(left(0, 0), [None, None]);
        assert_eq!(left(20, 1), [Some(whole), None]);
        assert_eq!(whole.within(&range(15, 0)), Some(range(15, 5)));
        assert_eq!(whole.within(&range(20, 0)), None);
        assert_eq!(range(0, 10).joined(&whole), Some(range(0, 20)));
        assert_eq!(range(0, 9).joined(&whole), None);
        assert_eq!(range(0, 0).joined(&whole), None);
    }
}
