//! The clients of this process, connected or not.
//!
//! Counts of past connections are kept for a bounded number of addresses; the one silent for
//! longest goes first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::served::{Client, ExportUse};

use crate::connection::Connection;
use crate::usage::{ByExport, Usage};

const PAST_ADDRESSES_MAX: usize = 1024;

/// Counts the locks of clients.
pub trait CountsLocks: Send + Sync {
    /// Locked files of the programs at an address, one for each program.
    fn held_at(&self, address: IpAddr) -> usize;
}

/// The clients of this process.
#[derive(Default)]
pub struct Clients(Mutex<Known>);

#[derive(Default)]
struct Known {
    connections: Vec<Weak<Connection>>,
    past: HashMap<IpAddr, Past>,
    locks: Vec<Weak<dyn CountsLocks>>,
}

struct Past {
    by_export: ByExport,
    limit_waits: u64,
    called_at: Instant,
}

struct Sum {
    connections: usize,
    idle: Duration,
    limit_waits: u64,
    limited_connections: usize,
    by_export: ByExport,
}

impl Sum {
    fn new(idle: Duration) -> Self {
        Self {
            connections: 0,
            idle,
            limit_waits: 0,
            limited_connections: 0,
            by_export: ByExport::default(),
        }
    }

    fn add(&mut self, connection: &Connection, idle: Duration) {
        let usage = &connection.usage;
        self.connections += 1;
        self.idle = self.idle.min(idle);
        self.limit_waits += usage.waits();
        self.limited_connections += usize::from(usage.waits_now());
        usage.add_to(&mut self.by_export);
    }
}

/// Of all servers of this process.
pub static CLIENTS: LazyLock<Clients> = LazyLock::new(Clients::default);

impl Clients {
    /// A client has connected.
    pub fn add(&self, connection: &Arc<Connection>) {
        let mut known = self.0.lock();
        if known.connections.len() == known.connections.capacity() {
            let is_alive = |connection: &Weak<Connection>| connection.strong_count() > 0;
            known.connections.retain(is_alive);
        }
        known.connections.push(Arc::downgrade(connection));
    }

    /// Of a starting server.
    pub fn add_locks(&self, locks: Weak<dyn CountsLocks>) {
        let mut known = self.0.lock();
        known.locks.retain(|locks| locks.strong_count() > 0);
        known.locks.push(locks);
    }

    /// A connection has ended.
    pub fn end(&self, peer: IpAddr, usage: &Usage, called_at: Instant) {
        let mut known = self.0.lock();
        let past = &mut known.past;
        let peer = peer.to_canonical();
        if past.len() >= PAST_ADDRESSES_MAX && !past.contains_key(&peer) {
            let silent = past.iter().min_by_key(|(_, past)| past.called_at);
            if let Some(address) = silent.map(|(address, _)| *address) {
                past.remove(&address);
            }
        }
        let entry = past.entry(peer).or_insert_with(|| Past {
            by_export: ByExport::default(),
            limit_waits: 0,
            called_at,
        });
        entry.limit_waits += usage.waits();
        usage.add_to(&mut entry.by_export);
        entry.called_at = entry.called_at.max(called_at);
    }

    /// Returns their number. The client may reconnect.
    pub fn disconnect(&self, address: IpAddr) -> usize {
        let own = self.alive();
        let own = own
            .iter()
            .filter(|one| one.peer.ip().to_canonical() == address.to_canonical());
        own.map(|connection| connection.close()).count()
    }

    /// Those with the most calls first.
    pub fn list(&self, now: Instant) -> Vec<Client> {
        let mut clients: HashMap<IpAddr, Sum> = HashMap::new();
        for connection in self.alive() {
            let address = connection.peer.ip().to_canonical();
            let idle = connection.idle_for(now);
            let client = clients.entry(address);
            let client = client.or_insert_with(|| Sum::new(idle));
            client.add(&connection, idle);
        }
        for (address, past) in &self.0.lock().past {
            let idle = now.saturating_duration_since(past.called_at);
            let client = clients.entry(*address);
            let client = client.or_insert_with(|| Sum::new(idle));
            client.idle = client.idle.min(idle);
            client.limit_waits += past.limit_waits;
            client.by_export.add_all(&past.by_export);
        }
        let locks: Vec<Arc<dyn CountsLocks>> = {
            let known = self.0.lock();
            known.locks.iter().filter_map(Weak::upgrade).collect()
        };
        let of = clients.into_iter().map(client_of).map(|client| Client {
            locks: locks.iter().map(|all| all.held_at(client.address)).sum(),
            ..client
        });
        let mut list: Vec<Client> = of.collect();
        let calls =
            |client: &Client| -> u64 { client.exports.iter().map(|one| one.traffic.calls).sum() };
        list.sort_by_key(|client| (std::cmp::Reverse(calls(client)), client.address));
        list
    }

    /// Outside the lock, which the drop of a connection takes.
    fn alive(&self) -> Vec<Arc<Connection>> {
        let known = self.0.lock();
        known.connections.iter().filter_map(Weak::upgrade).collect()
    }
}

fn client_of((address, sum): (IpAddr, Sum)) -> Client {
    let uses = sum.by_export.iter().map(|(label, traffic)| ExportUse {
        name: label.name(),
        traffic,
    });
    let mut exports: Vec<ExportUse> = uses.collect();
    exports.sort_by_key(|one| (std::cmp::Reverse(one.traffic.calls), one.name.clone()));
    Client {
        address,
        connections: sum.connections,
        idle: sum.idle,
        locks: 0,
        limit_waits: sum.limit_waits,
        limited_connections: sum.limited_connections,
        exports,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Tally;

    #[test]
    fn past_clients_are_bounded() {
        let (clients, usage, mut tally) = (Clients::default(), Usage::default(), Tally::default());
        tally.count(1, 1);
        usage.take(&mut tally);
        let begun = Instant::now();
        let addresses = u32::try_from(2 * PAST_ADDRESSES_MAX).unwrap();
        let second = |number: u32| begun + Duration::from_secs(u64::from(number));
        for number in 0..addresses {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
            clients.end(address, &usage, second(number));
        }
        let list = clients.list(second(addresses));
        assert_eq!(list.len(), PAST_ADDRESSES_MAX);
        let longest = list.iter().map(|client| client.idle).max();
        let expected = Duration::from_secs(PAST_ADDRESSES_MAX as u64);
        assert_eq!(longest, Some(expected), "the latest are remembered");
        assert!(list.iter().all(|client| client.exports.len() == 1));
    }
}
