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
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::refusals::{self, Reason};
use crate::server::Shared;
use crate::share::Address;

/// How long a newcomer waits for a connection that was asked to leave.
const LEAVE_WITHIN: Duration = Duration::from_millis(50);

/// How often it looks whether the place is free.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Pause after the system refused: there may be descriptors again.
const REFUSED_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// After this time without a word the client's machine is asked whether it is there (`tcp(7)`,
/// TCP_KEEPIDLE) ...
const ASK_AFTER: Duration = Duration::from_secs(300);

/// ... and again each time that this has passed without an answer (TCP_KEEPINTVL).
const ASK_EVERY: Duration = Duration::from_secs(60);

/// After so many questions the connection is closed (TCP_KEEPCNT).
const ASK_TIMES: u32 = 5;

/// What a server accepts through.
pub struct Door {
    listener: TcpListener,
    bell: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

/// Has the system close the connection of a client that is gone: after ten minutes, also when
/// something is under way to it (TCP_USER_TIMEOUT).
fn keep_alive(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_keepidle(socket, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, ASK_TIMES)?;
    let gone_after = ASK_AFTER + ASK_EVERY * ASK_TIMES;
    let milliseconds = u32::try_from(gone_after.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(socket, milliseconds)?;
    sockopt::set_socket_keepalive(socket, true)
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
        // Without it a client that is gone is only found out later.
        let _ = keep_alive(&socket);
        names::CONNECTIONS_ACCEPTED.add(1);
        self.shared.assign(socket, (peer.ip(), peer.port()), place);
    }

    /// Asks an idle connection to leave and waits for its place.
    fn make_place(&self, address: Address, token: u64) -> Option<crate::connection::slots::Place> {
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
