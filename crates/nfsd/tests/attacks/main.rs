//! Clients that take all they can get, and a neighbour that wants to be served meanwhile.
//!
//! Each attack goes against a server in a process of its own and is bounded in connections, bytes
//! and time. What the server takes is asserted, and how long the neighbour waits: 99 of 100 calls
//! are answered within [`SOON`]. On a machine that is busy with other things a call may take
//! longer, attack or not; so the attacks run one by one, in a program of their own, the neighbour
//! calls for a while before each attack begins, ten times as long as then is soon enough, and an
//! attack that was slow is tried again. `cargo test --test attacks -- --nocapture` shows the
//! figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod calls;
mod connections;
mod listings;
mod records;
mod replies;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_sunrpc::nfs3::StableHow;

use pagewell_wire::client::{Client, User};
use pagewell_wire::process::{self, Watched};

/// Between two calls of the neighbour.
const PAUSE: Duration = Duration::from_millis(2);

/// A WRITE that needs memory of its own in the server.
const WRITE_BYTES: usize = 64 << 10;

/// Every so many calls is such a WRITE.
const WRITE_EVERY: usize = 8;

/// Within this time 99 of 100 calls of the neighbour are answered.
const SOON: Duration = Duration::from_millis(50);

/// How long it calls before the attack.
const QUIET: Duration = Duration::from_secs(1);

/// What is slow because of the server is slow each time.
const TRIES: u32 = 3;

/// What took too long.
struct Slow(String);

/// Runs an attack while no other one runs. Only one that was slow is tried again.
fn alone(mut attack: impl FnMut() -> Result<(), Slow>) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let mut slow = Vec::new();
    for _ in 0..TRIES {
        match attack() {
            Ok(()) => return,
            Err(Slow(what)) => {
                println!("slow: {what}");
                slow.push(what);
            }
        }
    }
    panic!("slow each time: {slow:?}");
}

/// Not a test: what [`process::Process`] starts.
#[test]
fn serve_as_child() {
    process::serve_as_child();
}

/// A client that looks up a name, and writes now and then, until it is stopped.
struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Times>,
    quiet: Times,
}

/// How long calls took, in order.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut took: Vec<Duration>) -> Self {
        assert!(took.len() > 10, "only {} calls were answered", took.len());
        took.sort_unstable();
        Self(took)
    }

    fn at(&self, per_thousand: usize) -> Duration {
        self.0[((self.0.len() - 1) * per_thousand).div_ceil(1000)]
    }
}

impl fmt::Display for Times {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, p50, p99, longest) = (self.0.len(), self.at(500), self.at(990), self.at(1000));
        write!(
            formatter,
            "{calls} calls, p50 {p50:.1?}, p99 {p99:.1?}, longest {longest:.1?}"
        )
    }
}

impl Neighbour {
    /// Calls from 127.0.0.1, first for a while and then until [`Neighbour::report`]. It writes to
    /// a file of its own.
    fn new(address: SocketAddr) -> Self {
        Self::calling(address, b"/", Some(WRITE_EVERY))
    }

    /// The same at another export than the first.
    fn at(address: SocketAddr, export: &[u8]) -> Self {
        Self::calling(address, export, Some(WRITE_EVERY))
    }

    /// The same without writing.
    fn that_looks_up(address: SocketAddr) -> Self {
        Self::calling(address, b"/", None)
    }

    fn calling(address: SocketAddr, export: &[u8], write_every: Option<usize>) -> Self {
        let mut client = Client::connect(address, User::root());
        let root = client.mount(export).expect("mounted");
        let file = client.make_file(&root, b"neighbour", b"");
        let data = vec![7; WRITE_BYTES];
        let mut call_while = move |goes_on: &dyn Fn() -> bool| {
            let mut took = Vec::new();
            while goes_on() {
                let began = Instant::now();
                if write_every.is_some_and(|every| took.len() % every == 0) {
                    let written = client.write(&file, 0, &data, StableHow::Unstable);
                    assert_eq!(written.unwrap().count as usize, WRITE_BYTES);
                } else {
                    client.lookup(&root, b"neighbour").unwrap();
                }
                took.push(began.elapsed());
                std::thread::sleep(PAUSE);
            }
            Times::new(took)
        };
        let until = Instant::now() + QUIET;
        let quiet = call_while(&|| Instant::now() < until);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || call_while(&|| !stopped.load(Ordering::Relaxed)));
        Self {
            stop,
            thread,
            quiet,
        }
    }

    /// Ends it and prints how long its calls took, which must have been soon.
    fn report(self, attack: &str, server: Watched, most_bytes: u64) -> Result<(), Slow> {
        self.stop.store(true, Ordering::Relaxed);
        let took = self.thread.join().expect("the neighbour was served");
        println!(
            "{attack}: neighbour {took} (before: {}); resident {} MiB at most, {} after it, {} \
             descriptors",
            self.quiet,
            most_bytes >> 20,
            server.resident_bytes() >> 20,
            server.descriptors(),
        );
        let soon = SOON.max(10 * self.quiet.at(990));
        if took.at(990) > soon {
            return Err(Slow(format!("{attack}: {took}, and {soon:?} is soon")));
        }
        Ok(())
    }
}

/// Looks at the memory of a server for a while; returns the most.
fn watch_memory(server: Watched, time: Duration) -> u64 {
    let deadline = Instant::now() + time;
    let mut most = 0;
    while Instant::now() < deadline {
        most = most.max(server.resident_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}
