//! A cache: memory that devices share, and how one is put behind it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use pagewell_device::Device;

use crate::cached_device::CachedDevice;
use crate::dirty::quota::Quota;
use crate::dirty::set::DirtySet;
use crate::flusher::Flusher;
use crate::frame::arena::{Arena, PageSize};
use crate::io_queue::IoQueue;
use crate::page::{Layout, UNIT_BYTES};
use crate::read::reader::Reader;
use crate::residency::pages::Pages;
use crate::residency::pins::OwnPages;
use crate::sync::{Mutex, Rank};
use crate::writeback::staging::Staging;
use crate::writeback::{Users, Writer};
use crate::{CacheOptions, CreateError, OpenOptions};

/// A cache. Cloning shares it.
#[derive(Clone)]
pub struct Cache {
    pub(crate) options: CacheOptions,
    pub(crate) pages: Arc<Pages>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) flusher: Arc<Flusher>,
}

impl Cache {
    /// Takes the memory, or refuses with the numbers.
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

    /// A cache with this memory.
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

    /// Puts a device behind the cache. Each call makes a device of its own: what one has in
    /// memory the other has not.
    pub fn open(&self, device: Arc<dyn Device>) -> CachedDevice {
        self.open_with(device, self.open_options())
    }

    /// [`Self::open`] with settings of its own. Makes the parts of the device, from those that
    /// others know to those that know others.
    pub fn open_with(&self, device: Arc<dyn Device>, options: OpenOptions) -> CachedDevice {
        let (settings, pages) = (&self.options, self.pages.clone());
        // Preparing memory takes it, so that is only done where it was to be taken at once.
        if settings.populate_bytes >= settings.size_bytes {
            device.register_memory(&pages.arena.memory());
        }
        let (geometry, keeps) = (device.geometry(), device.keeps_until_flush());
        let mut layout = Layout::new(&*device, settings, options.file_alignment_bytes);
        let policy = options.streams(layout.length_bytes, layout.unit_bytes, &geometry);
        let streams = Arc::new(Mutex::new(Rank::Leaf, policy));
        layout.number = pages.devices.add(&streams, keeps);
        let elevator = options.elevator(settings, &geometry, layout.request_bytes_max);
        let queue = Arc::new(IoQueue::new(device, elevator));
        if let Some(latency) = options.latency {
            queue.note_latency(latency);
        }
        let own = Arc::new(OwnPages {
            pages: pages.clone(),
            layout,
        });
        let handles = (self.quota.clone(), self.flusher.clone());
        let dirty = Arc::new(DirtySet::new(own.clone(), handles, &options));
        let reader = Arc::new(Reader {
            pages,
            layout,
            own: own.clone(),
            queue: queue.clone(),
            dirty: dirty.clone(),
            streams,
            timeout: options.read_timeout,
            widens: !geometry.rotational && settings.merge && settings.unit_bytes >= UNIT_BYTES,
            drops_behind: settings.free_behind,
            rotational: geometry.rotational,
        });
        let writer = Arc::new(Writer {
            own,
            dirty,
            queue,
            reader: reader.clone(),
            staging: self.staging.clone(),
            keeps,
            timeout: options.write_timeout,
        });
        let writer = Arc::new(Users(writer));
        CachedDevice { reader, writer }
    }

    /// The settings of a device that has none of its own.
    #[must_use]
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new(&self.options)
    }

    /// Memory for pages, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.pages.arena.size_bytes()
    }

    /// Which pages of memory the system gave.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.pages.arena.page_size
    }

    /// The file that the memory is too, when [that was asked for](CacheOptions::memory_is_file);
    /// [`crate::PinnedPage::memory_offset`] says where in it bytes are. It can only be read and
    /// mapped to be read. What of it is not pinned may change at any time.
    #[must_use]
    pub fn memory_file(&self) -> Option<BorrowedFd<'_>> {
        self.pages.arena.file.as_ref().map(AsFd::as_fd)
    }
}
