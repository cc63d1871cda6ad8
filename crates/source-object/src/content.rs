//! The bytes of a file: read and written in memory.

use std::ops::Range;
use std::sync::Arc;

use pagewell_base::sync::{RwLock, RwLockReadGuard};
use pagewell_cache::{Bounds, CachedObject, Error as CacheError, LENGTH_BYTES_MAX, ReadMode};
use pagewell_device::Issuer;
use pagewell_fs::{Error, Payload, Result};
use pagewell_object_client::Version;
use pagewell_source_bytes::{Bytes, Run};

use super::backing::{Backing, Draft};
use super::moves::Carried;
use super::upload::{self, Ahead};

/// How often bytes are asked for whose request began before the object got another key.
const TRIES_MAX: usize = 4;
const PAGE_BYTES: u64 = pagewell_cache::PAGE_BYTES as u64;

pub(super) struct Content {
    backing: Arc<Backing>,
    bytes: Bytes,
    ahead: Ahead,
    /// Shared by threads that write to memory. Held alone: no byte is dirty that is not written
    /// yet.
    writing: RwLock<()>,
}

impl Content {
    pub(super) fn new(backing: Arc<Backing>, cached: CachedObject) -> Self {
        Self {
            backing,
            bytes: Bytes::of(cached),
            ahead: Ahead::default(),
            writing: RwLock::new(()),
        }
    }

    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    pub(super) fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    pub(super) fn is_as(&self, version: &Version) -> bool {
        let base = self.backing.base();
        base.is_some_and(|base| base.version().is_same(version)) && !self.backing.is_changed()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.backing.base().is_some_and(|base| base.is_gone())
    }

    /// [`Backing::move_to`].
    pub(super) fn move_to(&self, key: &str, carried: &Carried) -> bool {
        !self.ahead.has_begun() && self.backing.move_to(key, carried)
    }

    pub(super) fn has_pages(&self) -> bool {
        self.bytes.object().has_pages()
    }

    pub(super) fn prefetch(&self) {
        let length_bytes = self.backing.length_bytes();
        self.bytes.object().prefetch(0, length_bytes);
    }

    /// `length` bytes from `offset`, both within the file.
    pub(super) fn read(&self, offset: u64, length: usize, may_block: bool) -> Result<Payload> {
        let run = Run {
            position: offset,
            length,
            bounds: Some(self.bounds()),
        };
        self.again(|| {
            let read = self.bytes.payload(&[run], may_block);
            read.map_err(|error| self.explained(error))
        })
    }

    /// Asks once more for what another thread has asked for under a former key.
    fn again<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..TRIES_MAX {
            match ask() {
                Err(Error::Io(_)) if self.backing.was_asked_for_elsewhere() => {}
                other => return other,
            }
        }
        ask()
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            start: 0,
            end: self.backing.length_bytes(),
        }
    }

    /// The client's text says more than an error number.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::Io(text) => {
                let base = self.backing.base();
                let failure = base.and_then(|base| base.failure());
                Error::Io(failure.unwrap_or(text))
            }
            other => other,
        }
    }

    pub(super) fn share(&self, may_block: bool) -> Result<RwLockReadGuard<'_, ()>> {
        match self.writing.try_read() {
            Some(shared) => Ok(shared),
            None if may_block => Ok(self.writing.read()),
            None => Err(Error::WouldBlock),
        }
    }

    /// Writes bytes that the backing knows as dirty. On failure the first `changed` bytes are
    /// written.
    pub(super) fn write(
        &self,
        _shared: &RwLockReadGuard<'_, ()>,
        (offset, data): (u64, &[u8]),
        may_block: bool,
        changed: &mut usize,
    ) -> Result<()> {
        let written = self.again(|| self.bytes.write(offset, data, may_block, changed));
        let written_bytes = match written {
            Ok(()) => data.len(),
            Err(_) => *changed,
        };
        if written_bytes > 0 {
            self.backing.has_written(offset + written_bytes as u64);
        }
        written.map_err(|error| self.explained(error))
    }

    /// Moves the end. No commit may be under way; parts that go ahead may be.
    pub(super) fn set_length(&self, length_bytes: u64) -> Result<()> {
        let _alone = self.writing.write();
        if length_bytes >= self.backing.length_bytes() {
            self.backing.set_length(length_bytes);
            return Ok(());
        }
        // Memory may forget more of the page with the new end than what is behind it.
        let page = length_bytes / PAGE_BYTES * PAGE_BYTES;
        if page < length_bytes {
            self.bytes.write_out_range(page, length_bytes - page)?;
        }
        self.backing.set_length(length_bytes);
        let behind = LENGTH_BYTES_MAX - length_bytes;
        self.bytes.object().discard(length_bytes, behind);
        Ok(())
    }

    /// [`Backing::goes_ahead`].
    pub(super) fn goes_ahead(&self, range: Range<u64>, until: u64) -> bool {
        let _alone = self.writing.write();
        self.backing.goes_ahead(range, until)
    }

    pub(super) fn begin_to_send(&self, anyway: bool) -> Option<Draft> {
        let _alone = self.writing.write();
        self.backing.begin_to_send(anyway)
    }

    /// All that the store has not, with its bytes in the staged file.
    pub(super) fn stage(&self) -> Result<Draft> {
        let _alone = self.writing.write();
        self.bytes.write_out_range(0, LENGTH_BYTES_MAX)?;
        Ok(self.backing.draft())
    }

    /// Has memory know that the store has all.
    pub(super) fn let_go(&self) {
        if !self.backing.is_changed() {
            // What fails stays as it is.
            let _ = self.bytes.write_out_range(0, LENGTH_BYTES_MAX);
        }
    }

    /// Throws away what memory and the staging folder have; nothing reads it any more.
    pub(super) fn discard(&self) {
        self.bytes.object().discard(0, LENGTH_BYTES_MAX);
        if let Some(staged) = self.backing.staged() {
            staged.finish();
        }
    }

    /// Forgets what memory has, written or not.
    pub(super) fn forget(&self) {
        self.bytes.object().discard(0, LENGTH_BYTES_MAX);
    }
}

impl upload::Source for Content {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        // Bounded, since the store copies what lies behind.
        let bounds = Bounds {
            start: offset,
            end: offset.saturating_add(target.len() as u64),
        };
        let mode = ReadMode {
            may_block: true,
            issuer: Issuer::Flusher,
            bounds: Some(bounds),
        };
        let object = self.bytes.object();
        if self.backing.base().is_some() {
            // In one request, where a read in order would begin with small ones.
            object.prefetch(offset, target.len() as u64);
        }
        self.again(|| {
            let read = object.read_at(offset, target, mode);
            read.map_err(|error| match error {
                CacheError::Memory { .. } => Error::TryLater,
                other => self.explained(Error::Io(other.to_string())),
            })
        })
    }
}
