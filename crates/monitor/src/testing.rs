//! A front for tests, whose programs nothing calls.

use std::net::IpAddr;
use std::sync::Once;
use std::time::Instant;

use pagewell_counters::procedures::ProcedureCounts;
use pagewell_counters::served::{self, Client, Program, Refused, Served};
use pagewell_sunrpc::{mount3, nfs3};

use crate::metrics::Snapshot;

struct Idle;

impl Served for Idle {
    fn programs(&self) -> Vec<Program> {
        let programs = [
            ("nfs", nfs3::Procedure::NAMES),
            ("mount", mount3::Procedure::NAMES),
        ];
        let of = |(name, procedures): (_, &'static [&'static str])| Program {
            name,
            procedures,
            counts: vec![ProcedureCounts::default(); procedures.len()],
        };
        programs.into_iter().map(of).collect()
    }

    fn clients(&self, _now: Instant) -> Vec<Client> {
        Vec::new()
    }

    fn refused(&self) -> Vec<Refused> {
        Vec::new()
    }

    fn disconnect(&self, _address: IpAddr) -> usize {
        0
    }
}

/// The numbers of this process, with those of a server.
pub(crate) fn snapshot() -> Snapshot {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| served::register(&Idle));
    Snapshot::take()
}
