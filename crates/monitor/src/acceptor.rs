//! The thread that accepts connections.

use std::io::{ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};

/// Pause after a failed accept (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    listener: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Calls `accept`, which waits for one connection and begins serving it, repeatedly on a thread
    /// of this name.
    pub(crate) fn start(
        name: &str,
        listener: OwnedFd,
        accept: impl Fn() -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            loop {
                match accept() {
                    Ok(()) => {}
                    // The listener was shut down.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => return,
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        })?;
        Ok(Self {
            listener,
            thread: Some(thread),
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // Ends a waiting accept, too.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
