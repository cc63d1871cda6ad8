//! A proxy that runs: an address, a script that can be replaced, counts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::connection::Connection;
use crate::shared::Shared;
use crate::{Counts, Script, Seen};

/// Each has a thread; a client that wants more is at fault.
const CONNECTIONS_MAX: usize = 1024;

/// See the module's text. It ends when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one on a free port of loopback.
    ///
    /// # Errors
    ///
    /// As [`Self::start_at`].
    pub fn start(upstream: SocketAddr, script: Script) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), upstream, script)
    }

    /// Starts one on this address.
    ///
    /// # Errors
    ///
    /// Either address is not on loopback, or it cannot listen.
    pub fn start_at(listen: SocketAddr, upstream: SocketAddr, script: Script) -> io::Result<Self> {
        for address in [listen, upstream] {
            if !address.ip().is_loopback() {
                let what = format!("{address} is not on loopback");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        }
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(upstream, script));
        let of_acceptor = shared.clone();
        let acceptor = Builder::new().name("object-proxy".to_owned());
        let acceptor = acceptor.spawn(move || accept(&listener, &of_acceptor))?;
        Ok(Self {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happens from the next request on; its rules count from the first one.
    pub fn set_script(&self, script: Script) {
        self.shared.set_script(script);
    }

    /// What was counted. A request is in it before the server gets it, and bytes before their
    /// receiver.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The requests that came since the counts were zero; of very many the last ones.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen()
    }

    /// Counts from zero.
    pub fn reset_counts(&self) {
        self.shared.reset_counts();
    }

    /// Waits until a request or a reply is held ([`crate::Fault::Wait`], [`crate::Fault::HoldAt`]);
    /// whether one is within this time.
    pub fn wait_until_held(&self, most: Duration) -> bool {
        self.shared.wait_until_held(most)
    }

    /// Lets all go on that is held.
    pub fn release(&self) {
        self.shared.release();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop();
        // The acceptor looks up when there is a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.is_stopped() {
            return;
        }
        let Ok((client, _)) = accepted else {
            // Too many files are open; some will be closed.
            if shared.pause(Duration::from_millis(10)).is_err() {
                return;
            }
            continue;
        };
        let _ = client.set_nodelay(true);
        let Some(number) = shared.open(&client, CONNECTIONS_MAX) else {
            continue;
        };
        let of_connection = shared.clone();
        let thread = Builder::new().name("object-proxy".to_owned());
        let spawned = thread.spawn(move || Connection::serve(&of_connection, number, client));
        if spawned.is_err() {
            shared.forget(number);
        }
    }
}
