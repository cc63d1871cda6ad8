//! Objects and devices seen through the cache.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use pagewell_policy::elevator::Extent;
use pagewell_policy::readahead::Counts;

use crate::dirty::set::close_wait;
use crate::dirty::written::WrittenStore;
use crate::read::reader::Reader;
use crate::write::Writer;
use crate::{PagePin, PinnedPage, ReadMode, Result, WriteMode};

/// An object of a store seen through the cache. Cloning shares it; the last clone
/// [commits](Self::commit) what was written, which may wait. The pages go with it and the last pin.
#[derive(Clone)]
pub struct CachedObject {
    reader: Arc<Reader>,
    writer: Arc<Writer>,
}

/// A device seen through the cache: the only object of its store.
#[derive(Clone)]
pub struct CachedDevice {
    object: CachedObject,
}

impl Deref for CachedDevice {
    type Target = CachedObject;
    fn deref(&self) -> &CachedObject {
        &self.object
    }
}

/// Limit of dirty memory of a store.
#[derive(Clone)]
pub struct DirtyLimit(Arc<WrittenStore>);

impl DirtyLimit {
    pub(crate) fn new(store: Arc<WrittenStore>) -> Self {
        Self(store)
    }

    /// For all objects; writers above it wait. `None`: [`crate::OpenOptions::dirty_bytes_max`].
    pub fn set(&self, bytes_max: Option<u64>) {
        self.0.limit(bytes_max);
    }
}

impl CachedDevice {
    pub(crate) fn new(object: CachedObject) -> Self {
        Self { object }
    }

    /// The object.
    #[must_use]
    pub fn into_object(self) -> CachedObject {
        self.object
    }
}

impl std::fmt::Debug for CachedObject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layout = self.reader.own().layout();
        write!(formatter, "{} ({:x})", self.name(), layout.number())
    }
}

impl CachedObject {
    pub(crate) fn new(reader: Arc<Reader>, writer: Arc<Writer>) -> Self {
        Self { reader, writer }
    }

    #[cfg(test)]
    pub(crate) fn reader(&self) -> &Arc<Reader> {
        &self.reader
    }

    #[cfg(test)]
    pub(crate) fn writer(&self) -> &Arc<Writer> {
        &self.writer
    }

    /// [`pagewell_device::Store::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.reader.fetcher().queue().name()
    }

    /// Its length now.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.reader.own().layout().length_bytes()
    }

    /// Moves its end, to 256 TiB at most, and [discards](Self::discard) what is behind it. The
    /// store has the new length already, and no caller writes; reads meanwhile are of either
    /// length.
    pub fn set_length(&self, length_bytes: u64) {
        self.writer.set_length(length_bytes);
    }

    /// Whether memory has pages of it; false for a device that does not list them.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        let own = self.reader.own();
        own.pages().has_pages(own.layout().number())
    }

    /// Of its read-ahead policy.
    #[must_use]
    pub fn read_ahead_counts(&self) -> Counts {
        self.reader.ahead().counts()
    }

    /// Pages in memory, and how many of them wholly.
    #[must_use]
    pub fn resident_pages(&self) -> (u64, u64) {
        let own = self.reader.own();
        own.pages().residency(own.layout().number())
    }

    /// Fills `target` with the bytes from `offset`: all of it, or an error and `target` holds
    /// anything. One copy, from the page.
    #[inline]
    pub fn read_at(&self, offset: u64, target: &mut [u8], mode: ReadMode) -> Result<()> {
        self.reader.read(offset, target, mode, &mut false)
    }

    /// [`Self::read_at`]; `waited` becomes true if anything was not in memory.
    #[inline]
    pub fn read_noting(
        &self,
        offset: u64,
        target: &mut [u8],
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<()> {
        self.reader.read(offset, target, mode, waited)
    }

    /// Pins the bytes from `offset` to the end of their page, at most `length` and at least one.
    #[inline]
    pub fn pin(&self, offset: u64, length: usize, mode: ReadMode) -> Result<PinnedPage<'_>> {
        self.reader.pin(offset, length, mode)
    }

    /// Pins the bytes from `offset` for a payload, page by page. `None`: copy, as too many pages
    /// are pinned so, or not all of these have a frame.
    pub fn pin_all(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
    ) -> Result<Option<Vec<PagePin>>> {
        self.reader.pin_all(offset, length, mode, &mut false)
    }

    /// [`Self::pin_all`]; `waited` becomes true if anything was not in memory.
    pub fn pin_all_noting(
        &self,
        offset: u64,
        length: usize,
        mode: ReadMode,
        waited: &mut bool,
    ) -> Result<Option<Vec<PagePin>>> {
        self.reader.pin_all(offset, length, mode, waited)
    }

    /// Begins to fetch a range, as far as memory allows.
    pub fn prefetch(&self, offset: u64, length: u64) {
        self.reader.ahead().prefetch(offset, length);
    }

    /// Writes `source` into memory at `offset`: all of it, or an error, and then any part of it.
    /// Reads that begin afterwards see it, those that run meanwhile any mix. What is pinned does
    /// not change.
    pub fn write_at(&self, offset: u64, source: &[u8], mode: WriteMode) -> Result<()> {
        self.writer.write(offset, source, mode, &mut 0)
    }

    /// [`Self::write_at`]; how many bytes were `changed`, from the first on, also when it fails.
    pub fn write_counting(
        &self,
        offset: u64,
        source: &[u8],
        mode: WriteMode,
        changed: &mut usize,
    ) -> Result<()> {
        self.writer.write(offset, source, mode, changed)
    }

    /// Waits until everything that was written to this range before is durable. The range may reach
    /// past the end.
    ///
    /// # Errors
    /// [`crate::Error::Device`]: what was not written stays in memory and is tried again.
    /// [`crate::Error::Lost`]: a flush failed, and what was written since the last may be gone.
    pub fn commit(&self, offset: u64, length: u64) -> Result<()> {
        self.writer.submitter().commit(offset, length)
    }

    /// [`Self::commit`] without the flush.
    pub fn write_out(&self, offset: u64, length: u64) -> Result<()> {
        self.writer.submitter().write_out(offset, length)
    }

    /// [`Self::commit`] of everything.
    pub fn sync(&self) -> Result<()> {
        self.commit(0, self.length_bytes())
    }

    /// [`Self::sync`], and [`Self::abandon`] when the store has taken nothing for `patience`; the
    /// bytes lost. No caller may write any more.
    pub fn close_within(&self, patience: Duration) -> u64 {
        self.writer.submitter().close_within(patience)
    }

    /// Gives up a device that does not answer; the bytes lost. Waits for it, writes, and reads of
    /// what is not in memory fail. The memory of its requests stays until they end.
    pub fn abandon(&self) -> u64 {
        self.writer.dirty().abandon(close_wait())
    }

    /// Forgets a range, dirty or not: later reads ask the device. What comes from the device
    /// meanwhile is lost; what is on its way to it may arrive. What is pinned does not change.
    /// Waits for writers of these pages, and for a frame where other dirty bytes must be copied.
    pub fn discard(&self, offset: u64, length: u64) {
        self.writer.purge(offset, length);
    }

    /// Changes whenever data that was written with success may have been lost.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.writer.dirty().losses()
    }

    /// Whether bytes of a range are not at the device yet.
    #[must_use]
    pub fn has_dirty(&self, offset: u64, length: u64) -> bool {
        let extent = Extent { offset, length };
        let dirty = self.writer.dirty();
        dirty.has_started() && dirty.lock().policy.is_unwritten(extent)
    }

    /// Whether bytes of a range are at the device and not durable.
    #[must_use]
    pub fn has_unflushed(&self, offset: u64, length: u64) -> bool {
        let extent = Extent { offset, length };
        let dirty = self.writer.dirty();
        dirty.has_started() && dirty.lock().unflushed.needed(extent).is_some()
    }

    /// Bytes not at the device yet.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.writer.dirty().bytes()
    }

    /// The limit of its store.
    #[must_use]
    pub fn dirty_limit(&self) -> DirtyLimit {
        DirtyLimit::new(self.writer.dirty().store().clone())
    }

    /// Pages with dirty bytes: what the limits count.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.writer.dirty().lock().policy.dirty_pages()
    }

    /// Of its write-back policy.
    #[must_use]
    pub fn write_back_counts(&self) -> pagewell_policy::writeback::Counts {
        self.writer.dirty().lock().policy.counts()
    }
}
