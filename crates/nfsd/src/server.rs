//! A running server: transport, programs and exports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pagewell_export::ending::Loss;
use pagewell_export::exports::Retired;
use pagewell_policy::limits::Rates;
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::pulse::Pulse;
use pagewell_rpcd::server::{Options, Server as Transport};

use crate::config::{Config, Error, Export};
use crate::service::Service;

/// A running server; stops on request or on drop.
pub struct Server {
    transport: Transport<Service>,
}

/// The replaceable exports of a running server.
#[derive(Clone)]
pub struct Exports(Arc<Service>);

impl Exports {
    /// Serves these exports from the next call on, without dropping clients. Handles stay valid
    /// while an export's name and source stay. Returns sources to finish.
    ///
    /// # Errors
    ///
    /// Exports that contradict each other, or a stopping server: nothing changes.
    pub fn replace(&self, exports: Vec<Export>) -> Result<Vec<Retired>, Error> {
        Ok(self.0.exports.replace(exports)?)
    }

    /// Sets the limit of each client.
    pub fn limit_clients(&self, rates: Rates) {
        self.0.exports.bounds.limits.limit_clients(rates);
    }
}

impl Server {
    /// Listens and serves on its own threads.
    pub fn start(mut config: Config) -> Result<Self, Error> {
        let options = Options {
            listen: config.listen,
            listeners: std::mem::take(&mut config.listeners),
            datagrams: config.locks.datagrams,
            threads: config.threads,
            connections_max: config.connections_max,
            poll_for: config.poll_for,
        };
        let bounds = Bounds::new(config.slow_after, config.threads);
        bounds.limits.limit_clients(config.client_limits);
        let own = bounds.clone();
        let transport = Transport::start(options, bounds, || Service::new(config, own))?;
        Ok(Self { transport })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// Shows whether it still works.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.transport.pulse()
    }

    /// Replaces the exports.
    #[must_use]
    pub fn exports(&self) -> Exports {
        Exports(self.transport.program().clone())
    }

    /// Accepts nothing more, finishes what has begun, brings dirty data to the device.
    pub fn stop(mut self) -> Result<(), pagewell_fs::Error> {
        self.halt();
        self.transport.program().exports.now().sync()
    }

    /// The same, but waits at most `patience` for a source that takes no data, such as a dead
    /// server. Returns what is lost.
    pub fn stop_within(mut self, patience: Duration) -> Vec<Loss> {
        self.halt();
        let served = self.transport.program().exports.now();
        let losses = served.finish(patience);
        if !self.transport.is_idle() {
            // Running calls would keep their sources.
            served.abandon();
        }
        losses
    }

    fn halt(&mut self) {
        self.transport.program().exports.make_final();
        self.transport.halt();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}
