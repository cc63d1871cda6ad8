//! WRITE: from pages straight to the server.

use std::sync::{Arc, OnceLock};

use pagewell_device::{Error as DeviceError, Request};
use pagewell_fs::Error;
use pagewell_sunrpc::client::{CallError, DataSegments, Outcome, Outgoing};
use pagewell_sunrpc::nfs3::{
    Procedure, StableHow, Status, WccData, WriteHead, WriteOk, WriteReply,
};
use pagewell_sunrpc::xdr::Decode;

use super::{Remote, pieces, rest_of, split};
use crate::attributes::Moment;
use crate::calls::Patience;
use crate::convert;
use crate::node::{Node, Uncommitted};

/// A write of at most one WRITE's bytes.
struct Writing {
    node: Arc<Node>,
    /// Of its first byte in the file.
    offset: u64,
    request: Request,
    /// Bytes that the server has taken.
    done: usize,
    /// What the server said when it took the first piece of the request that this is a piece of.
    said: Arc<OnceLock<[u8; 8]>>,
    /// Of a durable write: what the server has taken otherwise.
    unstable: Option<Uncommitted>,
    patience: Patience,
}

impl Remote {
    pub(super) fn write(self: &Arc<Self>, request: Request) {
        let address = request.offset();
        let Some((node, offset)) = self.files.at(address, request.len()) else {
            // A region is given back only when nothing of it is dirty or on its way.
            let error = Error::Io("no file has these bytes".to_owned());
            return request.fail(0, self.failed(address, &error));
        };
        let lengths = pieces(request.len(), self.write_bytes);
        let said = Arc::new(OnceLock::new());
        for request in split(request, &lengths) {
            self.send_write(Writing {
                node: node.clone(),
                offset: offset + (request.offset() - address),
                request,
                done: 0,
                said: said.clone(),
                unstable: None,
                patience: self.calls.patience(),
            });
        }
    }

    fn send_write(self: &Arc<Self>, writing: Writing) {
        let Ok(file) = convert::handle(&writing.node.id) else {
            return;
        };
        // SAFETY: the memory is the request's, which is kept by the completion: valid and not
        // written to until the request is completed, which the completion does or what it sends
        // next.
        let data = unsafe { DataSegments::new(rest_of(&writing.request, writing.done)) };
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let is_stable = self.synchronous || writing.request.is_durable();
        let head = WriteHead {
            file,
            offset: writing.offset + writing.done as u64,
            count,
            stable: if is_stable {
                StableHow::FileSync
            } else {
                StableHow::Unstable
            },
            data_length: count,
        };
        let writer = writing.node.lock().writer.clone();
        let credential = writer.as_ref().map_or(&self.nobody, |user| &user.encoded);
        let call = Outgoing::new(Procedure::Write.number(), credential, &head).with_data(data);
        writing.node.begin_change();
        let (this, sent) = (self.clone(), self.calls.now());
        self.calls
            .client
            .submit(call, move |outcome| this.end_write(writing, sent, outcome));
    }

    fn end_write(self: Arc<Self>, writing: Writing, sent: Moment, outcome: Outcome<'_>) {
        let rest = writing.request.len() - writing.done;
        let answer = outcome.and_then(|reply| match WriteReply::decode(&mut reply.decoder()) {
            Ok(Ok(done)) if done.count as usize > rest => {
                Err(reply.garbage("WRITE counts more bytes than it was given"))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(reply.garbage(error)),
        });
        let wcc = match &answer {
            Ok(Ok(done)) => done.file_wcc,
            Ok(Err(failure)) => failure.body,
            Err(_) => WccData::default(),
        };
        self.end_change(&writing.node, &wcc, sent);
        match answer {
            Ok(Ok(done)) => self.go_on_writing(writing, &done),
            Ok(Err(failure)) if failure.status == Status::Jukebox => self.write_later(writing),
            Ok(Err(failure)) => self.refuse(writing, convert::error(failure.status)),
            Err(CallError::QueueFull) => self.write_later(writing),
            // The mount ends: the cache counts what is lost.
            Err(error @ CallError::Stopped) => {
                let error = self.unanswered(writing.request.offset(), &error);
                writing.request.fail(writing.done, error);
            }
            Err(error) => self.refuse(writing, self.calls.failure(&error)),
        }
    }

    /// Ends a write that will not be taken next time either.
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
        let end = writing.offset + writing.done as u64;
        let mut state = writing.node.lock();
        if answer.file_wcc.after.is_none() {
            state.length.grew(end);
        }
        let verifier = answer.verifier;
        let fresh = Uncommitted {
            verifier,
            differs: false,
        };
        if answer.committed != StableHow::Unstable {
            drop(state);
        } else if writing.request.is_durable() {
            drop(state);
            let known = writing.unstable.get_or_insert(fresh);
            known.differs |= known.verifier != verifier;
        } else {
            // Also across a COMMIT, which takes the record away: a request in several pieces may
            // have been before and after a restart. Of other requests each is in one record: those
            // that a flush has called lost do not make it lose the next that are written.
            let first = *writing.said.get_or_init(|| verifier);
            let known = state.uncommitted.get_or_insert(fresh);
            known.differs |= first != verifier || known.verifier != verifier;
            drop(state);
            // Before the request ends: the flush after it must find the file.
            self.files.note_uncommitted(&writing.node);
        }
        if writing.done < writing.request.len() {
            return self.send_write(writing);
        }
        match writing.unstable.take() {
            None => writing.request.succeed(),
            Some(unstable) => self.commit_write(writing, unstable),
        }
    }

    /// Makes a write durable that was to be, and that the server has not made so, though it must
    /// (RFC 1813 section 3.3.7): no flush comes after it.
    fn commit_write(self: &Arc<Self>, mut writing: Writing, unstable: Uncommitted) {
        writing.done = 0;
        if unstable.differs {
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
            return self.refuse(writing, Error::TryLater);
        };
        let this = self.clone();
        self.after(pause, move || this.send_write(writing));
    }
}
