//! The thread that accepts connections.
//!
//! It serves nobody, so it may wait: for a place, and for descriptors when the process has none.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewell_counters::names;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::refusals::{self, Reason};
use super::share::Address;
use crate::server::Shared;

/// How long a newcomer waits for a connection that was asked to leave.
const LEAVE_WITHIN: Duration = Duration::from_millis(50);

/// How often it looks whether the place is free.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Pause after the system refused: there may be descriptors again.
const REFUSED_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// What a server accepts through.
pub struct Door {
    listener: TcpListener,
    bell: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Door {
    /// Accepts for `shared` until that is stopping; writing to `bell` (an eventfd) makes it look.
    #[must_use]
    pub fn new(listener: TcpListener, bell: Arc<OwnedFd>, shared: Arc<Shared>) -> Self {
        Self {
            listener,
            bell,
            shared,
        }
    }

    /// Accepts until the server stops.
    pub fn run(self) {
        while !self.is_stopping() {
            let mut ready = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&*self.bell, PollFlags::IN),
            ];
            if poll(&mut ready, None).is_err() {
                self.pause();
            }
            self.accept();
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Waits a moment, less if the server stops.
    fn pause(&self) {
        let mut bell = [PollFd::new(&*self.bell, PollFlags::IN)];
        // Interrupted, it only waits less.
        let _ = poll(&mut bell, Some(&REFUSED_PAUSE));
    }

    fn accept(&self) {
        while !self.is_stopping() {
            match self.listener.accept() {
                Ok((socket, peer)) => self.admit(socket, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(_) => {
                    // Out of descriptors or memory.
                    names::ACCEPTS_FAILED.add(1);
                    if let Some(idle) = self.shared.places.idlest(None, Instant::now()) {
                        idle.ask_to_leave();
                    }
                    self.pause();
                    return;
                }
            }
        }
    }

    fn admit(&self, socket: TcpStream, peer: SocketAddr) {
        if !self.shared.service.allows(peer.ip()) {
            names::CONNECTIONS_NOT_ALLOWED.add(1);
            refusals::note(peer.ip(), Reason::NotAllowed);
            return;
        }
        let token = self.shared.new_token();
        let address = Address::of(peer.ip());
        let place = self.shared.places.take(address, token);
        let Some(place) = place.or_else(|| self.make_place(address, token)) else {
            names::CONNECTIONS_REFUSED.add(1);
            refusals::note(peer.ip(), Reason::NoPlace);
            return;
        };
        if socket.set_nonblocking(true).is_err() || socket.set_nodelay(true).is_err() {
            return;
        }
        let socket = OwnedFd::from(socket);
        // Only finds out sooner that a client is gone.
        let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        names::CONNECTIONS_ACCEPTED.add(1);
        self.shared.assign(socket, (peer.ip(), peer.port()), place);
    }

    /// Asks an idle connection to leave and waits for its place.
    fn make_place(&self, address: Address, token: u64) -> Option<super::places::Place> {
        let begun = Instant::now();
        let idle = self.shared.places.idlest(Some(address), begun)?;
        idle.ask_to_leave();
        drop(idle);
        while begun.elapsed() < LEAVE_WITHIN {
            std::thread::sleep(LOOK_EVERY);
            if let Some(place) = self.shared.places.take(address, token) {
                return Some(place);
            }
        }
        None
    }
}
