//! Purging: a range whose bytes in memory are not the true ones any more.
//!
//! **Problem.** Another client changed a file on the server, or it was cut short. From now on no
//! reader may see what memory has of it; and bytes that are on their way from the device, asked
//! for before, must not come in through the back door. But readers have pages pinned, sockets send
//! them, and nobody waits for a device here.
//!
//! **Rule.** Page by page, under its lock, so no writer is at work in it. What is dirty of the
//! range is forgotten by the policy. Then the page loses its name, and is free when the last pin
//! goes: what a fetch brings ends in it and is lost. Of a page that the range covers in part, the
//! other bytes stay:
//!
//! ```text
//!   no other thread has pinned it:  in place, the units of the range are not valid any more
//!   nothing else is dirty:          it loses its name as a whole, and is fetched again
//!   else:                           a copy of the rest takes its name (`copy_on_write.rs`)
//! ```
//!
//! Only what is in memory is looked at: pages of a device that
//! [wants it](pagewell_device::Device::keeps_until_flush) are listed in order, so a range of a
//! terabyte with three pages costs three pages.
//!
//! **What it does not do.** A write that is at the device already may still come after it. The
//! elevator keeps requests that overlap in order, so a later read reads what it wrote.

use pagewell_policy::elevator::Extent;

use crate::page::{PAGE, Part, first_part};
use crate::read::miss::MEMORY_TICK;
use crate::residency::pins::OwnedPin;
use crate::table::lines::FULL;
use crate::writeback::Writer;

impl Writer {
    /// Moves the end of the object. The unit with the old end in it, or with the new one, is not
    /// what it was: after the end has moved, so that what is fetched for the old one is lost.
    pub(crate) fn set_length(&self, length_bytes: u64) {
        let before = self.own.layout.set_length(length_bytes);
        let now = self.own.layout.length_bytes();
        if now == before {
            return;
        }
        let start = before.min(now);
        let page_end = start.next_multiple_of(PAGE);
        if now < before {
            self.purge_to(start, before.max(page_end));
        } else if start < page_end {
            self.purge_to(start, page_end);
        }
    }

    /// Forgets a range, which may reach past the end.
    pub(crate) fn purge(&self, offset: u64, length: u64) {
        let extent = self.inside(offset, length);
        if extent.length > 0 {
            self.purge_to(offset, extent.end());
        }
    }

    /// Forgets all from `offset` to `end`, wherever the object ends.
    fn purge_to(&self, offset: u64, end: u64) {
        let extent = Extent::of((offset, end));
        if self.dirty.has_started() {
            // First: what is written while the pages go is not to be taken from a flush.
            let mut dirty = self.dirty.lock();
            dirty.unflushed.take(extent.offset, extent.end());
            dirty.lost.take(extent.offset, extent.end());
            dirty.unrecovered.take(extent.offset, extent.end());
        }
        let range = offset / PAGE..extent.end().div_ceil(PAGE);
        for page in self.own.pages.resident(self.own.layout.number, range) {
            let start = offset.max(page * PAGE);
            let end = extent.end().min((page + 1) * PAGE);
            self.purge_in_page(&first_part(&(start..end)));
        }
        if self.dirty.has_started() {
            let mut dirty = self.dirty.lock();
            self.dirty.show(&mut dirty);
            // Commits may have nothing to wait for any more, and writers may go on.
            self.dirty.let_others_go_on(dirty);
            self.dirty.notify();
        }
        self.own.pages.sweep();
    }

    fn purge_in_page(&self, part: &Part) {
        let (layout, page) = (&self.own.layout, part.page);
        let rest = layout.length_bytes().saturating_sub(page * PAGE);
        let is_whole = part.start == 0 && part.length >= PAGE.min(rest);
        loop {
            let lock = self.own.pages.lock_page(layout.key(page));
            let Some(mut pin) = self.own.pin_locked(page) else {
                return;
            };
            if is_whole {
                return self.drop_page(pin, part);
            }
            let has_others = self.forget_dirty(part);
            let (alone, is_alone) = self.try_alone(&pin);
            if is_alone {
                let pages = &self.own.pages;
                pages.invalidate(pin.frame, layout.units_of(part));
                pages.table.clear(pin.slot, FULL);
                self.clear_if_clean(page);
                drop(alone);
                return;
            }
            if !has_others {
                drop(alone);
                return self.drop_page(pin, part);
            }
            let kept = !layout.units_of(part);
            let moved = self.move_out(alone, &mut pin, page, kept);
            if let Some(alone) = moved {
                self.clear_if_clean(page);
                drop(alone);
                return;
            }
            drop(pin);
            drop(lock);
            std::thread::sleep(MEMORY_TICK);
        }
    }

    /// Forgets what is dirty of a part of a page; whether something else of the page is.
    fn forget_dirty(&self, part: &Part) -> bool {
        if !self.dirty.has_started() {
            return false;
        }
        let dirty = self.dirty.forget(part.extent());
        let whole = Part::whole(part.page).extent();
        dirty.policy.dirty_in(whole).next().is_some()
    }

    /// Takes the flag of dirty pages from a page that has nothing dirty any more.
    fn clear_if_clean(&self, page: u64) {
        let dirty = self.dirty.lock();
        self.dirty.mark_clean(&dirty, Part::whole(page).extent());
    }

    /// Takes the name from a page, and what is dirty in a part of it, at a stroke.
    fn drop_page(&self, pin: OwnedPin, part: &Part) {
        let (pages, key) = (&self.own.pages, self.own.layout.key(part.page));
        let (slot, frame) = (pin.slot, pin.frame);
        let alone = self.write_alone(&pin);
        pages.unname(key, (slot, frame), || self.dirty.forget(part.extent()));
        drop(alone);
        drop(pin);
        pages.free_when_unpinned(slot, frame);
    }
}
