//! Copy-on-write: being alone in a page, so that bytes that readers may use can be changed.
//!
//! **Problem.** A page is pinned: sockets, payloads and slices have its bytes for as long as they
//! like, and nothing they have may change. A writer may not wait for them either: one slow
//! receiver would stop every writer of the page.
//!
//! **Rule.** The writer has the lock of the page, so it is the only writer of it, and sets
//! [`WRITING`], so that nobody new gets a pin. Those that have one are waited for a moment: most
//! only copy. If they stay, the page is *detached*: its bytes go to a new frame, which takes the
//! name; the old frame stays with those that have pinned it, and is free when the last pin goes.
//!
//! ```text
//!   alone:     name ──> slot ──> frame          written in place
//!
//!   detached:  name ──> slot' ──> frame'        a copy, written in place
//!                       slot ──> frame          as it was, for those that have pinned it
//! ```
//!
//! What is copied is what means something: the units that are valid, and the dirty bytes of the
//! others. A fetch on its way into the old frame ends there and is lost. A reader that waits for
//! it there sees that the page has no name any more when it next claims, and starts again.
//!
//! **Weakness.** A page with a fetch in flight, or pinned at the time of every write, is copied
//! each time: 64 KiB of memory traffic, counted.

use pagewell_counters::names::CACHE_DETACHED_PAGES;
use pagewell_policy::eviction::FrameIndex;

use crate::page::{Part, Units};
use crate::residency::names::PageCopy;
use crate::residency::pages::Pages;
use crate::residency::pins::OwnedPin;
use crate::sync::relax;
use crate::table::lines::WRITING;
use crate::table::page_table::SlotIndex;
use crate::writeback::Writer;

/// Looks at the pins before the page is detached; the last few give the processor away, so that a
/// reader that lost it in the middle of a copy can end it.
const ROUNDS: u32 = if cfg!(feature = "loom") { 1 } else { 204 };

/// A page whose readable bytes this thread alone may touch until it is dropped.
pub(crate) struct Alone<'a> {
    pages: &'a Pages,
    slot: SlotIndex,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.pages.table.clear(self.slot, WRITING);
    }
}

impl Writer {
    /// Makes this thread the only one that can touch the readable bytes of a page that it has
    /// pinned. `pin` may become another frame with the same bytes. `None` when others have pinned
    /// the page and there is no memory for a copy.
    ///
    /// The caller has the lock of the page, and `pin` has its name.
    pub(crate) fn exclude(&self, pin: &mut OwnedPin, page: u64) -> Option<Alone<'_>> {
        let (alone, is_alone) = self.try_alone(pin);
        if is_alone {
            return Some(alone);
        }
        self.move_out(alone, pin, page, Units::MAX)
    }

    /// Keeps all others from pinning a page that this thread has pinned.
    pub(crate) fn write_alone(&self, pin: &OwnedPin) -> Alone<'_> {
        let pages = &*self.own.pages;
        pages.table.set(pin.slot, WRITING);
        let slot = pin.slot;
        Alone { pages, slot }
    }

    /// The same, and waits a moment for those that have a pin; whether they have let go.
    pub(crate) fn try_alone(&self, pin: &OwnedPin) -> (Alone<'_>, bool) {
        let alone = self.write_alone(pin);
        for round in 0..ROUNDS {
            // Ours is the only pin. A pin that came before WRITING would be counted; one that
            // comes after is taken back by the thread that sees WRITING, before it touches the
            // page.
            if self.own.pages.table.state(pin.slot).pins() == 1 {
                return (alone, true);
            }
            relax(round);
        }
        (alone, false)
    }

    /// Gives the name of a page that is being written to a copy, which `pin` becomes: of its
    /// valid units only the `kept` ones. `None` when there is no frame for it.
    pub(crate) fn move_out<'a>(
        &'a self,
        alone: Alone<'a>,
        pin: &mut OwnedPin,
        page: u64,
        kept: Units,
    ) -> Option<Alone<'a>> {
        let pages = &*self.own.pages;
        let frame = pages.allocate()?;
        let valid = pages.valid(pin.frame) & kept;
        self.copy(pin, page, valid, frame);
        let copy = PageCopy {
            frame,
            valid,
            is_full: valid == self.own.layout.all_units(page),
        };
        let key = self.own.layout.key(page);
        let old = (pin.slot, pin.frame);
        let new = pages.detach(key, old, &copy, || self.dirty.lock())?;
        // The old frame may be pinned again, by nobody new: it has no name.
        drop(alone);
        pages.free_when_unpinned(old.0, old.1);
        *pin = self.own.own(new);
        CACHE_DETACHED_PAGES.add(1);
        pages.sweep();
        let slot = new.slot;
        Some(Alone { pages, slot })
    }

    /// Copies what means something.
    fn copy(&self, pin: &OwnedPin, page: u64, valid: Units, frame: FrameIndex) {
        let layout = &self.own.layout;
        let units = layout.each(valid).map(|(_, unit)| unit);
        for range in units.chain(self.dirty.in_page(&Part::whole(page))) {
            let (start, length) = (range.start, range.len());
            // SAFETY: the target has no name yet: no other thread knows it. Of the source, valid
            // units are written by writers only, of which we are the only one, and dirty bytes
            // too: a fetch or fill of their unit leaves them alone.
            unsafe {
                let arena = &self.own.pages.arena;
                arena.fill(frame, start, arena.bytes(pin.frame, start, length));
            }
        }
    }
}
