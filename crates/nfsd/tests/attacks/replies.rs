//! Clients that ask and never read.

use std::time::Duration;

use pagewell_sunrpc::nfs3::{Procedure, ReaddirPlusArguments};

use crate::{Neighbour, alone, watch_memory};
use pagewell_wire::client::{Client, User, encoded, marked, next_xid};
use pagewell_wire::fixture::Kind;
use pagewell_wire::operations::handle;
use pagewell_wire::process::Process;

const CONNECTIONS: usize = 420;
const CALLS: usize = 70;

/// The budget of replies, what is written of a reply while it is made, and what 420 connections
/// take by themselves.
const GROWTH_BYTES_MAX: u64 = 80 << 20;

/// 420 connections each ask for 70 listings of 256 KiB, 7 GiB in all, and read none of them.
#[test]
fn unread_listings_do_not_fill_the_memory() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..1500 {
            let name = format!("{number:0>200}");
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let server = Process::of_directory(folder.path(), Kind::Directory);
        let (mut client, root) = server.client();
        assert_eq!(client.list(&root).len(), 1502);
        let neighbour = Neighbour::new(server.address);
        let before = server.resident_bytes();
        let arguments = encoded(&ReaddirPlusArguments {
            directory: handle(&root),
            cookie: 0,
            verifier: [0; 8],
            directory_count: 1 << 20,
            count_max: 1 << 20,
        });
        let deaf: Vec<Client> = (0..CONNECTIONS)
            .map(|number| {
                let from = [127, 0, 1, 1 + (number % 4) as u8];
                let mut client = Client::connect_from(from, server.address, User::root());
                let calls: Vec<u8> = (0..CALLS)
                    .flat_map(|_| {
                        let call = client.record(next_xid(), Procedure::ReaddirPlus, &arguments);
                        marked(&call)
                    })
                    .collect();
                client.try_send(&calls);
                client
            })
            .collect();
        let most = watch_memory(server.watched(), Duration::from_secs(8));
        neighbour.report("replies that nobody reads", server.watched(), most)?;
        let grown = most.saturating_sub(before);
        assert!(
            grown < GROWTH_BYTES_MAX,
            "{grown} bytes for 420 connections"
        );
        // The directory has one more file than before.
        assert_eq!(client.list(&root).len(), 1503);
        drop(deaf);
        // A client that reads is given all of it, in pages as long as before.
        let mut reader = Client::connect_from([127, 0, 1, 9], server.address, User::root());
        assert_eq!(reader.list(&root).len(), 1503);
        Ok(())
    });
}
