//! A running server: its threads, and how they start and end.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_policy::limits::Rates;
use pagewell_sunrpc::stream::begin_unpaced;
use rustix::net::{AddressFamily, SocketType};

use crate::acceptor::{Acceptor, LatestConnections, connections_max};
use crate::bounds::Bounds;
use crate::config::{Config, Error, Export};
use crate::connection::inbox::Inbox;
use crate::datagrams;
use crate::dispatch::{DRAIN_FOR, Dispatcher};
use crate::program::Program;
use crate::pulse::{Beats, Pulse};
use crate::receive::reader::Reader;
use crate::receive::readers::Readers;
use crate::receive::receiver::Shared;
use crate::request_memory::budget::{REQUEST_BYTES_MAX, RequestBudget};
use crate::service::Service;
use crate::service::ending::Loss;
use crate::service::in_force::Retired;
use crate::share::Shares;

/// So much later a thread that has not ended is left to itself.
const GRACE: Duration = Duration::from_secs(1);

/// A running server; stops when asked to, or when dropped.
pub struct Server {
    address: SocketAddr,
    dispatcher: Arc<Dispatcher<Service>>,
    readers: Arc<Readers>,
    /// Has the acceptor look whether the server stops.
    stop_event: Arc<Inbox>,
    pulse: Pulse,
    threads: Vec<JoinHandle<()>>,
}

/// Has all of them begin their connections without pacing. One that an earlier server has listened
/// to has begun so already: what it would have begun with, a new socket tells.
fn begin_all_unpaced(listeners: &[TcpListener]) -> Option<String> {
    let begin = |usual, listener| begin_unpaced(listener).or(usual);
    let usual = listeners.iter().fold(None, begin);
    usual.or_else(|| {
        let new = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
        begin_unpaced(new)
    })
}

/// The exports of a running server, to be replaced.
#[derive(Clone)]
pub struct Exports(Arc<Dispatcher<Service>>);

impl Exports {
    /// Serves these exports from the next call on, and drops no client. Clients keep their handles
    /// where the name of an export and its source stay; handles of what is not served any more are
    /// stale. What must be brought to its device and closed is returned.
    ///
    /// # Errors
    ///
    /// What makes no sense together, or a server that stops: nothing has changed then.
    pub fn replace(&self, exports: Vec<Export>) -> Result<Vec<Retired>, Error> {
        self.0.program.exports.replace(exports)
    }

    /// So much each client may have from now on.
    pub fn limit_clients(&self, rates: Rates) {
        self.0.bounds.limits.limit_clients(rates);
    }
}

fn system(error: impl Into<std::io::Error>) -> Error {
    Error::System(error.into().to_string())
}

impl Server {
    /// Listens and serves on threads of its own.
    pub fn start(mut config: Config) -> Result<Self, Error> {
        let listen = config.listen;
        let refused = |error: std::io::Error| Error::Listen {
            address: listen,
            reason: error.to_string(),
        };
        let (threads, poll_for) = (config.threads, config.poll_for);
        let slots = Shares::new(connections_max(config.connections_max));
        let mut listeners = std::mem::take(&mut config.listeners);
        if listeners.is_empty() {
            listeners.push(TcpListener::bind(listen).map_err(refused)?);
        }
        for listener in &listeners {
            listener.set_nonblocking(true).map_err(system)?;
        }
        let address = listeners[0].local_addr().map_err(system)?;
        // Calls about locks are answered at the same port of UDP, too.
        let lock_socket = config.locks.datagrams.then(|| datagrams::bind(address));
        let lock_socket = lock_socket.transpose().map_err(refused)?;
        // Not before: the list of clients with locks is that of the server that listens here.
        let bounds = Bounds::new(config.slow_after, threads);
        bounds.limits.limit_clients(config.client_limits);
        let service = Arc::new(Service::new(config, bounds.clone())?);
        let dispatcher = Dispatcher::new(service, bounds, threads);
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
        let started = server.start_threads(&shared, acceptor, lock_socket);
        started.map_err(system)?;
        Ok(server)
    }

    fn start_threads(
        &mut self,
        shared: &Arc<Shared<Service>>,
        acceptor: Acceptor<Service>,
        lock_socket: Option<UdpSocket>,
    ) -> std::io::Result<()> {
        let dispatcher = self.dispatcher.clone();
        for handle in self.readers.clone().0.iter() {
            let reader = Reader::new(shared.clone(), handle.clone())?;
            self.spawn("pagewell-reader", move || reader.run())?;
        }
        if let Some(socket) = lock_socket {
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

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What shows whether it still answers.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// What replaces the exports while they are served.
    #[must_use]
    pub fn exports(&self) -> Exports {
        Exports(self.dispatcher.clone())
    }

    /// Accepts nothing more, finishes what was begun, brings dirty data to the device.
    pub fn stop(mut self) -> Result<(), pagewell_fs::Error> {
        self.halt();
        self.dispatcher.program.exports.now().sync()
    }

    /// The same, but does not wait for a source that takes nothing of what was written for so long,
    /// such as a server that is gone. What is lost then is said.
    pub fn stop_within(mut self, patience: Duration) -> Vec<Loss> {
        self.halt();
        let losses = self.dispatcher.program.exports.now().finish(patience);
        if !self.dispatcher.bounds.slow.is_idle() {
            // Calls that are still waited for would keep what they are made of.
            self.dispatcher.program.exports.now().abandon();
        }
        losses
    }

    fn halt(&mut self) {
        self.dispatcher.program.exports.make_final();
        if self.dispatcher.set_stopping() {
            return;
        }
        let deadline = Instant::now() + DRAIN_FOR;
        self.stop_event.ring();
        for reader in &self.readers.0 {
            reader.inbox.ring();
        }
        // The watcher is parked between its looks.
        self.threads.iter().for_each(|one| one.thread().unpark());
        // A file system that is frozen may hold a reader. The panic hook reports one that panics.
        let is_late = || Instant::now() >= deadline + GRACE;
        while self.threads.iter().any(|thread| !thread.is_finished()) && !is_late() {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.dispatcher.program.stop();
        self.dispatcher.stop_threads();
        // The replies to running calls cannot be sent any more, but what they change is to be on
        // the device with the rest.
        while !self.dispatcher.bounds.slow.is_idle() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The processors that this process may use: its affinity and the quota of its control group are
/// respected.
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
