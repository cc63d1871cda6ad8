//! A cache: memory that stores share.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use pagewell_device::{Device, OneObject, Store};
use pagewell_policy::writeback::Settings;

use crate::cached_object::CachedDevice;
use crate::dirty::written::{Flusher, Quota, WrittenStore};
use crate::frame::{Arena, PageSize};
use crate::io_queue::IoQueue;
use crate::page::{Layout, PAGE};
use crate::residency::pages::Pages;
use crate::store::{CachedStore, StoreParts};
use crate::sync::{Mutex, Rank};
use crate::writeback::submit::Staging;
use crate::{CacheOptions, CreateError, OpenOptions};

/// A cache. Cloning shares it.
#[derive(Clone)]
pub struct Cache {
    options: CacheOptions,
    pages: Arc<Pages>,
    quota: Arc<Quota>,
    staging: Arc<Staging>,
    flusher: Arc<Flusher>,
}

impl Cache {
    /// Takes the memory, or refuses.
    pub fn new(options: CacheOptions) -> Result<Self, CreateError> {
        options.make(|options| {
            let frames = options.frames()?;
            let arena = match options.memory_is_file {
                true => Arena::new_in_file(frames)?,
                false => Arena::new(frames, &options)?,
            };
            Self::with(options, arena)
        })
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.pages
    }

    pub(crate) fn with(options: CacheOptions, arena: Arena) -> Result<Self, CreateError> {
        let size_bytes = arena.size_bytes();
        let reader_keeps = options.free_behind && options.reader_keeps;
        Ok(Self {
            options,
            pages: Arc::new(Pages::new(arena, reader_keeps)?),
            quota: Arc::new(Quota::new(size_bytes)),
            staging: Arc::default(),
            flusher: Arc::default(),
        })
    }

    /// Puts a device behind the cache, with memory of its own.
    pub fn open(&self, device: Arc<dyn Device>) -> CachedDevice {
        self.open_with(device, self.open_options())
    }

    /// [`Self::open`] with settings of its own.
    pub fn open_with(&self, device: Arc<dyn Device>, options: OpenOptions) -> CachedDevice {
        let length_bytes = device.length_bytes();
        let only = Arc::new(OneObject::new(device));
        let parts = self.store(only.clone(), options, Some(length_bytes));
        let object = parts.open(only, Some(length_bytes), false);
        CachedDevice::new(object)
    }

    /// Puts a store behind the cache.
    pub fn open_store(&self, store: Arc<dyn Store>, options: OpenOptions) -> CachedStore {
        let parts = self.store(store, options, None);
        CachedStore::new(parts)
    }

    fn store(
        &self,
        store: Arc<dyn Store>,
        options: OpenOptions,
        length_bytes: Option<u64>,
    ) -> Arc<StoreParts> {
        let settings = &options.over(&self.options);
        let pages = self.pages.clone();
        // Registering takes the memory: only where all was to be taken at once.
        if settings.populate_bytes >= settings.size_bytes {
            store.register_memory(&pages.arena().memory());
        }
        let (geometry, keeps) = (store.geometry(), store.keeps_until_flush());
        let layout = Layout::new(0, 0, &geometry, settings, length_bytes.is_none());
        let policy = options.streams(length_bytes, layout.unit_bytes(), &geometry);
        let elevator = options.elevator(settings, &geometry, layout.request_bytes_max());
        let queue = Arc::new(IoQueue::new(store, elevator));
        if let Some(latency) = options.latency {
            queue.note_latency(latency);
        }
        let written = WrittenStore::new(
            self.quota.clone(),
            self.flusher.clone(),
            options.dirty_bytes_max,
            |bytes_max| Settings {
                page_bytes: PAGE,
                device_time_max: options.dirty_time_max,
                writes_early: options.writes_early,
                cluster_bytes_max: layout.request_bytes_max(),
                ..Settings::new(bytes_max)
            },
        );
        Arc::new(StoreParts {
            pages,
            staging: self.staging.clone(),
            queue,
            streams: Arc::new(Mutex::new(Rank::Leaf, policy)),
            written: Arc::new(written),
            cache_options: *settings,
            options,
            geometry,
            keeps,
        })
    }

    /// A store's settings by default.
    #[must_use]
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new(&self.options)
    }

    /// Memory for pages, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.pages.arena().size_bytes()
    }

    /// Which pages of memory the system gave.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.pages.arena().page_size()
    }

    /// The file that the memory is too ([`CacheOptions::memory_is_file`]), to be read only, at
    /// [`crate::PinnedPage::memory_offset`]. What is not pinned may change.
    #[must_use]
    pub fn memory_file(&self) -> Option<BorrowedFd<'_>> {
        self.pages.arena().file()
    }
}
