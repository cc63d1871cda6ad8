//! What the end of a write changes.
//!
//! Bytes of a failed write are dirty again. Their pages are left alone for a second, and twice as
//! long after each further failure, up to half a minute: a device that is full or away is not
//! hammered, and other files go on. A tag does not wait for that.

use std::time::Duration;

use super::state::Flying;
use super::{WriteBack, WriteId};

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All of it is at the device.
    Written,
    /// Its bytes are dirty again, after a while.
    Failed,
    /// Its bytes are dirty again.
    PutBack,
}

impl WriteBack {
    /// A write that [`WriteBack::next`] handed out is over; `written` says whether all of it is at
    /// the device.
    pub fn finished(&mut self, id: WriteId, written: bool, now: Duration) {
        self.end(id, if written { End::Written } else { End::Failed }, now);
    }

    /// A write that [`WriteBack::next`] handed out will not go to the device, or did and may have
    /// been lost there: what was not discarded of it is dirty again, may be handed out at once, and
    /// tags wait for it as before.
    pub fn put_back(&mut self, id: WriteId, now: Duration) {
        self.end(id, End::PutBack, now);
    }

    fn end(&mut self, id: WriteId, end: End, now: Duration) {
        let now = self.advance(now);
        let Some(flying) = self.flying.remove(&id) else {
            self.counts.finished_unknown += 1;
            return;
        };
        let bytes = flying.end - flying.start;
        // A page that is only kept is as good as clean: it needs no writing any more.
        let before = self.index.held_pages - self.index.kept_pages;
        let is_known = self.land(&flying, end, now);
        let after = self.index.held_pages - self.index.kept_pages;
        let released = before
            .saturating_sub(after)
            .saturating_mul(self.settings.page_bytes);
        self.flight_bytes -= bytes;
        let mut gained = 0;
        let ended = match end {
            End::Written => {
                gained = bytes.max(released);
                self.counts.written += 1;
                self.counts.written_bytes += bytes;
                self.tags.end(id, true)
            }
            End::Failed => {
                self.counts.failed += 1;
                self.tags.end(id, false)
            }
            End::PutBack => {
                self.counts.put_back += 1;
                self.tags
                    .put_back(id, if is_known { &flying.parts } else { &[] })
            }
        };
        self.count_tags(ended);
        self.measure(gained, now);
        if self.flight_stopped {
            // Else `next_at` says that only the end of a write can change anything, and after
            // this one nobody would ask again.
            self.is_flight_full();
        }
    }

    /// The bytes are clean, or dirty again. False when they were forgotten meanwhile.
    fn land(&mut self, flying: &Flying, end: End, now: Duration) -> bool {
        let number = flying.file;
        let Some(file) = self.files.get_mut(&number) else {
            return false;
        };
        let flight = file.flights.remove(&flying.start);
        let is_known = flight.is_some_and(|flight| !flight.forgotten);
        // Else the same bytes may have been written anew, and have waited for this.
        if is_known {
            for page_number in self.index.pages(flying.start, flying.end) {
                if end == End::Failed {
                    // Its place in the order of ages changes.
                    self.index.withdraw(number, file, page_number);
                }
                let Some(page) = file.pages.get_mut(&page_number) else {
                    continue;
                };
                page.flights = page.flights.saturating_sub(1);
                if end == End::PutBack {
                    continue;
                }
                let retries = &mut self.index.retries;
                if std::mem::take(&mut page.waiting) {
                    retries.remove(&(page.retry_at, number, page_number));
                }
                if end == End::Written {
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
                retries.insert((page.retry_at, number, page_number));
            }
            if end != End::Written {
                for &(start, end) in &flying.parts {
                    file.dirty.insert(start, end);
                }
            }
        } else if end != End::PutBack {
            self.counts.finished_unknown += 1;
        }
        self.refresh(number, flying.start, flying.end);
        is_known
    }

    /// A write ended; `gained` bytes of memory are clean, 0 when it failed.
    fn measure(&mut self, gained: u64, now: Duration) {
        let flying = !self.flying.is_empty();
        if gained == 0 {
            self.pacing.failed(flying, now);
            return;
        }
        let dirty_bytes = self.dirty_memory_bytes();
        let pressed = self.is_device_full();
        self.pacing.cleaned(
            gained,
            dirty_bytes,
            (flying, pressed),
            now,
            &mut self.counts,
        );
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
