//! What answers the calls of a server.
//!
//! The transport brings records, threads and memory, and knows no protocol above ONC RPC. What a
//! record means, a [`Program`] knows: one program of RPC, or several put together. The transport
//! asks it to answer a record at once, on the thread that received it; where it would have to wait
//! the program says [what the call is for](crate::call::Class), and a thread of the pool answers it
//! later.
//!
//! ```text
//!   reader ─ answer(may_block: false) ─┬─ Done
//!                                      └─ Wait(Class, Pending) ──> pool
//!   pool ─ decide ─> answer(may_block: true) ─> finish ─> (reply leaves) ─> sent
//!            └ again    └ storage holds its object: later
//! ```
//!
//! A program is a parameter of the transport's types, so that a call costs no indirect jump, lock
//! or allocation for it.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::call::{Answer, CallName, Request};
use crate::connection::Connection;
use crate::reply::batch::Batch;
use crate::usage::ExportLabel;

/// What a program says of a call for which there is nothing but to ask again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// That is its reply, which is in the batch.
    Said,
    /// Its protocol has no word for that: a client that loses the connection asks again.
    Unsayable,
    /// The call is answered, and may wait.
    Answered,
}

/// What a later look at a call has come to of which it was not known whether it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is new: do it.
    Do,
    /// It is not to be done, and no client waits for its answer here.
    Done,
    /// It is still not known.
    LookAgain,
    /// It was done: this is its reply.
    Answer(Vec<u8>),
}

/// What answers the calls of a server.
pub trait Program: Send + Sync + Sized + 'static {
    /// What the calls of one receive share, until it is dropped.
    type Received;
    /// What is to be remembered of a call that waits.
    type Pending: Clone + Default + Send;

    /// Whether a client at `address` is served at all.
    fn allows(&self, address: IpAddr) -> bool;

    /// Calls that came with one receive follow, on this thread.
    fn begin_receive(&self) -> Self::Received;

    /// The export that a call is for, if the beginning of its record tells and `peer` may use it.
    fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32>;

    /// What stands for the export of this number, if a client at `address` may use it.
    fn label_of(&self, export: u32, address: IpAddr) -> ExportLabel;

    /// Looks at a call and answers it, unless it would have to wait and may not: then nothing was
    /// answered, and nothing done but the beginning of a write. It may wait where it was not
    /// received just now.
    fn answer(
        &self,
        request: &Request<'_>,
        received: Option<&Self::Received>,
        batch: &mut Batch,
    ) -> Answer<Self::Pending>;

    /// Makes the beginning of a record that was too long one that can be answered; returns its
    /// length. `None`: it is refused.
    fn shorten(&self, beginning: &mut [u8]) -> Option<usize>;

    /// Has the client of a call ask again later, because storage holds its object.
    fn later(&self, call: CallName, batch: &mut Batch) -> Later;

    /// A call for an export has been answered so, as storage has held it for too long.
    fn note_held(&self, call: CallName, export: u32, peer: IpAddr, now: Instant);

    /// Whether it is to be [found out](Self::decide) first whether the call is new.
    fn is_undecided(pending: &Self::Pending) -> bool;

    /// Whether it is not to be begun once its client has given it up.
    fn is_change(pending: &Self::Pending) -> bool;

    /// Looks again at a call that is undecided.
    fn decide(&self, pending: &mut Self::Pending, connection: &Connection) -> Decision;

    /// A call was done, and this is its reply, which leaves now; or it was not, and may be asked
    /// again.
    fn finish(&self, pending: &Self::Pending, reply: Option<&[u8]>);

    /// The reply to a call that was done is the last that was sent on `connection`.
    fn sent(&self, pending: &Self::Pending, connection: &Connection);

    /// Called every second or so, and never waits.
    fn tick(&self, now: Instant);

    /// No more calls come.
    fn stop(&self);

    /// The answer to a datagram that came `from` a client to the address `local` of ours, if one
    /// is due. An error: it would wait for the export of that number, and may not.
    fn answer_datagram(
        &self,
        record: &[u8],
        ends: (SocketAddr, Option<IpAddr>),
        may_block: bool,
    ) -> Result<Option<Vec<u8>>, u32>;
}
