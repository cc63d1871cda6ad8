//! COMMIT: each file with unstable writes, a few at a time; and one that a write needs by itself.
//!
//! What a flush covers was complete before it. So the file's record of unstable writes is taken
//! away when its COMMIT is sent; writes that are answered meanwhile begin a new one, for the next
//! flush.

use std::sync::Arc;

use pagewell_base::sync::Mutex;
use pagewell_device::{Error as DeviceError, Request};
use pagewell_sunrpc::client::{CallError, Outcome, Outgoing};
use pagewell_sunrpc::nfs3::{CommitArguments, CommitReply, Procedure, Status, WccData};
use pagewell_sunrpc::xdr::Decode;

use super::Remote;
use crate::attributes::Moment;
use crate::calls::Patience;
use crate::convert;
use crate::node::Node;

/// COMMITs of one flush on their way.
const AT_A_TIME: usize = 32;

/// A flush on its way.
struct Flushing {
    request: Request,
    waiting: Vec<Arc<Node>>,
    /// Files that are not done.
    left: usize,
    /// Why what was written before is not safe.
    failure: Option<DeviceError>,
}

/// What the COMMITs of a flush share; the last one takes it.
type SharedFlush = Arc<Mutex<Option<Flushing>>>;

/// How a COMMIT ended: well, which it is also with an error that is kept with the file;
/// [`DeviceError::Replay`] when the server has forgotten what it was given; else the mount ends.
type Ended = std::result::Result<(), DeviceError>;

/// What is done then.
type Then = Box<dyn FnOnce(&Arc<Remote>, Ended) + Send>;

/// A file that is committed.
struct Committing {
    node: Arc<Node>,
    /// What the server said when it took what is to be committed.
    verifier: [u8; 8],
    patience: Patience,
    then: Then,
}

impl Remote {
    pub(super) fn flush(self: &Arc<Self>, request: Request) {
        let nodes = self.files.take_uncommitted();
        if nodes.is_empty() {
            return request.succeed();
        }
        let flushing = Arc::new(Mutex::new(Some(Flushing {
            request,
            left: nodes.len(),
            waiting: nodes,
            failure: None,
        })));
        for _ in 0..AT_A_TIME {
            self.commit_next(&flushing);
        }
    }

    /// Sends the COMMIT of the next file that needs one.
    fn commit_next(self: &Arc<Self>, flushing: &SharedFlush) {
        loop {
            let next = flushing.lock().as_mut().and_then(|one| one.waiting.pop());
            let Some(node) = next else {
                return;
            };
            let taken = node.lock().uncommitted.take();
            let ended = match taken {
                None => Ok(()),
                // Completions would run here, one inside the other.
                Some(_) if self.calls.have_ended() => Err(DeviceError::Abandoned { offset: 0 }),
                // It has said already that it has forgotten.
                Some(taken) if taken.differs => self.forgotten(),
                Some(taken) => {
                    let flushing = flushing.clone();
                    return self.commit(node, taken.verifier, move |this, ended| {
                        this.one_done(&flushing, ended);
                        this.commit_next(&flushing);
                    });
                }
            };
            self.one_done(flushing, ended);
        }
    }

    /// Commits what the server has taken of a file with this verifier.
    pub(super) fn commit(
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
        let Ok(file) = convert::handle(&committing.node.id) else {
            return;
        };
        let arguments = CommitArguments {
            file,
            offset: 0,
            count: 0,
        };
        let writer = committing.node.lock().writer.clone();
        let credential = writer.as_ref().map_or(&self.nobody, |user| &user.encoded);
        let call = Outgoing::new(Procedure::Commit.number(), credential, &arguments);
        committing.node.begin_change();
        let (this, sent) = (self.clone(), self.calls.now());
        self.calls.client.submit(call, move |outcome| {
            this.end_commit(committing, sent, outcome)
        });
    }

    fn end_commit(self: Arc<Self>, committing: Committing, sent: Moment, outcome: Outcome<'_>) {
        let answer = outcome.and_then(|reply| {
            CommitReply::decode(&mut reply.decoder()).map_err(|error| reply.garbage(error))
        });
        let wcc = match &answer {
            Ok(Ok(done)) => done.file_wcc,
            Ok(Err(failure)) => failure.body,
            Err(_) => WccData::default(),
        };
        self.end_change(&committing.node, &wcc, sent);
        let ended = match answer {
            Ok(Ok(done)) if done.verifier == committing.verifier => Ok(()),
            Ok(Ok(_)) => self.forgotten(),
            Ok(Err(failure)) if failure.status == Status::Jukebox => {
                return self.commit_later(committing);
            }
            Ok(Err(failure)) => {
                self.write_failed(&committing.node, convert::error(failure.status));
                Ok(())
            }
            Err(CallError::QueueFull) => return self.commit_later(committing),
            Err(error @ CallError::Stopped) => Err(self.unanswered(0, &error)),
            Err(error) => {
                self.write_failed(&committing.node, self.calls.failure(&error));
                Ok(())
            }
        };
        (committing.then)(&self, ended);
    }

    fn commit_later(self: &Arc<Self>, mut committing: Committing) {
        let Some(pause) = committing.patience.next() else {
            self.write_failed(&committing.node, pagewell_fs::Error::TryLater);
            return (committing.then)(self, Ok(()));
        };
        let this = self.clone();
        self.after(pause, move || this.send_commit(committing));
    }

    fn forgotten(&self) -> Ended {
        let device = self.calls.name().to_owned();
        Err(DeviceError::Replay { device })
    }

    /// A file is done; the last one ends the flush.
    fn one_done(&self, flushing: &SharedFlush, ended: Ended) {
        let mut shared = flushing.lock();
        let Some(flush) = &mut *shared else {
            return;
        };
        match ended {
            Err(error @ DeviceError::Replay { .. }) => {
                flush.failure.get_or_insert(error);
            }
            Err(error) => flush.failure = Some(error),
            Ok(()) => {}
        }
        flush.left -= 1;
        if flush.left > 0 {
            return;
        }
        let Some(Flushing {
            request, failure, ..
        }) = shared.take()
        else {
            return;
        };
        drop(shared);
        match failure {
            Some(failure) => request.fail(0, failure),
            None => request.succeed(),
        }
    }
}
