//! COMMIT: each file with unstable writes, a few at a time; and one that a write needs by itself.
//!
//! What a flush covers was complete before it. So the file's record of unstable writes is taken
//! away when its COMMIT is sent; writes that are answered meanwhile begin a new one, for the next
//! flush.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_device::{Error as DeviceError, Request};
use pagewell_sunrpc::client::{CallError, Outcome, Outgoing};
use pagewell_sunrpc::nfs3::{CommitArguments, CommitReply, Procedure, Status};
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
    waiting: Mutex<Vec<Arc<Node>>>,
    /// Files that are not done.
    left: AtomicUsize,
    /// A server has forgotten something.
    must_replay: AtomicBool,
    failure: Mutex<Option<DeviceError>>,
    request: Mutex<Option<Request>>,
}

/// How a COMMIT ended.
pub(super) enum Ended {
    /// Well, or with an error that is kept with the file.
    Done,
    /// The server has forgotten what it was given.
    Forgotten,
    /// The mount ends.
    Stopped(DeviceError),
}

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
        let flushing = Arc::new(Flushing {
            left: AtomicUsize::new(nodes.len()),
            waiting: Mutex::new(nodes),
            must_replay: AtomicBool::new(false),
            failure: Mutex::new(None),
            request: Mutex::new(Some(request)),
        });
        for _ in 0..AT_A_TIME {
            self.commit_next(&flushing);
        }
    }

    /// Sends the COMMIT of the next file that needs one.
    fn commit_next(self: &Arc<Self>, flushing: &Arc<Flushing>) {
        loop {
            let next = flushing.waiting.lock().pop();
            let Some(node) = next else {
                return;
            };
            let taken = node.lock().uncommitted.take();
            match taken {
                // Completions would run here, one inside the other.
                Some(_) if self.calls.have_ended() => {
                    *flushing.failure.lock() = Some(DeviceError::Abandoned { offset: 0 });
                }
                Some(taken) if !taken.differs => {
                    let flushing = flushing.clone();
                    return self.commit(node, taken.verifier, move |this, ended| {
                        match ended {
                            Ended::Done => {}
                            Ended::Forgotten => {
                                flushing.must_replay.store(true, Ordering::Release);
                            }
                            Ended::Stopped(error) => *flushing.failure.lock() = Some(error),
                        }
                        this.one_done(&flushing);
                        this.commit_next(&flushing);
                    });
                }
                // It has said already that it has forgotten.
                Some(_) => flushing.must_replay.store(true, Ordering::Release),
                None => {}
            }
            self.one_done(flushing);
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
        self.calls.client().submit(call, move |outcome| {
            this.end_commit(committing, sent, outcome)
        });
    }

    fn end_commit(self: Arc<Self>, committing: Committing, sent: Moment, outcome: Outcome<'_>) {
        let answer = outcome.and_then(|reply| {
            CommitReply::decode(&mut reply.decoder()).map_err(|error| reply.garbage(error))
        });
        let wcc = match &answer {
            Ok(Ok(done)) => done.file_wcc,
            Ok(Err(failure)) => failure.body.file_wcc,
            Err(_) => pagewell_sunrpc::nfs3::WccData::default(),
        };
        let reported = wcc.after.map(|after| self.calls.reported(&after, sent));
        // Another object under the same handle shows at the next look.
        let _ = committing.node.end_change(
            wcc.before.map(convert::wcc),
            reported.as_ref(),
            self.calls.now(),
        );
        let ended = match answer {
            Ok(Ok(done)) if done.verifier == committing.verifier => Ended::Done,
            Ok(Ok(_)) => Ended::Forgotten,
            Ok(Err(failure)) if failure.status == Status::Jukebox => {
                return self.commit_later(committing);
            }
            Ok(Err(failure)) => {
                self.write_failed(&committing.node, convert::error(failure.status));
                Ended::Done
            }
            Err(CallError::QueueFull) => return self.commit_later(committing),
            Err(error @ CallError::Stopped) => Ended::Stopped(self.unanswered(0, &error)),
            Err(error) => {
                self.write_failed(&committing.node, self.calls.failure(&error));
                Ended::Done
            }
        };
        (committing.then)(&self, ended);
    }

    fn commit_later(self: &Arc<Self>, mut committing: Committing) {
        let Some(pause) = committing.patience.next() else {
            self.write_failed(&committing.node, pagewell_fs::Error::TryLater);
            return (committing.then)(self, Ended::Done);
        };
        let this = self.clone();
        self.deferred
            .after(pause, move || this.send_commit(committing));
    }

    /// The last one ends the flush.
    fn one_done(&self, flushing: &Flushing) {
        if flushing.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let Some(request) = flushing.request.lock().take() else {
            return;
        };
        let failure = flushing.failure.lock().take();
        match failure {
            Some(failure) => request.fail(0, failure),
            None if flushing.must_replay.load(Ordering::Acquire) => {
                let device = self.calls.name().to_owned();
                request.fail(0, DeviceError::Replay { device });
            }
            None => request.succeed(),
        }
    }
}
