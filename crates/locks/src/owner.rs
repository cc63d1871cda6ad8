//! The owner of a lock.

use std::net::IpAddr;
use std::sync::Arc;

/// A client machine: no other address can speak for it, and of several behind one
/// address each has its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// Where its calls come from; of IPv4 never in its IPv6 form.
    pub address: IpAddr,
    /// What it calls itself.
    pub name: Vec<u8>,
}

/// A program on a client, as the client tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its machine.
    pub client: Arc<Client>,
    /// Its number there.
    pub process: i32,
    /// More of its name.
    pub handle: Arc<[u8]>,
}

impl Owner {
    /// What one lock of it counts for: as much as the memory that it takes.
    pub fn weight(&self) -> usize {
        1 + self.handle.len() / 64
    }
}
