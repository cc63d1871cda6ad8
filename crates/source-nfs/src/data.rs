//! Reading and writing files, through the cache, and keeping a file's region the file's meanwhile.
//!
//! **Problem.** A request for an address goes to the file that has the region. So a region may not
//! go to another file while a request for it is under way, and no byte may be written between the
//! moment when data is made safe and the one when it is thrown away. But a server may take minutes
//! for a READ, and nobody else is to wait for that.
//!
//! **Rule.**
//!
//! | what | has | so that |
//! |---|---|---|
//! | a read | no lock; is counted in the region | the region stays where it is |
//! | a write | the file's data, shared | its bytes are not thrown away unwritten |
//! | throwing away, cutting off | the file's data, alone | no thread writes in between |
//! | taking the region away | the data alone, no reader | no thread meets bytes of another file |
//!
//! Reads go on while data is thrown away: what is on its way then does not come into memory any
//! more ([`pagewell_cache::CachedDevice::discard`]), so that a later reader asks the server. A
//! region is taken from its file first, then what memory has of it is discarded, then another may
//! have it: so nothing that a last reader has brought in is left for the next file. It is taken
//! away only when nothing of it is on its way to the server, as a write that is would go to the
//! file that has it next.
//!
//! **Known weakness.** A file that outgrows its region, after a tebibyte, has to wait for its
//! readers, and meanwhile new ones wait for it.
//!
//! What is thrown away was committed before: pages with bytes that are not safe at the server never
//! leave the cache. On whose behalf data is written, and to whom errors are reported, stands in
//! `writers.rs`.

use std::sync::Arc;

use pagewell_cache::{Bounds, Error as CacheError, WriteMode};
use pagewell_counters::names;
use pagewell_device::Error as DeviceError;
use pagewell_fs::{
    Access, Call, Change, Committed, Error, FileId, Payload, ReadReply, Result, Stability, Written,
};
use pagewell_source_bytes::Run;
use rustix::io::Errno;

use super::filesystem::Shared;
use super::node::{Node, User};
use super::regions::{FILE_BYTES_MAX, Region};

/// Regions of others that are tried before a file is refused one.
const REUSE_ATTEMPTS: usize = 64;

/// A read in a file's region, which stays the file's.
pub(super) struct Reading<'a> {
    node: &'a Node,
    region: Region,
    /// Of the file, and its `unexpected_ends`, when the read began.
    size: u64,
    ends: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.node.lock();
        state.readers = state.readers.saturating_sub(1);
        if state.readers == 0 && state.is_moving {
            self.node.is_unread.notify_all();
        }
    }
}

impl Node {
    /// Takes its region from the file, unless a thread reads in it. The caller holds its data
    /// alone.
    pub(super) fn take_region(&self) -> Option<Region> {
        let mut state = self.lock();
        if state.readers > 0 {
            return None;
        }
        state.region.take()
    }

    /// The same, when the last reader has left. Until [`Self::end_move`] no other comes.
    fn begin_move(&self) -> Option<Region> {
        let mut state = self.lock();
        state.is_moving = true;
        while state.readers > 0 {
            state = self.is_unread.wait(state);
        }
        state.region.take()
    }

    fn end_move(&self) {
        self.lock().is_moving = false;
        self.is_unread.notify_all();
    }
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
            let start = reading.region.start();
            let rest = u32::try_from(reading.size - offset).unwrap_or(u32::MAX);
            let run = Run {
                position: start + offset,
                length: rest.min(count) as usize,
                bounds: Some(Bounds {
                    start,
                    end: start + reading.size,
                }),
            };
            let mut waited = false;
            let read = self.bytes.try_payload(&[run], call.may_block, &mut waited);
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

    /// Counts a reader in the region of a file, and has its data read on behalf of the caller from
    /// here on. `None`: there is nothing to read.
    fn begin_read<'a>(
        &self,
        call: &Call<'_>,
        node: &'a Arc<Node>,
        offset: u64,
        count: u32,
    ) -> Result<Option<Reading<'a>>> {
        loop {
            let mut state = node.lock();
            while state.is_moving {
                Self::may_wait(call)?;
                state = node.is_unread.wait(state);
            }
            if state.is_outdated() {
                drop(state);
                self.settle(call, node)?;
                continue;
            }
            let size = state.length.get();
            if offset >= size || count == 0 {
                return Ok(None);
            }
            let Some(region) = state.use_region(size) else {
                drop(state);
                self.make_room(call, node, size)?;
                continue;
            };
            state.readers += 1;
            if !User::is(state.reader.as_ref(), call.credentials) {
                state.reader = Some(self.user(call));
            }
            let ends = state.unexpected_ends;
            return Ok(Some(Reading {
                node,
                region,
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
            let (_held, region) = self.hold_to_write(call, &node, end)?;
            let position = region.start() + offset;
            let mut changed = 0;
            let device = &self.device;
            let mut written = device.write_counting(position, data, WriteMode::TRY, &mut changed);
            if call.may_block && matches!(written, Err(CacheError::WouldBlock)) {
                names::CLIENT_WRITE_MISSES.add(1);
                let (position, data) = (position + changed as u64, &data[changed..]);
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

    /// Gives a file a region for `length` bytes, or makes one free that it can have: the caller
    /// looks again.
    pub(super) fn make_room(&self, call: &Call<'_>, node: &Arc<Node>, length: u64) -> Result<()> {
        if length > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
        let region = node.lock().region;
        if let Some(region) = region {
            // Another thread may have got it a moment ago.
            if length <= region.capacity() {
                return Ok(());
            }
            Self::may_wait(call)?;
            self.outgrow(node, length)
        } else if self.files.take_region(node, length).is_some() {
            Ok(())
        } else {
            Self::may_wait(call)?;
            self.reclaim_region()
        }
    }

    /// Takes a region away that is too small; the next one is larger than it must be.
    fn outgrow(&self, node: &Arc<Node>, length: u64) -> Result<()> {
        let _alone = node.data.write();
        if node
            .lock()
            .region
            .is_some_and(|region| length <= region.capacity())
        {
            return Ok(()); // another thread has
        }
        self.make_safe(node)?;
        if let Some(region) = node.begin_move() {
            self.vacate(region);
        }
        let generous = (length + length / 2).min(FILE_BYTES_MAX);
        self.files.take_region(node, generous);
        node.end_move();
        Ok(())
    }

    /// Takes the region of a file that was not used for long.
    fn reclaim_region(&self) -> Result<()> {
        for _ in 0..REUSE_ATTEMPTS {
            let Some(victim) = self.files.offer() else {
                break;
            };
            let Some(_alone) = victim.data.try_write() else {
                continue;
            };
            if self.make_safe(&victim).is_ok()
                && let Some(region) = victim.take_region()
            {
                self.vacate(region);
                return Ok(());
            }
        }
        Err(Error::TryLater)
    }

    /// Forgets the data of a file that is no more, or of which nothing is to be written.
    pub(super) fn bury(&self, node: &Arc<Node>) {
        let Some(_alone) = node.data.try_write() else {
            return;
        };
        let (region, writes) = node.lock().region_and_writes();
        let Some(region) = region else {
            return;
        };
        let (start, length) = (region.start(), region.length());
        self.device.discard(start, length);
        node.lock().length.committed(writes);
        let is_on_its_way =
            self.device.has_dirty(start, length) || self.device.has_unflushed(start, length);
        if !is_on_its_way && let Some(region) = node.take_region() {
            self.vacate(region);
        }
    }

    /// Lets others have a region that was taken from its file.
    fn vacate(&self, region: Region) {
        self.device.discard(region.start(), region.length());
        self.files.give_back(region);
    }
}

#[cfg(test)]
mod tests;
