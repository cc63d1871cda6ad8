//! Publishes the counts of this process's servers.

use std::net::IpAddr;
use std::sync::Once;
use std::time::Instant;

use pagewell_counters::served::{self, Client, Program, Refused, Served};
use pagewell_nfs3d::statistics::{MOUNT, NFS};
use pagewell_rpcd::clients::CLIENTS;
use pagewell_rpcd::refusals;
use pagewell_sunrpc::{mount3, nfs3};

/// All servers of this process.
struct Servers;

impl Served for Servers {
    fn programs(&self) -> Vec<Program> {
        let program = |name, procedures, counts| Program {
            name,
            procedures,
            counts,
        };
        vec![
            program("nfs", nfs3::Procedure::NAMES, NFS.counts()),
            program("mount", mount3::Procedure::NAMES, MOUNT.counts()),
        ]
    }

    fn clients(&self, now: Instant) -> Vec<Client> {
        CLIENTS.list(now)
    }

    fn refused(&self) -> Vec<Refused> {
        refusals::by_address()
    }

    fn disconnect(&self, address: IpAddr) -> usize {
        CLIENTS.disconnect(address)
    }
}

/// Registers them, once.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| served::register(&Servers));
}
