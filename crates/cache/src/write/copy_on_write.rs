//! Being alone in a page, so that bytes that readers may use can be changed.
//!
//! **Problem.** A page is lent: sockets, payloads and slices hold its bytes for as long as they
//! like, and nothing they hold may change. A writer may not wait for them either: one slow
//! receiver would stop every writer of the page.
//!
//! **Rule.** The writer has the lock of the page's name, so he is the only writer of it, and sets
//! [`WRITING`], so that nobody new gets a pin. Those who have one are waited for a moment: most
//! only copy. If they stay, the page is *detached*: its bytes go to a new place, which takes the
//! name; the old place stays with those who hold it, and is free when the last of them lets go.
//!
//! ```text
//!   alone:     name ──> slot ──> place          written in place
//!
//!   detached:  name ──> slot' ──> place'        a copy, written in place
//!                       slot ──> place          as it was, for those who hold it
//! ```
//!
//! What is copied is what means something: the units that are valid, and the dirty bytes of the
//! others. A fetch on its way into the old place lands there and is lost. A reader who waits for
//! it there sees that the page has no name any more when he next claims, and starts again.
//!
//! **Weakness.** A page with a fetch on its way, or lent at the time of every write, is copied
//! each time: 64 KiB of memory traffic, counted.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use pagewell_counters::names::{CACHE_DETACHED_PAGES, CACHE_PAGES, CACHE_WRITE_MOMENTS};
use pagewell_policy::eviction::FrameIndex;

use crate::PAGE_BYTES;
use crate::object::{Held, Object};
use crate::page::{PAGE, Units, page_of};
use crate::residency::pages::{Core, Page};
use crate::sync::{Mutex, Ordering, relax};
use crate::table::page_table::SlotIndex;
use crate::table::state::{AHEAD, DETACHED, DIRTY, FULL, MARKER, PRESENT, State, WRITING};

/// Looks at the pins before the page is detached; the last few give the processor away, so that a
/// reader who lost it in the middle of a copy can end it.
const ROUNDS: u32 = 204;
/// What goes along with the name.
pub(crate) const MOVED: u64 = DIRTY | AHEAD | MARKER;

/// A page whose readable bytes this thread alone may touch until it is dropped.
pub(crate) struct Alone<'a> {
    core: &'a Core,
    slot: SlotIndex,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.core.table.clear(self.slot, WRITING);
    }
}

/// Places of detached pages that somebody held when last looked at.
#[derive(Default)]
pub(crate) struct Orphans {
    places: Mutex<Vec<(SlotIndex, FrameIndex)>>,
    count: AtomicUsize,
}

impl Core {
    /// Frees the places of detached pages that nobody holds any more.
    pub(crate) fn sweep(&self) {
        if self.orphans.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut places = self.orphans.places.lock();
        places.retain(|(slot, frame)| {
            let is_free = self.table.remove_detached(*slot, *frame);
            if is_free {
                CACHE_PAGES.add(-1);
                self.free.push(*frame);
            }
            !is_free
        });
        self.orphans.count.store(places.len(), Ordering::Relaxed);
    }

    /// Remembers a place without a name.
    pub(crate) fn orphan(&self, slot: SlotIndex, frame: FrameIndex) {
        let mut places = self.orphans.places.lock();
        places.push((slot, frame));
        self.orphans.count.store(places.len(), Ordering::Relaxed);
    }
}

impl Object {
    /// Makes this thread the only one who can touch the readable bytes of a page that it holds.
    /// `held` may become another place with the same bytes. `None` when others hold the page and
    /// there is no memory for a copy.
    ///
    /// The caller has the lock of the page's name, and `held` has that name.
    pub(crate) fn exclude<'a>(
        self: &'a Arc<Self>,
        held: &mut Held,
        page: u64,
    ) -> Option<Alone<'a>> {
        let (alone, is_alone) = self.try_alone(held);
        if is_alone {
            return Some(alone);
        }
        self.move_out(alone, held, page, Units::MAX)
    }

    /// Keeps everybody from getting a pin of a page that this thread holds.
    pub(crate) fn write_alone<'a>(self: &'a Arc<Self>, held: &Held) -> Alone<'a> {
        let core: &'a Core = &self.core;
        core.table.set(held.slot, WRITING);
        Alone {
            core,
            slot: held.slot,
        }
    }

    /// The same, and waits a moment for those who have one; whether they have let go.
    pub(crate) fn try_alone<'a>(self: &'a Arc<Self>, held: &Held) -> (Alone<'a>, bool) {
        let alone = self.write_alone(held);
        for round in 0..ROUNDS {
            // Ours is the only pin. A pin that came before WRITING would be counted; one that
            // comes after is taken back by who sees WRITING, before he touches the page.
            if self.core.table.state(held.slot).pins() == 1 {
                CACHE_WRITE_MOMENTS.add(u64::from(round > 0));
                return (alone, true);
            }
            relax(round);
        }
        (alone, false)
    }

    /// Gives the name of a page that is being written to a copy, which `held` becomes: of its
    /// valid units only the `kept` ones. `None` when there is no place for it.
    pub(crate) fn move_out<'a>(
        self: &'a Arc<Self>,
        alone: Alone<'a>,
        held: &mut Held,
        page: u64,
        kept: Units,
    ) -> Option<Alone<'a>> {
        let core: &'a Core = &self.core;
        let new = self.detach(held, page, kept)?;
        // The old place may be pinned again, by nobody new: it has no name.
        drop(alone);
        core.orphan(held.slot, held.frame);
        *held = self.hold(new);
        CACHE_DETACHED_PAGES.add(1);
        core.sweep();
        Some(Alone {
            core,
            slot: new.slot,
        })
    }

    /// Copies a page that is being written to a new place, which gets its name and is being
    /// written too.
    fn detach(self: &Arc<Self>, held: &Held, page: u64, kept: Units) -> Option<Page> {
        let core = &self.core;
        let frame = core.allocate()?;
        let key = self.key(page);
        let valid = core.valid(held.frame) & kept;
        self.copy_known(held, page, valid, frame);
        let slot = core.with_insertion(key, || {
            self.move_name(held, key, frame, valid).or_else(|| {
                core.make_room(key);
                self.move_name(held, key, frame, valid)
            })
        });
        let Some(slot) = slot else {
            core.free.push(frame);
            return None;
        };
        CACHE_PAGES.add(1);
        // The name is in the list once more than it was.
        core.unlist(key);
        core.exchange(held.frame, frame, key);
        let state = State::new(frame, 0);
        Some(Page { slot, frame, state })
    }

    /// Takes the name from a place and gives it to another, or changes nothing.
    fn move_name(
        &self,
        held: &Held,
        key: u64,
        frame: FrameIndex,
        valid: Units,
    ) -> Option<SlotIndex> {
        let core = &self.core;
        let _moving = core.moving();
        // A claim looks for the name under this lock: it comes before, and what it fetches is
        // lost with the old place, or sees that there is no name any more.
        let _claims = core.flights(held.frame);
        // Whoever takes DIRTY away has this lock while he looks for the page by its name: he finds
        // it before, or after, with the flag, and never in between without a name.
        let _writes = self.writes.lock();
        core.table.unname(held.slot);
        let before = core.table.clear(held.slot, MOVED);
        let mut flags = before.kept() & !(PRESENT | FULL | DETACHED);
        if valid == self.all_units(page_of(key)) {
            flags |= FULL;
        }
        let slot = core.insert(key, frame, flags, valid);
        if slot.is_none() {
            core.table.rename(held.slot);
            core.table.set(held.slot, before.0 & MOVED);
        }
        slot
    }

    /// Copies what means something.
    fn copy_known(&self, held: &Held, page: u64, valid: Units, frame: FrameIndex) {
        let (from, to) = (
            self.core.arena.address(held.frame),
            self.core.arena.address(frame),
        );
        let copy = |start: usize, length: usize| {
            assert!(start + length <= PAGE_BYTES);
            // SAFETY: both inside their pages, which differ. The target has no name yet: nobody
            // else knows it. Of the source, valid units are written by writers only, of whom we
            // are the only one, and dirty bytes too: a fetch or fill of their unit leaves them
            // alone.
            unsafe {
                let (from, to) = (from.add(start), to.add(start));
                std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), length);
            }
        };
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let unit_bytes = self.unit_bytes as usize;
        for unit in 0..PAGE_BYTES / unit_bytes {
            if valid >> unit & 1 == 1 {
                copy(unit * unit_bytes, unit_bytes);
            }
        }
        for range in self.dirty_inside(page, 0, PAGE) {
            copy(range.start, range.len());
        }
    }
}
