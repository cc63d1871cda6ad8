//! The thread that accepts connections.
//!
//! Each address has its [share](crate::share) of the slots. When the share is used up, the longest
//! idle connection is asked to leave: first one of the address with the most connections, never one
//! of an address with fewer than the newcomer, nor one with a call or a reply under way. Clients
//! reconnect on their next call.

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

/// A connection with a call this recent is busy.
const IDLE_MIN: Duration = Duration::from_secs(5);

/// A newcomer's wait for an idle connection.
const LEAVE_WITHIN: Duration = Duration::from_millis(50);

/// Between two checks for the slot.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// From one listener in a row.
const ACCEPTS_MAX: usize = 64;

/// After a failed accept.
const REFUSED_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Silence before the first keep-alive probe (`tcp(7)`, TCP_KEEPIDLE) ...
const ASK_AFTER: Duration = Duration::from_secs(300);

/// ... between probes (TCP_KEEPINTVL) ...
const ASK_EVERY: Duration = Duration::from_secs(60);

/// ... and their number (TCP_KEEPCNT).
const ASK_TIMES: u32 = 5;

/// The accepting thread's state.
pub struct Acceptor<P: Program> {
    /// Non-blocking.
    pub listeners: Vec<TcpListener>,
    /// The congestion control of connections, if
    /// [`begin_unpaced`](pagewell_sunrpc::stream::begin_unpaced) changed it.
    pub usual: Option<String>,
    /// Readable when the server stops or checks the thread.
    pub stop_event: Arc<Inbox>,
    /// The thread's rounds.
    pub beats: Arc<Beats>,
    /// Knows the allowed addresses, and the stop.
    pub dispatcher: Arc<Dispatcher<P>>,
    /// By address.
    pub slots: Arc<Mutex<Shares<Address>>>,
    /// Of the connections.
    pub readers: Arc<Readers>,
    /// By address.
    pub latest: LatestConnections,
    /// Some are gone.
    pub accepted: Vec<(Address, Weak<Connection>)>,
}

/// Closes connections of dead clients after ten minutes, even with data in flight
/// (TCP_USER_TIMEOUT).
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
    /// Until the server stops.
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

    fn pause(&self) {
        let mut stop_event = [PollFd::new(&*self.stop_event, PollFlags::IN)];
        // An interrupt only shortens the wait.
        let _ = poll(&mut stop_event, Some(&REFUSED_PAUSE));
    }

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
        // Freeing a slot takes the lock, too.
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
        // Else a dead client is only detected later.
        let _ = keep_alive(&socket);
        names::CONNECTIONS_ACCEPTED.add(1);
        self.assign(socket, peer);
    }

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

    /// The connection that should leave for `newcomer`, or at all.
    fn idlest(&self, newcomer: Option<Address>, now: Instant) -> Option<Arc<Connection>> {
        let fewest = newcomer.map_or(1, |address| self.slots.lock().of(address));
        let candidates = self.accepted.iter().filter_map(|(address, connection)| {
            let count = self.slots.lock().of(*address);
            let connection = connection.upgrade().filter(|_| count >= fewest)?;
            // A throttled connection has unread calls.
            let has_work = connection.is_busy() || connection.usage.waits_now();
            let is_idle = !has_work && connection.idle_for(now) >= IDLE_MIN;
            is_idle.then_some((count, connection))
        });
        let (_, idlest) = candidates
            .min_by_key(|(count, connection)| Reverse((*count, connection.idle_for(now))))?;
        Some(idlest)
    }
}

/// The part of the descriptors for connections.
const PARTS: usize = 4;

const CONNECTIONS_MIN: usize = 8;

/// The latest connection number of each address: a later one shows that the client gave one up
/// ([`Connection::is_given_up`]).
#[derive(Default)]
pub struct LatestConnections {
    latest: HashMap<IpAddr, Weak<AtomicU64>>,
    /// Triggers a search for addresses without connections.
    full_at: usize,
}

impl LatestConnections {
    /// Shared by all connections of the address.
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

/// How many of `wanted` connections the limit of open files allows; raises the soft limit as
/// needed. Connections get a quarter, open directories up to two, files the rest.
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
