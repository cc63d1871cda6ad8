//! The thread that accepts connections.
//!
//! It serves no client, so it may wait: for a slot, and for descriptors when the process has none.
//!
//! Problem: there can only be so many connections, and a client that has one may keep it for ever
//! without a word. Rule: each address has its [share](crate::share) of the slots. When an address
//! has no slot left in its share, the connection that has been without a call for longest is asked
//! to leave, first of all one of the address with the most connections, and never one of an address
//! that has fewer than the newcomer. One with a call under way, or a reply that has not left,
//! stays. A client that is asked to leave connects anew when it has something to ask; clients of
//! file servers do so unseen by their users.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_sunrpc::stream::prepare;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clients::CLIENTS;
use crate::connection::Connection;
use crate::connection::inbox::{Inbox, Waker};
use crate::dispatch::Dispatcher;
use crate::program::Program;
use crate::pulse::Beats;
use crate::receive::readers::Readers;
use crate::refusals::{self, Reason};
use crate::share::{Address, Shares};

/// A connection with so recent a call is in the middle of something.
const IDLE_MIN: Duration = Duration::from_secs(5);

/// How long a newcomer waits for a connection that was asked to leave.
const LEAVE_WITHIN: Duration = Duration::from_millis(50);

/// How often it looks whether the slot is free.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// So many connections of one listener are accepted before the next one is looked at.
const ACCEPTS_MAX: usize = 64;

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

/// What a server accepts connections with.
pub struct Acceptor<P: Program> {
    /// Where it listens; they do not block.
    pub listeners: Vec<TcpListener>,
    /// The congestion control that connections have without [`begin_unpaced`], if it changed it.
    ///
    /// [`begin_unpaced`]: pagewell_sunrpc::stream::begin_unpaced
    pub usual: Option<String>,
    /// Becomes readable when the server is to stop, or to show that it lives.
    pub stop_event: Arc<Inbox>,
    /// How often it has looked into it.
    pub beats: Arc<Beats>,
    /// Knows which addresses may connect, and whether the server stops.
    pub dispatcher: Arc<Dispatcher<P>>,
    /// Connections at once.
    pub slots: Arc<Mutex<Shares<Address>>>,
    /// Get the connections.
    pub readers: Arc<Readers>,
    /// Of each address.
    pub latest: LatestConnections,
    /// Those that have been accepted, some of them gone.
    pub accepted: Vec<(Address, Weak<Connection>)>,
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

impl<P: Program> Acceptor<P> {
    /// Accepts until the server stops.
    pub fn run(mut self) {
        while !self.dispatcher.is_stopping() {
            let listeners = self.listeners.iter();
            let mut ready: Vec<_> = listeners
                .map(|one| PollFd::new(one, PollFlags::IN))
                .collect();
            ready.push(PollFd::new(&*self.stop_event, PollFlags::IN));
            let polled = poll(&mut ready, None);
            drop(ready);
            if polled.is_err() {
                self.pause();
            }
            self.stop_event.collect();
            for listener in 0..self.listeners.len() {
                self.beats.beat();
                self.accept(listener);
            }
        }
    }

    /// Waits a moment, less if the server stops.
    fn pause(&self) {
        let mut stop_event = [PollFd::new(&*self.stop_event, PollFlags::IN)];
        // Interrupted, it only waits less.
        let _ = poll(&mut stop_event, Some(&REFUSED_PAUSE));
    }

    /// Accepts what waits at this listener, but so much that the others get their turn.
    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_MAX {
            if self.dispatcher.is_stopping() {
                return;
            }
            match self.listeners[listener].accept() {
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
                    if let Some(idle) = self.idlest(None, Instant::now()) {
                        idle.ask_to_leave();
                    }
                    self.pause();
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) {
        if !self.dispatcher.program.allows(peer.ip()) {
            names::CONNECTIONS_NOT_ALLOWED.add(1);
            refusals::note(peer.ip(), Reason::NotAllowed);
            return;
        }
        let address = Address::of(peer.ip());
        // To free one takes the lock, too.
        let has_slot = self.slots.lock().take_one(address);
        if !has_slot && !self.free_slot(address) {
            names::CONNECTIONS_REFUSED.add(1);
            refusals::note(peer.ip(), Reason::NoSlot);
            return;
        }
        if socket.set_nonblocking(true).is_err() || prepare(&socket, self.usual.as_deref()).is_err()
        {
            self.slots.lock().subtract(address, 1);
            return;
        }
        let socket = OwnedFd::from(socket);
        // Without it a client that is gone is only found out later.
        let _ = keep_alive(&socket);
        names::CONNECTIONS_ACCEPTED.add(1);
        self.assign(socket, peer);
    }

    /// Gives a new connection, which has a slot, to the reader that has least to do.
    fn assign(&mut self, socket: OwnedFd, peer: SocketAddr) {
        let reader = self.readers.choose();
        let totals = self.dispatcher.bounds.totals.clone();
        let waker = Waker::new(reader.inbox.clone(), totals.new_token());
        let (latest, slots) = (self.latest.of(peer.ip()), self.slots.clone());
        let connection = Arc::new_cyclic(|this| {
            let this = this.clone();
            Connection::new(socket, peer, waker, totals, latest, slots, this)
        });
        if self.accepted.len() == self.accepted.capacity() {
            self.accepted
                .retain(|(_, connection)| connection.strong_count() > 0);
        }
        let address = Address::of(peer.ip());
        self.accepted.push((address, Arc::downgrade(&connection)));
        CLIENTS.add(&connection);
        reader.hand_over(connection);
    }

    /// Asks an idle connection to leave and takes its slot.
    fn free_slot(&self, address: Address) -> bool {
        let begun = Instant::now();
        let Some(idlest) = self.idlest(Some(address), begun) else {
            return false;
        };
        idlest.ask_to_leave();
        drop(idlest);
        while begun.elapsed() < LEAVE_WITHIN {
            std::thread::sleep(LOOK_EVERY);
            if self.slots.lock().take_one(address) {
                return true;
            }
        }
        false
    }

    /// The connection that should leave so that one of `newcomer` can have a slot; without a
    /// newcomer any.
    fn idlest(&self, newcomer: Option<Address>, now: Instant) -> Option<Arc<Connection>> {
        let fewest = newcomer.map_or(1, |address| self.slots.lock().of(address));
        let candidates = self.accepted.iter().filter_map(|(address, connection)| {
            let count = self.slots.lock().of(*address);
            let connection = connection.upgrade().filter(|_| count >= fewest)?;
            // One that waits because of a limit has calls that were not read.
            let has_work = connection.is_busy() || connection.usage.waits_now();
            let is_idle = !has_work && connection.idle_for(now) >= IDLE_MIN;
            is_idle.then_some((count, connection))
        });
        let (_, idlest) = candidates
            .min_by_key(|(count, connection)| Reverse((*count, connection.idle_for(now))))?;
        Some(idlest)
    }
}

/// Connections have one of so many descriptors.
const PARTS: usize = 4;

/// However few descriptors there are.
const CONNECTIONS_MIN: usize = 8;

/// The numbers of the latest connections, by address. Connections hold the number of theirs; one
/// that no connection holds is forgotten.
///
/// A client that gave up a connection and wants its calls done opens another one: that it came is
/// the only thing that tells a connection that was closed from one whose client has sent all that
/// it had to send and waits for the answers ([`Connection::is_given_up`]).
#[derive(Default)]
pub struct LatestConnections {
    latest: HashMap<IpAddr, Weak<AtomicU64>>,
    /// Addresses are looked through for those without a connection when there are more.
    full_at: usize,
}

impl LatestConnections {
    /// The number that the connections of an address share.
    pub fn of(&mut self, peer: IpAddr) -> Arc<AtomicU64> {
        let peer = peer.to_canonical();
        if let Some(latest) = self.latest.get(&peer).and_then(Weak::upgrade) {
            return latest;
        }
        if self.latest.len() >= self.full_at {
            self.latest.retain(|_, latest| latest.strong_count() > 0);
            self.full_at = 64 + 2 * self.latest.len();
        }
        let latest = Arc::new(AtomicU64::new(0));
        self.latest.insert(peer, Arc::downgrade(&latest));
        latest
    }
}

/// How many of `wanted` connections the limit of open files allows.
///
/// The soft limit is 1,024 on most systems for the sake of programs that use select(2), and may be
/// raised without privilege up to the hard one: that is done if it must be. Connections have a
/// quarter of what there is: half may be taken by objects of directories that are held open, the
/// rest is for files.
#[must_use]
pub fn connections_max(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let enough = u64::try_from(wanted.saturating_mul(PARTS)).unwrap_or(u64::MAX);
    let target = enough.min(limit.maximum.unwrap_or(enough));
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < target {
        let raised = Rlimit {
            current: Some(target),
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            current = target;
        }
    }
    let part = usize::try_from(current).unwrap_or(usize::MAX) / PARTS;
    wanted.min(part.max(CONNECTIONS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_descriptors_is_for_connections() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let most = usize::try_from(hard).unwrap_or(usize::MAX);
        assert_eq!(connections_max(3), 3);
        assert!(connections_max(usize::MAX) <= most / PARTS);
        let current = getrlimit(Resource::Nofile).current;
        assert!(current.is_none_or(|current| current >= 12), "{current:?}");
    }

    #[test]
    fn connections_of_an_address_share_and_the_dead_are_forgotten() {
        let mut connections = LatestConnections::default();
        let first = connections.of("10.0.0.1".parse().unwrap());
        let same = connections.of("::ffff:10.0.0.1".parse().unwrap());
        assert!(Arc::ptr_eq(&first, &same));
        for host in 0..100_000u32 {
            drop(connections.of(IpAddr::V4(host.into())));
        }
        assert!(connections.latest.len() < 1000);
        assert!(Arc::ptr_eq(
            &first,
            &connections.of("10.0.0.1".parse().unwrap())
        ));
    }
}
