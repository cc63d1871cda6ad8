//! The clients of a server, in the document of `/stat.json`.

use std::time::Instant;

use pagewell_counters::served;
use serde::{Deserialize, Serialize};

/// Clients in the document, those with the most calls.
const CLIENTS_MAX: usize = 256;

/// A client of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its address.
    pub address: String,
    /// Current connections.
    pub connections: u64,
    /// Seconds since its last call, or since it connected.
    pub idle_seconds: f64,
    /// Files locked by its programs, counted for each program.
    pub locks: u64,
    /// Waits because of a limit.
    #[serde(default)]
    pub limit_waits: u64,
    /// Connections that now wait so.
    #[serde(default)]
    pub limited_connections: u64,
    /// Its use of exports, the one with the most calls first.
    pub exports: Vec<ExportUse>,
}

/// A client's use of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportUse {
    /// The name of the export; empty for calls for none.
    pub export: String,
    /// Answered calls.
    pub calls: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
}

impl Client {
    /// Calls through all exports.
    pub fn calls(&self) -> u64 {
        self.exports.iter().map(|one| one.calls).sum()
    }

    /// Subtracts an earlier document of the same client.
    pub(super) fn subtract(&mut self, earlier: &Self) {
        for export in &mut self.exports {
            let mut before = earlier.exports.iter();
            if let Some(before) = before.find(|other| other.export == export.export) {
                export.calls = export.calls.saturating_sub(before.calls);
                let less = |now: u64, then: u64| now.saturating_sub(then);
                export.received_bytes = less(export.received_bytes, before.received_bytes);
                export.sent_bytes = less(export.sent_bytes, before.sent_bytes);
            }
        }
    }

    /// Whether its strings are harmless on a terminal.
    pub(super) fn is_plain(&self) -> bool {
        let names = self.exports.iter().map(|one| &one.export);
        let mut characters = names.chain([&self.address]).flat_map(|name| name.chars());
        characters.all(|character| !character.is_control())
    }
}

impl From<served::Client> for Client {
    fn from(client: served::Client) -> Self {
        let exports = client.exports.into_iter().map(|one| ExportUse {
            export: one.name,
            calls: one.traffic.calls,
            received_bytes: one.traffic.received_bytes,
            sent_bytes: one.traffic.sent_bytes,
        });
        Self {
            address: client.address.to_string(),
            connections: client.connections as u64,
            idle_seconds: client.idle.as_secs_f64(),
            locks: client.locks as u64,
            limit_waits: client.limit_waits,
            limited_connections: client.limited_connections as u64,
            exports: exports.collect(),
        }
    }
}

pub(super) fn list() -> Vec<Client> {
    let now = Instant::now();
    let fronts = served::fronts().into_iter();
    let all = fronts.flat_map(|front| front.clients(now));
    all.take(CLIENTS_MAX).map(Client::from).collect()
}
