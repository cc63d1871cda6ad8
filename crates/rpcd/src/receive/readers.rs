//! The readers of a server, as other threads see them.
//!
//! Readers only wait for sockets, so a few keep all processors busy. A connection stays with its
//! reader, so a new one goes to the least loaded, by recent processor time. It counts as an average
//! one, or when all are idle as a little, so that these get equal numbers.
//!
//! Readers share only the number of active ones ([`pagewell_policy::polling`]), which they write
//! when their waits turn short or long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell_base::sync::Mutex;
use rustix::io::Errno;

use crate::connection::Connection;
use crate::connection::inbox::Inbox;
use crate::pulse::Beats;

/// A reader, as other threads see it.
pub struct ReaderHandle {
    /// Its wake-ups.
    pub inbox: Arc<Inbox>,
    /// Its rounds.
    pub beats: Beats,
    newcomers: Mutex<Vec<Arc<Connection>>>,
    connections: AtomicUsize,
    /// Per second, recently.
    busy_microseconds: AtomicU64,
    at_work: Arc<AtomicUsize>,
    /// Above this many no reader polls.
    at_work_max: usize,
}

impl ReaderHandle {
    fn new(at_work: &Arc<AtomicUsize>, at_work_max: usize) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            at_work: at_work.clone(),
            at_work_max,
            inbox: Inbox::new()?,
            beats: Beats::default(),
            newcomers: Mutex::default(),
            connections: AtomicUsize::new(0),
            busy_microseconds: AtomicU64::new(0),
        }))
    }

    /// Gives a new connection to the reader.
    pub fn hand_over(&self, connection: Arc<Connection>) {
        let mut newcomers = self.newcomers.lock();
        newcomers.push(connection);
        drop(newcomers);
        self.inbox.ring();
    }

    /// Given since the last call.
    pub fn newcomers(&self) -> Vec<Arc<Connection>> {
        std::mem::take(&mut *self.newcomers.lock())
    }

    /// The reader has dropped a connection.
    pub fn lose(&self) {
        let before = self.connections.fetch_sub(1, Ordering::Relaxed);
        assert!(
            before > 0,
            "a reader has lost a connection that it was not given"
        );
    }

    /// Whether too many readers are active for any to poll.
    pub fn is_crowded(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) > self.at_work_max
    }

    /// The reader became active or idle.
    pub fn set_at_work(&self, is_at_work: bool) {
        if is_at_work {
            self.at_work.fetch_add(1, Ordering::Relaxed);
        } else {
            let before = self.at_work.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "a reader stopped work that had not begun any");
        }
    }

    /// Of the last second, averaged with the value before: a pause of a second does not end the
    /// work.
    pub fn set_busy(&self, microseconds: u64) {
        let before = self.busy_microseconds.load(Ordering::Relaxed);
        let busy = microseconds.midpoint(before);
        self.busy_microseconds.store(busy, Ordering::Relaxed);
    }
}

/// Of a server.
pub struct Readers(pub Vec<Arc<ReaderHandle>>);

impl Readers {
    /// Two for each processor: a local client more often has a reader of its own, with the data
    /// still in the caches. Four clients with READs of 128 KiB on two processors took a fifth less
    /// processor time.
    pub fn new(processors: usize) -> Result<Self, Errno> {
        let (at_work, most) = (Arc::default(), (processors / 2).max(1));
        let count = 2 * processors.max(1);
        let all = (0..count).map(|_| ReaderHandle::new(&at_work, most));
        Ok(Self(all.collect::<Result<_, _>>()?))
    }

    /// For a new connection, which counts as the reader's from now on.
    #[must_use]
    pub fn choose(&self) -> &Arc<ReaderHandle> {
        let loads = || {
            self.0.iter().map(|reader| {
                let connections = reader.connections.load(Ordering::Relaxed) as u64;
                (
                    connections,
                    reader.busy_microseconds.load(Ordering::Relaxed),
                )
            })
        };
        let (connections, busy) = loads().fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
        let mean = 1 + busy / connections.max(1);
        let load = |(connections, busy): (u64, u64)| busy + connections * mean;
        let least = loads().map(load).enumerate().min_by_key(|(_, load)| *load);
        let chosen = &self.0[least.map_or(0, |(index, _)| index)];
        chosen.connections.fetch_add(1, Ordering::Relaxed);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(readers: &Readers) -> Vec<usize> {
        let counts = readers.0.iter();
        counts
            .map(|reader| reader.connections.load(Ordering::Relaxed))
            .collect()
    }

    #[test]
    fn idle_connections_are_spread_evenly_and_fill_gaps() {
        let readers = Readers::new(2).unwrap();
        for _ in 0..20 {
            let _ = readers.choose();
        }
        assert_eq!(counts(&readers), [5; 4]);
        for _ in 0..3 {
            readers.0[2].lose();
        }
        for _ in 0..3 {
            assert!(Arc::ptr_eq(readers.choose(), &readers.0[2]));
        }
        assert_eq!(counts(&readers), [5; 4]);
    }

    #[test]
    fn a_busy_reader_gets_no_connection_while_another_is_idle() {
        let readers = Readers::new(1).unwrap();
        for _ in 0..2 {
            let _ = readers.choose();
        }
        for _ in 0..10 {
            readers.0[0].set_busy(900_000);
        }
        for _ in 0..50 {
            assert!(Arc::ptr_eq(readers.choose(), &readers.0[1]));
        }
        for _ in 0..30 {
            readers.0[0].set_busy(0);
        }
        assert!(Arc::ptr_eq(readers.choose(), &readers.0[0]), "idle again");
    }

    #[test]
    fn newcomers_of_busy_readers_are_spread_before_they_have_done_anything() {
        let readers = Readers::new(1).unwrap();
        for _ in 0..8 {
            let _ = readers.choose();
        }
        for reader in &readers.0 {
            reader.set_busy(500_000);
        }
        for _ in 0..10 {
            let _ = readers.choose();
        }
        assert_eq!(counts(&readers), [9, 9]);
    }

    #[test]
    fn more_readers_at_work_than_half_the_processors_are_crowded() {
        let readers = Readers::new(4).unwrap();
        for reader in readers.0.iter().take(3) {
            assert!(!readers.0[0].is_crowded());
            reader.set_at_work(true);
        }
        assert!(readers.0[7].is_crowded());
        readers.0[0].set_at_work(false);
        assert!(!readers.0[7].is_crowded());
        let alone = Readers::new(1).unwrap();
        alone.0[0].set_at_work(true);
        assert!(!alone.0[0].is_crowded(), "one may poll on one processor");
    }
}
