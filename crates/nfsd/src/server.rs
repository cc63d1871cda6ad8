//! A running server: its threads, and how they start and end.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pagewell_sunrpc::stream::begin_unpaced;
use rustix::event::{EventfdFlags, eventfd};

use crate::accept::acceptor::Acceptor;
use crate::accept::descriptors;
use crate::config::Config;
use crate::connection::Totals;
use crate::connection::latest::LatestConnections;
use crate::connection::slots::Slots;
use crate::dispatch::Dispatcher;
use crate::error::Error;
use crate::receive::reader::Reader;
use crate::receive::readers::Readers;
use crate::receive::receiver::Shared;
use crate::request_memory::budget::{REQUEST_BYTES_MAX, RequestBudget};
use crate::service::Service;
use crate::service::ending::Loss;

/// How long a stopping server lets clients fetch the replies to what was begun.
const DRAIN_FOR: Duration = Duration::from_secs(10);

/// So much later a thread that has not ended is left to itself.
const GRACE: Duration = Duration::from_secs(1);

/// A running server; stops when asked to, or when dropped.
pub struct Server {
    address: SocketAddr,
    service: Arc<Service>,
    dispatcher: Arc<Dispatcher>,
    readers: Arc<Readers>,
    /// Has the acceptor look whether the server stops.
    stop_event: Arc<OwnedFd>,
    acceptor: Option<JoinHandle<()>>,
    reader_threads: Vec<JoinHandle<()>>,
    watcher: Option<JoinHandle<()>>,
    datagrams: Option<JoinHandle<()>>,
}

/// Starts a thread with a name.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run)
}

fn system(error: impl Into<std::io::Error>) -> Error {
    Error::System(error.into().to_string())
}

impl Server {
    /// Listens and serves on threads of its own.
    pub fn start(config: Config) -> Result<Self, Error> {
        let listen = config.listen;
        let refused = |error: std::io::Error| Error::Listen {
            address: listen,
            reason: error.to_string(),
        };
        let (threads, poll_for) = (config.threads, config.poll_for);
        let slots = Slots::new(descriptors::connections_max(config.connections_max));
        let datagrams = config.locks.datagrams;
        let service = Arc::new(Service::new(config)?);
        let dispatcher = Dispatcher::new(service.clone(), threads);
        let listener = TcpListener::bind(listen).map_err(refused)?;
        listener.set_nonblocking(true).map_err(system)?;
        let address = listener.local_addr().map_err(system)?;
        let readers = Arc::new(Readers::new(processors_count()).map_err(system)?);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop_event = Arc::new(eventfd(0, flags).map_err(system)?);
        let totals = Arc::new(Totals::new(service.served().unsent().clone()));
        let acceptor = Acceptor {
            usual: begin_unpaced(&listener),
            listener,
            stop_event: stop_event.clone(),
            dispatcher: dispatcher.clone(),
            slots,
            totals: totals.clone(),
            readers: readers.clone(),
            latest: LatestConnections::default(),
            accepted: Vec::new(),
        };
        let shared = Arc::new(Shared {
            service: service.clone(),
            dispatcher: dispatcher.clone(),
            budget: RequestBudget::new(REQUEST_BYTES_MAX),
            totals,
            poll_for,
            drain_for: DRAIN_FOR,
        });
        let mut server = Self {
            address,
            service,
            dispatcher,
            readers,
            stop_event,
            acceptor: None,
            reader_threads: Vec::new(),
            watcher: None,
            datagrams: None,
        };
        server.start_threads(&shared, acceptor).map_err(system)?;
        if datagrams {
            server.receive_datagrams().map_err(system)?;
        }
        Ok(server)
    }

    fn start_threads(&mut self, shared: &Arc<Shared>, acceptor: Acceptor) -> std::io::Result<()> {
        for handle in self.readers.all() {
            let reader = Reader::new(shared.clone(), handle.clone())?;
            let thread = spawn("pagewell-reader", move || reader.run())?;
            self.reader_threads.push(thread);
        }
        let dispatcher = self.dispatcher.clone();
        self.watcher = Some(spawn("pagewell-watcher", move || dispatcher.watch())?);
        self.acceptor = Some(spawn("pagewell-acceptor", move || acceptor.run())?);
        Ok(())
    }

    /// Answers calls about locks at the same port of UDP.
    fn receive_datagrams(&mut self) -> std::io::Result<()> {
        let socket = UdpSocket::bind(self.address)?;
        let dispatcher = self.dispatcher.clone();
        let serve = move || crate::datagrams::serve(&dispatcher, socket);
        self.datagrams = Some(spawn("pagewell-datagrams", serve)?);
        Ok(())
    }

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing more, finishes what was begun, brings dirty data to the device.
    pub fn stop(mut self) -> Result<(), pagewell_fs::Error> {
        self.halt();
        self.service.served().sync()
    }

    /// The same, but does not wait for a source that takes nothing of what was written for so long,
    /// such as a server that is gone. What is lost then is said.
    pub fn stop_within(mut self, patience: Duration) -> Vec<Loss> {
        self.halt();
        let losses = self.service.served().finish(patience);
        if !self.service.is_idle() {
            // Calls that are still waited for would keep what they are made of.
            self.service.served().abandon();
        }
        losses
    }

    fn halt(&mut self) {
        if self.dispatcher.set_stopping() {
            return;
        }
        let deadline = Instant::now() + DRAIN_FOR;
        // It can only fail when the count is full, and then the thread is being called already.
        let _ = rustix::io::write(&*self.stop_event, &1u64.to_ne_bytes());
        for reader in self.readers.all() {
            reader.inbox.ring();
        }
        if let Some(watcher) = &self.watcher {
            watcher.thread().unpark();
        }
        let mut threads = std::mem::take(&mut self.reader_threads);
        threads.extend(self.acceptor.take());
        threads.extend(self.watcher.take());
        threads.extend(self.datagrams.take());
        // A file system that is frozen may hold a reader. The panic hook reports one that panics.
        let is_late = || Instant::now() >= deadline + GRACE;
        while threads.iter().any(|thread| !thread.is_finished()) && !is_late() {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.service.locks().stop();
        self.dispatcher.stop_threads();
        // The replies to running calls cannot be sent any more, but what they change is to be on
        // the device with the rest.
        while !self.service.is_idle() && Instant::now() < deadline {
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
