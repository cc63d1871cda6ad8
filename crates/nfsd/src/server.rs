//! A running server: the transport with its programs and exports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pagewell_export::ending::Loss;
use pagewell_export::in_force::Retired;
use pagewell_policy::limits::Rates;
use pagewell_rpcd::bounds::Bounds;
use pagewell_rpcd::pulse::Pulse;
use pagewell_rpcd::server::{Options, Server as Transport};

use crate::config::{Config, Error, Export};
use crate::service::Service;

/// A running server; stops when asked to, or when dropped.
pub struct Server {
    transport: Transport<Service>,
}

/// The exports of a running server, to be replaced.
#[derive(Clone)]
pub struct Exports(Arc<Service>);

impl Exports {
    /// Serves these exports from the next call on, and drops no client. Clients keep their handles
    /// where the name of an export and its source stay; handles of what is not served any more are
    /// stale. What must be brought to its device and closed is returned.
    ///
    /// # Errors
    ///
    /// What makes no sense together, or a server that stops: nothing has changed then.
    pub fn replace(&self, exports: Vec<Export>) -> Result<Vec<Retired>, Error> {
        Ok(self.0.exports.replace(exports)?)
    }

    /// So much each client may have from now on.
    pub fn limit_clients(&self, rates: Rates) {
        self.0.exports.bounds.limits.limit_clients(rates);
    }
}

impl Server {
    /// Listens and serves on threads of its own.
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

    /// Where it really listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.transport.address()
    }

    /// What shows whether it still answers.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        self.transport.pulse()
    }

    /// What replaces the exports while they are served.
    #[must_use]
    pub fn exports(&self) -> Exports {
        Exports(self.transport.program().clone())
    }

    /// Accepts nothing more, finishes what was begun, brings dirty data to the device.
    pub fn stop(mut self) -> Result<(), pagewell_fs::Error> {
        self.halt();
        self.transport.program().exports.now().sync()
    }

    /// The same, but does not wait for a source that takes nothing of what was written for so long,
    /// such as a server that is gone. What is lost then is said.
    pub fn stop_within(mut self, patience: Duration) -> Vec<Loss> {
        self.halt();
        let served = self.transport.program().exports.now();
        let losses = served.finish(patience);
        if !self.transport.is_idle() {
            // Calls that are still waited for would keep what they are made of.
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
