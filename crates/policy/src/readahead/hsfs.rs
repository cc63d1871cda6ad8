//! The read-ahead of OpenSolaris HSFS (change 6588256), replayed to be compared with.
//!
//! # Problem
//!
//! A CD file system that read 2 KiB at a time got 3.4 MB/s from the fastest DVD drive.
//!
//! # Rule
//!
//! Everything is counted in pages of 4 KiB. Of each file three numbers are kept: where the last
//! read ended, how many reads in a row were adjacent, and the read-ahead in pages.
//!
//! - A page that begins at the previous end, or reaches over it, is sequential. After more than
//!   two of them each further one adds a page of read-ahead, up to 4: 0, 0, 1, 2, 3, 4, 4.
//! - Any other page takes one off.
//! - Read-ahead is issued only when a page was *found* (a miss means memory is short or the
//!   reader is faster), ends where the reader is now, and the next page is neither past the end
//!   nor there. What is there cannot be seen from here, so the policy remembers what it asked for.
//! - Memory refused: all three numbers become zero.
//!
//! A miss of several pages is one request of the reader; its first page is the miss, and the
//! others are found when their turn comes. So an access may be told whole, or page by page with
//! the later pages as hits.
//!
//! # Weaknesses
//!
//! One stream for each file: two readers of one file destroy each other's count. At most
//! 16 KiB at a time, and only when the reader has come to the end of them: depth one. Every hit has
//! to be told. A reader of pages that never finds one never gets any read-ahead.

use std::ops::Range;

use super::{Access, AccessKind, Counts, Feedback, Plan, ReadAhead};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Most pages to read ahead.
pub const PAGES_MAX: u64 = 4;
/// Read-ahead begins after more adjacent pages than this.
pub const ADJACENT_MIN: u64 = 2;

/// More pages in one access change nothing: the numbers are at their limits.
const ACCESS_PAGES_MAX: u64 = 16;

const _: () = assert!(ACCESS_PAGES_MAX > ADJACENT_MIN + PAGES_MAX);

/// The HSFS rule.
#[derive(Clone, Debug)]
pub struct Hsfs {
    length_bytes: u64,
    previous_end: u64,
    adjacent: u64,
    pages: u64,
    asked: Range<u64>,
    counts: Counts,
}

impl Hsfs {
    /// For a file of `length_bytes`.
    #[must_use]
    pub fn new(length_bytes: u64) -> Self {
        Self {
            length_bytes,
            previous_end: 0,
            adjacent: 0,
            pages: 0,
            asked: 0..0,
            counts: Counts::default(),
        }
    }

    /// Counts one page, or the part of it that was read.
    fn count(&mut self, offset: u64, end: u64) {
        let page_end = offset.saturating_add(PAGE_BYTES).max(end);
        let straddles = offset < self.previous_end && page_end >= self.previous_end;
        if self.adjacent > 0 && (offset == self.previous_end || straddles) {
            self.counts.sequential += 1;
            self.adjacent = self.adjacent.saturating_add(1);
            if self.adjacent > ADJACENT_MIN {
                self.pages = (self.pages + 1).min(PAGES_MAX);
            }
        } else {
            self.counts.random += 1;
            self.counts.streams += u64::from(self.adjacent != 1);
            self.adjacent = 1;
            self.pages = self.pages.saturating_sub(1);
        }
        self.previous_end = end;
    }

    fn ask(&mut self, budget_bytes: u64) -> Option<Range<u64>> {
        let start = self.previous_end;
        let due = self.pages > 0
            && start.is_multiple_of(PAGE_BYTES)
            && start < self.length_bytes
            && !self.asked.contains(&start);
        let pages = self.pages.min(budget_bytes / PAGE_BYTES);
        if !due || pages == 0 {
            return None;
        }
        let end = start.saturating_add(pages * PAGE_BYTES);
        self.asked = start..end.min(self.length_bytes);
        self.counts.plans += 1;
        self.counts.planned_bytes += self.asked.end - start;
        Some(self.asked.clone())
    }
}

impl ReadAhead for Hsfs {
    fn wants_hits(&self) -> bool {
        true
    }

    fn access(&mut self, access: &Access) -> Plan {
        let access_end = access.offset.saturating_add(access.length);
        let access_end = access_end.min(self.length_bytes);
        self.counts.late += u64::from(access.kind == AccessKind::Late);
        if access.offset >= access_end {
            return Plan::default();
        }
        let missed = access.kind == AccessKind::Miss;
        if missed && self.asked.contains(&access.offset) {
            self.asked = 0..0; // evicted, so nothing is known of the rest
        }
        let mut offset = access.offset;
        for _ in 0..ACCESS_PAGES_MAX {
            let boundary = (offset / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES);
            let end = boundary.min(access_end);
            self.count(offset, end);
            offset = end;
            if end == access_end {
                break;
            }
        }
        self.previous_end = access_end;
        let found = !missed || access.offset / PAGE_BYTES != (access_end - 1) / PAGE_BYTES;
        let range = if found {
            self.ask(access.budget_bytes)
        } else {
            None
        };
        Plan {
            fetch: range.into_iter().collect(),
            ..Plan::default()
        }
    }

    fn feedback(&mut self, feedback: Feedback) {
        self.counts.feedback(feedback);
        if matches!(feedback, Feedback::Refused { .. }) {
            (self.previous_end, self.adjacent, self.pages) = (0, 0, 0);
            self.asked = 0..0;
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::Duration;

    fn page(hsfs: &mut Hsfs, number: u64, kind: AccessKind) -> Plan {
        read(hsfs, number * PAGE_BYTES, PAGE_BYTES, kind)
    }

    fn read(hsfs: &mut Hsfs, offset: u64, length: u64, kind: AccessKind) -> Plan {
        let (budget_bytes, now) = (u64::MAX, Duration::ZERO);
        hsfs.access(&Access {
            offset,
            length,
            kind,
            budget_bytes,
            now,
            bounds: None,
            latency: None,
        })
    }

    #[test]
    fn growth_of_reads_of_a_page() {
        let mut hsfs = Hsfs::new(u64::MAX);
        let pages: Vec<u64> = (0..7)
            .map(|number| {
                page(&mut hsfs, number, AccessKind::Miss);
                hsfs.pages
            })
            .collect();
        assert_eq!(pages, [0, 0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_random_page_takes_one_off() {
        let mut hsfs = Hsfs::new(u64::MAX);
        (0..10).for_each(|number| drop(page(&mut hsfs, number, AccessKind::Miss)));
        for (number, pages) in [(500, 3), (300, 2), (100, 1), (50, 0), (20, 0)] {
            page(&mut hsfs, number, AccessKind::Hit);
            assert_eq!(hsfs.pages, pages);
        }
        // It has to be adjacent three times again.
        page(&mut hsfs, 21, AccessKind::Hit);
        assert_eq!(hsfs.pages, 0);
        page(&mut hsfs, 22, AccessKind::Hit);
        assert_eq!(hsfs.pages, 1);
    }

    #[test]
    fn only_a_hit_triggers_and_only_when_the_next_page_is_not_there() {
        let mut hsfs = Hsfs::new(u64::MAX);
        for number in 0..6 {
            let plan = page(&mut hsfs, number, AccessKind::Miss);
            assert!(plan.fetch.is_empty(), "page {number}");
        }
        let next = 7 * PAGE_BYTES..11 * PAGE_BYTES;
        assert_eq!(page(&mut hsfs, 6, AccessKind::Hit).fetch, [next]);
        for number in 7..10 {
            let plan = page(&mut hsfs, number, AccessKind::Hit);
            assert!(plan.fetch.is_empty(), "page {number}");
        }
        let next = 11 * PAGE_BYTES..15 * PAGE_BYTES;
        assert_eq!(page(&mut hsfs, 10, AccessKind::Late).fetch, [next]);
    }

    #[test]
    fn a_part_of_a_page_triggers_nothing() {
        let mut hsfs = Hsfs::new(u64::MAX);
        (0..6).for_each(|number| drop(page(&mut hsfs, number, AccessKind::Miss)));
        let plan = read(&mut hsfs, 6 * PAGE_BYTES, 100, AccessKind::Hit);
        assert!(plan.fetch.is_empty());
    }

    #[test]
    fn nothing_past_the_end() {
        let mut hsfs = Hsfs::new(8 * PAGE_BYTES + 5);
        (0..6).for_each(|number| drop(page(&mut hsfs, number, AccessKind::Miss)));
        let plan = page(&mut hsfs, 6, AccessKind::Hit);
        let tail = 7 * PAGE_BYTES..8 * PAGE_BYTES + 5;
        assert_eq!(plan.fetch, [tail]);
        page(&mut hsfs, 7, AccessKind::Hit);
        assert!(page(&mut hsfs, 8, AccessKind::Hit).fetch.is_empty());
        assert!(page(&mut hsfs, 9, AccessKind::Hit).fetch.is_empty());
    }

    #[test]
    fn refused_memory_zeroes_all() {
        let mut hsfs = Hsfs::new(u64::MAX);
        (0..7).for_each(|number| drop(page(&mut hsfs, number, AccessKind::Hit)));
        hsfs.feedback(Feedback::Refused { offset: 0 });
        assert_eq!((hsfs.previous_end, hsfs.adjacent, hsfs.pages), (0, 0, 0));
        assert!(page(&mut hsfs, 7, AccessKind::Hit).fetch.is_empty());
        assert!(page(&mut hsfs, 8, AccessKind::Hit).fetch.is_empty());
        assert_eq!(page(&mut hsfs, 9, AccessKind::Hit).fetch.len(), 1);
    }

    #[test]
    fn the_budget_is_kept() {
        let mut hsfs = Hsfs::new(u64::MAX);
        (0..7).for_each(|number| drop(page(&mut hsfs, number, AccessKind::Miss)));
        let access = |budget_bytes| Access {
            offset: 7 * PAGE_BYTES,
            length: PAGE_BYTES,
            kind: AccessKind::Hit,
            budget_bytes,
            now: Duration::ZERO,
            bounds: None,
            latency: None,
        };
        assert!(hsfs.clone().access(&access(4095)).fetch.is_empty());
        let plan = hsfs.access(&access(2 * PAGE_BYTES + 1));
        let two = 8 * PAGE_BYTES..10 * PAGE_BYTES;
        assert_eq!(plan.fetch, [two]);
    }

    /// What dd of 1 GiB with 8 KiB reads does; a read that misses is one request for all of it.
    #[test]
    fn a_gibibyte_in_reads_of_8_kib() {
        const LENGTH: u64 = 1 << 30;
        for whole in [false, true] {
            let mut hsfs = Hsfs::new(LENGTH);
            let mut cached = HashSet::new();
            let (mut demand, mut ahead, mut ahead_16k) = (0, 0, 0);
            for offset in (0..LENGTH).step_by(8192) {
                let pages = [offset, offset + PAGE_BYTES];
                let missing = pages.iter().any(|page| !cached.contains(page));
                demand += u64::from(missing);
                let mut told = Vec::new();
                for page in pages {
                    let kind = match cached.contains(&page) {
                        true => AccessKind::Hit,
                        false => AccessKind::Miss,
                    };
                    cached.extend(pages.iter().filter(|_| missing));
                    told.push((page, kind));
                }
                let plans = match (whole, told.as_slice()) {
                    (true, [(offset, kind), _]) => vec![read(&mut hsfs, *offset, 8192, *kind)],
                    _ => told
                        .iter()
                        .map(|(page, kind)| read(&mut hsfs, *page, PAGE_BYTES, *kind))
                        .collect(),
                };
                for range in plans.into_iter().flat_map(|plan| plan.fetch) {
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
}
