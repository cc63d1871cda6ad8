//! The read-ahead of OpenSolaris HSFS (change 6588256), as a baseline.
//!
//! # Problem
//!
//! A CD file system that read 2 KiB at a time got 3.4 MB/s from the fastest DVD drive.
//!
//! # Rule
//!
//! Everything is counted in pages of 4 KiB. Each file has three numbers: the end of the last read,
//! the adjacent reads in a row, and the read-ahead in pages.
//!
//! - A page that begins at the previous end, or reaches over it, is sequential. After more than two
//!   of them each further one adds a page of read-ahead, up to 4: 0, 0, 1, 2, 3, 4, 4.
//! - Any other page takes one off.
//! - Read-ahead is issued only when a page was *found* (a miss means memory is short or the reader
//!   is faster), ends where the reader is now, and the next page is neither past the end nor there.
//!   Whether it is there cannot be seen from here, so the rule remembers what it asked for.
//!
//! A page in flight was found. What the rule asked for last is not evicted before it is read, so a
//! reader that waits inside of it has met a page in flight. A miss of several pages is one request
//! of the reader: its first page is the miss, and the others are found.
//!
//! # Weaknesses
//!
//! One stream for each file: two readers destroy each other's count. At most 16 KiB at a time, and
//! only when the reader has come to their end: depth one. The rule needs a call for every hit. A
//! reader of pages that never finds one never gets any read-ahead.
//!
//! Left out is that HSFS set all numbers to zero when it got no memory: no cache of the experiment
//! is as small.

use std::ops::Range;

use super::reading::PAGE_BYTES;

/// Most pages to read ahead.
const PAGES_MAX: u64 = 4;
/// Read-ahead begins after more adjacent pages than this.
const ADJACENT_MIN: u64 = 2;

/// The rule, for one reader.
#[derive(Clone, Debug)]
pub(super) struct ReadAhead {
    length_bytes: u64,
    previous_end: u64,
    adjacent: u64,
    pages: u64,
    asked: Range<u64>,
}

impl ReadAhead {
    /// For a disc of `length_bytes`.
    pub(super) fn new(length_bytes: u64) -> Self {
        Self {
            length_bytes,
            previous_end: 0,
            adjacent: 0,
            pages: 0,
            asked: 0..0,
        }
    }

    /// Whether the rule asked for a page last.
    pub(super) fn has_asked(&self, page: u64) -> bool {
        self.asked.contains(&page)
    }

    /// Takes a page that was read to its end, and whether it was in memory or in flight. Returns
    /// what to fetch.
    pub(super) fn page(&mut self, page: Range<u64>, found: bool) -> Option<Range<u64>> {
        self.count(page);
        found.then(|| self.ask()).flatten()
    }

    fn count(&mut self, page: Range<u64>) {
        let straddles = page.start < self.previous_end && page.end >= self.previous_end;
        if self.adjacent > 0 && (page.start == self.previous_end || straddles) {
            self.adjacent += 1;
            if self.adjacent > ADJACENT_MIN {
                self.pages = (self.pages + 1).min(PAGES_MAX);
            }
        } else {
            self.adjacent = 1;
            self.pages = self.pages.saturating_sub(1);
        }
        self.previous_end = page.end;
    }

    fn ask(&mut self) -> Option<Range<u64>> {
        let start = self.previous_end;
        if self.pages == 0 || start >= self.length_bytes || self.asked.contains(&start) {
            return None;
        }
        let end = start + self.pages * PAGE_BYTES;
        self.asked = start..end.min(self.length_bytes);
        Some(self.asked.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ENDLESS: u64 = u64::MAX / 2;

    fn page(rule: &mut ReadAhead, number: u64, found: bool) -> Option<Range<u64>> {
        let start = number * PAGE_BYTES;
        rule.page(start..start + PAGE_BYTES, found)
    }

    fn pages(numbers: Range<u64>) -> Option<Range<u64>> {
        Some(numbers.start * PAGE_BYTES..numbers.end * PAGE_BYTES)
    }

    #[test]
    fn growth_of_reads_of_a_page() {
        let mut rule = ReadAhead::new(ENDLESS);
        let grown = (0..7).map(|number| {
            page(&mut rule, number, false);
            rule.pages
        });
        assert_eq!(grown.collect::<Vec<_>>(), [0, 0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_random_page_takes_one_off() {
        let mut rule = ReadAhead::new(ENDLESS);
        (0..10).for_each(|number| assert_eq!(page(&mut rule, number, false), None));
        for (number, left) in [(500, 3), (300, 2), (100, 1), (50, 0), (20, 0)] {
            page(&mut rule, number, true);
            assert_eq!(rule.pages, left);
        }
        // It has to be adjacent three times again.
        page(&mut rule, 21, true);
        assert_eq!(rule.pages, 0);
        page(&mut rule, 22, true);
        assert_eq!(rule.pages, 1);
    }

    #[test]
    fn only_what_is_found_triggers_and_only_when_the_next_page_is_not_there() {
        let mut rule = ReadAhead::new(ENDLESS);
        for number in 0..6 {
            assert_eq!(page(&mut rule, number, false), None, "page {number}");
        }
        assert_eq!(page(&mut rule, 6, true), pages(7..11));
        for number in 7..10 {
            assert!(rule.has_asked(number * PAGE_BYTES));
            assert_eq!(page(&mut rule, number, true), None, "page {number}");
        }
        assert_eq!(page(&mut rule, 10, true), pages(11..15));
    }

    #[test]
    fn nothing_past_the_end() {
        let length = 8 * PAGE_BYTES + 2048;
        let mut rule = ReadAhead::new(length);
        (0..6).for_each(|number| assert_eq!(page(&mut rule, number, false), None));
        assert_eq!(page(&mut rule, 6, true), Some(7 * PAGE_BYTES..length));
        assert_eq!(page(&mut rule, 7, true), None);
        assert_eq!(rule.page(8 * PAGE_BYTES..length, true), None);
    }

    /// What dd of 1 GiB with 8 KiB reads does; a read that misses is one request for all of it.
    #[test]
    fn a_gibibyte_in_reads_of_8_kib() {
        const LENGTH: u64 = 1 << 30;
        let mut rule = ReadAhead::new(LENGTH);
        let mut cached = HashSet::new();
        let (mut demand, mut ahead, mut ahead_16k) = (0, 0, 0);
        for offset in (0..LENGTH).step_by(8192) {
            let pages = [offset, offset + PAGE_BYTES];
            let mut found = pages.iter().all(|page| cached.contains(page));
            demand += u64::from(!found);
            cached.extend(pages.iter().filter(|_| !found));
            for page in pages {
                let asked = rule.page(page..page + PAGE_BYTES, found);
                found = true;
                let Some(range) = asked else { continue };
                assert!(range.end <= LENGTH);
                ahead += 1;
                ahead_16k += u64::from(range.end - range.start == 16_384);
                let fresh = range.step_by(4096).filter(|page| cached.insert(*page));
                assert!(fresh.count() > 0);
            }
        }
        let reported = 65_694;
        assert!(
            ahead * 100 >= reported * 99 && ahead * 100 <= reported * 101,
            "{ahead}"
        );
        assert!(ahead_16k * 1000 >= ahead * 999, "{ahead_16k}");
        assert!((1..=13).contains(&demand), "{demand}");
    }
}
