//! Fetches in flight, so that all wait for the same ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pagewell_base::waits;
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::RequestId;
use pagewell_policy::eviction::FrameIndex;

use crate::page::Units;
use crate::sync::{Condvar, Guard, Mutex, Rank, Shards, Tally};

pub(crate) struct Fetch {
    units: Units,
    ahead_bytes: Option<u64>,
    /// The request at the device's queue; 0 before it has one.
    request: AtomicU64,
    wanted: AtomicBool,
    end: Mutex<End>,
    arrival: Condvar,
}

#[derive(Default)]
struct End {
    outcome: Option<Result<(), DeviceError>>,
    /// Waking no thread is a system call too, one for each page.
    is_awaited: bool,
}

impl Fetch {
    pub(crate) fn new(units: Units, ahead_bytes: Option<u64>) -> Self {
        Self {
            units,
            ahead_bytes,
            request: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            end: Mutex::default(),
            arrival: Condvar::default(),
        }
    }

    pub(crate) fn units(&self) -> Units {
        self.units
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead_bytes.is_some()
    }

    pub(crate) fn name(&self, request: RequestId) {
        self.request.store(request.0, Ordering::SeqCst);
    }

    /// A reader waits for a guess: the request to make urgent; before it has a name, its sender
    /// asks for [`Fetch::urgent`].
    pub(crate) fn want(&self) -> Option<RequestId> {
        self.ahead_bytes?;
        self.wanted.store(true, Ordering::SeqCst);
        self.urgent()
    }

    pub(crate) fn urgent(&self) -> Option<RequestId> {
        let request = self.request.load(Ordering::SeqCst);
        let is_urgent = request > 0 && self.wanted.load(Ordering::SeqCst);
        is_urgent.then_some(RequestId(request))
    }

    fn end(&self, result: Result<(), DeviceError>) {
        let mut end = self.end.lock();
        end.outcome = Some(result);
        let is_awaited = end.is_awaited;
        drop(end);
        if is_awaited {
            self.arrival.notify_all();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.lock().outcome.is_some()
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), DeviceError>> {
        self.end.lock().outcome.clone()
    }

    pub(crate) fn wait(&self, until: Instant) -> Option<Result<(), DeviceError>> {
        let mut end = self.end.lock();
        while end.outcome.is_none() {
            let left = until.checked_duration_since(Instant::now())?;
            end.is_awaited = true;
            end = waits::timed(|| self.arrival.wait(end, left));
        }
        end.outcome.clone()
    }
}

#[derive(Default)]
pub(crate) struct Fetches {
    pub ours: Vec<Arc<Fetch>>,
    pub joined: Vec<Arc<Fetch>>,
}

impl Fetches {
    pub(crate) fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.joined.is_empty()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<Fetch>, bool)> {
        let ours = self.ours.iter().map(|fetch| (fetch, true));
        ours.chain(self.joined.iter().map(|fetch| (fetch, false)))
    }
}

pub(crate) struct InFlight {
    shards: Shards<HashMap<u32, Vec<Arc<Fetch>>>>,
    ahead_bytes: Tally,
}

/// The fetches into one frame. While a thread has this, none begins and none ends.
pub(crate) struct FrameFetches<'a> {
    shard: Guard<'a, HashMap<u32, Vec<Arc<Fetch>>>>,
    frame: FrameIndex,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self {
            shards: Shards::new(Rank::InFlight),
            ahead_bytes: Tally::default(),
        }
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes.get()
    }

    pub(crate) fn lock(&self, frame: FrameIndex) -> FrameFetches<'_> {
        let shard = self.shards.lock(frame.0.into());
        FrameFetches { shard, frame }
    }

    pub(crate) fn add(&self, frame: &mut FrameFetches<'_>, fetch: Arc<Fetch>) {
        self.ahead_bytes.add(fetch.ahead_bytes.unwrap_or(0));
        frame.shard.entry(frame.frame.0).or_default().push(fetch);
    }

    /// First it is in flight no more, then threads that wait are woken.
    pub(crate) fn end(&self, frame: FrameIndex, fetch: &Fetch, outcome: Result<(), DeviceError>) {
        let mut fetches = self.lock(frame);
        if let Some(here) = fetches.shard.get_mut(&frame.0) {
            here.retain(|other| !std::ptr::eq(&raw const **other, fetch));
            if here.is_empty() {
                fetches.shard.remove(&frame.0);
            }
        }
        drop(fetches);
        self.ahead_bytes.remove(fetch.ahead_bytes.unwrap_or(0));
        fetch.end(outcome);
    }
}

impl FrameFetches<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Fetch>> {
        self.shard.get(&self.frame.0).into_iter().flatten()
    }

    pub(crate) fn of(&self, units: Units) -> Option<Arc<Fetch>> {
        self.iter().find(|fetch| fetch.units & units != 0).cloned()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_that_wait_are_woken_and_later_ones_need_not_wait() {
        let fetch = Fetch::new(1, None);
        assert_eq!(fetch.wait(Instant::now()), None);
        let until = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| fetch.wait(until))).collect();
            // One is asleep, as far as can be seen from here.
            while !fetch.end.lock().is_awaited {
                std::thread::yield_now();
            }
            fetch.end(Ok(()));
            for thread in waiting {
                assert_eq!(thread.join().unwrap(), Some(Ok(())));
            }
        });
        assert_eq!(fetch.wait(Instant::now()), Some(Ok(())));
        assert!(fetch.has_ended());
    }
}
