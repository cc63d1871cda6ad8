//! A store behind the cache: what its objects share, and what is done with all of them.
//!
//! ```text
//!   CachedObject ──> Reader, Writer, DirtySet ──┐
//!   CachedObject ──> Reader, Writer, DirtySet ──┼──> queue, streams; WrittenStore: share, active
//!   CachedObject ──> Reader, Writer, DirtySet ──┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use pagewell_device::{Geometry, Object};

use crate::cached_object::CachedObject;
use crate::dirty::set::DirtySet;
use crate::dirty::written::WrittenStore;
use crate::io_queue::IoQueue;
use crate::page::{LENGTH_BYTES_MAX, Layout, UNIT_BYTES};
use crate::read::reader::Reader;
use crate::residency::objects::Streams;
use crate::residency::pages::Pages;
use crate::residency::pins::OwnPages;
use crate::writeback::submit::Staging;
use crate::writeback::{Users, Writer};
use crate::{CacheOptions, DirtyLimit, OpenOptions, Result};

/// What the objects of a store share.
pub(crate) struct StoreParts {
    pub(crate) pages: Arc<Pages>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) queue: Arc<IoQueue>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) written: Arc<WrittenStore>,
    pub(crate) cache_options: CacheOptions,
    pub(crate) options: OpenOptions,
    pub(crate) geometry: Geometry,
    /// What was written stays in memory until a flush was good.
    pub(crate) keeps: bool,
}

impl StoreParts {
    /// An object of the store with `length_bytes`; `None`: nothing is known of its end. Makes the
    /// parts of the object, from those that others know to those that know others.
    pub(crate) fn open(
        self: &Arc<Self>,
        object: Arc<dyn Object>,
        length_bytes: Option<u64>,
        is_file: bool,
    ) -> CachedObject {
        let (settings, options) = (&self.cache_options, &self.options);
        let is_listed = is_file || self.keeps;
        let number = self.pages.objects.add(&self.streams, is_listed);
        let length_bytes = length_bytes.unwrap_or(LENGTH_BYTES_MAX);
        let layout = Layout::new(number, length_bytes, &self.geometry, settings, is_file);
        let own = Arc::new(OwnPages {
            pages: self.pages.clone(),
            layout,
            object,
        });
        let dirty = Arc::new(DirtySet::new(own.clone(), self.written.clone()));
        let rotational = self.geometry.rotational;
        let reader = Arc::new(Reader {
            pages: self.pages.clone(),
            own: own.clone(),
            queue: self.queue.clone(),
            dirty: dirty.clone(),
            streams: self.streams.clone(),
            timeout: options.read_timeout,
            widens: !rotational && settings.merge && settings.unit_bytes >= UNIT_BYTES,
            drops_behind: settings.free_behind,
            rotational,
        });
        let writer = Arc::new(Writer {
            own,
            dirty,
            queue: self.queue.clone(),
            reader: reader.clone(),
            staging: self.staging.clone(),
            keeps: self.keeps,
            timeout: options.write_timeout,
        });
        writer.dirty.belong_to(Arc::<Writer>::downgrade(&writer));
        let writer = Arc::new(Users(writer));
        CachedObject { reader, writer }
    }
}

/// A store seen through the cache: objects that share a queue, a quota of dirty memory, and what is
/// known of how fast it is. Cloning shares it.
#[derive(Clone)]
pub struct CachedStore {
    pub(crate) parts: Arc<StoreParts>,
}

impl CachedStore {
    /// [`pagewell_device::Store::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts.queue.store.name()
    }

    /// Puts an object of the store behind the cache, of `length_bytes`, or of an unknown length:
    /// then all up to 256 TiB can be read and written. Each call makes an object of its own: what
    /// one has in memory the other has not.
    pub fn open(&self, object: Arc<dyn Object>, length_bytes: Option<u64>) -> CachedObject {
        self.parts.open(object, length_bytes, true)
    }

    /// [`CachedObject::commit`] of everything of all objects; the first error.
    pub fn sync(&self) -> Result<()> {
        self.parts.written.commit_each(None).into_iter().collect()
    }

    /// [`Self::sync`], and [`Self::abandon`]: when nothing has got any further for so long, what is
    /// left is lost. Says how many bytes that were. No caller can write any more.
    pub fn close_within(&self, patience: Duration) -> u64 {
        let committed = self.parts.written.commit_each(Some(patience));
        let bytes = self.abandon();
        // Those of all objects of a server that is away are alike.
        if let Some(error) = committed.into_iter().find_map(Result::err) {
            tracing::error!("{error}");
        }
        bytes
    }

    /// [`CachedObject::abandon`] of all objects: how a mount ends whose server is gone for good.
    pub fn abandon(&self) -> u64 {
        self.parts.written.abandon()
    }

    /// Changes whenever data of any object that was written with success may have been lost. See
    /// [`CachedObject::loss_epoch`].
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.parts.written.losses()
    }

    /// Bytes in memory that are not at the store yet, those on their way included, of all objects.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.parts.written.dirty_bytes()
    }

    /// Whether anything of any object is not at the store, or not durable there.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        self.parts.written.has_uncommitted()
    }

    /// How much of memory may wait to be written to it.
    #[must_use]
    pub fn dirty_limit(&self) -> DirtyLimit {
        DirtyLimit(self.parts.written.clone())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Tens of thousands of files of a mount are known, and few of them written at a time.
    #[test]
    fn an_object_without_dirty_pages_takes_little_memory() {
        let parts = size_of::<Reader>() + size_of::<Writer>() + size_of::<Users>();
        let parts = parts + size_of::<DirtySet>() + size_of::<OwnPages>();
        // The counts of each, and what an allocation costs.
        assert!(parts + 5 * 32 < 600, "{parts}");
    }
}
