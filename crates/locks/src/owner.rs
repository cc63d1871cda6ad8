//! The owner of a lock.

use std::net::IpAddr;
use std::sync::Arc;

/// A client machine. No other address speaks for it; its name tells clients of one address apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// Where its calls come from; IPv4 never mapped to IPv6.
    pub address: IpAddr,
    /// Its caller name.
    pub name: Vec<u8>,
}

/// A program on a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The machine.
    pub client: Arc<Client>,
    /// Its process number there.
    pub process: i32,
    /// Its opaque handle.
    pub handle: Arc<[u8]>,
}

impl Owner {
    /// The memory of one lock.
    pub fn weight(&self) -> usize {
        1 + self.handle.len() / 64
    }
}
