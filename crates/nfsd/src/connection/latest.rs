//! Which connection of each address is the latest.
//!
//! A client that gave up a connection and wants its calls done opens another one: that it came is
//! the only thing that tells a connection that was closed from one whose client has sent all that
//! it had to send and waits for the answers (see `Connection::is_given_up`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

/// The numbers of the latest connections, by address. Connections hold the number of theirs; one
/// that no connection holds is forgotten.
#[derive(Default)]
pub struct LatestConnections {
    latest: HashMap<IpAddr, Weak<AtomicU64>>,
    /// Addresses are looked through for those without a connection when there are more.
    full_at: usize,
}

impl LatestConnections {
    /// The number that the connections of an address share.
    pub fn of(&mut self, peer: IpAddr) -> Arc<AtomicU64> {
        let peer = peer.to_canonical();
        if let Some(latest) = self.latest.get(&peer).and_then(Weak::upgrade) {
            return latest;
        }
        if self.latest.len() >= self.full_at {
            self.latest.retain(|_, latest| latest.strong_count() > 0);
            self.full_at = 64 + 2 * self.latest.len();
        }
        let latest = Arc::new(AtomicU64::new(0));
        self.latest.insert(peer, Arc::downgrade(&latest));
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_address_share_and_the_dead_are_forgotten() {
        let mut connections = LatestConnections::default();
        let first = connections.of("10.0.0.1".parse().unwrap());
        let same = connections.of("::ffff:10.0.0.1".parse().unwrap());
        assert!(Arc::ptr_eq(&first, &same));
        for host in 0..100_000u32 {
            drop(connections.of(IpAddr::V4(host.into())));
        }
        assert!(connections.latest.len() < 1000);
        assert!(Arc::ptr_eq(
            &first,
            &connections.of("10.0.0.1".parse().unwrap())
        ));
    }
}
