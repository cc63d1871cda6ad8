//! What may be written now, over all files: kept up to date page by page, so that nothing has to
//! be searched for when something is chosen.

use std::collections::BTreeSet;
use std::time::Duration;

use pagewell_base::spans::Span;

use super::FileNumber;
use super::file::{Due, File};

/// What it costs to clean a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// One write, and it was worth it.
    Whole,
    /// One write.
    Cheap,
    /// Several writes, or it will soon be dirty again.
    Scattered,
}

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    /// Bytes of a page, a power of two.
    pub(super) page_bytes: u64,
    /// Bytes of a block where blocks are written one by one.
    pub(super) block_bytes: Option<u64>,
    /// Pages with a byte that is dirty, under write-out or kept.
    pub(super) held_pages: u64,
    /// Those of them that are only kept.
    pub(super) kept_pages: u64,
    /// Pages with a dirty byte.
    pub(super) unwritten_pages: u64,
    /// Pages that may be written and are not due, by the time since when they are dirty.
    pub(super) ages: BTreeSet<(Duration, FileNumber, u64)>,
    /// Pages that wait after a failure, by the time when they are tried again.
    pub(super) retries: BTreeSet<(Duration, FileNumber, u64)>,
    /// Files with pages that may be written.
    pub(super) ready_files: BTreeSet<FileNumber>,
    /// Those with pages that have nothing but dirty bytes.
    pub(super) whole_files: BTreeSet<FileNumber>,
    /// Files with pages that are due.
    pub(super) due_files: BTreeSet<FileNumber>,
}

impl Index {
    pub(super) fn new(page_bytes: u64, block_bytes: Option<u64>) -> Self {
        Self {
            page_bytes,
            block_bytes,
            held_pages: 0,
            kept_pages: 0,
            unwritten_pages: 0,
            ages: BTreeSet::new(),
            retries: BTreeSet::new(),
            ready_files: BTreeSet::new(),
            whole_files: BTreeSet::new(),
            due_files: BTreeSet::new(),
        }
    }

    /// The bytes of a page.
    pub(super) fn span(&self, page: u64) -> Span {
        let start = page.saturating_mul(self.page_bytes);
        (start, start.saturating_add(self.page_bytes))
    }

    /// The pages of `start..end`.
    pub(super) fn pages(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        if start >= end {
            return 0..0;
        }
        start / self.page_bytes..end.div_ceil(self.page_bytes)
    }

    /// Takes a page out of what may be written.
    pub(super) fn withdraw(&mut self, number: FileNumber, file: &mut File, page_number: u64) {
        let Some(page) = file.pages.get_mut(&page_number) else {
            return;
        };
        if !page.ready {
            return;
        }
        page.ready = false;
        self.ages.remove(&(page.since, number, page_number));
        file.ready.remove(&page_number);
        file.due.remove(&page_number);
        self.rank(number, file, page_number, Rank::Scattered);
        if file.ready.is_empty() {
            self.ready_files.remove(&number);
        }
        if file.due.is_empty() {
            self.due_files.remove(&number);
        }
    }

    /// Notes how much a page that may be written costs.
    fn rank(&mut self, number: FileNumber, file: &mut File, page: u64, rank: Rank) {
        match rank {
            Rank::Cheap => file.cheap.insert(page),
            _ => file.cheap.remove(&page),
        };
        if rank == Rank::Whole {
            if file.whole.insert(page) {
                self.whole_files.insert(number);
            }
        } else if file.whole.remove(&page) && file.whole.is_empty() {
            self.whole_files.remove(&number);
        }
    }

    /// Brings the index up to date with a page whose bytes changed; lets go of a clean page.
    pub(super) fn refresh(&mut self, number: FileNumber, file: &mut File, page_number: u64) {
        let (start, end) = self.span(page_number);
        let (range, is_one) = file.dirty.last_within(start, end);
        let dirty = range.is_some();
        let may_write = dirty
            && (file.flights.is_empty() || file.candidate(start, end, self.block_bytes).is_some());
        let Some(page) = file.pages.get_mut(&page_number) else {
            return;
        };
        if dirty != page.dirty {
            page.dirty = dirty;
            if dirty {
                self.unwritten_pages += 1;
            } else {
                self.unwritten_pages -= 1;
            }
        }
        let page = *page;
        if may_write && !page.waiting {
            if !page.ready
                && let Some(page) = file.pages.get_mut(&page_number)
            {
                page.ready = true;
                self.ages.insert((page.since, number, page_number));
                file.ready.insert(page_number);
                self.ready_files.insert(number);
            }
            let rank = if page.flights > 0 || self.block_bytes.is_some() {
                Rank::Scattered
            } else if range == Some((start, end)) {
                Rank::Whole
            } else if is_one && !page.rewritten {
                Rank::Cheap
            } else {
                Rank::Scattered
            };
            self.rank(number, file, page_number, rank);
        } else {
            self.withdraw(number, file, page_number);
        }
        let is_kept = file.is_kept(start, end);
        let only_kept = is_kept && !dirty && page.flights == 0;
        if only_kept != page.only_kept
            && let Some(page) = file.pages.get_mut(&page_number)
        {
            page.only_kept = only_kept;
            // It was written a moment ago.
            page.fresh = false;
            if only_kept {
                self.kept_pages += 1;
            } else {
                self.kept_pages -= 1;
            }
        }
        if !dirty && page.flights == 0 && !is_kept {
            if page.waiting {
                self.retries.remove(&(page.retry_at, number, page_number));
            }
            file.pages.remove(&page_number);
            self.held_pages -= 1;
        }
    }

    /// Makes a page due that may be written.
    pub(super) fn make_due(&mut self, number: FileNumber, file: &mut File, page: u64, due: Due) {
        let Some(entry) = file.pages.get(&page).filter(|page| page.ready) else {
            return;
        };
        self.ages.remove(&(entry.since, number, page));
        file.due.insert(page, due);
        self.due_files.insert(number);
    }
}
