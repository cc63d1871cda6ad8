//! What the fronts of a process say of what they serve, to whom: each registers once, and what
//! shows it depends on none of them.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::procedures::ProcedureCounts;

/// A program whose procedures clients call.
pub struct Program {
    /// Its name, in small letters.
    pub name: &'static str,
    /// The names of its procedures, by number.
    pub procedures: &'static [&'static str],
    /// What was counted of each.
    pub counts: Vec<ProcedureCounts>,
}

/// Calls, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Calls that were answered.
    pub calls: u64,
    /// Bytes of the calls.
    pub received_bytes: u64,
    /// Bytes of the replies.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Adds more of it.
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
    }
}

/// What a client has asked for through one export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUse {
    /// The name of the export; empty for calls that are for none.
    pub name: String,
    /// What was asked for.
    pub traffic: Traffic,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// Connections that it has now.
    pub connections: usize,
    /// Since its last call, or since it has connected.
    pub idle: Duration,
    /// Files in which programs of it hold locks, each counted for each program.
    pub locks: usize,
    /// Times that one of its connections had to wait because of a limit.
    pub limit_waits: u64,
    /// Connections that wait because of one.
    pub limited_connections: usize,
    /// What it has asked for, the export with the most calls first.
    pub exports: Vec<ExportUse>,
}

/// How often an address was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The client.
    pub address: IpAddr,
    /// Because it is not allowed: connections, mounts and calls.
    pub not_allowed: u64,
    /// Because there was no slot.
    pub no_slot: u64,
}

/// A front that serves clients over a network.
pub trait Served: Sync {
    /// Its programs, with what was counted of each.
    fn programs(&self) -> Vec<Program>;

    /// The clients that have a connection, or had one and are remembered; those with the most calls
    /// first.
    fn clients(&self, now: Instant) -> Vec<Client>;

    /// The addresses that were turned away, the latest last.
    fn refused(&self) -> Vec<Refused>;

    /// Ends the connections of an address; how many there were.
    fn disconnect(&self, address: IpAddr) -> usize;
}

static FRONTS: Mutex<Vec<&'static dyn Served>> = Mutex::new(Vec::new());

/// Makes a front known, once.
pub fn register(front: &'static dyn Served) {
    let mut fronts = FRONTS.lock().unwrap_or_else(PoisonError::into_inner);
    fronts.push(front);
}

/// All fronts, in the order in which they became known.
#[must_use]
pub fn fronts() -> Vec<&'static dyn Served> {
    FRONTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
