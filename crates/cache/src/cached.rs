//! A device seen through the cache.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell_counters::names::{CACHE_HITS, CACHE_LENDING_REFUSED, CACHE_LENT_PAGES, COPIED_BYTES};
use pagewell_device::{Device, Error as DeviceError, Issuer};
use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};
use pagewell_policy::readahead::{AccessKind, Counts, Plan};

use crate::core::{Core, Page};
use crate::object::{CHUNK_BYTES, Held, Object};
use crate::state::{AHEAD, FULL, MARKER, PIN, STREAM, State};
use crate::sync::lock;
use crate::table::{Pinned, SlotIndex};
use crate::{Error, PAGE_BYTES, Result};

const PAGE: u64 = PAGE_BYTES as u64;
/// Pages fetched for one reader at a time.
const OBTAINED_BYTES_MAX: u64 = 1 << 20;

/// How to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMode {
    /// Whether to wait for the device; else what is not in memory gives [`Error::WouldBlock`],
    /// and is fetched meanwhile.
    pub may_block: bool,
    /// Who asks: a reader, or the structure of a file system.
    pub issuer: Issuer,
}

impl ReadMode {
    /// A reader that waits.
    pub const WAIT: Self = Self {
        may_block: true,
        issuer: Issuer::Reader,
    };
    /// A reader that does not.
    pub const TRY: Self = Self {
        may_block: false,
        issuer: Issuer::Reader,
    };
}

/// A device seen through the cache. Cloning shares it; when the last clone and all that was lent
/// are gone, its pages are.
#[derive(Clone)]
pub struct CachedDevice {
    object: Arc<Object>,
}

/// Bytes of one page, lent for as long as this lives and only to be read.
pub struct PinnedPage<'a> {
    core: &'a Core,
    slot: SlotIndex,
    frame: FrameIndex,
    start: u32,
    length: u32,
}

impl<'a> PinnedPage<'a> {
    /// Some bytes of a pinned page: where they begin, and how many.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // inside a page
    fn new(
        core: &'a Core,
        slot: SlotIndex,
        frame: FrameIndex,
        (start, length): (u64, usize),
    ) -> Self {
        debug_assert!(start as usize + length <= PAGE_BYTES);
        Self {
            core,
            slot,
            frame,
            start: start as u32,
            length: length as u32,
        }
    }
}

impl std::ops::Deref for PinnedPage<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let address = self.core.arena.address(self.frame);
        // SAFETY: inside a page that is pinned, so it stays; these bytes have been fetched, so
        // nobody writes to them.
        unsafe {
            std::slice::from_raw_parts(
                address.as_ptr().add(self.start as usize),
                self.length as usize,
            )
        }
    }
}

impl Drop for PinnedPage<'_> {
    fn drop(&mut self) {
        self.core.table.unpin(self.slot);
    }
}

/// Bytes of one page, lent for as long as this lives, anywhere.
pub struct LentPage {
    held: Held,
    core: Arc<Core>,
    start: usize,
    length: usize,
}

impl AsRef<[u8]> for LentPage {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes were there when the page was lent, and stay while it is held.
        unsafe { self.held.bytes(self.start, self.length) }
    }
}

impl Drop for LentPage {
    fn drop(&mut self) {
        self.core.lent_pages.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CachedDevice {
    pub(crate) fn new(core: Arc<Core>, device: Arc<dyn Device>) -> Self {
        // Preparing memory takes it, so that is only done where it was to be taken at once.
        if core.options.populate {
            device.register_memory(&core.arena.memory());
        }
        Self {
            object: Object::new(core, device),
        }
    }

    /// [`Device::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.object.queue.device().name()
    }

    /// [`Device::length_bytes`].
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.object.length_bytes
    }

    /// The device itself.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        self.object.queue.device()
    }

    /// What its read-ahead policy has seen and done.
    #[must_use]
    pub fn read_ahead_counts(&self) -> Counts {
        lock(&self.object.streams).counts()
    }

    /// Pages of this device in memory, and how many of them wholly.
    #[must_use]
    pub fn resident_pages(&self) -> (u64, u64) {
        self.object.core.residency(self.object.number)
    }

    /// Fills `target` with the bytes from `offset`: all of it, or an error and `target` holds
    /// anything. One copy, from the page.
    pub fn read_at(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        self.object.check(offset, target.len())?;
        let (mut done, mut hits) = (0, 0);
        while done < target.len() {
            let at = offset + done as u64;
            let (page, start) = (at / PAGE, at % PAGE);
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let mut count = (target.len() - done).min((PAGE - start) as usize);
            if self.object.stepwise {
                count = count.min((self.object.step_bytes - at % self.object.step_bytes) as usize);
                self.step(at, &mut target[done..done + count], mode)?;
                done += count;
                continue;
            }
            if let Some(pinned) = self.object.pin_to_copy(page, start, count) {
                self.object.copy(&pinned, &mut target[done..done + count])?;
                hits += 1;
                done += count;
                continue;
            }
            let rest = (target.len() - done) as u64;
            let mut pages = self
                .object
                .obtain(at, self.portion(at, rest), mode)?
                .into_iter();
            // The first piece ends at a page's end; the others are whole but for the last.
            while done < target.len()
                && let Some(held) = pages.next()
            {
                let start = (offset + done as u64) % PAGE;
                #[allow(clippy::cast_possible_truncation)] // at most a page
                let count = (target.len() - done).min((PAGE - start) as usize);
                self.object
                    .copy_held(&held, start, &mut target[done..done + count])?;
                done += count;
            }
        }
        CACHE_HITS.add(hits);
        COPIED_BYTES.add(target.len() as u64);
        Ok(())
    }

    /// One read within a window of 8 KiB, page of the processor by page, as HSFS made them: the
    /// policy may want to hear of each. The first page that is missing brings the others along.
    fn step(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        let object = &self.object;
        let end = offset + target.len() as u64;
        let (mut at, mut rest) = (offset, target);
        while at < end {
            let chunk = at - at % CHUNK_BYTES;
            let until = (chunk + CHUNK_BYTES).min(end);
            #[allow(clippy::cast_possible_truncation)] // at most a chunk
            let (piece, later) = rest.split_at_mut((until - at) as usize);
            let kind = match object.pin_ready(at / PAGE, at % PAGE, piece.len()) {
                Some(pinned) => {
                    object.copy(&pinned, piece)?;
                    CACHE_HITS.add(1);
                    AccessKind::Hit
                }
                None => {
                    let wanted = end.next_multiple_of(CHUNK_BYTES).min(object.length_bytes);
                    let (pages, kind) = object.obtain_as(chunk, wanted - chunk, mode)?;
                    if let Some(held) = pages.first() {
                        object.copy_held(held, at % PAGE, piece)?;
                    }
                    // A page that is on its way is late, not gone.
                    kind
                }
            };
            // A page is told once: when its end was reached, as sequential readers do.
            let is_told = until == chunk + CHUNK_BYTES || until == object.length_bytes;
            if object.wants_hits && is_told {
                object.tell(chunk, until - chunk, kind);
            }
            (at, rest) = (until, later);
        }
        Ok(())
    }

    /// How much of `rest` bytes from `at` is fetched at a time: all of it, or so much that it
    /// ends with a page. Of the last page obtained nothing else than what was asked for is there.
    fn portion(&self, at: u64, rest: u64) -> u64 {
        let share = u64::from(self.object.core.arena.frames()) * PAGE / 8;
        let most = OBTAINED_BYTES_MAX.min(share);
        if rest <= most {
            return rest;
        }
        most - (at + most) % PAGE
    }

    /// Lends the bytes from `offset` to the end of their page, at most `length` and at least one,
    /// without a copy and without taking memory.
    pub fn pin(&self, offset: u64, length: usize, mode: ReadMode) -> Result<PinnedPage<'_>> {
        // At least one byte: there is no page for none.
        let length = length.max(1);
        self.object.check(offset, length)?;
        let (page, start) = (offset / PAGE, offset % PAGE);
        #[allow(clippy::cast_possible_truncation)] // at most a page
        let count = length.min((PAGE - start) as usize);
        if let Some(pinned) = self.object.pin_ready(page, start, count) {
            CACHE_HITS.add(1);
            return Ok(pinned);
        }
        let obtained = self.object.obtain(offset, count as u64, mode)?;
        let Some(held) = obtained.first() else {
            return Err(Error::WouldBlock);
        };
        self.object.core.table.pin_again(held.slot);
        Ok(PinnedPage::new(
            &self.object.core,
            held.slot,
            held.frame,
            (start, count),
        ))
    }

    /// Lends the bytes from `offset`, page by page and in order. `None` when too many pages are
    /// lent already, or when not all of them have a place at the same time: copy then.
    pub fn lend(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
    ) -> Result<Option<Vec<LentPage>>> {
        self.object.check(offset, length)?;
        let end = offset + length as u64;
        let core = &self.object.core;
        let first = offset / PAGE;
        #[allow(clippy::cast_possible_truncation)] // fewer than bytes
        let count = (end.div_ceil(PAGE) - first) as usize;
        if core.windows.is_some() || !self.reserve_lent(count) {
            CACHE_LENDING_REFUSED.add(1);
            return Ok(None);
        }
        let mut lent = Vec::with_capacity(count);
        let result = self.lend_pages(offset, end, mode, &mut lent);
        // Those that were not lent after all.
        core.lent_pages
            .fetch_sub(count - lent.len(), Ordering::Relaxed);
        match result {
            Ok(()) => {
                CACHE_LENT_PAGES.add(count as u64);
                Ok(Some(lent))
            }
            Err(Error::Memory { .. }) => {
                CACHE_LENDING_REFUSED.add(1);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// At most half of all pages are lent at a time: the rest is for those who read.
    fn reserve_lent(&self, count: usize) -> bool {
        let core = &self.object.core;
        let most = core.arena.frames() as usize / 2;
        let before = core.lent_pages.fetch_add(count, Ordering::Relaxed);
        if before + count <= most {
            return true;
        }
        core.lent_pages.fetch_sub(count, Ordering::Relaxed);
        false
    }

    fn lend_pages(
        &self,
        offset: u64,
        end: u64,
        mode: ReadMode,
        lent: &mut Vec<LentPage>,
    ) -> Result<()> {
        let mut at = offset;
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let count = (end - at).min(PAGE - start) as usize;
            if let Some(pinned) = self.object.pin_ready(page, start, count) {
                CACHE_HITS.add(1);
                let page = Page {
                    slot: pinned.slot,
                    frame: pinned.frame,
                    state: State(0),
                };
                // Its pin goes on as the hold.
                std::mem::forget(pinned);
                self.push_lent(self.object.hold(page), at, end, lent);
                at += count as u64;
                continue;
            }
            let portion = self.portion(at, end - at);
            for held in self.object.obtain(at, portion, mode)? {
                at = self.push_lent(held, at, end, lent);
            }
        }
        Ok(())
    }

    fn push_lent(&self, held: Held, at: u64, end: u64, lent: &mut Vec<LentPage>) -> u64 {
        let start = at % PAGE;
        let length = (end - at).min(PAGE - start);
        #[allow(clippy::cast_possible_truncation)] // inside a page
        lent.push(LentPage {
            held,
            core: self.object.core.clone(),
            start: start as usize,
            length: length as usize,
        });
        at + length
    }

    /// Begins to fetch a range that will be wanted, as far as memory allows.
    pub fn prefetch(&self, offset: u64, length: u64) {
        let length = length.min(self.object.core.ahead_budget_bytes());
        let end = offset.saturating_add(length).min(self.object.length_bytes);
        if offset < end {
            self.object.run_plan(Plan {
                fetch: std::iter::once(offset..end).collect(),
                ..Plan::default()
            });
        }
    }
}

impl Object {
    /// The hit: pins bytes of a page that are there.
    fn pin_ready(self: &Arc<Self>, page: u64, start: u64, length: usize) -> Option<PinnedPage<'_>> {
        let Pinned::Yes(slot, state) = self.core.table.pin(self.key(page)) else {
            return None;
        };
        self.accept_ready(slot, state, (page, start, length))
    }

    /// [`Self::pin_ready`] for who will read all the bytes at once.
    #[inline]
    fn pin_to_copy(
        self: &Arc<Self>,
        page: u64,
        start: u64,
        length: usize,
    ) -> Option<PinnedPage<'_>> {
        let arena = &self.core.arena;
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let hint = |state: State| arena.prefetch(state.frame(), start as usize, length);
        let Pinned::Yes(slot, state) = self.core.table.pin_with_hint(self.key(page), hint) else {
            return None;
        };
        self.accept_ready(slot, state, (page, start, length))
    }

    /// Takes a pinned page if the bytes are there, else lets go of it.
    #[inline]
    fn accept_ready(
        self: &Arc<Self>,
        slot: SlotIndex,
        state: State,
        (page, start, length): (u64, u64, usize),
    ) -> Option<PinnedPage<'_>> {
        let pinned = PinnedPage::new(&self.core, slot, state.frame(), (start, length));
        if state.0 & (FULL | AHEAD | MARKER) != FULL {
            let units = self.units(start, length as u64);
            if !state.has(FULL) && self.core.valid(state.frame()) & units != units {
                return None;
            }
            if state.0 & (AHEAD | MARKER) != 0 && self.touch(slot, page) && !self.wants_hits {
                self.tell(page * PAGE + start, length as u64, AccessKind::Marker);
            }
        }
        self.warm(slot, state, start);
        Some(pinned)
    }

    /// Counts a hit for eviction: each one, but of a page that came by a stream only those that
    /// read its first byte again, so that one pass in small steps is not heat.
    #[inline]
    fn warm(&self, slot: SlotIndex, state: State, start: u64) {
        let heat = state.heat();
        if heat >= HEAT_MAX || state.has(STREAM) && (start != 0 || state.has(AHEAD)) {
            return;
        }
        // With our own pin.
        self.core.table.heat(slot, State(state.0 + PIN), heat + 1);
    }

    /// Copies all of what is pinned.
    fn copy(&self, pinned: &PinnedPage<'_>, target: &mut [u8]) -> Result<()> {
        self.copy_by(pinned.frame, pinned.start as usize, target, || pinned)
    }

    /// Copies bytes that have been fetched out of a page that is held.
    #[allow(clippy::cast_possible_truncation)] // inside a page
    fn copy_held(&self, held: &Held, start: u64, target: &mut [u8]) -> Result<()> {
        let (start, length) = (start as usize, target.len());
        // SAFETY: `obtain` gives pages with the bytes that it was asked for.
        self.copy_by(held.frame, start, target, || unsafe {
            held.bytes(start, length)
        })
    }

    /// Copies from where the bytes are, or through a window when that is the mode.
    #[inline]
    fn copy_by<'a>(
        &self,
        frame: FrameIndex,
        start: usize,
        target: &mut [u8],
        source: impl FnOnce() -> &'a [u8],
    ) -> Result<()> {
        match (&self.core.windows, self.core.arena.file()) {
            (Some(windows), Some(file)) => windows
                .copy(file, frame, start, target)
                .map_err(|errno| self.window_failed(errno)),
            _ => {
                target.copy_from_slice(source());
                Ok(())
            }
        }
    }

    fn window_failed(&self, errno: rustix::io::Errno) -> Error {
        Error::Device(DeviceError::Failed {
            device: format!("window of {}", self.queue.device().name()),
            offset: 0,
            errno,
        })
    }
}
