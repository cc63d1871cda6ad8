//! A connection as the duplicate-request cache sees it.
//!
//! It outlives the connection: acknowledged replies still count when a client has reconnected.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_policy::reply_cache::{Delivery, Line, SentAt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Connection, since_start};

/// A present or past connection.
#[derive(Clone)]
pub struct ConnectionLine(Arc<Shared>);

struct Shared {
    token: u64,
    connection: Weak<Connection>,
    arrived: Mutex<Arrived>,
}

#[derive(Clone, Copy, Default)]
struct Acknowledged {
    bytes: u64,
    /// All replies of this many turns.
    turns: u64,
}

#[derive(Default)]
struct Arrived {
    /// Valid unless the connection is reset.
    now: Acknowledged,
    /// Valid in any case: the state when one side ended the connection in order.
    at_end: Acknowledged,
    /// This many bytes hold all replies of this many turns, so that turns count as arrived while
    /// later replies are always in flight.
    mark: Acknowledged,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Both sides may send.
    Live,
    /// The client ended it in order.
    Ended,
    /// Closed here, or reset.
    Over,
}

impl ConnectionLine {
    /// For a connection of this number.
    pub fn new(token: u64, connection: Weak<Connection>) -> Self {
        Self(Arc::new(Shared {
            token,
            connection,
            arrived: Mutex::default(),
        }))
    }

    /// `bytes` are acknowledged; `queued_bytes` hold all replies of `turns`. `is_end`: one side
    /// ends the connection in order.
    pub fn arrived(&self, bytes: u64, (turns, queued_bytes): (u64, u64), is_end: bool) {
        let mut arrived = self.0.arrived.lock();
        let Arrived { now, at_end, mark } = &mut *arrived;
        now.bytes = now.bytes.max(bytes);
        if bytes >= queued_bytes {
            now.turns = now.turns.max(turns);
        } else if bytes >= mark.bytes {
            now.turns = now.turns.max(mark.turns);
            *mark = Acknowledged {
                bytes: queued_bytes,
                turns,
            };
        }
        if is_end {
            *at_end = *now;
        }
    }

    fn observe(&self) -> Standing {
        let connection = self.0.connection.upgrade();
        connection.map_or(Standing::Over, |connection| connection.observe(false))
    }
}

impl Line for ConnectionLine {
    fn token(&self) -> u64 {
        self.0.token
    }

    fn delivery(&self, sent_at: SentAt) -> Delivery {
        let standing = self.observe();
        let arrived = self.0.arrived.lock();
        let Acknowledged { bytes, turns } = match standing {
            Standing::Live | Standing::Ended => arrived.now,
            Standing::Over => arrived.at_end,
        };
        let has_arrived = match sent_at {
            SentAt::Byte(end) => bytes >= end,
            SentAt::Turn(turn) => turns > turn,
        };
        match standing {
            _ if has_arrived => Delivery::Arrived,
            Standing::Live | Standing::Ended => Delivery::Open,
            Standing::Over => Delivery::Lost,
        }
    }

    fn arrived_after(&self, overlaps: bool, now: Duration) -> Duration {
        let Some(connection) = self.0.connection.upgrade() else {
            return Duration::ZERO;
        };
        let known = connection.arrived_after();
        if overlaps {
            return known;
        }
        // Nothing came behind it, so it was in the last data segment.
        let last = last_data_ago(&*connection).map(|ago| now.saturating_sub(ago));
        known.max(last.unwrap_or_default())
    }

    fn is_live(&self) -> bool {
        self.observe() == Standing::Live
    }
}

/// The state in the kernel.
pub(super) fn standing(connection: &Connection) -> Standing {
    let mut sockets = [PollFd::new(connection, PollFlags::RDHUP)];
    // On failure it counts as live.
    let _ = poll(&mut sockets, Some(&Timespec::default()));
    let seen = sockets[0].revents();
    if connection.is_closed() || seen.intersects(PollFlags::HUP | PollFlags::ERR) {
        Standing::Over
    } else if seen.contains(PollFlags::RDHUP) {
        Standing::Ended
    } else {
        Standing::Live
    }
}

/// Time since the last data segment, to a few milliseconds.
fn last_data_ago(socket: impl AsFd) -> Option<Duration> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes, the size of the buffer.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: a structure of integers, zeroed first: every bit pattern is a value.
    let info = unsafe { info.assume_init() };
    (status == 0).then(|| Duration::from_millis(info.tcpi_last_data_recv.into()))
}

/// The clock of the duplicate-request cache.
pub fn now() -> Duration {
    since_start(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_arrive_also_where_something_is_always_on_its_way() {
        let line = ConnectionLine::new(1, Weak::new());
        // The connection is over, so that what was known at its end counts.
        let has_arrived = |turn| line.delivery(SentAt::Turn(turn)) == Delivery::Arrived;
        line.arrived(900, (5, 1000), true);
        assert!(!has_arrived(0), "which bytes they are is not known yet");
        line.arrived(999, (6, 1100), true);
        assert!(!has_arrived(4));
        line.arrived(1000, (7, 1200), true);
        assert!(has_arrived(4) && !has_arrived(5));
        line.arrived(1300, (9, 1300), true);
        assert!(has_arrived(8) && !has_arrived(9));
        line.arrived(1400, (10, 1400), false);
        assert!(!has_arrived(9), "it was reset after that");
    }
}
