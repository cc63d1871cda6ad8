//! The connections of a server.
//!
//! Problem: a client that never ends its request, or reads no answer, occupies a place. Rule:
//! connections are admitted in turn. When no place is freed for a turn ([`TURN`]), the next one
//! takes that of the oldest connection of the address that has most.
//!
//! Known weakness: of a thousand slow ones at once, the last wait for [`TURN`] once for each round
//! of places.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::{Condvar, Mutex};
use rustix::net::{Shutdown, shutdown};

/// Connections, and threads for them, at once.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// The turn of a connection of a server.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// The connections of a server, oldest first.
pub(super) struct Connections {
    /// For so long a connection cannot be evicted.
    turn: Duration,
    open: Mutex<Vec<Open>>,
    left: Condvar,
}

struct Open {
    /// `None` for all of a Unix socket.
    peer: Option<IpAddr>,
    since: Instant,
    stream: Arc<OwnedFd>,
    pushed_out: bool,
}

/// Counts a connection until it is dropped.
pub(super) struct Place(Arc<Connections>, Arc<OwnedFd>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.0.open.lock();
        open.retain(|one| !Arc::ptr_eq(&one.stream, &self.1));
        self.0.left.notify_all();
    }
}

impl Connections {
    pub(super) fn new(turn: Duration) -> Self {
        Self {
            turn,
            open: Mutex::default(),
            left: Condvar::default(),
        }
    }

    /// Waits for a place for a connection.
    pub(super) fn enter(self: &Arc<Self>, peer: Option<IpAddr>, stream: &Arc<OwnedFd>) -> Place {
        let mut open = self.open.lock();
        while open.len() >= CONNECTIONS_MAX {
            let now = Instant::now();
            let wait = match push_out(&mut open, self.turn, now) {
                Some(wait) => wait,
                // The evicted one sees the end of its stream, and its thread ends.
                None => self.turn,
            };
            open = self.left.wait_timeout(open, wait);
        }
        open.push(Open {
            peer,
            since: Instant::now(),
            stream: Arc::clone(stream),
            pushed_out: false,
        });
        Place(Arc::clone(self), Arc::clone(stream))
    }
}

/// Ends the connection whose turn is over, unless an evicted one is still there; else returns the
/// time until then.
fn push_out(open: &mut [Open], turn: Duration, now: Instant) -> Option<Duration> {
    if open.iter().any(|one| one.pushed_out) {
        return None;
    }
    let of = |peer| open.iter().filter(|other| other.peer == peer).count();
    let most = open.iter().map(|one| of(one.peer)).max();
    // The first among equals, which is the oldest.
    let slow = open.iter().position(|one| Some(of(one.peer)) == most)?;
    let slow = open.get_mut(slow)?;
    let left = turn.saturating_sub(now.saturating_duration_since(slow.since));
    if left.is_zero() {
        slow.pushed_out = true;
        let _ = shutdown(&slow.stream, Shutdown::Both);
        return None;
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn stream() -> (Arc<OwnedFd>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Arc::new(ours.into()), theirs)
    }

    fn open(peer: u8, since: Instant) -> (Open, UnixStream) {
        let (stream, other_end) = stream();
        let open = Open {
            peer: Some(IpAddr::from([10, 0, 0, peer])),
            since,
            stream,
            pushed_out: false,
        };
        (open, other_end)
    }

    #[test]
    fn the_oldest_of_the_address_with_most_goes_after_its_turn() {
        let began = Instant::now();
        let all: Vec<_> = [1, 2, 2, 3].map(|peer| open(peer, began)).into();
        let (mut all, _others): (Vec<Open>, Vec<UnixStream>) = all.into_iter().unzip();
        let early = began + TURN / 4;
        assert_eq!(push_out(&mut all, TURN, early), Some(TURN * 3 / 4));
        assert_eq!(push_out(&mut all, TURN, began + TURN), None);
        let pushed_out: Vec<bool> = all.iter().map(|one| one.pushed_out).collect();
        assert_eq!(pushed_out, [false, true, false, false]);
        assert_eq!(push_out(&mut all, TURN, began + TURN), None);
        assert!(!all[2].pushed_out, "one at a time");
    }

    #[test]
    fn places_are_given_back_and_waited_for() {
        let connections = Arc::new(Connections::new(TURN));
        let mut places: Vec<Place> = (0..CONNECTIONS_MAX)
            .map(|_| connections.enter(None, &stream().0))
            .collect();
        assert_eq!(connections.open.lock().len(), CONNECTIONS_MAX);
        let newcomer = std::thread::spawn({
            let connections = Arc::clone(&connections);
            move || connections.enter(None, &stream().0)
        });
        places.pop();
        let newcomer = newcomer.join().unwrap();
        assert_eq!(connections.open.lock().len(), CONNECTIONS_MAX);
        drop((newcomer, places));
        assert!(connections.open.lock().is_empty());
    }
}
