//! Pieces of pages on their way from a device, so that everybody waits for the same one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use pagewell_policy::elevator::RequestId;

use crate::sync::lock;

/// Units of one page, one bit each, first unit lowest.
pub(crate) type Units = u32;

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
    landed: Mutex<Option<Result<(), pagewell_device::Error>>>,
    arrival: Condvar,
}

impl Flight {
    pub(crate) fn new(units: Units, ahead: bool) -> Self {
        Self {
            units,
            ahead,
            request: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            landed: Mutex::new(None),
            arrival: Condvar::new(),
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
        *lock(&self.landed) = Some(result);
        self.arrival.notify_all();
    }

    /// Whether it has ended.
    pub(crate) fn has_landed(&self) -> bool {
        lock(&self.landed).is_some()
    }

    /// How it ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Result<(), pagewell_device::Error>> {
        lock(&self.landed).clone()
    }

    /// Waits for the end; `None` when it has not come by then.
    pub(crate) fn wait(&self, until: Instant) -> Option<Result<(), pagewell_device::Error>> {
        let mut landed = lock(&self.landed);
        while landed.is_none() {
            let left = until.checked_duration_since(Instant::now())?;
            let waited = self.arrival.wait_timeout(landed, left);
            landed = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        landed.clone()
    }
}
