//! A device seen through the cache.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell_counters::names::{CACHE_HITS, CACHE_LENDING_REFUSED, CACHE_LENT_PAGES, COPIED_BYTES};
use pagewell_device::{Device, Issuer};
use pagewell_policy::readahead::{AccessKind, Bounds, Counts, Plan};

use crate::object::{CHUNK_BYTES, Held, Object};
use crate::page::PAGE;
use crate::read::pinned::{LentPage, PinnedPage};
use crate::residency::pages::{Core, Page};
use crate::table::state::State;
use crate::writeback::commit::Users;
use crate::{Error, OpenOptions, Result};

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
    /// Where the file lies that is read, on the device: read-ahead stays inside until a reader goes
    /// on into what follows. `None` where nothing is known.
    pub bounds: Option<Bounds>,
}

impl ReadMode {
    /// A reader that waits.
    pub const WAIT: Self = Self {
        may_block: true,
        issuer: Issuer::Reader,
        bounds: None,
    };
    /// A reader that does not.
    pub const TRY: Self = Self {
        may_block: false,
        issuer: Issuer::Reader,
        bounds: None,
    };
}

/// A device seen through the cache. Cloning shares it; when the last clone and all that was lent
/// are gone, its pages are. When the last clone goes, what was written and is not durable is
/// [committed](Self::commit), which may wait.
#[derive(Clone)]
pub struct CachedDevice {
    pub(crate) object: Arc<Object>,
    _users: Arc<Users>,
}

impl CachedDevice {
    pub(crate) fn new(core: Arc<Core>, device: Arc<dyn Device>, options: OpenOptions) -> Self {
        // Preparing memory takes it, so that is only done where it was to be taken at once.
        if core.options.populate_bytes >= core.options.size_bytes {
            device.register_memory(&core.arena.memory());
        }
        let object = Object::new(core, device, options);
        Self {
            _users: Arc::new(Users(object.clone())),
            object,
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
        self.object.streams.lock().counts()
    }

    /// Pages of this device in memory, and how many of them wholly.
    #[must_use]
    pub fn resident_pages(&self) -> (u64, u64) {
        self.object.core.residency(self.object.number)
    }

    /// Fills `target` with the bytes from `offset`: all of it, or an error and `target` holds
    /// anything. One copy, from the page.
    pub fn read_at(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        self.read_noting(offset, target, mode, &mut false)
    }

    /// [`Self::read_at`]; `waited` becomes true if anything was not in memory.
    pub fn read_noting(
        &self,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        self.object.check(offset, target.len())?;
        let (mut done, mut hits) = (0, 0);
        while done < target.len() {
            let at = offset + done as u64;
            let (page, start) = (at / PAGE, at % PAGE);
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let mut count = (target.len() - done).min((PAGE - start) as usize);
            if self.object.stepwise {
                count = count.min((self.object.step_bytes - at % self.object.step_bytes) as usize);
                self.step(at, &mut target[done..done + count], mode, waited)?;
                done += count;
                continue;
            }
            if let Some(pinned) = self.object.pin_to_copy(page, start, count, &mode) {
                self.object.copy(&pinned, &mut target[done..done + count])?;
                hits += 1;
                done += count;
                continue;
            }
            let rest = (target.len() - done) as u64;
            let portion = self.portion(at, rest);
            let (pages, found) = self.object.obtain_as(at, portion, mode)?;
            *waited |= found.is_missing();
            let mut pages = pages.into_iter();
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
    fn step(
        &self,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        let object = &self.object;
        let end = offset + target.len() as u64;
        let (mut at, mut rest) = (offset, target);
        while at < end {
            let chunk = at - at % CHUNK_BYTES;
            let until = (chunk + CHUNK_BYTES).min(end);
            #[allow(clippy::cast_possible_truncation)] // at most a chunk
            let (piece, later) = rest.split_at_mut((until - at) as usize);
            let kind = match object.pin_ready(at / PAGE, at % PAGE, piece.len(), &mode) {
                Some(pinned) => {
                    object.copy(&pinned, piece)?;
                    CACHE_HITS.add(1);
                    AccessKind::Hit
                }
                None => {
                    let wanted = end.next_multiple_of(CHUNK_BYTES).min(object.length_bytes);
                    let (pages, kind) = object.obtain_as(chunk, wanted - chunk, mode)?;
                    *waited |= kind.is_missing();
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
                object.tell(chunk, until - chunk, kind, mode.bounds);
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
        if let Some(pinned) = self.object.pin_ready(page, start, count, &mode) {
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
        self.lend_noting(offset, length, mode, &mut false)
    }

    /// [`Self::lend`]; `waited` becomes true if anything was not in memory.
    pub fn lend_noting(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
        waited: &mut bool,
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
        let result = self.lend_pages(offset..end, mode, &mut lent, waited);
        // Those that were not lent after all.
        core.lent_pages
            .fetch_sub(count - lent.len(), Ordering::Relaxed);
        CACHE_LENT_PAGES.add(lent.len() as u64);
        match result {
            Ok(()) => Ok(Some(lent)),
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
        range: Range<u64>,
        mode: ReadMode,
        lent: &mut Vec<LentPage>,
        waited: &mut bool,
    ) -> Result<()> {
        let (mut at, end) = (range.start, range.end);
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            #[allow(clippy::cast_possible_truncation)] // at most a page
            let count = (end - at).min(PAGE - start) as usize;
            if let Some(pinned) = self.object.pin_ready(page, start, count, &mode) {
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
            let (pages, found) = self.object.obtain_as(at, portion, mode)?;
            *waited |= found.is_missing();
            for held in pages {
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
