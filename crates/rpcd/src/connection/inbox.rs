//! How other threads call a reader, and the acceptor when it is to stop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pagewell_base::sync::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// The connections that a reader is to look at. The reader waits for it together with its sockets.
pub struct Inbox {
    event: OwnedFd,
    tokens: Mutex<Vec<u64>>,
}

/// Calls a reader to look at one connection again.
#[derive(Clone)]
pub struct Waker {
    inbox: Arc<Inbox>,
    /// The connection's number.
    pub token: u64,
}

impl Waker {
    /// A waker for the connection `token` of the reader behind `inbox`.
    pub fn new(inbox: Arc<Inbox>, token: u64) -> Self {
        Self { inbox, token }
    }

    /// Calls the reader.
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
    /// An empty one.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            event,
            tokens: Mutex::default(),
        }))
    }

    /// Interrupts the reader's wait.
    pub fn ring(&self) {
        // It can only fail when the count is full, and then the reader is being called already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// The connections that were called since the last time.
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
