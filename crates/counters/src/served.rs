//! Registry of the fronts of a process, with their programs and clients, so that readers depend on
//! no front.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::procedures::ProcedureCounts;

/// A served program.
pub struct Program {
    /// Its name, in lower case.
    pub name: &'static str,
    /// The names of its procedures, by number.
    pub procedures: &'static [&'static str],
    /// The counts of each.
    pub counts: Vec<ProcedureCounts>,
}

/// Calls and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Answered calls.
    pub calls: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Adds other traffic.
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
    }
}

/// A client's use of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportUse {
    /// The name of the export; empty for calls for none.
    pub name: String,
    /// Its traffic.
    pub traffic: Traffic,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// Current connections.
    pub connections: usize,
    /// Since its last call, or since it connected.
    pub idle: Duration,
    /// Files locked by its programs, counted for each program.
    pub locks: usize,
    /// Waits of its connections because of a limit.
    pub limit_waits: u64,
    /// Connections that now wait because of a limit.
    pub limited_connections: usize,
    /// Its use of exports, the one with the most calls first.
    pub exports: Vec<ExportUse>,
}

/// The refusals of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The client.
    pub address: IpAddr,
    /// Because it is not allowed: connections, mounts and calls.
    pub not_allowed: u64,
    /// For lack of a connection slot.
    pub no_slot: u64,
}

/// A front that serves clients over a network.
pub trait Served: Sync {
    /// Its programs, with their counts.
    fn programs(&self) -> Vec<Program>;

    /// The clients with a connection, or remembered ones; those with the most calls first.
    fn clients(&self, now: Instant) -> Vec<Client>;

    /// The refused addresses, the latest last.
    fn refused(&self) -> Vec<Refused>;

    /// Ends the connections of an address; returns their number.
    fn disconnect(&self, address: IpAddr) -> usize;
}

static FRONTS: Mutex<Vec<&'static dyn Served>> = Mutex::new(Vec::new());

/// Registers a front, once.
pub fn register(front: &'static dyn Served) {
    let mut fronts = FRONTS.lock().unwrap_or_else(PoisonError::into_inner);
    fronts.push(front);
}

/// All fronts, in order of registration.
#[must_use]
pub fn fronts() -> Vec<&'static dyn Served> {
    FRONTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
