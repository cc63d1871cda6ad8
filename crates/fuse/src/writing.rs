//! Writes and what makes them durable.
//!
//! Problem: a source may lose what it took before a commit, and tells so by another verifier. An
//! NFS client then sends the bytes again; a program cannot be asked to.
//!
//! Rule: the verifier of a file is remembered from its first write since its last commit, and with
//! each open file from when it was opened, or from that write if it was before. A commit that comes
//! under another one is an error, once for each open file, as local file systems tell of a failed
//! write-back. What is written while a commit is at work may not be covered by it: then the first
//! write stays remembered, and a loss may be told twice. The file is the kernel's node: that stays
//! the same while the kernel knows it, and the source's identifier of it need not.

use std::cell::OnceCell;
use std::sync::Arc;

use fuser::{ReplyWrite, Request};
use pagewell_counters::names;
use pagewell_fs::{Access, Error, FileId, Result, Stability};

use crate::buffer_pool;
use crate::dispatch::Memory;
use crate::front::{Front, Uncommitted, guarded};
use crate::handles::Target;

/// Where the kernel wants bytes to go.
pub(crate) struct Place {
    pub(crate) target: Target,
    pub(crate) offset: u64,
    /// At the end of the file, wherever that is.
    pub(crate) appends: bool,
    /// Where an append has found the end.
    pub(crate) end: OnceCell<u64>,
    /// Set-user-id goes.
    pub(crate) takes_privileges: bool,
}

/// What was written, and where.
struct Done {
    count: u32,
    offset: u64,
}

impl Front {
    /// As [`Front::answer`], without a copy of the data unless another thread must wait.
    pub(crate) fn answer_write(
        self: &Arc<Self>,
        request: &Request,
        place: Place,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let (node, offset) = (place.target.node, place.offset);
        let write = move |front: &Self, may_block, data: &[u8]| {
            guarded(|| front.write_at(&place, may_block, data))
        };
        let finish = move |front: &Self, reply: ReplyWrite, done: Done| {
            reply.written(done.count);
            if done.offset != offset {
                front.forgetting.want(node);
            }
        };
        match write(self, false, data) {
            Err(Error::WouldBlock) => {}
            done => return self.finish(reply, done, finish),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        if let Some(_here) = self.dispatch.here(Memory::None) {
            return self.settle(ticket, write(self, true, data), finish);
        }
        let data = buffer_pool::copy_of(data);
        names::COPIED_BYTES.add(data.len() as u64);
        let memory = Memory::Data(data.len());
        let write = move |front: &Self, _| {
            let done = write(front, true, &data);
            buffer_pool::give_back(data);
            done
        };
        self.hand_over(ticket, memory, write, finish);
    }

    fn write_at(&self, place: &Place, may_block: bool, data: &[u8]) -> Result<Done> {
        let target = &place.target;
        let id = self.id(target.node)?;
        let offset = match place.end.get() {
            Some(end) => *end,
            None if place.appends => {
                // See [`crate::appending`].
                Error::WouldBlock.unless(may_block)?;
                let attributes = target.ask(may_block, Access::ALL, |call| {
                    self.filesystem.attributes(call, &id)
                })?;
                *place.end.get_or_init(|| attributes.size)
            }
            None => place.offset,
        };
        let takes_privileges = place.takes_privileges;
        let count = self.write(target, may_block, &id, (offset, data), takes_privileges)?;
        Ok(Done { count, offset })
    }

    /// Writes all of `data`, or what goes before an error: then that is what counts.
    fn write(
        &self,
        target: &Target,
        may_block: bool,
        id: &FileId,
        (offset, data): (u64, &[u8]),
        takes_privileges: bool,
    ) -> Result<u32> {
        let verifier = self.verifier_since(target.node, id);
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            // Once a part is written, the rest cannot be left to another thread.
            let may_block = may_block || done > 0;
            let written = target.ask(may_block, Access::MODIFY, |call| {
                self.before_change(call, (target.node, id), takes_privileges && done == 0)?;
                self.filesystem
                    .write(call, id, at, rest, Stability::Unstable)
            });
            match written {
                Ok(written) if written.count == 0 => break,
                Ok(written) => {
                    done += written.count as usize;
                    if written.committed == Stability::Unstable {
                        self.note_written(target.node, verifier);
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        names::FUSE_WRITTEN_BYTES.add(done as u64);
        Ok(u32::try_from(done).unwrap_or(u32::MAX))
    }

    /// The verifier of a file before its first write that no commit has covered; without one, now.
    pub(crate) fn verifier_since(&self, node: u64, id: &FileId) -> [u8; 8] {
        let first = self.written.lock(node).get(&node).map(|one| one.verifier);
        first.unwrap_or_else(|| self.filesystem.write_verifier(Some(id)))
    }

    pub(crate) fn note_written(&self, node: u64, verifier: [u8; 8]) {
        let mut written = self.written.lock(node);
        let first = Uncommitted {
            verifier,
            writes: 0,
        };
        written.entry(node).or_insert(first).writes += 1;
    }

    /// Brings a file to the device. What was lost since it was written is an error, once for each
    /// open file.
    pub(crate) fn commit(
        &self,
        target: &Target,
        may_block: bool,
        id: &FileId,
        data_only: bool,
    ) -> Result<()> {
        let node = target.node;
        let before = self.written.lock(node).get(&node).copied();
        let commit = || {
            target.ask(may_block, Access::ALL, |call| {
                self.filesystem.commit(call, id, 0, 0)
            })?;
            if !data_only {
                target.ask(may_block, Access::ALL, |call| {
                    self.filesystem.commit_metadata(call, id)
                })?;
            }
            Ok(())
        };
        let done = commit();
        if matches!(done, Err(Error::WouldBlock | Error::TryLater)) {
            return done;
        }
        // Another error tells of what was lost, which the next commit is not to tell again.
        let after = self.filesystem.write_verifier(Some(id));
        let is_lost = match &target.file {
            Some(file) => file.is_untold(after),
            None => before.is_some_and(|before| before.verifier != after),
        };
        let mut written = self.written.lock(node);
        if before.is_some() && written.get(&node).copied() == before {
            written.remove(&node);
        }
        match done {
            Ok(()) if is_lost => Err(Error::Io("written data was lost".to_owned())),
            done => done,
        }
    }

    /// The kernel does not know an object any more.
    pub(crate) fn forget(&self, node: u64, lookups: u64) {
        if self.nodes.forget(&*self.filesystem, node, lookups) {
            self.written.lock(node).remove(&node);
        }
    }
}

#[cfg(test)]
mod tests;
