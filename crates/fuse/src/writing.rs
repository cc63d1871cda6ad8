//! Writes and what makes them durable.
//!
//! Problem: a source may lose what it took before a commit, and tells so by another verifier. An
//! NFS client then sends the bytes again; a program cannot be asked to.
//!
//! Rule: the verifier of a file's first write since its last commit is remembered. A commit that
//! comes under another one is an error, once, as local file systems tell of a failed write-back.
//! What is written while a commit is at work may not be covered by it: then the verifier stays
//! remembered, and a loss may be told twice. The file is the kernel's node: that stays the same
//! while the kernel knows it, and the source's identifier of it need not.

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
                names::FUSE_APPENDS_MOVED.add(1);
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
        let offset = if place.appends {
            let attributes = target.ask(may_block, Access::ALL, |call| {
                self.filesystem.attributes(call, &id)
            })?;
            attributes.size
        } else {
            place.offset
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
                        self.note_written(target.node, written.verifier);
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        names::FUSE_WRITTEN_BYTES.add(done as u64);
        Ok(u32::try_from(done).unwrap_or(u32::MAX))
    }

    pub(crate) fn note_written(&self, node: u64, verifier: [u8; 8]) {
        let mut written = self.written.lock(node);
        let first = Uncommitted {
            verifier,
            writes: 0,
        };
        written.entry(node).or_insert(first).writes += 1;
    }

    /// Brings a file to the device. What was lost since it was written is an error, once.
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
            let committed = target.ask(may_block, Access::ALL, |call| {
                self.filesystem.commit(call, id, 0, 0)
            })?;
            if !data_only {
                target.ask(may_block, Access::ALL, |call| {
                    self.filesystem.commit_metadata(call, id)
                })?;
            }
            Ok(committed.verifier)
        };
        let after = commit();
        // Another error tells of what was lost, which the next commit is not to tell again.
        let is_told = !matches!(after, Err(Error::WouldBlock | Error::TryLater));
        let mut written = self.written.lock(node);
        if is_told && before.is_some() && written.get(&node).copied() == before {
            written.remove(&node);
        }
        let after = after?;
        match before {
            Some(before) if before.verifier != after => {
                Err(Error::Io("written data was lost".to_owned()))
            }
            _ => Ok(()),
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
mod tests {
    use super::*;
    use crate::dispatch::Dispatch;
    use pagewell_fs::{Call, Coherence, CreateMode, Credentials, Entry, FileSystem, SetAttributes};
    use pagewell_source_dir::durability::{KernelSync, SyncCalls};
    use pagewell_source_dir::{Directory, Options};
    use rustix::io::Errno;
    use std::os::fd::BorrowedFd;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Mounted {
        front: Front,
        user: Credentials,
    }

    impl Mounted {
        /// A directory whose identifiers tell where an object was found.
        fn new(place: &std::path::Path) -> Self {
            Self::syncing(place, Arc::new(KernelSync))
        }

        fn syncing(place: &std::path::Path, sync_calls: Arc<dyn SyncCalls>) -> Self {
            let options = Options {
                force_trails: true,
                sync_calls,
                ..Options::default()
            };
            let files = Arc::new(Directory::open(place, options).unwrap());
            Self {
                front: Front::new(files, Coherence::NONE, Dispatch::new(1, 1)),
                user: Credentials::new(
                    rustix::process::geteuid().as_raw(),
                    rustix::process::getegid().as_raw(),
                    &[],
                ),
            }
        }

        fn call(&self) -> Call<'_> {
            Call {
                credentials: &self.user,
                may_block: true,
            }
        }

        fn files(&self) -> &dyn FileSystem {
            &*self.front.filesystem
        }

        fn told(&self, entry: &Entry) -> u64 {
            self.front.nodes.remember(self.files(), entry)
        }

        /// A file in the root that the kernel knows.
        fn create(&self, name: &[u8]) -> u64 {
            let attributes = SetAttributes {
                mode: Some(0o644),
                ..SetAttributes::default()
            };
            let mode = CreateMode::Guarded(attributes);
            let root = self.files().root();
            let created = self.files().create(&self.call(), &root, name, &mode);
            self.told(&created.unwrap().entry)
        }

        /// The kernel looks the file up again, and the source does not remember how it called it
        /// before: the same object has another identifier.
        fn look_up_anew(&self, name: &[u8]) -> u64 {
            let (files, call) = (self.files(), self.call());
            let found = files.lookup(&call, &files.root(), name).unwrap();
            let id = FileId::new(&[found.id.as_bytes(), &[7]].concat()).unwrap();
            self.told(&Entry { id, ..found })
        }

        fn write(&self, node: u64) {
            let id = self.front.id(node).unwrap();
            let target = Target { node, file: None };
            let written = self.front.write(&target, true, &id, (0, b"bytes"), false);
            assert_eq!(written, Ok(5));
        }

        fn commit(&self, node: u64) -> Result<()> {
            let id = self.front.id(node).unwrap();
            let target = Target { node, file: None };
            self.front.commit(&target, true, &id, true)
        }

        /// As if the source had lost all that was written.
        fn lose(&self, node: u64) {
            let mut written = self.front.written.lock(node);
            written.values_mut().for_each(|one| one.verifier[0] ^= 1);
        }
    }

    /// A first sync that lasts from one passage of the barrier to the next.
    struct Gated(Barrier, AtomicBool);

    impl SyncCalls for Gated {
        fn sync_data(&self, file: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
            let Self(gate, is_open) = self;
            if !is_open.swap(true, Ordering::SeqCst) {
                gate.wait();
                gate.wait();
            }
            KernelSync.sync_data(file)
        }
    }

    #[test]
    fn what_is_written_while_a_commit_is_at_work_is_not_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let calls = Arc::new(Gated(Barrier::new(2), AtomicBool::new(false)));
        let mounted = Mounted::syncing(place.path(), calls.clone());
        let node = mounted.create(b"file");
        mounted.write(node);
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| mounted.commit(node));
            calls.0.wait();
            mounted.write(node);
            calls.0.wait();
            commit.join().unwrap().unwrap();
        });
        mounted.lose(node);
        assert!(mounted.commit(node).is_err(), "the second write was lost");
        mounted.commit(node).unwrap();
    }

    /// The first sync fails.
    #[derive(Default)]
    struct FailsOnce(AtomicBool);

    impl SyncCalls for FailsOnce {
        fn sync_data(&self, file: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
            if self.0.swap(true, Ordering::SeqCst) {
                KernelSync.sync_data(file)
            } else {
                Err(Errno::NOSPC)
            }
        }
    }

    #[test]
    fn an_error_of_the_source_itself_is_told_once() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::syncing(place.path(), Arc::new(FailsOnce::default()));
        let node = mounted.create(b"file");
        mounted.write(node);
        assert_eq!(mounted.commit(node), Err(Error::NoSpace));
        assert_eq!(mounted.commit(node), Ok(()));
    }

    #[test]
    fn what_was_lost_is_told_also_of_a_file_that_is_called_otherwise_since() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let node = mounted.create(b"file");
        mounted.write(node);
        mounted.lose(node);
        assert_eq!(mounted.look_up_anew(b"file"), node);
        let lost = mounted.commit(node).unwrap_err().to_string();
        assert!(lost.contains("lost"), "{lost}");
        mounted.commit(node).unwrap();
    }

    #[test]
    fn a_generation_is_of_the_object_and_not_of_what_it_is_called() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let generation = |node| {
            let id = mounted.front.id(node).unwrap();
            mounted.front.generation(node, &id).0
        };
        let (one, other) = (mounted.create(b"one"), mounted.create(b"other"));
        let before = generation(one);
        assert_ne!(before, generation(other));
        mounted.look_up_anew(b"one");
        assert_eq!(generation(one), before);
    }

    #[test]
    fn the_kernel_is_not_asked_to_forget_what_no_commit_has_covered() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let node = mounted.create(b"file");
        let prunable = || {
            let parts = 0..crate::nodes::PARTS;
            parts
                .flat_map(|part| mounted.front.prunable(part))
                .collect::<Vec<_>>()
        };
        assert_eq!(prunable(), [node]);
        mounted.write(node);
        assert_eq!(prunable(), []);
        mounted.commit(node).unwrap();
        assert_eq!(prunable(), [node]);
    }

    #[test]
    fn nothing_is_remembered_of_a_file_that_the_kernel_forgot() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let node = mounted.create(b"file");
        mounted.write(node);
        assert_eq!(
            mounted
                .front
                .written
                .each()
                .map(|part| part.len())
                .sum::<usize>(),
            1
        );
        mounted.look_up_anew(b"file");
        mounted.front.forget(node, 2);
        assert_eq!(mounted.front.nodes.id(node), None);
        assert_eq!(
            mounted
                .front
                .written
                .each()
                .map(|part| part.len())
                .sum::<usize>(),
            0
        );
    }
}
