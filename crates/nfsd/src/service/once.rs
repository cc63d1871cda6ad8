//! Calls that change something: each is begun at most once, and not when its client has gone on.
//!
//! What could go back is guarded so:
//!
//! | a change that | guard |
//! |---|---|
//! | waits or runs and is sent again elsewhere | it is not begun again, both are answered |
//! | was done and is sent again | the kept reply, however many changes came since |
//! | is read after it was sent again and done | the same |
//! | waits or is unread when its client is gone | dropped (`Connection::is_given_up`) |
//!
//! A change that has begun cannot be taken back: its repetition, and so everything that a client
//! sends after it was answered, comes after its end.

use std::sync::Arc;
use std::time::Instant;

use pagewell_counters::names as counters;
use pagewell_sunrpc::nfs3::Procedure;
use pagewell_sunrpc::rpc::Call;
use pagewell_sunrpc::xdr::Decoder;

use crate::connection::Connection;
use crate::duplicate::{Key, Verdict};
use crate::held::slow::Kind;
use crate::reply::batch::Batch;
use crate::service::{Answer, Request, Service, WaitingCall, procedure};

impl Service {
    /// On the receiving thread: what need not wait is answered, and changes are known from here on.
    pub(super) fn first_look(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        procedure: Procedure,
        arguments: Decoder<'_>,
        batch: &mut Batch,
    ) -> Answer {
        if procedure::must_not_repeat(procedure) {
            return self.begin_change(request, call, procedure, arguments, batch);
        }
        match self.nfs(request, call, procedure, arguments, false, batch) {
            Answer::Done => Answer::Done,
            Answer::Wait(_) => Answer::Wait(WaitingCall {
                place: self.place(arguments),
                kind: procedure::kind(procedure),
                ..WaitingCall::reading(procedure, arguments)
            }),
        }
    }

    fn begin_change(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        procedure: Procedure,
        arguments: Decoder<'_>,
        batch: &mut Batch,
    ) -> Answer {
        let connection = request.connection;
        if connection.is_given_up() {
            counters::CALLS_ABANDONED.add(1);
            connection.close();
            return Answer::Done;
        }
        let is_write = procedure == Procedure::Write;
        let key = self.duplicates.key(
            connection.peer(),
            (call.xid, request.record),
            is_write,
            connection.heard_before(),
        );
        match self.duplicates.begin(&key, connection, request.received_at) {
            Verdict::New => {}
            Verdict::Running => {
                counters::DUPLICATES_IN_PROGRESS.add(1);
                return Answer::Done;
            }
            Verdict::Done(reply) => {
                counters::DUPLICATES_REPLAYED.add(1);
                batch.push(&reply);
                return Answer::Done;
            }
        }
        let wait = || {
            Answer::Wait(WaitingCall {
                duplicate: Some(key),
                place: self.place(arguments),
                kind: Kind::Change,
                ..WaitingCall::default()
            })
        };
        if !is_write {
            return wait();
        }
        let begun = Begun {
            service: self,
            key: Some(key),
        };
        let mark = batch.begin();
        batch.roll_back(mark);
        let answer = self.nfs(request, call, procedure, arguments, false, batch);
        begun.end();
        match answer {
            Answer::Done => {
                self.finish_change(&key, batch.body(mark), true);
                Answer::Done
            }
            Answer::Wait(_) => wait(),
        }
    }

    /// Whether a call that waited for a thread is not to be begun, because nobody waits for it.
    pub(super) fn is_abandoned(&self, connection: &Arc<Connection>, change: Option<&Key>) -> bool {
        let is_gone = match change {
            // What only looks is answered for as long as a client may be there to read it.
            None => connection.is_closed(),
            Some(_) => connection.is_given_up(),
        };
        if !is_gone || change.is_some_and(|key| !self.duplicates.abandon(key)) {
            return false;
        }
        counters::CALLS_ABANDONED.add(1);
        // A client that is there after all learns that no answer will come.
        connection.close();
        true
    }

    /// A change was answered with `reply`, or with nothing: everybody else that asked for it gets
    /// the same.
    pub(super) fn finish_change(&self, key: &Key, reply: &[u8], keep: bool) {
        let reply = Some(reply).filter(|reply| !reply.is_empty());
        let kept = reply.filter(|_| keep);
        for waiter in self.duplicates.finish(key, kept, Instant::now()) {
            match reply {
                Some(reply) => {
                    let mut again = Batch::default();
                    again.push(reply);
                    again.send(&waiter);
                }
                // It will not be answered: the client asks again on another connection.
                None => waiter.close(),
            }
        }
    }

    /// Forgets a call whose thread has panicked: it can be asked again.
    pub fn give_up(&self, state: &WaitingCall) {
        if let Some(key) = &state.duplicate {
            self.finish_change(key, &[], false);
        }
    }
}

/// A change that a receiving thread does; dropped without an end when the thread has panicked.
struct Begun<'s> {
    service: &'s Service,
    key: Option<Key>,
}

impl Begun<'_> {
    fn end(mut self) {
        self.key = None;
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.service.finish_change(key, &[], false);
        }
    }
}
