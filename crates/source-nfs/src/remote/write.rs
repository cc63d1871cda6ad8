//! WRITE, from pages straight to the server; and COMMIT, of a flushed file, or for a single write.
//!
//! **A server without COMMIT** is asked for it once. What it may forget is then written again, as
//! after a restart, and from there on each WRITE asks for FILE_SYNC. Where a server makes no write
//! stable either, the write fails.
//!
//! What a flush covers was complete before it. So its COMMIT takes away the file's record of
//! unstable writes; later answers begin a new one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use pagewell_device::{Error as DeviceError, Request};
use pagewell_fs::Error;
use pagewell_sunrpc::client::{CallError, DataSegments, Outcome, Outgoing};
use pagewell_sunrpc::nfs3::{
    CommitArguments, CommitReply, DecodeReply, Procedure, StableHow, Status, WccData, WriteHead,
    WriteOk, WriteReply,
};

use super::{Remote, memory_of, pieces, split};
use crate::attributes::Moment;
use crate::calls::{Patience, lacks_procedure};
use crate::convert;
use crate::node::{Node, Uncommitted};

/// Of at most one WRITE's bytes.
struct Writing {
    node: Arc<Node>,
    request: Request,
    /// Bytes that the server has taken.
    done: usize,
    /// The verifier of the first piece of the whole request.
    said: Arc<OnceLock<[u8; 8]>>,
    /// Of a durable write: what the server has taken otherwise.
    unstable: Option<Uncommitted>,
    /// Last sent with FILE_SYNC.
    is_asked_stable: bool,
    patience: Patience,
}

/// How a COMMIT ended: well, even with an error, which the file keeps; [`DeviceError::Replay`] when
/// the server has forgotten data; else the mount ends.
type Ended = std::result::Result<(), DeviceError>;

type Then = Box<dyn FnOnce(&Arc<Remote>, Ended) + Send>;

struct Committing {
    node: Arc<Node>,
    /// The server's, when it took the data.
    verifier: [u8; 8],
    patience: Patience,
    then: Then,
}

impl Remote {
    pub(super) fn write(self: &Arc<Self>, node: &Arc<Node>, request: Request) {
        let lengths = pieces(request.len(), self.write_bytes);
        let said = Arc::new(OnceLock::new());
        for request in split(request, &lengths) {
            self.send_write(Writing {
                node: node.clone(),
                request,
                done: 0,
                said: said.clone(),
                unstable: None,
                is_asked_stable: false,
                patience: self.calls.patience(),
            });
        }
    }

    fn send_write(self: &Arc<Self>, mut writing: Writing) {
        let memory = memory_of(&writing.request);
        // SAFETY: the memory is the request's, which the completion keeps: valid and not written to
        // until the request is completed, by the completion or by what it sends next.
        let data = unsafe { DataSegments::new(memory, writing.done) };
        let rest = writing.request.len() - writing.done;
        let count = u32::try_from(rest).unwrap_or(u32::MAX);
        let is_stable =
            self.calls.options().synchronous || writing.request.is_durable() || self.lacks_commit();
        writing.is_asked_stable = is_stable;
        let head = WriteHead {
            file: convert::handle(writing.node.id()),
            offset: writing.request.offset() + writing.done as u64,
            count,
            stable: if is_stable {
                StableHow::FileSync
            } else {
                StableHow::Unstable
            },
            data_length: count,
        };
        let credential = self.credential(writing.node.lock().writer());
        let call = Outgoing::new(Procedure::Write.number(), &credential, &head).with_data(data);
        writing.node.begin_change();
        self.send(call, |this, sent, outcome| {
            this.end_write(writing, sent, outcome)
        });
    }

    fn end_write(self: &Arc<Self>, writing: Writing, sent: Moment, outcome: Outcome<'_>) {
        let rest = writing.request.len() - writing.done;
        let answer =
            outcome.and_then(|reply| match reply.decode_with(WriteReply::decode_reply)? {
                Ok(done) if done.count as usize > rest => {
                    Err(reply.garbage("WRITE counts more bytes than it was given"))
                }
                answer => Ok(answer),
            });
        let wcc = match &answer {
            Ok(Ok(done)) => done.file_wcc,
            Ok(Err(failure)) => failure.body,
            Err(_) => WccData::default(),
        };
        self.files.end_change(&writing.node, &wcc, sent);
        match answer {
            Ok(Ok(done)) => self.go_on_writing(writing, &done),
            Ok(Err(failure)) if failure.status == Status::Jukebox => self.write_later(writing),
            Ok(Err(failure)) => self.refuse(writing, convert::error_of_object(failure.status)),
            Err(CallError::QueueFull) => self.write_later(writing),
            // The cache counts what the end of the mount loses.
            Err(error @ CallError::Stopped) => {
                let error = self.unanswered(writing.request.offset(), &error);
                writing.request.fail(writing.done, error);
            }
            Err(error) => self.refuse(writing, self.calls.failure(&error)),
        }
    }

    /// Ends a write that would be refused again.
    fn refuse(&self, writing: Writing, error: Error) {
        self.write_failed(&writing.node, error);
        writing.request.succeed();
    }

    fn go_on_writing(self: &Arc<Self>, mut writing: Writing, answer: &WriteOk) {
        let count = answer.count as usize;
        if count == 0 {
            return self.refuse(writing, Error::Io("WRITE takes nothing".to_owned()));
        }
        writing.done += count;
        let end = writing.request.offset() + writing.done as u64;
        let mut state = writing.node.lock();
        if answer.file_wcc.after.is_none() {
            state.length_mut().grew(end);
        }
        let verifier = answer.verifier;
        if answer.committed != StableHow::Unstable {
            drop(state);
        } else if writing.is_asked_stable && self.lacks_commit() {
            drop(state);
            let reason = "the server makes no write stable, and has no COMMIT";
            return self.refuse(writing, Error::Io(reason.to_owned()));
        } else if writing.request.is_durable() {
            drop(state);
            let known = writing.unstable.get_or_insert(Uncommitted::new(verifier));
            known.differs |= known.verifier != verifier;
        } else {
            // Also across a COMMIT, which takes the record away: pieces of one request may have
            // been before and after a restart.
            let first = *writing.said.get_or_init(|| verifier);
            state.took_unstable(first, verifier);
            drop(state);
        }
        if writing.done < writing.request.len() {
            return self.send_write(writing);
        }
        match writing.unstable.take() {
            None => writing.request.succeed(),
            Some(unstable) => self.commit_write(writing, unstable),
        }
    }

    /// Makes a durable write durable where the server has not, though it must (RFC 1813 section
    /// 3.3.7): no flush comes after it.
    fn commit_write(self: &Arc<Self>, mut writing: Writing, unstable: Uncommitted) {
        writing.done = 0;
        if unstable.differs || self.lacks_commit() {
            return self.write_later(writing);
        }
        let node = writing.node.clone();
        self.commit(node, unstable.verifier, |this, ended| match ended {
            Ok(()) => writing.request.succeed(),
            Err(DeviceError::Replay { .. }) => this.write_later(writing),
            Err(error) => writing.request.fail(0, error),
        });
    }

    fn write_later(self: &Arc<Self>, mut writing: Writing) {
        let Some(pause) = writing.patience.next() else {
            return self.refuse(writing, not_ready());
        };
        self.after(pause, |this| this.send_write(writing));
    }

    /// Commits a file that has unstable writes.
    pub(super) fn flush(self: &Arc<Self>, node: &Arc<Node>, request: Request) {
        let taken = node.lock().take_uncommitted();
        let answer = |ended: Ended| match ended {
            Ok(()) => request.succeed(),
            Err(error) => request.fail(0, error),
        };
        match taken {
            None => answer(Ok(())),
            // The server has forgotten data already, or may.
            Some(taken) if taken.differs || self.lacks_commit() => answer(self.forgotten()),
            Some(taken) => self.commit(node.clone(), taken.verifier, |_, ended| answer(ended)),
        }
    }

    fn commit(
        self: &Arc<Self>,
        node: Arc<Node>,
        verifier: [u8; 8],
        then: impl FnOnce(&Arc<Self>, Ended) + Send + 'static,
    ) {
        let (patience, then) = (self.calls.patience(), Box::new(then));
        self.send_commit(Committing {
            node,
            verifier,
            patience,
            then,
        });
    }

    fn send_commit(self: &Arc<Self>, committing: Committing) {
        let arguments = CommitArguments {
            file: convert::handle(committing.node.id()),
            offset: 0,
            count: 0,
        };
        let credential = self.credential(committing.node.lock().writer());
        let call = Outgoing::new(Procedure::Commit.number(), &credential, &arguments);
        committing.node.begin_change();
        self.send(call, |this, sent, outcome| {
            this.end_commit(committing, sent, outcome)
        });
    }

    fn end_commit(self: &Arc<Self>, committing: Committing, sent: Moment, outcome: Outcome<'_>) {
        let answer = outcome.and_then(|reply| reply.decode_with(CommitReply::decode_reply));
        let wcc = match &answer {
            Ok(Ok(done)) => done.file_wcc,
            Ok(Err(failure)) => failure.body,
            Err(_) => WccData::default(),
        };
        self.files.end_change(&committing.node, &wcc, sent);
        let ended = match answer {
            Ok(Ok(done)) if done.verifier == committing.verifier => Ok(()),
            Ok(Ok(_)) => self.forgotten(),
            Ok(Err(failure)) if failure.status == Status::Jukebox => {
                return self.commit_later(committing);
            }
            Ok(Err(failure)) if failure.status == Status::NotSupported => self.have_no_commit(),
            Err(error) if lacks_procedure(&error) => self.have_no_commit(),
            Ok(Err(failure)) => {
                self.write_failed(&committing.node, convert::error_of_object(failure.status));
                Ok(())
            }
            Err(CallError::QueueFull) => return self.commit_later(committing),
            Err(error @ CallError::Stopped) => Err(self.unanswered(0, &error)),
            Err(error) => {
                self.write_failed(&committing.node, self.calls.failure(&error));
                Ok(())
            }
        };
        (committing.then)(self, ended);
    }

    fn commit_later(self: &Arc<Self>, mut committing: Committing) {
        let Some(pause) = committing.patience.next() else {
            self.write_failed(&committing.node, not_ready());
            return (committing.then)(self, Ok(()));
        };
        self.after(pause, |this| this.send_commit(committing));
    }

    fn lacks_commit(&self) -> bool {
        self.lacks_commit.load(Ordering::Acquire)
    }

    /// No unstable write is ever known to be safe.
    fn have_no_commit(&self) -> Ended {
        self.lacks_commit.store(true, Ordering::Release);
        self.forgotten()
    }

    fn forgotten(&self) -> Ended {
        let device = self.calls.name().to_owned();
        Err(DeviceError::Replay { device })
    }
}

/// The data is given up: "later" would say that it still exists.
fn not_ready() -> Error {
    Error::Io("the server was not ready for too long".to_owned())
}
