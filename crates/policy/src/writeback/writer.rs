//! What a writer meets, and what it leaves.

use std::time::Duration;

use super::file::{Due, Page};
use super::stream::BEHIND_BYTES_MIN;
use super::{Admission, Extent, FileNumber, Rule, Urgency, WriteBack};

impl WriteBack {
    /// Before a writer puts bytes into memory. To be asked for each page, or for a few at a time:
    /// an extent longer than the hard limit is let in only when nothing is dirty.
    ///
    /// Nothing is reserved: every thread between `admit` and [`WriteBack::wrote`] may exceed
    /// the limit by what it was granted.
    pub fn admit(&mut self, number: FileNumber, extent: Extent, now: Duration) -> Admission {
        self.ask(number, extent, true, now)
    }

    /// The same for a writer that goes away unless it is granted: it is charged only then, else
    /// it would pay again when it comes back and waits.
    pub fn try_admit(&mut self, number: FileNumber, extent: Extent, now: Duration) -> Admission {
        self.ask(number, extent, false, now)
    }

    fn ask(
        &mut self,
        number: FileNumber,
        extent: Extent,
        may_pause: bool,
        now: Duration,
    ) -> Admission {
        let now = self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        if self.is_busy(number, start, end) || self.has_other_range(number, start, end) {
            self.counts.busy += 1;
            return Admission::Busy;
        }
        let (held, dirty) = self.pages_of(number, start, end);
        let pages = self.index.pages(start, end);
        let pages = pages.end - pages.start;
        let page_bytes = self.settings.page_bytes;
        let bytes = |pages: u64| pages.saturating_mul(page_bytes);
        let (new_held, new_dirty) = (bytes(pages - held), bytes(pages - dirty));
        let memory = self.dirty_memory_bytes();
        let hard_bytes = self.pacing.limits().hard_bytes;
        if new_held > 0 && memory > 0 && memory.saturating_add(new_held) > hard_bytes {
            self.counts.refused += 1;
            return Admission::Refused;
        }
        if new_dirty == 0 || self.settings.rule.synchronous() {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        let pause = self.pacing.pause(number, new_dirty, memory, may_pause, now);
        if pause.refused {
            self.counts.refused_late += 1;
            return Admission::Refused;
        }
        if pause.length.is_zero() {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        if !may_pause {
            self.counts.would_pause += 1;
            return Admission::Paused(pause.length);
        }
        self.counts.pauses_capped += u64::from(pause.capped);
        self.counts.paused += 1;
        let nanoseconds = u64::try_from(pause.length.as_nanos()).unwrap_or(u64::MAX);
        self.counts.paused_nanoseconds = self.counts.paused_nanoseconds.saturating_add(nanoseconds);
        Admission::Paused(pause.length)
    }

    /// Whether the rule makes a writer wait for these bytes.
    fn is_busy(&self, number: FileNumber, start: u64, end: u64) -> bool {
        if !self.settings.rule.by_block() || start >= end {
            return false;
        }
        let Some(file) = self.files.get(&number) else {
            return false;
        };
        let block_bytes = self.settings.block_bytes;
        let start = start & !(block_bytes - 1);
        let end = end
            .checked_next_multiple_of(block_bytes)
            .unwrap_or(u64::MAX);
        file.is_flying(start, end) || file.due_blocks.range(start..end).next().is_some()
    }

    /// Whether a block at an end of these bytes knows another range of dirty bytes, which then has
    /// to go. Blocks between the ends are written whole, and so touch any range.
    fn has_other_range(&mut self, number: FileNumber, start: u64, end: u64) -> bool {
        if self.settings.rule != Rule::OneRange || start >= end {
            return false;
        }
        let Some(file) = self.files.get_mut(&number) else {
            return false;
        };
        let block_bytes = self.settings.block_bytes;
        let mut found = false;
        for byte in [start, end - 1] {
            let block = byte & !(block_bytes - 1);
            let hull = file.hull(block, block.saturating_add(block_bytes));
            if hull.is_none_or(|(first, last)| start <= last && first <= end) {
                continue;
            }
            found = true;
            // After a failure it goes when its time has come: a writer that asks does not hurry it.
            let page = file.pages.get(&(block / self.settings.page_bytes));
            let waits = page.is_some_and(|page| page.waiting);
            if !waits && file.due_blocks.insert(block) {
                self.due_blocks.push_back((number, block));
            }
        }
        found
    }

    /// How many pages of a range are held, and how many are dirty.
    fn pages_of(&self, number: FileNumber, start: u64, end: u64) -> (u64, u64) {
        let Some(file) = self.files.get(&number) else {
            return (0, 0);
        };
        let numbers = self.index.pages(start, end);
        if numbers.end - numbers.start == 1 {
            let page = file.pages.get(&numbers.start);
            return page.map_or((0, 0), |page| (1, page.dirty.into()));
        }
        file.pages
            .range(numbers)
            .fold((0, 0), |(held, dirty), (_, page)| {
                (held + 1, dirty + u64::from(page.dirty))
            })
    }

    /// After a writer put bytes into memory. Says what is to be seen to.
    pub fn wrote(&mut self, number: FileNumber, extent: Extent, now: Duration) -> Urgency {
        let now = self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        if start >= end {
            return Urgency::Later;
        }
        self.counts.wrote += 1;
        self.counts.wrote_bytes += end - start;
        let file = self.files.entry(number).or_default();
        let flying = match file.flights.is_empty() {
            true => 0,
            false => {
                let flying = file.flying(start, end);
                flying.map(|((from, to), _)| to - from).sum()
            }
        };
        self.counts.redirtied_bytes += flying;
        let new = file.dirty.insert(start, end);
        self.counts.rewritten_bytes += end - start - new;
        let once = new == end - start && flying == 0;
        for page_number in self.index.pages(start, end) {
            let page = file.pages.entry(page_number).or_insert_with(|| {
                self.index.held_pages += 1;
                let mut page = Page::new(now);
                if once && self.settings.rule == Rule::Delayed {
                    let expire = self.settings.expire;
                    let habit = self.habits.of(number, now, expire);
                    page.fresh = !habit.recent.contains(page_number, now, expire);
                }
                page
            });
            page.fresh &= once;
            page.rewritten |= !once;
            if !page.dirty {
                page.since = now;
            }
            self.index.refresh(number, file, page_number);
        }
        self.make_blocks_due(number, start, end);
        if new > 0 && self.settings.rule == Rule::Delayed {
            self.follow_streams(number, start, end, now);
        }
        if self.settings.rule.synchronous() {
            return Urgency::Synchronous;
        }
        if !self.flight_stopped && self.has_work() {
            return Urgency::Now;
        }
        Urgency::Later
    }

    /// After [`WriteBack::wrote`]: a block of the device, all of which is in memory. It is written
    /// as a whole, so if more than one range of it is dirty they become one, of all its bytes:
    /// else each would be a write of the same block, and they would go one after the other. One
    /// range stays as it is, as its ends tell which writer is sequential. The rules of the report
    /// depend on the ends of all ranges, so there nothing changes.
    pub fn join(&mut self, number: FileNumber, block: Extent) {
        let (start, end) = (block.offset, block.end());
        if self.settings.rule != Rule::Delayed {
            return;
        }
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        if file.dirty.within(start, end).nth(1).is_none() {
            return;
        }
        self.counts.joined += 1;
        file.dirty.insert(start, end);
        self.refresh(number, start, end);
    }

    /// Makes due what lies behind a sequential writer.
    fn follow_streams(&mut self, number: FileNumber, start: u64, end: u64, now: Duration) {
        let behind_bytes = self.cluster_bytes().max(BEHIND_BYTES_MIN);
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let habit = self.habits.of(number, now, self.settings.expire);
        let parts = (&*file, &self.index);
        let due = habit.step((start, end), behind_bytes, parts, now, &mut self.counts);
        for page in due.into_iter().flatten() {
            self.index.make_due(number, file, page, Due::Behind);
        }
    }

    /// The rules of the report.
    ///
    /// ```text
    ///   blocks   |  0  |  1  |  2  |  3  |  4  |
    ///   a call                 |------------|       the ends of 2 and 3 are reached: due
    ///   a call     |------------------|             of 0, 1 and 2 too, but only 2 is due
    /// ```
    fn make_blocks_due(&mut self, number: FileNumber, start: u64, end: u64) {
        if !self.settings.rule.by_block() {
            return;
        }
        let block_bytes = self.settings.block_bytes;
        let (first, reached) = (start / block_bytes, end / block_bytes);
        let exempt = match self.settings.rule {
            Rule::BlockEnd if first == 0 => 2,
            _ => 0,
        };
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        for block in first.max(exempt)..reached {
            let offset = block * block_bytes;
            if file.due_blocks.insert(offset) {
                self.due_blocks.push_back((number, offset));
            }
        }
    }
}
