//! A running server: how its threads start and end.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_sunrpc::stream::begin_unpaced;
use rustix::net::{AddressFamily, SocketType};

use crate::acceptor::{Acceptor, LatestConnections, connections_max};
use crate::bounds::Bounds;
use crate::connection::inbox::Inbox;
use crate::datagrams;
use crate::dispatch::{DRAIN_FOR, Dispatcher};
use crate::program::Program;
use crate::pulse::{Beats, Pulse};
use crate::receive::reader::Reader;
use crate::receive::readers::Readers;
use crate::receive::receiver::Shared;
use crate::request_memory::{REQUEST_BYTES_MAX, RequestBudget};
use crate::share::Shares;

/// From a reply of 64 KiB to the next call of a near client; twice the time to wake a thread.
pub const POLL_FOR: Duration = Duration::from_micros(100);

/// Then a thread is abandoned.
const GRACE: Duration = Duration::from_secs(1);

/// Listening and bounds of a server.
pub struct Options {
    /// Port 0 picks one.
    pub listen: SocketAddr,
    /// Instead, sockets that a service manager has opened.
    pub listeners: Vec<TcpListener>,
    /// Serve UDP at the same port.
    pub datagrams: bool,
    /// Threads of each export that may wait for storage.
    pub threads: usize,
    /// Fewer if the limit of open files is lower.
    pub connections_max: usize,
    /// How long an idle reader polls before it sleeps, where that pays.
    pub poll_for: Duration,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's.
        reason: String,
    },
    /// No thread or epoll descriptor, for example.
    #[error("cannot start: {0}")]
    System(String),
}

/// Stops on request or on drop.
pub struct Server<P: Program> {
    address: SocketAddr,
    dispatcher: Arc<Dispatcher<P>>,
    readers: Arc<Readers>,
    /// Wakes the acceptor when the server stops.
    stop_event: Arc<Inbox>,
    pulse: Pulse,
    threads: Vec<JoinHandle<()>>,
}

/// Returns the usual congestion control, which a new socket shows if inherited listeners are
/// unpaced.
fn begin_all_unpaced(listeners: &[TcpListener]) -> Option<String> {
    let begin = |usual, listener| begin_unpaced(listener).or(usual);
    let usual = listeners.iter().fold(None, begin);
    usual.or_else(|| {
        let new = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        begin_unpaced(new)
    })
}

fn system(error: impl Into<std::io::Error>) -> Error {
    Error::System(error.into().to_string())
}

impl<P: Program> Server<P> {
    /// Listens, makes the program and serves on its own threads.
    pub fn start<E: From<Error>>(
        mut options: Options,
        bounds: Arc<Bounds>,
        program: impl FnOnce() -> Result<P, E>,
    ) -> Result<Self, E> {
        let listen = options.listen;
        let refused = |error: std::io::Error| Error::Listen {
            address: listen,
            reason: error.to_string(),
        };
        let (threads, poll_for) = (options.threads, options.poll_for);
        let slots = Shares::new(connections_max(options.connections_max));
        let mut listeners = std::mem::take(&mut options.listeners);
        if listeners.is_empty() {
            listeners.push(TcpListener::bind(listen).map_err(refused)?);
        }
        for listener in &listeners {
            listener.set_nonblocking(true).map_err(system)?;
        }
        let address = listeners[0].local_addr().map_err(system)?;
        let datagrams = options.datagrams.then(|| datagrams::bind(address));
        let datagrams = datagrams.transpose().map_err(refused)?;
        // Only now: the program's state belongs to the server that listens here.
        let program = Arc::new(program()?);
        let dispatcher = Dispatcher::new(program, bounds, threads);
        let readers = Arc::new(Readers::new(processors_count()).map_err(system)?);
        let stop_event = Inbox::new().map_err(system)?;
        let beats = Arc::new(Beats::default());
        let pulse = Pulse::new(readers.clone(), stop_event.clone(), beats.clone());
        let acceptor = Acceptor {
            usual: begin_all_unpaced(&listeners),
            listeners,
            stop_event: stop_event.clone(),
            beats: beats.clone(),
            dispatcher: dispatcher.clone(),
            slots: Arc::new(Mutex::new(slots)),
            readers: readers.clone(),
            latest: LatestConnections::default(),
            accepted: Vec::new(),
        };
        let shared = Arc::new(Shared {
            dispatcher: dispatcher.clone(),
            budget: RequestBudget::new(REQUEST_BYTES_MAX),
            poll_for,
        });
        let mut server = Self {
            address,
            dispatcher,
            readers,
            stop_event,
            pulse,
            threads: Vec::new(),
        };
        let started = server.start_threads(&shared, acceptor, datagrams);
        started.map_err(system)?;
        Ok(server)
    }

    fn start_threads(
        &mut self,
        shared: &Arc<Shared<P>>,
        acceptor: Acceptor<P>,
        datagrams: Option<UdpSocket>,
    ) -> std::io::Result<()> {
        let dispatcher = self.dispatcher.clone();
        for handle in self.readers.clone().0.iter() {
            let reader = Reader::new(shared.clone(), handle.clone())?;
            self.spawn("pagewell-reader", move || reader.run())?;
        }
        if let Some(socket) = datagrams {
            let dispatcher = dispatcher.clone();
            self.spawn("pagewell-datagrams", move || {
                datagrams::serve(&dispatcher, socket);
            })?;
        }
        self.spawn("pagewell-watcher", move || dispatcher.watch())?;
        self.spawn("pagewell-acceptor", move || acceptor.run())
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(builder.spawn(run)?);
        Ok(())
    }

    /// The bound one.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows whether the server works.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Arc<P> {
        &self.dispatcher.program
    }

    /// Whether no pool call runs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.dispatcher.bounds.slow.is_idle()
    }

    /// Accepts nothing more and finishes what has begun.
    pub fn halt(&mut self) {
        if self.dispatcher.set_stopping() {
            return;
        }
        let deadline = Instant::now() + DRAIN_FOR;
        self.stop_event.ring();
        for reader in &self.readers.0 {
            reader.inbox.ring();
        }
        // The watcher parks between rounds.
        self.threads.iter().for_each(|one| one.thread().unpark());
        // Frozen storage may block a reader. The panic hook reports panics.
        let is_late = || Instant::now() >= deadline + GRACE;
        while self.threads.iter().any(|thread| !thread.is_finished()) && !is_late() {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.dispatcher.program.stop();
        self.dispatcher.stop_threads();
        // Replies can no longer leave, but the changes of running calls must reach the device.
        while !self.dispatcher.bounds.slow.is_idle() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl<P: Program> Drop for Server<P> {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Affinity and the control group's quota count.
fn processors_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn processors_that_may_not_be_used_are_not_counted() {
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|processor| all.is_set(*processor));
        // Of this thread alone.
        let mut one = CpuSet::new();
        one.set(first.unwrap());
        sched_setaffinity(None, &one).unwrap();
        assert_eq!(processors_count(), 1);
        sched_setaffinity(None, &all).unwrap();
        assert!((1..=all.count() as usize).contains(&processors_count()));
    }
}
