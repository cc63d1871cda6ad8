//! What the end of a write changes.
//!
//! Bytes of a failed write are dirty again. Their pages are left alone for a second, and twice as
//! long after each further failure, up to half a minute: a device that is full or away is not
//! hammered, and other files go on. A tag does not wait for that.

use std::time::Duration;

use super::state::Flying;
use super::{WriteBack, WriteId};

impl WriteBack {
    /// A write that [`WriteBack::next`] handed out is over; `written` says whether all of it is at
    /// the device.
    pub fn finished(&mut self, id: WriteId, written: bool, now: Duration) {
        let now = self.advance(now);
        let Some(flying) = self.flying.remove(&id) else {
            self.counts.finished_unknown += 1;
            return;
        };
        let bytes = flying.end - flying.start;
        // A page that is only kept is as good as clean: it needs no writing any more.
        let before = self.index.held_pages - self.index.kept_pages;
        self.land(&flying, written, now);
        let after = self.index.held_pages - self.index.kept_pages;
        let released = before
            .saturating_sub(after)
            .saturating_mul(self.settings.page_bytes);
        self.flight_bytes -= bytes;
        let gained = if written { bytes.max(released) } else { 0 };
        if written {
            self.counts.written += 1;
            self.counts.written_bytes += bytes;
        } else {
            self.counts.failed += 1;
        }
        let (ended, failed) = self.tags.end(id, written);
        self.counts.tags_written += ended;
        self.counts.tags_failed += failed;
        self.measure(gained, now);
        if self.flight_stopped {
            // Else `next_at` says that only the end of a write can change anything, and after
            // this one nobody would ask again.
            self.is_flight_full();
        }
    }

    /// The bytes are clean, or dirty again.
    fn land(&mut self, flying: &Flying, written: bool, now: Duration) {
        let number = flying.file;
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let flight = file.flights.remove(&flying.start);
        if flight.is_none_or(|flight| flight.forgotten) {
            self.counts.finished_unknown += 1;
            // The same bytes may have been written anew, and have waited for this.
            for page in self.index.pages(flying.start, flying.end) {
                self.index.refresh(number, file, page);
            }
            if file.is_gone() {
                self.files.remove(&number);
            }
            return;
        }
        for page_number in self.index.pages(flying.start, flying.end) {
            if !written {
                // Its place in the order of ages changes.
                self.index.withdraw(number, file, page_number);
            }
            let Some(page) = file.pages.get_mut(&page_number) else {
                continue;
            };
            page.flights = page.flights.saturating_sub(1);
            if page.waiting {
                self.index
                    .retries
                    .remove(&(page.retry_at, number, page_number));
                page.waiting = false;
            }
            if written {
                page.retry_delay = Duration::ZERO;
                continue;
            }
            page.since = match page.dirty {
                true => page.since.min(flying.since),
                false => flying.since,
            };
            let delay = page.retry_delay.saturating_mul(2);
            page.retry_delay = delay.clamp(self.settings.retry_min, self.settings.retry_max);
            page.retry_at = now.saturating_add(page.retry_delay);
            page.waiting = true;
            self.index
                .retries
                .insert((page.retry_at, number, page_number));
        }
        if !written {
            for &(start, end) in &flying.parts {
                file.dirty.insert(start, end);
            }
        }
        for page in self.index.pages(flying.start, flying.end) {
            self.index.refresh(number, file, page);
        }
        if file.is_gone() {
            self.files.remove(&number);
        }
    }

    /// A write ended; `gained` bytes of memory are clean, 0 when it failed.
    pub(super) fn measure(&mut self, gained: u64, now: Duration) {
        let flying = !self.flying.is_empty();
        if gained == 0 {
            self.pacing.failed(flying, now);
            return;
        }
        let dirty_bytes = self.dirty_memory_bytes();
        let pressed = self.is_device_full();
        let measured = self
            .pacing
            .cleaned(gained, dirty_bytes, flying, pressed, now);
        self.counts.bandwidth_steps += measured.steps;
        self.counts.bandwidth_steps_idle += measured.idle;
        self.counts.limit_rises += measured.rises;
        self.counts.limit_falls += measured.falls;
    }

    /// Whether the device has as much to do as it can, or would have if more was handed out.
    fn is_device_full(&self) -> bool {
        let index = &self.index;
        let pages = index.held_pages - index.kept_pages;
        let busy_pages = pages.saturating_sub(index.unwritten_pages);
        let busy_bytes = busy_pages.saturating_mul(index.page_bytes);
        self.flight_stopped
            || self.has_background_work()
            || busy_bytes > self.pacing.limits().background_bytes
    }
}
