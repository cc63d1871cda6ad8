//! Reads of a range: of each page a hit, or a miss for as much as is missing (`miss.rs`).
//!
//! **The hit**: bytes that are in memory already, found and copied or pinned. Everything a cached
//! read costs is here and in [`crate::table::page_table`]: a lookup, a pin, at most one copy, a
//! look at the heat. A hit takes no memory and no lock, and waits for one thing only: a writer that
//! is at work in the same page, for as long as it copies its bytes. The first touch of what
//! read-ahead has fetched is noted with its policy, and that takes a lock.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pagewell_counters::names::{CACHE_HITS, CACHE_PINS_REFUSED, COPIED_BYTES};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::eviction::FrameIndex;
use pagewell_policy::readahead::AccessKind;

use crate::dirty::set::DirtySet;
use crate::io_queue::IoQueue;
use crate::page::{PAGE, Part, first_part};
use crate::residency::objects::Streams;
use crate::residency::pages::Pages;
use crate::residency::pins::{OwnPages, PagePin, PinLease, PinnedPage};
use crate::table::lines::{AHEAD, FULL, MARKER, STREAM, State};
use crate::table::page_table::{Pinned, SlotIndex};
use crate::{Error, ReadMode, Result};

/// Reads of one object: hits, misses (`miss.rs`), for which units are claimed and fetched
/// (`claim.rs`), and the same of what will be wanted (`prefetch.rs`).
pub(crate) struct Reader {
    /// Those of `own`: a hit follows one pointer less.
    pub(crate) pages: Arc<Pages>,
    pub(crate) own: Arc<OwnPages>,
    pub(crate) queue: Arc<IoQueue>,
    pub(crate) dirty: Arc<DirtySet>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) timeout: Duration,
    /// A second miss in a page fetches the rest of it; so does the first one of a file's first
    /// byte.
    pub(crate) widens: bool,
    /// Of what a stream has left behind memory is given back.
    pub(crate) drops_behind: bool,
    pub(crate) rotational: bool,
}

/// One read, however many parts it is made in.
pub(crate) struct Reading {
    pub(crate) mode: ReadMode,
    /// When the policy of read-ahead was told of its first part: it takes parts with the same time
    /// for one access.
    pub(crate) told: OnceCell<Duration>,
}

impl Reading {
    pub(crate) fn new(mode: ReadMode) -> Self {
        let told = OnceCell::new();
        Self { mode, told }
    }
}

impl Reader {
    /// Refuses a range that is not inside.
    pub(crate) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.own.layout.length_bytes()) {
            return Ok(());
        }
        let device = self.queue.store.name();
        Err(DeviceError::past_end(device, offset, length).into())
    }

    /// Fills `target`; `waited` becomes true if anything was not in memory.
    pub(crate) fn read(
        self: &Arc<Self>,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        self.check(offset, target.len())?;
        let reading = Reading::new(mode);
        let mut rest = offset..offset + target.len() as u64;
        let (mut done, mut hits) = (0, 0);
        while !rest.is_empty() {
            let part = first_part(&rest);
            if let Some(pinned) = self.pin_to_copy(&part, &reading) {
                target[done..done + pinned.len()].copy_from_slice(&pinned);
                hits += 1;
                done += pinned.len();
                rest.start += part.length;
                continue;
            }
            let (pins, has_missed) = self.obtain(&rest, &reading)?;
            *waited |= has_missed;
            for pin in pins {
                let part = first_part(&rest);
                let (start, length) = (part.range().start, part.range().len());
                // SAFETY: a miss gives pages with the bytes that it was asked for.
                let bytes = unsafe { pin.bytes(start, length) };
                target[done..done + length].copy_from_slice(bytes);
                done += length;
                rest.start += part.length;
            }
        }
        CACHE_HITS.add(hits);
        COPIED_BYTES.add(target.len() as u64);
        Ok(())
    }

    /// Pins the bytes from `offset` to the end of their page, at most `length` and at least one.
    pub(crate) fn pin(
        self: &Arc<Self>,
        offset: u64,
        length: usize,
        mode: ReadMode,
    ) -> Result<PinnedPage<'_>> {
        // At least one byte: there is no page for none.
        let length = length.max(1);
        self.check(offset, length)?;
        let reading = Reading::new(mode);
        let part = first_part(&(offset..offset + length as u64));
        if let Some(pinned) = self.pin_hit(&part, &reading) {
            CACHE_HITS.add(1);
            return Ok(pinned);
        }
        let (pins, _) = self.obtain(&(offset..offset + part.length), &reading)?;
        let Some(pin) = pins.first() else {
            return Err(Error::WouldBlock);
        };
        let pages = &self.pages;
        pages.table.pin_again(pin.slot);
        Ok(PinnedPage::new(pages, pin.slot, pin.frame, &part))
    }

    /// Pins the bytes from `offset`, page by page; `waited` becomes true if anything was not in
    /// memory. `None` when too many pages are pinned already, or when not all of these have a frame
    /// at the same time.
    pub(crate) fn pin_all(
        self: &Arc<Self>,
        offset: u64,
        length: usize,
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Option<Vec<PagePin>>> {
        self.check(offset, length)?;
        let range = offset..offset + length as u64;
        let count = range.end.div_ceil(PAGE) - offset / PAGE;
        let Some(lease) = PinLease::take(&self.own, count) else {
            CACHE_PINS_REFUSED.add(1);
            return Ok(None);
        };
        #[allow(clippy::cast_possible_truncation)] // fewer than bytes
        let mut pinned = Vec::with_capacity(count as usize);
        match self.pin_each(range, &Reading::new(mode), &lease, &mut pinned, waited) {
            Ok(()) => Ok(Some(pinned)),
            Err(Error::Memory { .. }) => {
                CACHE_PINS_REFUSED.add(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn pin_each(
        self: &Arc<Self>,
        mut rest: Range<u64>,
        reading: &Reading,
        lease: &Arc<PinLease>,
        pinned: &mut Vec<PagePin>,
        waited: &mut bool,
    ) -> Result<()> {
        while !rest.is_empty() {
            let part = first_part(&rest);
            if let Some(page) = self.pin_kept(&part, reading) {
                CACHE_HITS.add(1);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, page, &part));
                continue;
            }
            let (pins, has_missed) = self.obtain(&rest, reading)?;
            *waited |= has_missed;
            for pin in pins {
                let part = first_part(&rest);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, pin.again_kept(), &part));
            }
        }
        Ok(())
    }

    /// The hit: pins bytes of a page that are there.
    fn pin_hit(self: &Arc<Self>, part: &Part, reading: &Reading) -> Option<PinnedPage<'_>> {
        let found = self.pages.find(self.own.layout.key(part.page))?;
        self.accept(found.slot, found.state, part, reading)
    }

    /// [`Self::pin_hit`] for a reader that will read all the bytes at once: asks the processor for
    /// them before the page is found, by a guess, or else before it is pinned.
    #[inline]
    fn pin_to_copy(self: &Arc<Self>, part: &Part, reading: &Reading) -> Option<PinnedPage<'_>> {
        let prefetch = |frame| self.pages.arena.prefetch(frame, part.range());
        let key = self.own.layout.key(part.page);
        let guess = self.pages.locality.guess(key);
        guess.into_iter().for_each(prefetch);
        let hint = |state: State| match state.frame() {
            frame if guess == Some(frame) => {}
            frame => prefetch(frame),
        };
        let Pinned::Yes(slot, state) = self.pages.table.pin_with_hint(key, hint) else {
            return None;
        };
        self.accept(slot, state, part, reading)
    }

    /// [`Self::pin_hit`] for longer than this call: the pin is to be let go of by what gets this.
    fn pin_kept(
        self: &Arc<Self>,
        part: &Part,
        reading: &Reading,
    ) -> Option<(SlotIndex, FrameIndex)> {
        let pinned = self.pin_hit(part, reading)?;
        let page = (pinned.slot, pinned.frame);
        std::mem::forget(pinned);
        Some(page)
    }

    /// Takes a pinned page if the bytes are there, else lets go of it.
    #[inline]
    fn accept(
        self: &Arc<Self>,
        slot: SlotIndex,
        state: State,
        part: &Part,
        reading: &Reading,
    ) -> Option<PinnedPage<'_>> {
        let pinned = PinnedPage::new(&self.pages, slot, state.frame(), part);
        if state.0 & (FULL | AHEAD | MARKER) != FULL {
            let units = self.own.layout.units_of(part);
            if !state.has(FULL) && self.pages.valid(state.frame()) & units != units {
                return None;
            }
            let is_marked = state.0 & (AHEAD | MARKER) != 0;
            if is_marked && self.touch(slot, part.page) {
                let Extent { offset, length } = part.extent();
                self.note(offset, length, AccessKind::Marker, reading);
            }
        }
        // Of a page that came by a stream only those that read its first byte again are heat: one
        // pass in small steps is none.
        if !state.has(STREAM) || part.start == 0 && !state.has(AHEAD) {
            self.pages.table.warm(slot, state);
        }
        Some(pinned)
    }
}
