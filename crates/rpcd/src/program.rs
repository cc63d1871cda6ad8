//! What answers a server's calls.
//!
//! The transport knows nothing above ONC RPC. A [`Program`], one of RPC or several combined,
//! answers on the reader thread, or, where it would block, gives the call's
//! [class](crate::call::Class) for a pool thread.
//!
//! ```text
//!   reader ─ answer(may_block: false) ─┬─ Done
//!                                      └─ Wait(Class, Pending) ──> pool
//!   pool ─ decide ─> answer(may_block: true) ─> finish ─> (reply leaves) ─> sent
//!            └ again    └ its object is stalled: later
//! ```
//!
//! Generic transport: no indirect call, lock or allocation.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::call::{Answer, CallName, Request};
use crate::connection::Connection;
use crate::reply::Batch;
use crate::usage::ExportLabel;

/// How a program defers a call whose object is stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// The batch has the reply "try later".
    Said,
    /// The protocol cannot: the connection closes.
    Unsayable,
    /// It answers the call, which may wait.
    Answered,
}

/// A later look at an undecided call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// New: run it.
    Do,
    /// Not to be run; no reply is due.
    Done,
    /// Still undecided.
    LookAgain,
    /// A repetition: its reply.
    Answer(Vec<u8>),
}

/// What answers a server's calls.
pub trait Program: Send + Sync + Sized + 'static {
    /// Shared by the calls of one receive.
    type Received;
    /// The program's state of a waiting call.
    type Pending: Clone + Default + Send;

    /// Whether `address` may connect.
    fn allows(&self, address: IpAddr) -> bool;

    /// The calls of one receive follow, on this thread.
    fn begin_receive(&self) -> Self::Received;

    /// If `beginning` shows it and `peer` may use it.
    fn export_of_record(&self, beginning: &[u8], peer: IpAddr) -> Option<u32>;

    /// If `address` may use the export.
    fn label_of(&self, export: u32, address: IpAddr) -> ExportLabel;

    /// Answers a call, unless it would block; then nothing has happened, except the beginning of a
    /// write. May block without `received`.
    fn answer(
        &self,
        request: &Request<'_>,
        received: Option<&Self::Received>,
        batch: &mut Batch,
    ) -> Answer<Self::Pending>;

    /// Makes the beginning of an overlong record answerable; returns its length. `None`: refused.
    fn shorten(&self, beginning: &mut [u8]) -> Option<usize>;

    /// For a stalled object.
    fn later(&self, call: CallName, batch: &mut Batch) -> Later;

    /// A call got that reply because it stalled.
    fn note_stalled(&self, call: CallName, export: u32, peer: IpAddr, now: Instant);

    /// Whether [`Self::decide`] must find out whether the call is new.
    fn is_undecided(pending: &Self::Pending) -> bool;

    /// Whether to drop the call once its client has given up.
    fn is_change(pending: &Self::Pending) -> bool;

    /// Looks again at an undecided call.
    fn decide(&self, pending: &mut Self::Pending, connection: &Connection) -> Decision;

    /// The call has run and `reply` leaves now; or it has not, and may be repeated.
    fn finish(&self, pending: &Self::Pending, reply: Option<&[u8]>);

    /// The reply is the last one sent on `connection`.
    fn sent(&self, pending: &Self::Pending, connection: &Connection);

    /// At least about once a second; never waits.
    fn tick(&self, now: Instant);

    /// No more calls come.
    fn stop(&self);

    /// The reply, if due; `ends`: sender, and target. `Err`: it would wait for the export of that
    /// number, and may not.
    fn answer_datagram(
        &self,
        record: &[u8],
        ends: (SocketAddr, Option<IpAddr>),
        may_block: bool,
    ) -> Result<Option<Vec<u8>>, u32>;
}
