//! Wake-ups for a reader, and for the acceptor at the end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Connections that a reader must look at.
pub struct Inbox {
    event: OwnedFd,
    tokens: Mutex<Vec<u64>>,
}

/// For one connection.
#[derive(Clone)]
pub struct Waker {
    inbox: Arc<Inbox>,
    /// The connection's number.
    pub token: u64,
}

impl Waker {
    /// Wakes the reader of `inbox` for the connection `token`.
    pub fn new(inbox: Arc<Inbox>, token: u64) -> Self {
        Self { inbox, token }
    }

    /// Wakes the reader.
    pub fn wake(&self) {
        let tokens = &self.inbox.tokens;
        let mut tokens = tokens.lock();
        let is_first = tokens.is_empty();
        tokens.push(self.token);
        drop(tokens);
        if is_first {
            self.inbox.ring();
        }
    }
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            event,
            tokens: Mutex::default(),
        }))
    }

    /// Interrupts the reader's wait.
    pub fn ring(&self) {
        // Fails only when the event is set.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Since the last call.
    pub fn collect(&self) -> Vec<u64> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
        std::mem::take(&mut *self.tokens.lock())
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
