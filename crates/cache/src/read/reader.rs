//! Reads of a range: of each page a hit, or a miss for as much as is missing.

use std::ops::Range;
use std::sync::Arc;

use pagewell_counters::names::{CACHE_HITS, CACHE_PINS_REFUSED, COPIED_BYTES};
use pagewell_device::Error as DeviceError;

use crate::io_queue::IoQueue;
use crate::page::{PAGE, first_part};
use crate::read::hit::Hits;
use crate::read::miss::Misses;
use crate::read::pinned::{PagePin, PinBudget, PinLease, PinnedPage};
use crate::read::prefetch::Prefetcher;
use crate::residency::own_pages::OwnPages;
use crate::{Error, PAGE_BYTES, ReadMode, Result};

/// Bytes obtained for one reader at a time.
const OBTAINED_BYTES_MAX: u64 = 1 << 20;

/// Reads of one device.
pub(crate) struct Reader {
    pub(crate) hits: Hits,
    pub(crate) misses: Misses,
    pub(crate) own: Arc<OwnPages>,
    pub(crate) queue: Arc<IoQueue>,
    pub(crate) prefetcher: Arc<Prefetcher>,
    pub(crate) pins: Arc<PinBudget>,
}

impl Reader {
    /// Refuses a range that is not inside.
    pub(crate) fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.hits.layout.length_bytes) {
            return Ok(());
        }
        Err(Error::Device(DeviceError::PastEnd {
            device: self.queue.name(),
            offset,
            length,
        }))
    }

    /// Fills `target`; `waited` becomes true if anything was not in memory.
    pub(crate) fn read(
        &self,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        self.check(offset, target.len())?;
        let (mut done, mut hits) = (0, 0);
        while done < target.len() {
            let at = offset + done as u64;
            let (page, start) = (at / PAGE, at % PAGE);
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let count = (target.len() - done).min((PAGE - start) as usize);
            if let Some(pinned) = self.hits.pin_to_copy(page, start, count, &mode) {
                target[done..done + count].copy_from_slice(&pinned);
                hits += 1;
                done += count;
                continue;
            }
            let rest = (target.len() - done) as u64;
            let (pins, has_missed) = self.misses.obtain(at, self.portion(at, rest), mode)?;
            *waited |= has_missed;
            let mut pins = pins.into_iter();
            // The first piece ends at a page's end; the others are whole but for the last.
            while done < target.len()
                && let Some(pin) = pins.next()
            {
                #[allow(clippy::cast_possible_truncation)] // at most a page
                let start = ((offset + done as u64) % PAGE) as usize;
                let count = (target.len() - done).min(PAGE_BYTES - start);
                // SAFETY: a miss gives pages with the bytes that it was asked for.
                let bytes = unsafe { pin.bytes(start, count) };
                target[done..done + count].copy_from_slice(bytes);
                done += count;
            }
        }
        CACHE_HITS.add(hits);
        COPIED_BYTES.add(target.len() as u64);
        Ok(())
    }

    /// How much of `rest` bytes from `at` is obtained at a time: all of it, or so much that it
    /// ends with a page. Of the last page obtained nothing else than what was asked for is there.
    fn portion(&self, at: u64, rest: u64) -> u64 {
        let share = u64::from(self.own.pages.arena.frames()) * PAGE / 8;
        let most = OBTAINED_BYTES_MAX.min(share);
        if rest <= most {
            return rest;
        }
        most - (at + most) % PAGE
    }

    /// Has all bytes of a range brought into memory.
    pub(crate) fn bring(&self, offset: u64, length: u64) -> Result<()> {
        self.misses.obtain(offset, length, ReadMode::WAIT)?;
        Ok(())
    }

    /// Pins the bytes from `offset` to the end of their page, at most `length` and at least one.
    pub(crate) fn pin(&self, offset: u64, length: usize, mode: ReadMode) -> Result<PinnedPage<'_>> {
        // At least one byte: there is no page for none.
        let length = length.max(1);
        self.check(offset, length)?;
        let (page, start) = (offset / PAGE, offset % PAGE);
        #[allow(clippy::cast_possible_truncation)] // at most a page
        let count = length.min((PAGE - start) as usize);
        if let Some(pinned) = self.hits.pin(page, start, count, &mode) {
            CACHE_HITS.add(1);
            return Ok(pinned);
        }
        let (pins, _) = self.misses.obtain(offset, count as u64, mode)?;
        let Some(pin) = pins.first() else {
            return Err(Error::WouldBlock);
        };
        let pages = &self.own.pages;
        pages.table.pin_again(pin.slot);
        Ok(PinnedPage::new(pages, pin.slot, pin.frame, (start, count)))
    }

    /// Pins the bytes from `offset`, page by page; `waited` becomes true if anything was not in
    /// memory. `None` when too many pages are pinned already, or when not all of these have a frame
    /// at the same time.
    pub(crate) fn pin_all(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Option<Vec<PagePin>>> {
        self.check(offset, length)?;
        let range = offset..offset + length as u64;
        #[allow(clippy::cast_possible_truncation)] // fewer than bytes
        let count = (range.end.div_ceil(PAGE) - offset / PAGE) as usize;
        let Some(lease) = PinLease::take(&self.own, &self.pins, count) else {
            CACHE_PINS_REFUSED.add(1);
            return Ok(None);
        };
        let mut pinned = Vec::with_capacity(count);
        match self.pin_each(range, mode, &lease, &mut pinned, waited) {
            Ok(()) => Ok(Some(pinned)),
            Err(Error::Memory { .. }) => {
                CACHE_PINS_REFUSED.add(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn pin_each(
        &self,
        mut rest: Range<u64>,
        mode: ReadMode,
        lease: &Arc<PinLease>,
        pinned: &mut Vec<PagePin>,
        waited: &mut bool,
    ) -> Result<()> {
        while !rest.is_empty() {
            let part = first_part(&rest);
            if let Some(page) = self.hits.pin_kept(&part, &mode) {
                CACHE_HITS.add(1);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, page, &part));
                continue;
            }
            let portion = self.portion(rest.start, rest.end - rest.start);
            let (pins, has_missed) = self.misses.obtain(rest.start, portion, mode)?;
            *waited |= has_missed;
            for pin in pins {
                let part = first_part(&rest);
                rest.start += part.length;
                pinned.push(PagePin::new(lease, pin.again_kept(), &part));
            }
        }
        Ok(())
    }
}
