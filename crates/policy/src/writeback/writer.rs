//! What a writer meets, and what it leaves.

use std::time::Duration;

use super::pages::{Due, Page};
use super::settings::PAUSE_MAX;
use super::stream::BEHIND_BYTES_MIN;
use super::{Admission, Extent, Urgency, WriteBack};

impl WriteBack {
    /// Before a writer puts bytes into memory. To be asked for each page, or for a few at a time:
    /// an extent longer than the hard limit is let in only when nothing is dirty.
    ///
    /// Nothing is reserved: every thread between `admit` and [`WriteBack::wrote`] may exceed
    /// the limit by what it was granted.
    ///
    /// A writer that may not pause goes away unless it is granted: it is charged only then, else it
    /// would pay again when it comes back and waits.
    pub fn admit(&mut self, extent: Extent, may_pause: bool, now: Duration) -> Admission {
        let now = self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        let numbers = self.pages.numbers(start, end);
        let pages = numbers.end - numbers.start;
        let (held, dirty) = self.pages.count(numbers);
        let new_held = self.pages.memory_bytes(pages - held);
        let new_dirty = self.pages.memory_bytes(pages - dirty);
        let memory = self.store_memory_bytes();
        let hard_bytes = self.limits().hard_bytes;
        if new_held > 0 && memory > 0 && memory.saturating_add(new_held) > hard_bytes {
            self.counts.refused += 1;
            self.share.gate().refuse();
            return Admission::Refused;
        }
        if new_dirty == 0 {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        let mut gate = self.share.gate();
        let Some(pause) = gate.pacing.pause(new_dirty, memory, may_pause, now) else {
            gate.refuse();
            return Admission::Refused;
        };
        drop(gate);
        if pause.is_zero() {
            self.counts.granted += 1;
            return Admission::Granted;
        }
        self.counts.paused += u64::from(may_pause);
        self.counts.would_pause += u64::from(!may_pause);
        Admission::Paused(pause.min(PAUSE_MAX))
    }

    /// After a writer put bytes into memory. Says what is to be seen to.
    pub fn wrote(&mut self, extent: Extent, now: Duration) -> Urgency {
        let now = self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        if start >= end {
            return Urgency::Later;
        }
        let mut flying = 0;
        if !self.bytes.flights.is_empty() {
            let parts = self.bytes.flying(start, end);
            flying = parts.map(|((from, to), _)| to - from).sum();
        }
        self.counts.redirtied_bytes += flying;
        let new = self.bytes.dirty.insert(start, end);
        self.counts.rewritten_bytes += end - start - new;
        let once = new == end - start && flying == 0;
        let expire = self.settings.expire;
        if self.pages.all.is_empty() {
            self.cursor = 0; // nothing is left to go on with
        }
        for number in self.pages.numbers(start, end) {
            let habit = &mut self.habit;
            let page = self.pages.enter(number, || Page {
                fresh: once && !habit.is_recent(number, now, expire),
                ..Page::default()
            });
            page.fresh &= once;
            page.rewritten |= !once;
            if !page.dirty {
                page.since = now;
            }
            self.pages.refresh(&self.bytes, number);
        }
        if new > 0 {
            self.follow_streams(start, end, now);
        }
        let is_stopped = self.share.gate().flight_stopped;
        if !is_stopped && self.has_work() {
            return Urgency::Now;
        }
        Urgency::Later
    }

    /// After [`WriteBack::wrote`]: a block of the device, all of which is in memory. It is written
    /// as a whole, so if more than one range of it is dirty they become one, of all its bytes:
    /// else each would be a write of the same block, and they would go one after the other. One
    /// range stays as it is, as its ends tell which writer is sequential.
    pub fn join(&mut self, block: Extent) {
        let (start, end) = (block.offset, block.end());
        let is_scattered = self.bytes.dirty.within(start, end).nth(1).is_some();
        if is_scattered {
            self.bytes.dirty.insert(start, end);
            self.refresh(start, end);
        }
    }

    /// Makes due what lies behind a sequential writer.
    fn follow_streams(&mut self, start: u64, end: u64, now: Duration) {
        let behind_bytes = self.cluster_bytes().max(BEHIND_BYTES_MIN);
        let parts = (&self.bytes, &self.pages);
        let habit = &mut self.habit;
        let due = habit.step((start, end), behind_bytes, parts, now, &mut self.counts);
        for number in due.into_iter().flatten() {
            self.pages.make_due(number, Due::Behind);
        }
    }
}
