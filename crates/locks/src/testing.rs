//! Owners of locks for tests.

use std::net::IpAddr;
use std::sync::Arc;

use crate::owner::{Client, Owner};

/// Programs on one client.
pub(super) fn owner(process: i32) -> Owner {
    owner_on(1, process)
}

/// A program on one of several clients.
pub(super) fn owner_on(client: u8, process: i32) -> Owner {
    Owner {
        client: Arc::new(Client {
            address: IpAddr::from([10, 0, 0, client]),
            name: format!("client{client}").into_bytes(),
        }),
        process,
        handle: Arc::from(&b"handle"[..]),
    }
}
