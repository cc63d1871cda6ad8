//! Reading and writing files, through the cache.
//!
//! **Problem.** No byte may be written between the commit of data and its discard; but no call is
//! to wait for a READ, which may take a server minutes.
//!
//! **Rule.**
//!
//! | what | has | so that |
//! |---|---|---|
//! | a read | no lock | none waits for it |
//! | a write | the file's data, shared | its bytes are not discarded unwritten |
//! | discarding, cutting off | the file's data, alone | no thread writes in between |
//!
//! What is read during a discard does not come into memory
//! ([`pagewell_cache::CachedObject::discard`]), so that a later reader asks the server.
//!
//! What is discarded was committed before. `writers.rs` says for which user data is written, and
//! which user gets errors.

use std::sync::Arc;

use pagewell_cache::{Bounds, CachedStore, Error as CacheError, LENGTH_BYTES_MAX, WriteMode};
use pagewell_counters::names;
use pagewell_device::Error as DeviceError;
use pagewell_fs::{
    Access, Attributes, Call, Change, Committed, Error, FileId, Payload, ReadReply, Result,
    SetAttributes, Stability, Timestamp, Written,
};
use pagewell_source_bytes::{Bytes, Run};
use pagewell_sunrpc::nfs3::{Procedure, SetattrArguments, SetattrReply};
use rustix::io::Errno;

use super::calls::{may_wait, whole};
use super::convert;
use super::naming::either;
use super::node::Node;
use super::objects::Objects;
use super::remote::{Remote, RemoteFile};

struct Reading<'a> {
    node: &'a Node,
    bytes: &'a Bytes,
    /// The file's, when the read began.
    size: u64,
    ends: u64,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.node.lock().end_read();
    }
}

/// Refuses bytes behind the largest offset of the cache.
pub(super) fn check_end(end: u64) -> Result<()> {
    Error::FileTooLarge.when(end > LENGTH_BYTES_MAX)
}

pub(super) struct Data {
    objects: Arc<Objects>,
    remote: Arc<Remote>,
    store: CachedStore,
    /// Before any loss.
    verifier: u64,
}

impl Data {
    pub(super) fn new(objects: Arc<Objects>, remote: Arc<Remote>, store: CachedStore) -> Self {
        Self {
            objects,
            remote,
            store,
            verifier: pagewell_fs::verifier::fresh(),
        }
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    pub(super) fn store(&self) -> &CachedStore {
        &self.store
    }

    /// Of one READ and of one WRITE.
    pub(super) fn transfer_bytes(&self) -> (u32, u32) {
        self.remote.transfer_bytes()
    }

    /// Ends all calls.
    pub(super) fn end(&self) {
        self.remote.end();
    }

    /// [`pagewell_fs::FileSystem::read`].
    pub(super) fn read(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        count: u32,
    ) -> Result<ReadReply> {
        let node = self.objects.node(id);
        self.objects
            .check_data(call, &node, Access::READ | Access::EXECUTE)?;
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
        // Another client may have made it shorter, as the answers to the reads show.
        if ends.is_some_and(|ends| ends != state.unexpected_ends()) {
            drop(state);
            self.objects.ask_attributes(call, &node)?;
            state = node.lock();
        }
        if state.length().is_in_doubt() {
            drop(state);
            self.end_doubt(call, &node)?;
            state = node.lock();
        }
        let size = state.length().get();
        let attributes = state.known().ok_or(Error::Stale)?;
        drop(state);
        payload.truncate(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        Ok(ReadReply {
            end_of_file: offset.saturating_add(payload.len() as u64) >= size,
            payload,
            attributes,
        })
    }

    fn bytes<'a>(&self, node: &'a Arc<Node>) -> &'a Bytes {
        node.bytes(|| {
            let file = RemoteFile::new(&self.remote, node);
            Bytes::of(self.store.open(Arc::new(file), None))
        })
    }

    /// Counts a reader. `None`: nothing to read.
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
            let size = state.length().get();
            if offset >= size || count == 0 {
                return Ok(None);
            }
            let ends = state.begin_read(call.credentials, || self.objects.user(call));
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
        let options = self.objects.calls().options();
        Error::ReadOnly.when(options.read_only)?;
        let is_stable = stability > Stability::Unstable || options.synchronous;
        if is_stable {
            may_wait(call)?;
        }
        let node = self.objects.node(id);
        let verifier = self.verifier_after(node.lock().losses());
        self.objects
            .check_data(call, &node, Access::MODIFY | Access::EXTEND)?;
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
                let mut more = 0;
                written = file.write_counting(offset, data, WriteMode::WAIT, &mut more);
                changed += more;
            } else {
                names::CLIENT_WRITE_HITS.add(u64::from(written.is_ok()));
            }
            if changed > 0 {
                // Of a write that failed, too: it may never be made again.
                node.lock().length_mut().wrote(offset + changed as u64);
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

    /// [`pagewell_fs::FileSystem::commit`] of the whole file.
    pub(super) fn commit(&self, call: &Call<'_>, id: &FileId) -> Result<Committed> {
        self.objects.calls().may_change(call)?;
        let node = self.objects.node(id);
        self.objects.check_data(call, &node, Access::ALL)?;
        self.commit_node(call, &node)?;
        let after = node.lock().known();
        Ok(Committed {
            verifier: self.verifier_after(node.lock().losses()),
            change: Change {
                before: None,
                after,
            },
        })
    }

    /// Changes whenever something written to a file (without `id`: to any) may have been lost.
    pub(super) fn write_verifier(&self, id: Option<&FileId>) -> [u8; 8] {
        self.verifier_after(id.map_or(0, |id| self.objects.node(id).lock().losses()))
    }

    fn verifier_after(&self, refused: u64) -> [u8; 8] {
        let losses = self.store.loss_epoch().wrapping_add(refused);
        pagewell_fs::verifier::after(self.verifier, losses)
    }

    /// Waits until all of a file is safe at the server.
    pub(super) fn make_safe(&self, node: &Node) -> Result<()> {
        let writes = node.lock().length().writes();
        if let Some(object) = node.object() {
            let committed = object.commit(0, LENGTH_BYTES_MAX);
            committed.map_err(|error| self.error(&error))?;
        }
        node.lock().length_mut().committed(writes);
        Ok(())
    }

    /// Waits until all of a file is at the server.
    pub(super) fn write_out(&self, node: &Node) -> Result<()> {
        let writes = node.lock().length().writes();
        if let Some(object) = node.object() {
            let written = object.write_out(0, LENGTH_BYTES_MAX);
            written.map_err(|error| self.error(&error))?;
        }
        node.lock().length_mut().cleaned(writes);
        Ok(())
    }

    /// Whether bytes of a file are not at the server: never written there, or forgotten.
    pub(super) fn is_dirty(&self, node: &Node) -> bool {
        let state = node.lock();
        if state.length().is_dirty() {
            return true;
        }
        let is_uncommitted = state.length().is_uncommitted();
        drop(state);
        let object = node.object().filter(|_| is_uncommitted);
        object.is_some_and(|object| object.has_dirty(0, LENGTH_BYTES_MAX))
    }

    /// Finds out why the server's file is shorter than what was written to it
    /// ([`super::attributes`]). False if it is not.
    pub(super) fn end_doubt(&self, call: &Call<'_>, node: &Node) -> Result<bool> {
        if !node.lock().length().is_in_doubt() {
            return Ok(false);
        }
        may_wait(call)?;
        self.make_safe(node)?;
        Ok(true)
    }

    /// Discards what others have changed, after writing what is ours.
    pub(super) fn settle(&self, call: &Call<'_>, node: &Arc<Node>) -> Result<()> {
        if !node.lock().is_outdated() {
            return Ok(());
        }
        may_wait(call)?;
        let _alone = node.data().write();
        let changes = node.lock().changes();
        self.throw_away(node)?;
        node.lock().threw_away(changes);
        Ok(())
    }

    /// Commits a file's data and discards it. The caller holds the data alone.
    pub(super) fn throw_away(&self, node: &Node) -> Result<()> {
        self.make_safe(node)?;
        discard(node, 0);
        Ok(())
    }

    /// Discards what is behind a set length. The caller holds the data alone.
    pub(super) fn cut_off(&self, node: &Node, size: u64) {
        node.lock().cut(size, self.objects.calls().now());
        discard(node, size);
    }

    /// [`pagewell_fs::FileSystem::attributes`], after all is written.
    pub(super) fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let node = self.objects.node(id);
        if self.is_dirty(&node) {
            may_wait(call)?;
            self.write_out(&node)?;
        }
        let attributes = self.objects.attributes_of(call, &node)?;
        if self.end_doubt(call, &node)? {
            self.objects.attributes_of(call, &node)
        } else {
            Ok(attributes)
        }
    }

    /// [`pagewell_fs::FileSystem::set_attributes`].
    ///
    /// What was written before is made safe first: written later, or again, it would make the file
    /// longer, or its times newer, than asked for, take set-user-id away, or be refused to a user
    /// that has lost the permission.
    pub(super) fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.objects.calls().may_change(call)?;
        attributes.size.map_or(Ok(()), check_end)?;
        let node = self.objects.node(id);
        let _alone = attributes.size.map(|_| node.data().write());
        if node.lock().is_uncommitted() {
            self.make_safe(&node)?;
        }
        let mut change = self.ask_to_set(call, &node, attributes, guard)?;
        if let Some(size) = attributes.size {
            self.cut_off(&node, size);
            // Without a report only the length is known.
            change.after = change.after.and_then(|_| node.lock().known());
        }
        Ok(change)
    }

    fn ask_to_set(
        &self,
        call: &Call<'_>,
        node: &Node,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        let object = self.objects.root().on_wire(node.id());
        let arguments = SetattrArguments {
            object: convert::handle(&object),
            attributes: convert::set_attributes(attributes)?,
            guard: guard.map(convert::time).transpose()?,
        };
        node.begin_change();
        let answer =
            self.objects
                .calls()
                .ask(call, Procedure::Setattr, &arguments, whole::<SetattrReply>);
        let answer = answer.inspect_err(|_| {
            node.end_unanswered(self.objects.calls().now());
            if attributes.size.is_some() {
                // It may have been cut off: its cached data is not believed.
                node.lock().changed_by_others();
            }
        })?;
        let wcc = either(&answer.value);
        let (change, _) = self.objects.files().end_change(node, wcc, answer.sent);
        match answer.value {
            Ok(_) => {
                let is_reported = change.after.is_some();
                node.lock().was_set(self.objects.calls().now(), is_reported);
                Ok(change)
            }
            Err(failure) => Err(convert::error_of_object(failure.status)),
        }
    }

    /// The caller's error for one of the cache.
    pub(super) fn error(&self, error: &CacheError) -> Error {
        match error {
            CacheError::WouldBlock => Error::WouldBlock,
            CacheError::Memory { .. } => Error::TryLater,
            CacheError::Device(DeviceError::Failed { errno, .. }) => match *errno {
                Errno::AGAIN => Error::TryLater,
                Errno::IO => Error::Io(error.to_string()),
                errno => Error::from(errno),
            },
            CacheError::Device(DeviceError::Abandoned { .. }) => Error::Io(format!(
                "{}: the mount has ended",
                self.objects.calls().name()
            )),
            other => Error::Io(other.to_string()),
        }
    }
}

/// Forgets the data of a file that is gone, or of which nothing is to be written.
pub(super) fn bury(node: &Node) {
    let Some(_alone) = node.data().try_write() else {
        return;
    };
    let writes = node.lock().length().writes();
    discard(node, 0);
    node.lock().length_mut().committed(writes);
}

fn discard(node: &Node, offset: u64) {
    if let Some(object) = node.object() {
        let length = LENGTH_BYTES_MAX.saturating_sub(offset);
        object.discard(offset, length);
    }
}
