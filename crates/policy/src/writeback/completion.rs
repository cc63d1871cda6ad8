//! What the end of a write changes.
//!
//! Bytes of a failed write are dirty again. Their pages are left alone for a second, and twice as
//! long after each further failure, up to half a minute: a device that is full or away is not
//! hammered, and other pages go on. A tag does not wait for that.

use std::time::Duration;

use super::pages::Flight;
use super::settings::retry_delay;
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
        let start = self.starts.remove(&id);
        let totals = self.share.totals();
        totals.flights.remove(start.is_some().into());
        let flight = start.and_then(|start| self.bytes.flights.remove_entry(&start));
        let Some((start, flight)) = flight else {
            return;
        };
        let bytes = flight.end - start;
        // A page that is only kept is as good as clean: it needs no writing any more.
        let before = self.pages.held() - self.pages.only_kept;
        self.land(start, &flight, end, now);
        let after = self.pages.held() - self.pages.only_kept;
        let released = self.pages.memory_bytes(before.saturating_sub(after));
        self.flight_bytes -= bytes;
        self.share.totals().flight_bytes.remove(bytes);
        let mut gained = 0;
        match end {
            End::Written => {
                gained = bytes.max(released);
                self.counts.written += 1;
                self.tags.end(id, true, &mut self.counts);
            }
            End::Failed => {
                self.counts.failed += 1;
                self.tags.end(id, false, &mut self.counts);
            }
            End::PutBack => self.tags.put_back(id, &flight.parts, &mut self.counts),
        }
        self.measure(gained, now);
        let is_stopped = self.share.gate().flight_stopped;
        if is_stopped {
            // Else `next_at` says that only the end of a write can change anything, and after
            // this one nobody would ask again.
            self.is_flight_full();
        }
    }

    /// The bytes are clean, or dirty again, unless they were forgotten meanwhile: then the same
    /// bytes may have been written anew, and have waited for this.
    fn land(&mut self, start: u64, flight: &Flight, end: End, now: Duration) {
        if flight.forgotten {
            self.refresh(start, flight.end);
            return;
        }
        for number in self.pages.numbers(start, flight.end) {
            if end == End::Failed {
                // Its place in the order of ages changes.
                self.pages.withdraw(number);
            }
            let Some(page) = self.pages.all.get_mut(&number) else {
                continue;
            };
            page.flights = page.flights.saturating_sub(1);
            if end == End::PutBack {
                continue;
            }
            let retries = &mut self.pages.retries;
            if std::mem::take(&mut page.waiting) {
                retries.remove(&(page.retry_at, number));
            }
            if end == End::Written {
                page.retry_delay = Duration::ZERO;
                continue;
            }
            page.since = match page.dirty {
                true => page.since.min(flight.since),
                false => flight.since,
            };
            page.retry_delay = retry_delay(page.retry_delay);
            page.retry_at = now.saturating_add(page.retry_delay);
            page.waiting = true;
            retries.insert((page.retry_at, number));
        }
        if end != End::Written {
            for &(start, end) in &flight.parts {
                self.bytes.dirty.insert(start, end);
            }
        }
        self.refresh(start, flight.end);
    }

    /// A write ended; `gained` bytes of memory are clean, 0 when it failed.
    fn measure(&mut self, gained: u64, now: Duration) {
        let flying = self.share.totals().flights.get() > 0;
        if gained == 0 {
            self.share.gate().pacing.failed(flying, now);
            return;
        }
        let dirty_bytes = self.store_memory_bytes();
        let pressed = self.is_device_full();
        self.share.gate().pacing.cleaned(
            gained,
            dirty_bytes,
            (flying, pressed),
            now,
            &mut self.counts,
        );
    }

    /// Whether the device has as much to do as it can, or would have if more was handed out.
    fn is_device_full(&self) -> bool {
        let totals = self.share.totals();
        let idle_pages = totals.only_kept.get() + totals.unwritten.get();
        let busy_pages = totals.held.get().saturating_sub(idle_pages);
        let busy_bytes = self.pages.memory_bytes(busy_pages);
        self.share.gate().flight_stopped
            || self.has_background_work()
            || busy_bytes > self.limits().background_bytes
    }
}
