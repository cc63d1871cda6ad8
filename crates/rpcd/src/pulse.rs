//! Whether a server still works, for a watchdog.
//!
//! Address lists or the sandbox may forbid a call to itself. So the acceptor and the readers are
//! woken, and the acceptor and one reader must respond. Not all readers: stalled storage may block
//! some in the kernel.
//!
//! Weakness: a reader that hangs alone goes unnoticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::connection::inbox::Inbox;
use crate::receive::readers::Readers;

/// Between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Of a thread that waits for clients.
#[derive(Debug, Default)]
pub struct Beats(AtomicU64);

impl Beats {
    /// Counts a round.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The threads of a server that wait for clients.
#[derive(Clone)]
pub struct Pulse {
    readers: Arc<Readers>,
    acceptor: (Arc<Inbox>, Arc<Beats>),
}

impl Pulse {
    /// Of an acceptor with this inbox and these beats.
    pub fn new(readers: Arc<Readers>, inbox: Arc<Inbox>, beats: Arc<Beats>) -> Self {
        Self {
            readers,
            acceptor: (inbox, beats),
        }
    }

    /// Whether the acceptor and a reader respond in time.
    #[must_use]
    pub fn is_felt_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let (inbox, accepted) = (&self.acceptor.0, self.acceptor.1.count());
        let counts: Vec<u64> = self.readers.0.iter().map(|one| one.beats.count()).collect();
        inbox.ring();
        self.readers.0.iter().for_each(|one| one.inbox.ring());
        loop {
            let mut readers = self.readers.0.iter().zip(&counts);
            let has_reader = readers.any(|(reader, before)| reader.beats.count() != *before);
            if has_reader && self.acceptor.1.count() != accepted {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_an_acceptor_and_a_reader_is_there_a_pulse() {
        let readers = Arc::new(Readers::new(1).unwrap());
        let (inbox, beats) = (Inbox::new().unwrap(), Arc::new(Beats::default()));
        let pulse = Pulse::new(readers.clone(), inbox, beats.clone());
        let soon = Duration::from_millis(10);
        assert!(!pulse.is_felt_within(soon), "nothing runs");
        // Each comes by again and again until the other one has been felt missing.
        let comes_by = |beats: &Beats| {
            let other = pulse.clone();
            std::thread::scope(|scope| {
                let felt = scope.spawn(move || other.is_felt_within(soon));
                while !felt.is_finished() {
                    beats.beat();
                }
                felt.join().unwrap()
            })
        };
        assert!(!comes_by(&beats), "no reader");
        assert!(!comes_by(&readers.0[0].beats), "no acceptor");
        let both = pulse.clone();
        let felt = std::thread::spawn(move || both.is_felt_within(Duration::from_secs(600)));
        while !felt.is_finished() {
            beats.beat();
            readers.0[1].beats.beat();
        }
        assert!(felt.join().unwrap(), "one reader of two is enough");
    }
}
