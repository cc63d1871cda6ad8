//! A bare NFS server: what a server can reach on this machine.
//!
//! Problem: a rate depends on the machine, its kernel and the load generator. Rule: a comparison
//! has a server that only answers: no file system, no permissions, no fairness, one thread for each
//! connection. It reaches what the kernel's sockets and the load generator let through; a real
//! server is judged by its distance from that.
//!
//! It answers GETATTR, LOOKUP and READ of one file, and CREATE, WRITE, COMMIT and REMOVE of given
//! files. The data of READ leaves in one of three [ways](Way): which is the cheapest depends on the
//! machine.
//!
//! Its input is checked as far as safety asks: a malformed record ends the connection.

mod answers;
mod connection;
mod files;
#[cfg(test)]
mod tests;
mod way;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_sunrpc::stream::begin_unpaced;

pub use files::Files;
pub use way::Way;

/// A thread each; further ones are closed at once.
const CONNECTIONS_MAX: usize = 64;

/// A bare server that listens.
#[derive(Debug)]
pub struct Limit {
    listener: TcpListener,
    files: Arc<Files>,
    way: Way,
}

impl Limit {
    /// Listens; [`serve`](Self::serve) answers.
    ///
    /// # Errors
    ///
    /// Those of listening.
    pub fn bind(address: SocketAddr, files: Files, way: Way) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        begin_unpaced(&listener);
        Ok(Self {
            listener,
            files: Arc::new(files),
            way,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The socket has none, which does not happen.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until no connection can be accepted any more.
    ///
    /// # Errors
    ///
    /// That of accepting, or of starting a thread.
    pub fn serve(self) -> io::Result<()> {
        let connections = Arc::new(AtomicUsize::new(0));
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                // The client has closed it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            if connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                continue;
            }
            connections.fetch_add(1, Ordering::Relaxed);
            let (files, way) = (Arc::clone(&self.files), self.way);
            let connections = Arc::clone(&connections);
            std::thread::Builder::new().spawn(move || {
                // The client sees what went wrong.
                let _ = connection::serve(&socket, &files, way);
                connections.fetch_sub(1, Ordering::Relaxed);
            })?;
        }
    }
}
