//! A store behind the cache.
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
use crate::read::claim::Fetcher;
use crate::read::reader::ReadAhead;
use crate::read::reader::Reader;
use crate::residency::pages::Pages;
use crate::residency::pages::Streams;
use crate::residency::pins::OwnPages;
use crate::write::Writer;
use crate::writeback::flush::Flushes;
use crate::writeback::submit::{Staging, Submitter};
use crate::{CacheOptions, DirtyLimit, OpenOptions, Result};

pub(crate) struct StoreParts {
    pub pages: Arc<Pages>,
    pub staging: Arc<Staging>,
    pub queue: Arc<IoQueue>,
    pub streams: Arc<Streams>,
    pub written: Arc<WrittenStore>,
    pub cache_options: CacheOptions,
    pub options: OpenOptions,
    pub geometry: Geometry,
    /// Memory keeps what was written until a flush was good.
    pub keeps: bool,
}

impl StoreParts {
    /// `None`: the end is unknown.
    pub(crate) fn open(
        self: &Arc<Self>,
        object: Arc<dyn Object>,
        length_bytes: Option<u64>,
        is_file: bool,
    ) -> CachedObject {
        let (settings, options) = (&self.cache_options, &self.options);
        let is_listed = is_file || self.keeps;
        let number = self.pages.add_object(&self.streams, is_listed);
        let length_bytes = length_bytes.unwrap_or(LENGTH_BYTES_MAX);
        let layout = Layout::new(number, length_bytes, &self.geometry, settings, is_file);
        let own = Arc::new(OwnPages::new(self.pages.clone(), layout, object));
        let dirty = Arc::new(DirtySet::new(own.clone(), self.written.clone()));
        let rotational = self.geometry.rotational;
        let widens = !rotational && settings.merge && settings.unit_bytes >= UNIT_BYTES;
        let fetcher = Arc::new(Fetcher::new(dirty.clone(), self.queue.clone(), widens));
        let (streams, drops_behind) = (self.streams.clone(), settings.free_behind);
        let ahead = ReadAhead::new(fetcher.clone(), streams, drops_behind, rotational);
        let reader = Arc::new(Reader::new(fetcher.clone(), ahead, options.read_timeout));
        let flushes = Flushes::new(fetcher.clone(), self.keeps, options.write_timeout);
        let submitter = Submitter::new(fetcher, Arc::new(flushes), self.staging.clone());
        dirty.belong_to(Arc::<Submitter>::downgrade(&submitter));
        let writer = Arc::new(Writer::new(reader.clone(), submitter));
        CachedObject::new(reader, writer)
    }
}

/// A store seen through the cache. Cloning shares it.
#[derive(Clone)]
pub struct CachedStore {
    parts: Arc<StoreParts>,
}

impl CachedStore {
    pub(crate) fn new(parts: Arc<StoreParts>) -> Self {
        Self { parts }
    }

    /// [`pagewell_device::Store::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.parts.queue.name()
    }

    /// Puts an object behind the cache; `None`: of up to 256 TiB.
    pub fn open(&self, object: Arc<dyn Object>, length_bytes: Option<u64>) -> CachedObject {
        self.parts.open(object, length_bytes, true)
    }

    /// [`CachedObject::commit`] of everything of all objects; the first error.
    pub fn sync(&self) -> Result<()> {
        self.parts.written.commit_each(None).into_iter().collect()
    }

    /// [`CachedObject::close_within`] of all objects.
    pub fn close_within(&self, patience: Duration) -> u64 {
        let committed = self.parts.written.commit_each(Some(patience));
        let bytes = self.abandon();
        // One is enough: all are alike.
        if let Some(error) = committed.into_iter().find_map(Result::err) {
            tracing::error!("{error}");
        }
        bytes
    }

    /// [`CachedObject::abandon`] of all objects.
    pub fn abandon(&self) -> u64 {
        self.parts.written.abandon()
    }

    /// [`CachedObject::loss_epoch`] of all objects.
    #[must_use]
    pub fn loss_epoch(&self) -> u64 {
        self.parts.written.losses()
    }

    /// Bytes of all objects that are not at the store yet.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.parts.written.dirty_bytes()
    }

    /// Whether anything of any object is not durable.
    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        self.parts.written.has_uncommitted()
    }

    /// How much memory may wait to be written to it.
    #[must_use]
    pub fn dirty_limit(&self) -> DirtyLimit {
        DirtyLimit::new(self.parts.written.clone())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// Tens of thousands of files of a mount are known, and few of them written at a time.
    #[test]
    fn an_object_without_dirty_pages_takes_little_memory() {
        let parts = size_of::<Reader>() + size_of::<Fetcher>() + size_of::<Writer>();
        let parts = parts + size_of::<Flushes>() + size_of::<Submitter>();
        let parts = parts + size_of::<DirtySet>() + size_of::<OwnPages>();
        // The counts of each, and what an allocation costs.
        assert!(parts + 7 * 32 < 600, "{parts}");
    }
}
