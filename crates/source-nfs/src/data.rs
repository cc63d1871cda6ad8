//! Reading and writing files, through the cache.
//!
//! **Problem.** No byte may be written between the moment when data is made safe and the one when
//! it is thrown away. But a server may take minutes for a READ, and no other call is to wait for
//! that.
//!
//! **Rule.**
//!
//! | what | has | so that |
//! |---|---|---|
//! | a read | no lock | none waits for it |
//! | a write | the file's data, shared | its bytes are not thrown away unwritten |
//! | throwing away, cutting off | the file's data, alone | no thread writes in between |
//!
//! Reads go on while data is thrown away: what is on its way then does not come into memory any
//! more ([`pagewell_cache::CachedObject::discard`]), so that a later reader asks the server.
//!
//! What is thrown away was committed before: pages with bytes that are not safe at the server never
//! leave the cache. On whose behalf data is written, and to whom errors are reported, stands in
//! `writers.rs`.

use std::sync::Arc;

use pagewell_cache::{Bounds, Error as CacheError, LENGTH_BYTES_MAX, WriteMode};
use pagewell_counters::names;
use pagewell_device::Error as DeviceError;
use pagewell_fs::{
    Access, Call, Change, Committed, Error, FileId, Payload, ReadReply, Result, Stability, Written,
};
use pagewell_source_bytes::{Bytes, Run};
use rustix::io::Errno;

use super::filesystem::Shared;
use super::node::{Node, User};
use super::remote::RemoteFile;

/// A read of a file's data.
struct Reading<'a> {
    node: &'a Node,
    bytes: &'a Bytes,
    /// Of the file, and its `unexpected_ends`, when the read began.
    size: u64,
    ends: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.node.lock();
        state.readers = state.readers.saturating_sub(1);
    }
}

/// Refuses bytes that the cache has no names for.
pub(super) fn check_end(end: u64) -> Result<()> {
    Error::FileTooLarge.when(end > LENGTH_BYTES_MAX)
}

impl Shared {
    /// [`pagewell_fs::FileSystem::read`].
    pub(super) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let node = self.files.node(id);
        self.check_data(call, &node, Access::READ | Access::EXECUTE)?;
        let mut payload = Payload::Bytes(Vec::new());
        let mut ends = None;
        if let Some(reading) = self.begin_read(call, &node, offset, count)? {
            let rest = u32::try_from(reading.size - offset).unwrap_or(u32::MAX);
            let run = Run {
                position: offset,
                length: rest.min(count) as usize,
                bounds: Some(Bounds {
                    start: 0,
                    end: reading.size.min(LENGTH_BYTES_MAX),
                }),
            };
            check_end(offset.saturating_add(run.length as u64))?;
            let mut waited = false;
            let read = reading
                .bytes
                .try_payload(&[run], call.may_block, &mut waited);
            payload = read.map_err(|error| self.error(&error))?;
            names::CLIENT_READ_HITS.add(u64::from(!waited));
            names::CLIENT_READ_MISSES.add(u64::from(waited));
            ends = Some(reading.ends);
        }
        let mut state = node.lock();
        // Another may have made it shorter, which the answers to the reads have reported, or shown.
        if ends.is_some_and(|ends| ends != state.unexpected_ends) {
            drop(state);
            self.ask_attributes(call, &node)?;
            state = node.lock();
        }
        if state.length.is_in_doubt() {
            drop(state);
            self.end_doubt(call, &node)?;
            state = node.lock();
        }
        let size = state.length.get();
        let attributes = state.known().ok_or(Error::Stale)?;
        drop(state);
        payload.truncate(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        Ok(ReadReply {
            end_of_file: offset.saturating_add(payload.len() as u64) >= size,
            payload,
            attributes,
        })
    }

    /// The data of a file in the page cache.
    fn bytes<'a>(&self, node: &'a Arc<Node>) -> &'a Bytes {
        node.bytes.get_or_init(|| {
            let file = RemoteFile::new(&self.remote, node);
            Bytes::of(self.store.open(Arc::new(file), None))
        })
    }

    /// Counts a reader of a file, and has its data read on behalf of the caller from here on.
    /// `None`: there is nothing to read.
    fn begin_read<'a>(
        &self,
        call: &Call<'_>,
        node: &'a Arc<Node>,
        offset: u64,
        count: u32,
    ) -> Result<Option<Reading<'a>>> {
        loop {
            let mut state = node.lock();
            if state.is_outdated() {
                drop(state);
                self.settle(call, node)?;
                continue;
            }
            let size = state.length.get();
            if offset >= size || count == 0 {
                return Ok(None);
            }
            state.use_data();
            state.readers += 1;
            if !User::is(state.reader.as_ref(), call.credentials) {
                state.reader = Some(self.user(call));
            }
            let ends = state.unexpected_ends;
            drop(state);
            let bytes = self.bytes(node);
            return Ok(Some(Reading {
                node,
                bytes,
                size,
                ends,
            }));
        }
    }

    /// [`pagewell_fs::FileSystem::write`].
    pub(super) fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        if self.limits.read_only {
            return Err(Error::ReadOnly);
        }
        let is_stable = stability > Stability::Unstable || self.calls.options.synchronous;
        if is_stable {
            Self::may_wait(call)?;
        }
        let node = self.files.node(id);
        let verifier = self.verifier_after(node.lock().losses);
        self.check_data(call, &node, Access::MODIFY | Access::EXTEND)?;
        self.report_failure(call, &node)?;
        self.settle(call, &node)?;
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(Error::FileTooLarge)?;
        let count = u32::try_from(data.len()).map_err(|_| Error::Invalid)?;
        if count > 0 {
            let _held = self.hold_to_write(call, &node, end)?;
            let mut changed = 0;
            let file = self.bytes(&node).object();
            let mut written = file.write_counting(offset, data, WriteMode::TRY, &mut changed);
            if call.may_block && matches!(written, Err(CacheError::WouldBlock)) {
                names::CLIENT_WRITE_MISSES.add(1);
                let (offset, data) = (offset + changed as u64, &data[changed..]);
                written = file.write_at(offset, data, WriteMode::WAIT);
            } else {
                names::CLIENT_WRITE_HITS.add(u64::from(written.is_ok()));
            }
            if !matches!(written, Err(CacheError::WouldBlock)) {
                // A write that failed may have changed some bytes.
                node.lock().length.wrote(end);
            } else if changed > 0 {
                // It may never be made again.
                node.lock().length.wrote(offset + changed as u64);
            }
            written.map_err(|error| self.error(&error))?;
        }
        if is_stable {
            self.commit_node(call, &node)?;
        }
        let after = node.lock().known();
        Ok(Written {
            count,
            committed: if is_stable {
                Stability::FileSync
            } else {
                Stability::Unstable
            },
            verifier,
            change: Change {
                before: None,
                after,
            },
        })
    }

    /// [`pagewell_fs::FileSystem::commit`]. Everything of the file, whatever the range.
    pub(super) fn commit(&self, call: &Call<'_>, id: &FileId) -> Result<Committed> {
        self.may_change(call)?;
        let node = self.files.node(id);
        self.check_data(call, &node, Access::ALL)?;
        self.commit_node(call, &node)?;
        let after = node.lock().known();
        Ok(Committed {
            verifier: self.verifier_after(node.lock().losses),
            change: Change {
                before: None,
                after,
            },
        })
    }

    /// Of a file: changes whenever something that was written to it may have been lost; what was
    /// refused of another file is no loss of this one. Else whenever something of all files
    /// together may have been lost.
    pub(super) fn write_verifier(&self, id: Option<&FileId>) -> [u8; 8] {
        self.verifier_after(id.map_or(0, |id| self.files.node(id).lock().losses))
    }

    fn verifier_after(&self, refused: u64) -> [u8; 8] {
        let losses = self.store.loss_epoch().wrapping_add(refused);
        let moved = losses.wrapping_mul(pagewell_fs::verifier::STEP);
        self.verifier.wrapping_add(moved).to_be_bytes()
    }

    /// Waits until everything of a file is on the server's stable storage.
    pub(super) fn make_safe(&self, node: &Node) -> Result<()> {
        let writes = node.lock().length.writes();
        if let Some(bytes) = node.bytes.get() {
            let committed = bytes.object().commit(0, LENGTH_BYTES_MAX);
            committed.map_err(|error| self.error(&error))?;
        }
        node.lock().length.committed(writes);
        Ok(())
    }

    /// Waits until everything of a file is at the server.
    pub(super) fn write_out(&self, node: &Node) -> Result<()> {
        let writes = node.lock().length.writes();
        if let Some(bytes) = node.bytes.get() {
            let written = bytes.object().write_out(0, LENGTH_BYTES_MAX);
            written.map_err(|error| self.error(&error))?;
        }
        node.lock().length.cleaned(writes);
        Ok(())
    }

    /// Whether bytes of a file are not at the server: ones that were never written, or ones that it
    /// had and has forgotten.
    pub(super) fn is_dirty(&self, node: &Node) -> bool {
        let state = node.lock();
        if state.length.is_dirty() {
            return true;
        }
        let is_uncommitted = state.length.is_uncommitted();
        drop(state);
        let bytes = node.bytes.get().filter(|_| is_uncommitted);
        bytes.is_some_and(|bytes| bytes.object().has_dirty(0, LENGTH_BYTES_MAX))
    }

    /// Finds out why the server's file is shorter than what was written to it, if it is: see
    /// [`super::attributes`]. Whether it was.
    pub(super) fn end_doubt(&self, call: &Call<'_>, node: &Node) -> Result<bool> {
        if !node.lock().length.is_in_doubt() {
            return Ok(false);
        }
        Self::may_wait(call)?;
        self.make_safe(node)?;
        Ok(true)
    }

    /// Throws away what others have changed, after writing what is ours.
    pub(super) fn settle(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        if !node.lock().is_outdated() {
            return Ok(());
        }
        Self::may_wait(call)?;
        let _alone = node.data.write();
        let changes = node.lock().changes;
        self.throw_away(node)?;
        node.lock().data_changes = changes;
        Ok(())
    }

    /// Commits a file's data and discards it. The caller holds it alone.
    pub(super) fn throw_away(&self, node: &Node) -> Result<()> {
        self.make_safe(node)?;
        discard(node, 0);
        Ok(())
    }

    /// Discards what is behind the end of a file whose length was set. The caller holds it alone.
    pub(super) fn cut_off(&self, node: &Node, size: u64) {
        node.lock().cut(size, self.calls.now());
        discard(node, size);
    }

    /// What a caller is told of an error of the cache.
    pub(super) fn error(&self, error: &CacheError) -> Error {
        match error {
            CacheError::WouldBlock => Error::WouldBlock,
            CacheError::Memory { .. } => Error::TryLater,
            CacheError::Device(DeviceError::Failed { errno, .. }) => match *errno {
                Errno::AGAIN => Error::TryLater,
                Errno::IO => Error::Io(error.to_string()),
                errno => Error::from(errno),
            },
            CacheError::Device(DeviceError::Abandoned { .. }) => {
                Error::Io(format!("{}: the mount has ended", self.calls.name))
            }
            other => Error::Io(other.to_string()),
        }
    }

    /// Forgets the data of a file that is no more, or of which nothing is to be written.
    pub(super) fn bury(node: &Node) {
        let Some(_alone) = node.data.try_write() else {
            return;
        };
        let writes = node.lock().length.writes();
        discard(node, 0);
        node.lock().length.committed(writes);
    }
}

/// Forgets what memory has of a file from `offset` on.
fn discard(node: &Node, offset: u64) {
    if let Some(bytes) = node.bytes.get() {
        let length = LENGTH_BYTES_MAX.saturating_sub(offset);
        bytes.object().discard(offset, length);
    }
}
