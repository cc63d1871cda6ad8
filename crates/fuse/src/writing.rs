//! Writes and what makes them durable.
//!
//! Problem: a source may lose what it took before a commit, and tells so by another verifier. An
//! NFS client then sends the bytes again; a program cannot be asked to.
//!
//! Rule: the verifier of a file's first write since its last commit is remembered. A commit that
//! comes under another one is an error, once, as local file systems tell of a failed write-back.
//! The file is the kernel's node: that stays the same while the kernel knows it, and the source's
//! identifier of it need not.

use std::sync::Arc;

use fuser::{INodeNo, ReplyEmpty, ReplyWrite, Request};

use pagewell_counters::names;
use pagewell_fs::{Error, FileId, Result, Stability};

use crate::attributes::errno;
use crate::blocked::Ticket;
use crate::buffer_pool::Copied;
use crate::dispatch::Memory;
use crate::front::{Front, guarded};
use crate::handles::OpenFile;

/// Where the kernel wants bytes to go.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) node: u64,
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
        file: Option<Arc<OpenFile>>,
        data: &[u8],
        reply: ReplyWrite,
    ) {
        let write = move |front: &Self, may_block, data: &[u8]| {
            guarded(|| {
                let id = front.id(place.node)?;
                let file = file.as_deref();
                let offset = if place.appends {
                    front.end_of_file(file, may_block, &id)?
                } else {
                    place.offset
                };
                let node = (place.node, &id);
                let takes_privileges = place.takes_privileges;
                let count = front.write(file, may_block, node, offset, data, takes_privileges)?;
                Ok(Done { count, offset })
            })
        };
        match write(self, false, data) {
            Err(Error::WouldBlock) => {}
            done => return self.reply_written(reply, place, done),
        }
        let ticket = self.blocked.enter(request.pid(), reply);
        let finish = move |front: &Arc<Self>, ticket: Ticket<ReplyWrite>, done| {
            if let Some(reply) = ticket.finish() {
                front.reply_written(reply, place, done);
            }
        };
        if let Some(_here) = self.dispatch.here() {
            return finish(self, ticket, write(self, true, data));
        }
        let (front, data) = (Arc::clone(self), Copied::of(data));
        names::COPIED_BYTES.add(data.len() as u64);
        let (held, wanted) = (Memory::Data(data.len()), ticket.wanted());
        let job = move |_| {
            if ticket.is_wanted() {
                finish(&front, ticket, write(&front, true, &data));
            }
        };
        self.dispatch.hand_over(held, Some(wanted), Box::new(job));
    }

    /// Answers a request to close a descriptor.
    pub(crate) fn answer_close(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        file: Option<Arc<OpenFile>>,
        reply: ReplyEmpty,
    ) {
        self.answer_done(request, reply, move |front, _, may_block| {
            let id = front.id(node.0)?;
            front.close(file.as_deref(), may_block, &id)
        });
    }

    /// Answers a request to make a file durable.
    pub(crate) fn answer_commit(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        file: Option<Arc<OpenFile>>,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.answer_done(request, reply, move |front, _, may_block| {
            let id = front.id(node.0)?;
            front.commit(file.as_deref(), may_block, (node.0, &id), data_only)
        });
    }

    /// Answers a request to make the names in a directory durable.
    pub(crate) fn answer_commit_directory(
        self: &Arc<Self>,
        request: &Request,
        node: INodeNo,
        reply: ReplyEmpty,
    ) {
        self.answer_done(request, reply, move |front, caller, may_block| {
            let directory = front.id(node.0)?;
            let call = caller.call(may_block);
            front.filesystem.commit_metadata(&call, &directory)
        });
    }

    fn reply_written(self: &Arc<Self>, reply: ReplyWrite, place: Place, done: Result<Done>) {
        match done {
            Ok(done) => {
                reply.written(done.count);
                if done.offset != place.offset {
                    self.forget_pages(place.node);
                }
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Writes all of `data`, or what goes before an error: then that is what counts.
    pub(crate) fn write(
        &self,
        file: Option<&OpenFile>,
        may_block: bool,
        (node, id): (u64, &FileId),
        offset: u64,
        data: &[u8],
        takes_privileges: bool,
    ) -> Result<u32> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let filesystem = &self.filesystem;
            let at = offset + done as u64;
            let written = Self::ask_open(
                file,
                // Once a part is written, the rest cannot be left to another thread.
                may_block || done > 0,
                |file| file.writes,
                |call| {
                    self.before_change(call, (node, id), takes_privileges && done == 0)?;
                    filesystem.write(call, id, at, rest, Stability::Unstable)
                },
            );
            match written {
                Ok(written) if written.count == 0 => break,
                Ok(written) => {
                    done += written.count as usize;
                    if written.committed == Stability::Unstable {
                        self.note_written(node, written.verifier);
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
        written.entry(node).or_insert(verifier);
    }

    /// Brings a file to the device. What was lost since it was written is an error, once.
    pub(crate) fn commit(
        &self,
        file: Option<&OpenFile>,
        may_block: bool,
        (node, id): (u64, &FileId),
        data_only: bool,
    ) -> Result<()> {
        let before = self.written.lock(node).get(&node).copied();
        let any = |_: &OpenFile| true;
        let committed = Self::ask_open(file, may_block, any, |call| {
            self.filesystem.commit(call, id, 0, 0)
        })?;
        if !data_only {
            Self::ask_open(file, may_block, any, |call| {
                self.filesystem.commit_metadata(call, id)
            })?;
        }
        let mut written = self.written.lock(node);
        if before.is_some() && written.get(&node).copied() == before {
            written.remove(&node);
        }
        match before {
            Some(before) if before != committed.verifier => {
                Err(Error::Io("written data was lost".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The kernel does not know an object any more.
    pub(crate) fn forget(&self, node: u64, lookups: u64) {
        if self.nodes.forget(node, lookups) {
            self.written.lock(node).remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Dispatch;
    use pagewell_fs::{Call, Coherence, CreateMode, Credentials, Entry, FileSystem, SetAttributes};
    use pagewell_source_dir::{Directory, Options};

    struct Mounted {
        front: Front,
        user: Credentials,
    }

    impl Mounted {
        /// A directory whose identifiers tell where an object was found.
        fn new(place: &std::path::Path) -> Self {
            let options = Options {
                force_trails: true,
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
            let written = self
                .front
                .write(None, true, (node, &id), 0, b"bytes", false);
            assert_eq!(written, Ok(5));
        }

        fn commit(&self, node: u64) -> Result<()> {
            let id = self.front.id(node).unwrap();
            self.front.commit(None, true, (node, &id), true)
        }
    }

    #[test]
    fn what_was_lost_is_told_also_of_a_file_that_is_called_otherwise_since() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let node = mounted.create(b"file");
        mounted.write(node);
        // As if the source had lost all since.
        mounted
            .front
            .written
            .lock(node)
            .values_mut()
            .for_each(|one| one[0] ^= 1);
        assert_eq!(mounted.look_up_anew(b"file"), node);
        let lost = mounted.commit(node).unwrap_err().to_string();
        assert!(lost.contains("lost"), "{lost}");
        mounted.commit(node).unwrap();
    }

    #[test]
    fn the_kernel_is_not_asked_to_forget_what_no_commit_has_covered() {
        let place = tempfile::tempdir().unwrap();
        let mounted = Mounted::new(place.path());
        let node = mounted.create(b"file");
        let prunable = || {
            let parts = 0..crate::nodes::SHARDS;
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
