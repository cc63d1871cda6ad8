//! Clients that connect and stay.

use std::time::Duration;

use pagewell_nfsd::rpcd::acceptor::connections_max;

use crate::{Neighbour, alone, watch_memory};
use pagewell_wire::client::{Client, User, stream_from};
use pagewell_wire::process::Process;

/// Three addresses make 1,200 connections, more than there are places, and say nothing.
#[test]
fn places_are_left_for_those_that_come_later() {
    alone(|| {
        // This process needs as many descriptors.
        assert!(connections_max(1024) > 500);
        let server = Process::of_ram();
        let neighbour = Neighbour::new(server.address);
        let before = server.resident_bytes();
        let silent: Vec<_> = (0..1200)
            .map(|number| stream_from([127, 0, 1, 1 + (number % 3) as u8], server.address))
            .collect();
        let most = watch_memory(server.watched(), Duration::from_secs(1));
        let mut late = Client::connect_from([127, 0, 2, 1], server.address, User::root());
        late.check_usable();
        let open = server.descriptors();
        assert!((500..1100).contains(&open), "{open} descriptors");
        neighbour.report("1,200 silent connections", server.watched(), most)?;
        let grown = most.saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes");
        drop(silent);
        Ok(())
    });
}

/// A process that has 64 descriptors and is asked for 300 connections, again and again.
#[test]
fn clients_do_not_wait_for_missing_descriptors() {
    alone(|| {
        let server = Process::of_few_descriptors(64);
        let neighbour = Neighbour::new(server.address);
        for _ in 0..5 {
            let crowd: Vec<_> = (0..300)
                .map(|number| stream_from([127, 0, 1, 1 + (number % 3) as u8], server.address))
                .collect();
            let open = server.descriptors();
            assert!(open < 64, "{open} descriptors");
            drop(crowd);
        }
        let most = server.resident_bytes();
        neighbour.report("300 connections for 64 descriptors", server.watched(), most)?;
        Ok(())
    });
}
