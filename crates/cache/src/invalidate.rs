//! Discarding: a range whose bytes in memory are not the true ones any more.
//!
//! **Problem.** Somebody else changed a file on the server, or it was cut short. From now on nobody
//! may read what memory has of it; and bytes that are on their way from the device, asked for
//! before, must not come in through the back door. But readers hold pages, sockets send them, and
//! nobody waits for a device here.
//!
//! **Rule.** Page by page, under the lock of its name, so no writer is at work in it. What is dirty
//! of the range is forgotten by the policy. Then the page loses its name, and is free when the
//! last of those who hold it lets go: what a fetch brings lands in it and is lost. Of a page that
//! the range covers in part, the other bytes stay:
//!
//! ```text
//!   nobody else holds it:       in place, the units of the range are not valid any more
//!   nothing else is dirty:      it loses its name as a whole, and is fetched again
//!   else:                       a copy of the rest takes its name (`copy_on_write.rs`)
//! ```
//!
//! Only what is in memory is looked at: pages of a device that
//! [wants it](pagewell_device::Device::keeps_until_flush) are listed in order
//! ([`crate::residency::resident`]), so a range of a terabyte with three pages costs three pages.
//!
//! **What it does not do.** A write that is at the device already may still come after it. The
//! elevator keeps requests that overlap in order, so who reads then reads what it wrote.

use std::sync::Arc;
use std::time::Duration;

use pagewell_counters::names::{
    CACHE_DISCARDED_DIRTY_BYTES, CACHE_DISCARDED_PAGES, CACHE_DISCARDS, CACHE_PAGES,
};
use pagewell_policy::elevator::Extent;

use crate::cached_device::CachedDevice;
use crate::dirty::set::{Dirty, FILE};
use crate::object::{Held, Object};
use crate::page::{PAGE, Units};
use crate::table::page_table::Pinned;
use crate::table::state::{AHEAD, FULL};
use crate::write::copy_on_write::MOVED;

/// How long to sleep when there is no place for the copy of a page.
const MEMORY_TICK: Duration = Duration::from_millis(1);

impl CachedDevice {
    /// Forgets what memory has of a range, what is dirty of it included: who reads afterwards asks
    /// the device. What is on its way from the device does not come into memory; what is on its
    /// way to it may arrive. What is lent does not change. Waits for writers of the same pages,
    /// never for the device. The range may reach past the end.
    ///
    /// The cost is that of the pages that are in memory.
    pub fn discard(&self, offset: u64, length: u64) {
        let length = length.min(self.object.length_bytes.saturating_sub(offset));
        if length > 0 {
            self.object.discard(Extent { offset, length });
        }
    }
}

impl Object {
    fn discard(self: &Arc<Self>, extent: Extent) {
        CACHE_DISCARDS.add(1);
        if self.writes.has_started() {
            // First: what is written while the pages go is not to be taken from a flush.
            let mut dirty = self.writes.lock();
            dirty.unflushed.take(extent);
            dirty.lost.take(extent);
            dirty.unrecovered.take(extent);
        }
        let pages = extent.offset / PAGE..extent.end().div_ceil(PAGE);
        for page in self.core.resident(self.number, pages) {
            let start = extent.offset.max(page * PAGE);
            let end = extent.end().min((page + 1) * PAGE);
            let part = Extent {
                offset: start,
                length: end - start,
            };
            self.discard_in_page(page, part);
        }
        if self.writes.has_started() {
            self.writes.lock().show(self);
            // Commits may have nothing to wait for any more, and writers have room.
            self.writes.notify();
        }
        self.core.sweep();
    }

    fn discard_in_page(self: &Arc<Self>, page: u64, part: Extent) {
        let last = self.length_bytes - page * PAGE;
        let is_whole = part.length == PAGE.min(last);
        let mut is_first = true;
        loop {
            let _page = self.core.lock_page(self.key(page));
            let Some(mut held) = self.hold_named(page) else {
                return;
            };
            if std::mem::take(&mut is_first) {
                CACHE_DISCARDED_PAGES.add(1);
            }
            if is_whole {
                return self.drop_page(held, page, part);
            }
            let has_others = self.forget_dirty(page, part);
            let (alone, is_alone) = self.try_alone(&held);
            if is_alone {
                self.invalidate(&held, page, part);
                drop(alone);
                return;
            }
            if !has_others {
                drop(alone);
                return self.drop_page(held, page, part);
            }
            let kept = !self.touched(page, part);
            if let Some(alone) = self.move_out(alone, &mut held, page, kept) {
                self.clear_if_clean(page);
                drop(alone);
                return;
            }
            drop(held);
            drop(_page);
            std::thread::sleep(MEMORY_TICK);
        }
    }

    /// Pins a page that has its name; the caller has the lock of it.
    pub(crate) fn hold_named(self: &Arc<Self>, page: u64) -> Option<Held> {
        loop {
            match self.core.table.pin(self.key(page)) {
                Pinned::Yes(slot, state) => {
                    let frame = state.frame();
                    return Some(self.hold(crate::residency::pages::Page { slot, frame, state }));
                }
                Pinned::Absent => return None,
                // So many readers at this moment.
                Pinned::Refused => std::thread::yield_now(),
            }
        }
    }

    fn touched(&self, page: u64, part: Extent) -> Units {
        self.units(part.offset - page * PAGE, part.length)
    }

    /// Forgets what is dirty of a part of a page; whether something else of the page is.
    fn forget_dirty(&self, page: u64, part: Extent) -> bool {
        if !self.writes.has_started() {
            return false;
        }
        let mut dirty = self.writes.lock();
        forget(&mut dirty, part);
        let (offset, length) = (page * PAGE, PAGE);
        let whole = Extent { offset, length };
        dirty.policy.dirty_in(FILE, whole).next().is_some()
    }

    /// Makes units of a page unknown that nobody else holds.
    fn invalidate(&self, held: &Held, page: u64, part: Extent) {
        self.core.invalidate(held.frame, self.touched(page, part));
        self.core.table.clear(held.slot, FULL);
        self.clear_if_clean(page);
    }

    /// Takes the flag of dirty pages from a page that has nothing dirty any more.
    fn clear_if_clean(&self, page: u64) {
        let (offset, length) = (page * PAGE, PAGE);
        let dirty = self.writes.lock();
        self.mark_clean(&dirty, Extent { offset, length });
    }

    /// Takes the name from a page, and what is dirty in a part of it, at a stroke.
    fn drop_page(self: &Arc<Self>, held: Held, page: u64, part: Extent) {
        let core = &self.core;
        let key = self.key(page);
        let (slot, frame) = (held.slot, held.frame);
        let alone = self.write_alone(&held);
        let before = core.with_insertion(key, || {
            // A claim looks for the name under this lock: it comes before, and what it fetches is
            // lost, or sees that there is no name.
            let _claims = core.flights(frame);
            let mut dirty = self.writes.lock();
            forget(&mut dirty, part);
            core.table.unname(slot);
            core.table.clear(slot, MOVED)
        });
        core.unlist(key);
        if before.has(AHEAD) {
            core.count_read();
        }
        core.retire(frame);
        drop(alone);
        drop(held);
        core.free_or_orphan(slot, frame);
    }
}

fn forget(dirty: &mut Dirty, part: Extent) {
    CACHE_DISCARDED_DIRTY_BYTES.add(dirty.policy.discard(FILE, part));
}

impl crate::residency::pages::Core {
    /// Frees the place of a page without a name, now or when nobody holds it any more.
    fn free_or_orphan(
        &self,
        slot: crate::table::page_table::SlotIndex,
        frame: pagewell_policy::eviction::FrameIndex,
    ) {
        if self.table.remove_detached(slot, frame) {
            CACHE_PAGES.add(-1);
            self.free.push(frame);
        } else {
            self.orphan(slot, frame);
        }
    }
}
