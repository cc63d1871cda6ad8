//! Writes and what makes them durable.
//!
//! Problem: a source may lose what it took before a commit; another verifier says so. A program,
//! unlike an NFS client, cannot send the bytes again.
//!
//! Rule: a mount remembers the verifier of a file from its first write since its last commit, and
//! with each open file from its open, or from that write if it was before. A commit under another
//! verifier is an error, once for each open file, as local file systems report a failed write-back;
//! after writes during a commit perhaps twice.
//!
//! Appends. Problem: the kernel places an append by the last length that it got, over the data of
//! another client, or of a program below a mounted directory. Rule: a write through a file that is
//! open for appending goes to where the source says that the file ends. If the kernel took another
//! place, it drops its pages after the answer. As a source may write a part of an append before it
//! says that it would wait, only a thread that may wait appends, and repeats the call at the same
//! place.
//!
//! What the kernel writes late (its write-back, and `mmap`) is all taken or is an error: the kernel
//! does not look at the count there.
//!
//! Weakness: between the question for the length and the write, another client may append; programs
//! that append on several clients have to lock.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use fuser::{OpenFlags, WriteFlags};
use pagewell_base::shards::Shards;
use pagewell_counters::names;
use pagewell_fs::{Access, Call, Error, FileId, FileSystem, Result, Stability};

use crate::caller::Caller;
use crate::handles::Target;
use crate::nodes::Nodes;
use crate::privileges::Privileges;

pub(crate) struct Place {
    target: Target,
    offset: u64,
    /// At the end of the file, wherever that is.
    is_append: bool,
    /// From pages of the kernel.
    is_late: bool,
    /// The end that an append has found.
    end: OnceCell<u64>,
    /// The write takes set-user-id.
    takes_privileges: bool,
}

impl Place {
    pub(crate) fn new(
        target: Target,
        offset: u64,
        flags: OpenFlags,
        write_flags: WriteFlags,
    ) -> Self {
        Self {
            target,
            offset,
            is_append: is_append(flags, write_flags),
            is_late: write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            end: OnceCell::new(),
            takes_privileges: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        }
    }
}

/// Pages that the kernel writes late have a place.
fn is_append(flags: OpenFlags, write_flags: WriteFlags) -> bool {
    flags.0 & libc::O_APPEND != 0 && !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE)
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Uncommitted {
    /// Of the first write.
    verifier: [u8; 8],
    writes: u64,
}

pub(crate) struct Writing {
    files: Arc<dyn FileSystem>,
    nodes: Arc<Nodes>,
    privileges: Arc<Privileges>,
    /// A change of data is on the device when it is answered. For writes the kernel sees to that.
    is_synchronous: bool,
    uncommitted: Shards<HashMap<u64, Uncommitted>>,
}

impl Writing {
    pub(crate) fn new(
        files: &Arc<dyn FileSystem>,
        nodes: &Arc<Nodes>,
        privileges: &Arc<Privileges>,
        is_synchronous: bool,
    ) -> Self {
        Self {
            files: Arc::clone(files),
            nodes: Arc::clone(nodes),
            privileges: Arc::clone(privileges),
            is_synchronous,
            uncommitted: Shards::default(),
        }
    }

    /// Returns the count of bytes written, and whether the kernel took another place.
    pub(crate) fn write(&self, place: &Place, may_block: bool, data: &[u8]) -> Result<(u32, bool)> {
        let target = &place.target;
        let id = self.nodes.id(target.node())?;
        let offset = match place.end.get() {
            Some(end) => *end,
            None if place.is_append => {
                Error::WouldBlock.unless(may_block)?;
                let attributes = target.ask(may_block, Access::ALL, |call| {
                    self.files.attributes(call, &id)
                })?;
                *place.end.get_or_init(|| attributes.size)
            }
            None => place.offset,
        };
        let count = self.write_at(place, may_block, &id, (offset, data))?;
        Ok((count, offset != place.offset))
    }

    /// Writes all of `data`, or what goes before an error, unless the kernel writes late.
    fn write_at(
        &self,
        place: &Place,
        may_block: bool,
        id: &FileId,
        (offset, data): (u64, &[u8]),
    ) -> Result<u32> {
        let node = place.target.node();
        let verifier = self.verifier_since(node, id);
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            let is_first = done == 0;
            // Once a part is written, the rest cannot be left to another thread.
            let may_block = may_block || !is_first;
            let written = place.target.ask(may_block, Access::MODIFY, |call| {
                let takes_privileges = place.takes_privileges && is_first;
                self.privileges
                    .before_change(call, (node, id), takes_privileges)?;
                self.files.write(call, id, at, rest, Stability::Unstable)
            });
            match written {
                Ok(written) if written.count == 0 => {
                    Error::NoSpace.when(place.is_late)?;
                    break;
                }
                Ok(written) => {
                    done += written.count as usize;
                    if written.committed == Stability::Unstable {
                        self.note_written(node, verifier);
                    }
                }
                Err(error) if is_first || place.is_late => return Err(error),
                Err(_) => break,
            }
        }
        names::FUSE_WRITTEN_BYTES.add(done as u64);
        Ok(u32::try_from(done).unwrap_or(u32::MAX))
    }

    pub(crate) fn change<T>(
        &self,
        caller: &Caller,
        target: &Target,
        id: &FileId,
        change: impl Fn(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let node = target.node();
        let verifier = self.verifier_since(node, id);
        let done = target.ask(caller.may_block(), Access::MODIFY, |call| {
            self.privileges
                .before_change(call, (node, id), !caller.is_root())?;
            change(call)
        })?;
        self.note_written(node, verifier);
        if self.is_synchronous {
            self.commit(target, caller.may_block(), id, true)?;
        }
        Ok(done)
    }

    /// The verifier of a file before its first write that no commit has covered; without one, now.
    pub(crate) fn verifier_since(&self, node: u64, id: &FileId) -> [u8; 8] {
        let first = self.uncommitted(node).map(|first| first.verifier);
        first.unwrap_or_else(|| self.files.write_verifier(Some(id)))
    }

    fn uncommitted(&self, node: u64) -> Option<Uncommitted> {
        self.uncommitted.lock(node).get(&node).copied()
    }

    fn note_written(&self, node: u64, verifier: [u8; 8]) {
        let mut uncommitted = self.uncommitted.lock(node);
        let first = Uncommitted {
            verifier,
            writes: 0,
        };
        uncommitted.entry(node).or_insert(first).writes += 1;
    }

    /// Whether a loss would still have to be reported.
    pub(crate) fn has_uncommitted(&self, node: u64) -> bool {
        self.uncommitted.lock(node).contains_key(&node)
    }

    /// The kernel has forgotten the node.
    pub(crate) fn forget(&self, node: u64) {
        self.uncommitted.lock(node).remove(&node);
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
        let node = target.node();
        let before = self.uncommitted(node);
        let done = target.ask(may_block, Access::ALL, |call| {
            self.files.commit(call, id, 0, 0)?;
            match data_only {
                true => Ok(()),
                false => self.files.commit_metadata(call, id),
            }
        });
        if matches!(done, Err(Error::WouldBlock | Error::TryLater)) {
            return done;
        }
        // Another error reports what was lost, so the next commit must not report it again.
        let after = self.files.write_verifier(Some(id));
        let is_lost = match target.file() {
            Some(file) => file.has_moved(after),
            None => before.is_some_and(|before| before.verifier != after),
        };
        let mut uncommitted = self.uncommitted.lock(node);
        if before.is_some() && uncommitted.get(&node).copied() == before {
            uncommitted.remove(&node);
        }
        match done {
            Ok(()) if is_lost => Err(Error::Io("written data was lost".to_owned())),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests;
