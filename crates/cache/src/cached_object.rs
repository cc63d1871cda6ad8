//! An object seen through the cache: what callers may do with it; and a device, which is the only
//! object of its store.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use pagewell_policy::elevator::Extent;
use pagewell_policy::readahead::Counts;

use crate::dirty::written::WrittenStore;
use crate::read::reader::Reader;
use crate::write::Writer;
use crate::{PagePin, PinnedPage, ReadMode, Result, WriteMode};

/// An object of a store seen through the cache. Cloning shares it; its pages go with the last clone
/// and the last pin. With the last clone what was written is [committed](Self::commit), which may
/// wait.
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

/// How much of memory may have something that is not at a store.
#[derive(Clone)]
pub struct DirtyLimit(Arc<WrittenStore>);

impl DirtyLimit {
    pub(crate) fn new(store: Arc<WrittenStore>) -> Self {
        Self(store)
    }

    /// Has writers of all objects wait when so much memory is dirty; `None`: what the store was
    /// opened with ([`crate::OpenOptions::dirty_bytes_max`]). What is above it goes as it is
    /// written.
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

    /// [`pagewell_device::Store::name`]: of the store that it is in.
    #[must_use]
    pub fn name(&self) -> &str {
        self.reader.fetcher().queue().name()
    }

    /// Where it ends now.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.reader.own().layout().length_bytes()
    }

    /// Moves its end, at the most to 256 TiB. What memory has behind it is forgotten, as by
    /// [`Self::discard`]. To be called when the store has the new length, while no caller writes;
    /// reads meanwhile are of the old length or of the new one.
    pub fn set_length(&self, length_bytes: u64) {
        self.writer.set_length(length_bytes);
    }

    /// Whether memory has pages of it: false where that would have to be searched for, of the
    /// object of a device.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        let own = self.reader.own();
        own.pages().has_pages(own.layout().number())
    }

    /// What its read-ahead policy has seen and done.
    #[must_use]
    pub fn read_ahead_counts(&self) -> Counts {
        self.reader.ahead().counts()
    }

    /// Pages of this object in memory, and how many of them wholly.
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

    /// Pins the bytes from `offset` to the end of their page, at most `length` and at least one,
    /// without a copy and without taking memory.
    #[inline]
    pub fn pin(&self, offset: u64, length: usize, mode: ReadMode) -> Result<PinnedPage<'_>> {
        self.reader.pin(offset, length, mode)
    }

    /// Pins the bytes from `offset` for a payload, page by page. `None` when too many pages are
    /// pinned so, or not all of these have a frame at a time: copy then.
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

    /// Begins to fetch a range that will be wanted, as far as memory allows.
    pub fn prefetch(&self, offset: u64, length: u64) {
        self.reader.ahead().prefetch(offset, length);
    }

    /// Writes `source` at `offset`: all of it, or an error, and then any part of it. It is in
    /// memory when this returns; [`Self::commit`] says whether it is durable. Reads that begin
    /// afterwards see it, those that run meanwhile any mix. What is pinned does not change.
    pub fn write_at(&self, offset: u64, source: &[u8], mode: WriteMode) -> Result<()> {
        self.writer.write(offset, source, mode, &mut 0)
    }

    /// [`Self::write_at`]; how many bytes were `changed`, from the first on, also when it fails or
    /// would have to wait.
    pub fn write_counting(
        &self,
        offset: u64,
        source: &[u8],
        mode: WriteMode,
        changed: &mut usize,
    ) -> Result<()> {
        self.writer.write(offset, source, mode, changed)
    }

    /// Waits until everything that was written to this range before is durable. What is written
    /// meanwhile does not count. The range may reach past the end.
    ///
    /// # Errors
    /// [`crate::Error::Device`]: not all could be written; it stays in memory and is tried again.
    /// [`crate::Error::Lost`]: a flush failed, and what was written since the one before may be
    /// gone.
    pub fn commit(&self, offset: u64, length: u64) -> Result<()> {
        self.writer.submitter().commit(offset, length)
    }

    /// [`Self::commit`], but durable or not.
    pub fn write_out(&self, offset: u64, length: u64) -> Result<()> {
        self.writer.submitter().write_out(offset, length)
    }

    /// [`Self::commit`] of everything.
    pub fn sync(&self) -> Result<()> {
        self.commit(0, self.length_bytes())
    }

    /// [`Self::sync`], and [`Self::abandon`] when nothing has got any further for so long; how many
    /// bytes are lost. No caller can write any more.
    pub fn close_within(&self, patience: Duration) -> u64 {
        self.writer.submitter().close_within(patience)
    }

    /// Gives up a device that does not answer; how many bytes are lost. All that wait for it fail
    /// within a moment, and so do writes, and reads of what is not in memory. Memory of its
    /// requests stays until they end.
    pub fn abandon(&self) -> u64 {
        self.writer.dirty().abandon()
    }

    /// Forgets what memory has of a range, dirty or not: later reads ask the device. What comes
    /// from the device meanwhile is lost; what is on its way to it may arrive. What is pinned does
    /// not change. Waits for writers of the same pages, never for the device. The cost is that of
    /// the pages that are in memory.
    pub fn discard(&self, offset: u64, length: u64) {
        self.writer.purge(offset, length);
    }

    /// Changes whenever data that was written with success may have been lost. A server that
    /// promised anything about it has to ask for it again.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.writer.dirty().losses()
    }

    /// Whether bytes of a range are not at the device yet, or on their way there.
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

    /// Bytes in memory that are not on the device yet, those on their way included.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.writer.dirty().bytes()
    }

    /// How much of memory may wait to be written to the store that it is in.
    #[must_use]
    pub fn dirty_limit(&self) -> DirtyLimit {
        DirtyLimit::new(self.writer.dirty().store().clone())
    }

    /// Pages that hold them: what the limits are about.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.writer.dirty().lock().policy.dirty_pages()
    }

    /// What its write-back policy has seen and done.
    #[must_use]
    pub fn write_back_counts(&self) -> pagewell_policy::writeback::Counts {
        self.writer.dirty().lock().policy.counts()
    }
}
