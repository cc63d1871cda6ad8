//! Clients that take all they can get, and a neighbour that wants to be served meanwhile.
//!
//! Each attack goes against a server in a process of its own and is bounded in connections, bytes
//! and time. What the server takes is asserted; how long the neighbour waited is printed, as it
//! says more about the machine than about the server. `cargo test -p pagewell-nfsd --test wire
//! attacks -- --nocapture --test-threads 1` shows it.

mod connections;
mod listings;
mod records;
mod replies;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_sunrpc::nfs3::StableHow;

use crate::client::{Client, User};
use crate::process::Process;

/// Between two calls of the neighbour.
const PAUSE: Duration = Duration::from_millis(2);

/// A WRITE that needs memory of its own in the server.
const WRITE_BYTES: usize = 64 << 10;

/// Every so many calls is such a WRITE.
const WRITE_EVERY: usize = 8;

/// A client that looks up a name, and writes now and then, until told to stop.
pub(super) struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Neighbour {
    /// Calls from 127.0.0.1. It writes to a file of its own.
    pub(super) fn new(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let mut client = Client::connect(address, User::root());
        let root = client.mount(b"/").expect("mounted");
        let file = client.make_file(&root, b"neighbour", b"");
        let data = vec![7; WRITE_BYTES];
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                if took.len() % WRITE_EVERY == 0 {
                    let written = client.write(&file, 0, &data, StableHow::Unstable);
                    assert_eq!(written.unwrap().count as usize, WRITE_BYTES);
                } else {
                    client.lookup(&root, b"neighbour").unwrap();
                }
                took.push(began.elapsed());
                std::thread::sleep(PAUSE);
            }
            took
        });
        Self { stop, thread }
    }

    /// Ends it and prints how long its calls took.
    pub(super) fn report(self, attack: &str, server: &Process, most_bytes: u64) {
        self.stop.store(true, Ordering::Relaxed);
        let mut took = self.thread.join().expect("the neighbour was served");
        took.sort_unstable();
        assert!(took.len() > 10, "only {} calls were answered", took.len());
        let at = |part: usize| took[(took.len() - 1) * part / 1000];
        println!(
            "{attack}: {} calls beside it, p50 {:?}, p99 {:?}, longest {:?}; resident {} MiB at \
             most, {} after it, {} descriptors",
            took.len(),
            at(500),
            at(990),
            at(1000),
            most_bytes >> 20,
            server.resident_bytes() >> 20,
            server.descriptors(),
        );
    }
}

/// Looks at the memory of a server for a while; returns the most.
pub(super) fn watch_memory(server: &Process, time: Duration) -> u64 {
    let deadline = Instant::now() + time;
    let mut most = 0;
    while Instant::now() < deadline {
        most = most.max(server.resident_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}
