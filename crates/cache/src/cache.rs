//! A cache: memory that devices share.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use pagewell_device::Device;

use crate::cached_device::CachedDevice;
use crate::frame::arena::PageSize;
use crate::shared::Shared;
use crate::{CacheOptions, CreateError, OpenOptions, PAGE_BYTES};

/// A cache. Cloning shares it.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

impl Cache {
    /// Takes the memory, or refuses with the numbers.
    pub fn new(options: CacheOptions) -> Result<Self, CreateError> {
        Ok(Self {
            shared: Arc::new(options.make(Shared::new)?),
        })
    }

    /// Puts a device behind the cache. Each call makes a device of its own: what one has in
    /// memory the other has not.
    pub fn open(&self, device: Arc<dyn Device>) -> CachedDevice {
        self.open_with(device, self.open_options())
    }

    /// [`Self::open`] with settings of its own.
    pub fn open_with(&self, device: Arc<dyn Device>, options: OpenOptions) -> CachedDevice {
        CachedDevice::new(&self.shared, device, &options)
    }

    /// The settings of a device that has none of its own.
    #[must_use]
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new(&self.shared.options)
    }

    /// Memory for pages, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.shared.pages.arena.frames()) * PAGE_BYTES as u64
    }

    /// Which pages of memory the system gave.
    #[must_use]
    pub fn page_size(&self) -> PageSize {
        self.shared.pages.arena.page_size()
    }

    /// The file that the memory is too, when [that was asked for](CacheOptions::memory_is_file);
    /// [`crate::PinnedPage::memory_offset`] says where in it bytes are. It can only be read and
    /// mapped to be read. What of it is not pinned may change at any time.
    #[must_use]
    pub fn memory_file(&self) -> Option<BorrowedFd<'_>> {
        self.shared.pages.arena.file()
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> CacheOptions {
        self.shared.options
    }
}
