//! The hit: bytes that are in memory already, found and copied or lent.
//!
//! Everything a cached read costs is here and in [`crate::table::page_table`]: a lookup, a pin, at most one
//! copy, a look at the heat. Nothing here waits or takes memory.

use std::sync::Arc;

use pagewell_device::Error as DeviceError;
use pagewell_policy::eviction::{FrameIndex, HEAT_MAX};
use pagewell_policy::readahead::AccessKind;

use crate::object::{Held, Object};
use crate::page::PAGE;
use crate::read::pinned::PinnedPage;
use crate::table::page_table::{Pinned, SlotIndex};
use crate::table::state::{AHEAD, FULL, MARKER, PIN, STREAM, State};
use crate::{Error, ReadMode, Result};

impl Object {
    /// The hit: pins bytes of a page that are there.
    pub(crate) fn pin_ready(
        self: &Arc<Self>,
        page: u64,
        start: u64,
        length: usize,
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let Pinned::Yes(slot, state) = self.core.table.pin(self.key(page)) else {
            return None;
        };
        self.accept_ready(slot, state, (page, start, length), mode)
    }

    /// [`Self::pin_ready`] for who will read all the bytes at once: asks the processor for them
    /// before the page is found, by a guess, or else before it is pinned.
    #[inline]
    pub(crate) fn pin_to_copy(
        self: &Arc<Self>,
        page: u64,
        start: u64,
        length: usize,
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let arena = &self.core.arena;
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let prefetch = |frame| arena.prefetch(frame, start as usize, length);
        let key = self.key(page);
        let guess = self.core.guesses.guess(key);
        guess.into_iter().for_each(prefetch);
        let hint = |state: State| match state.frame() {
            frame if guess == Some(frame) => {}
            frame => prefetch(frame),
        };
        let Pinned::Yes(slot, state) = self.core.table.pin_with_hint(key, hint) else {
            return None;
        };
        self.accept_ready(slot, state, (page, start, length), mode)
    }

    /// Takes a pinned page if the bytes are there, else lets go of it.
    #[inline]
    fn accept_ready(
        self: &Arc<Self>,
        slot: SlotIndex,
        state: State,
        (page, start, length): (u64, u64, usize),
        mode: &ReadMode,
    ) -> Option<PinnedPage<'_>> {
        let pinned = PinnedPage::new(&self.core, slot, state.frame(), (start, length));
        if state.0 & (FULL | AHEAD | MARKER) != FULL {
            let units = self.units(start, length as u64);
            if !state.has(FULL) && self.core.valid(state.frame()) & units != units {
                return None;
            }
            if state.0 & (AHEAD | MARKER) != 0 && self.touch(slot, page) && !self.wants_hits {
                let offset = page * PAGE + start;
                self.tell(offset, length as u64, AccessKind::Marker, mode.bounds);
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
    pub(crate) fn copy(&self, pinned: &PinnedPage<'_>, target: &mut [u8]) -> Result<()> {
        self.copy_by(pinned.frame, pinned.start as usize, target, || pinned)
    }

    /// Copies bytes that have been fetched out of a page that is held.
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn copy_held(&self, held: &Held, start: u64, target: &mut [u8]) -> Result<()> {
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
