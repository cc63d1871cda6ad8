//! Many clients that list a large directory, each from where it likes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagewell_sunrpc::nfs3::{Procedure, ReaddirArguments};

use crate::{Neighbour, alone, watch_memory};
use pagewell_wire::client::{Client, User};
use pagewell_wire::fixture::Kind;
use pagewell_wire::operations::handle;
use pagewell_wire::process::Process;

const NAMES: usize = 200_000;

/// One order of 200,000 names, one more while it is made, and what is kept of small ones.
const GROWTH_BYTES_MAX: u64 = 72 << 20;

/// 64 clients ask for pages of a directory of 200,000 names in a file system without positions.
#[test]
fn a_large_directory_is_not_put_in_order_for_everybody() {
    alone(|| {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let large = folder.path().join("large");
        std::fs::create_dir(&large).unwrap();
        for number in 0..NAMES {
            std::fs::write(large.join(format!("file-{number}")), b"").unwrap();
        }
        let server = Process::of_directory(folder.path(), Kind::Directory);
        let (mut client, root) = server.client();
        let large = client.lookup(&root, b"large").unwrap().handle;
        let neighbour = Neighbour::new(server.address);
        let before = server.resident_bytes();
        let stop = AtomicBool::new(false);
        let mut most = 0;
        std::thread::scope(|scope| {
            for number in 0..64u64 {
                let (stop, large, address) = (&stop, &large, server.address);
                scope.spawn(move || {
                    let from = [127, 0, 1, 1 + (number % 8) as u8];
                    let mut client = Client::connect_from(from, address, User::root());
                    let mut cookie = number + 1;
                    while !stop.load(Ordering::Relaxed) {
                        cookie = cookie
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        // A page and "try later" are equally good here.
                        client.nfs(
                            Procedure::Readdir,
                            &ReaddirArguments {
                                directory: handle(large),
                                cookie: cookie >> 2,
                                verifier: [0; 8],
                                count: 32 << 10,
                            },
                        );
                    }
                });
            }
            most = watch_memory(server.watched(), Duration::from_secs(6));
            stop.store(true, Ordering::Relaxed);
        });
        neighbour.report(
            "pages of 200,000 names from anywhere",
            server.watched(),
            most,
        )?;
        let grown = most.saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "{grown} bytes for 64 clients");
        assert_eq!(client.list(&large).len(), NAMES + 2);
        Ok(())
    });
}
