//! Pieces of pages on their way from a device, so that everybody waits for the same one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pagewell_policy::elevator::RequestId;

use crate::page::Units;
use crate::sync::{Condvar, Mutex};

/// Units of one page that one request brings.
pub(crate) struct Flight {
    /// Which units.
    pub(crate) units: Units,
    /// Whether read-ahead asked for them and nobody waited when it did.
    pub(crate) ahead: bool,
    /// The request at the device's queue; 0 before it has one.
    request: AtomicU64,
    /// Somebody waits for what was a guess.
    wanted: AtomicBool,
    landing: Mutex<Landing>,
    arrival: Condvar,
}

/// The end of a flight, and whether it is waited for.
#[derive(Default)]
struct Landing {
    outcome: Option<Result<(), pagewell_device::Error>>,
    /// Waking nobody is a system call too; read-ahead would make one for each page.
    is_awaited: bool,
}

impl Flight {
    pub(crate) fn new(units: Units, ahead: bool) -> Self {
        Self {
            units,
            ahead,
            request: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            landing: Mutex::default(),
            arrival: Condvar::default(),
        }
    }

    /// Says which request brings it.
    pub(crate) fn name(&self, request: RequestId) {
        self.request.store(request.0, Ordering::SeqCst);
    }

    /// Somebody waits for what was a guess: the request to make urgent, once it has a name. When
    /// it has none yet, whoever sends it sees [`Flight::is_wanted`].
    pub(crate) fn want(&self) -> Option<RequestId> {
        if !self.ahead {
            return None;
        }
        self.wanted.store(true, Ordering::SeqCst);
        match self.request.load(Ordering::SeqCst) {
            0 => None,
            request => Some(RequestId(request)),
        }
    }

    /// Whether somebody waits for what was a guess.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Ends it for all who wait.
    pub(crate) fn land(&self, result: Result<(), pagewell_device::Error>) {
        let mut landing = self.landing.lock();
        landing.outcome = Some(result);
        let is_awaited = landing.is_awaited;
        drop(landing);
        if is_awaited {
            self.arrival.notify_all();
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_landed(&self) -> bool {
        self.landing.lock().outcome.is_some()
    }

    /// How it ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Result<(), pagewell_device::Error>> {
        self.landing.lock().outcome.clone()
    }

    /// Waits for the end; `None` when it has not come by then.
    pub(crate) fn wait(&self, until: Instant) -> Option<Result<(), pagewell_device::Error>> {
        let mut landing = self.landing.lock();
        while landing.outcome.is_none() {
            let left = until.checked_duration_since(Instant::now())?;
            landing.is_awaited = true;
            landing = self.arrival.wait(landing, left);
        }
        landing.outcome.clone()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_who_wait_are_told_and_who_comes_later_need_not_wait() {
        let flight = Flight::new(1, false);
        assert_eq!(flight.wait(Instant::now()), None);
        let until = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| flight.wait(until))).collect();
            // One is asleep, as far as can be seen from here.
            while !flight.landing.lock().is_awaited {
                std::thread::yield_now();
            }
            flight.land(Ok(()));
            for thread in waiting {
                assert_eq!(thread.join().unwrap(), Some(Ok(())));
            }
        });
        assert_eq!(flight.wait(Instant::now()), Some(Ok(())));
        assert!(flight.has_landed());
    }
}
