//! Reading and writing files, through the cache.
//!
//! What is thrown away was committed before: pages with bytes that are not safe at the server never
//! leave the cache. Who may do what at the same time stands in `place.rs`; on whose behalf data is
//! written, and to whom errors are reported, in `writers.rs`.

use std::sync::Arc;

use pagewell_cache::{Bounds, Error as CacheError, WriteMode};
use pagewell_counters::names;
use pagewell_device::Error as DeviceError;
use pagewell_fs::bytes::Run;
use pagewell_fs::{
    Access, Call, Change, Committed, Error, FileId, Payload, ReadReply, Result, Stability, Written,
};
use rustix::io::Errno;

use super::filesystem::Shared;
use super::node::Node;
use super::region_lock::alone;

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
        self.settle(call, &node)?;
        let (size, ends) = {
            let state = node.lock();
            (state.length.get(), state.unexpected_ends)
        };
        let rest = size.saturating_sub(offset);
        let length = u32::try_from(rest).unwrap_or(u32::MAX).min(count) as usize;
        let mut payload = Payload::Bytes(Vec::new());
        if length > 0 {
            let (_reading, region) = self.hold_to_read(call, &node, size)?;
            self.read_for(call, &node);
            let run = Run {
                position: region.start() + offset,
                length,
                bounds: Some(Bounds {
                    start: region.start(),
                    end: region.start() + size,
                }),
            };
            let mut waited = false;
            let read = self.bytes.try_payload(&[run], call.may_block, &mut waited);
            payload = read.map_err(|error| self.error(&error))?;
            names::CLIENT_READ_HITS.add(u64::from(!waited));
            names::CLIENT_READ_MISSES.add(u64::from(waited));
        }
        // Another may have made it shorter, which the answers to the reads have reported, or shown.
        if node.lock().unexpected_ends != ends {
            self.ask_attributes(call, &node)?;
        }
        self.end_doubt(call, &node)?;
        let size = node.lock().length.get();
        let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        payload.truncate(there);
        let attributes = match node.lock().known() {
            Some(known) => known,
            None => return Err(Error::Stale),
        };
        Ok(ReadReply {
            end_of_file: offset.saturating_add(payload.len() as u64) >= size,
            payload,
            attributes,
        })
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
        let verifier = self.write_verifier();
        let is_stable = stability > Stability::Unstable || self.options.synchronous;
        if is_stable {
            Self::may_wait(call)?;
        }
        let node = self.files.node(id);
        self.check_data(call, &node, Access::MODIFY | Access::EXTEND)?;
        self.report_failure(call, &node)?;
        self.settle(call, &node)?;
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(Error::FileTooLarge)?;
        let count = u32::try_from(data.len()).map_err(|_| Error::Invalid)?;
        if count > 0 {
            let length = end.max(node.lock().length.get());
            let (_held, region) = self.hold_to_write(call, &node, length)?;
            let position = region.start() + offset;
            let mut changed = 0;
            let device = &self.device;
            let mut written = device.write_counting(position, data, WriteMode::TRY, &mut changed);
            if call.may_block && matches!(written, Err(CacheError::WouldBlock)) {
                names::CLIENT_WRITE_MISSES.add(1);
                written = device.write_at(position, data, WriteMode::WAIT);
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
            verifier: self.write_verifier(),
            change: Change {
                before: None,
                after,
            },
        })
    }

    /// Changes whenever something that was written may have been lost.
    pub(super) fn write_verifier(&self) -> [u8; 8] {
        let refused = self
            .remote
            .losses
            .load(std::sync::atomic::Ordering::Acquire);
        let losses = self.device.loss_epoch().wrapping_add(refused);
        let moved = losses.wrapping_mul(pagewell_fs::verifier::STEP);
        self.verifier.wrapping_add(moved).to_be_bytes()
    }

    /// Waits until everything of a file is on the server's stable storage.
    pub(super) fn make_safe(&self, node: &Node) -> Result<()> {
        let (region, writes) = node.lock().region_and_writes();
        if let Some(region) = region {
            let committed = self.device.commit(region.start(), region.length());
            committed.map_err(|error| self.error(&error))?;
        }
        node.lock().length.committed(writes);
        Ok(())
    }

    /// Waits until everything of a file is at the server.
    pub(super) fn write_out(&self, node: &Node) -> Result<()> {
        let (region, writes) = node.lock().region_and_writes();
        if let Some(region) = region {
            let written = self.device.write_out(region.start(), region.length());
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
        let region = state.region.filter(|_| state.length.is_uncommitted());
        drop(state);
        region.is_some_and(|region| self.device.has_dirty(region.start(), region.length()))
    }

    /// Finds out why the server's file is shorter than what was written to it, if it is: see
    /// [`super::length`]. Whether it was.
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
        let _alone = alone(node);
        let changes = node.lock().changes;
        self.throw_away(node)?;
        node.lock().data_changes = changes;
        Ok(())
    }

    /// Commits a file's data and discards it. The caller holds it alone.
    pub(super) fn throw_away(&self, node: &Node) -> Result<()> {
        self.make_safe(node)?;
        let region = node.lock().region;
        if let Some(region) = region {
            self.device.discard(region.start(), region.length());
        }
        Ok(())
    }

    /// Discards what is behind the end of a file whose length was set. The caller holds it alone.
    pub(super) fn cut_off(&self, node: &Node, size: u64) {
        let mut state = node.lock();
        state.cut(size, self.calls.now());
        let region = state.region;
        drop(state);
        if let Some(region) = region {
            let inside = size.min(region.length());
            self.device
                .discard(region.start() + inside, region.length() - inside);
        }
    }

    /// What a caller is told of an error of the cache.
    pub(super) fn error(&self, error: &CacheError) -> Error {
        match error {
            CacheError::WouldBlock => Error::WouldBlock,
            CacheError::Memory { .. } => Error::TryLater,
            CacheError::Device(DeviceError::Failed {
                errno: Errno::AGAIN,
                ..
            }) => Error::TryLater,
            CacheError::Device(DeviceError::Failed {
                errno: Errno::IO, ..
            }) => Error::Io(error.to_string()),
            CacheError::Device(DeviceError::Failed { errno, .. }) => Error::from(*errno),
            CacheError::Device(DeviceError::Abandoned { .. }) => {
                Error::Io(format!("{}: the mount has ended", self.calls.name()))
            }
            other => Error::Io(other.to_string()),
        }
    }
}
