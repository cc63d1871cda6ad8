//! The flusher: one thread for each cache, for what is written because time has passed or memory
//! fills up. It starts with the first write and ends with the cache.
//!
//! It keeps nothing: neither the cache nor a store stays because of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex};

/// It looks so often, whatever has woken it.
const TICK: Duration = Duration::from_secs(5);
/// And not more often, unless it is woken.
const TICK_MIN: Duration = Duration::from_millis(1);

/// What the thread does for one store.
pub(crate) trait Work: Send + Sync {
    /// Sends what may go now.
    fn run(self: Arc<Self>);
    /// When there may be something again, if nothing else happens.
    fn due_at(&self) -> Option<Instant>;
}

/// The thread, as its cache sees it.
#[derive(Default)]
pub(crate) struct Flusher {
    signals: Arc<Signals>,
}

#[derive(Default)]
struct Signals {
    orders: Mutex<Orders>,
    arrival: Condvar,
    running: AtomicBool,
}

#[derive(Default)]
struct Orders {
    stores: Vec<Weak<dyn Work>>,
    started: bool,
    wake: bool,
    stop: bool,
}

impl Flusher {
    /// Takes care of one more store; the first starts the thread.
    pub(crate) fn enlist(&self, store: Weak<dyn Work>) {
        let mut orders = self.signals.orders.lock();
        orders.stores.push(store);
        if std::mem::replace(&mut orders.started, true) {
            return;
        }
        let signals = self.signals.clone();
        let thread = std::thread::Builder::new().name("cache-flusher".to_owned());
        match thread.spawn(move || signals.run()) {
            Ok(_) => self.signals.running.store(true, Ordering::Release),
            // Writers do its work, and nothing is written because of its age alone.
            Err(error) => {
                tracing::warn!(%error, "no thread for write-back: {error}");
            }
        }
    }

    /// Whether there is a thread.
    pub(crate) fn is_running(&self) -> bool {
        self.signals.running.load(Ordering::Acquire)
    }

    /// Something is due.
    pub(crate) fn wake(&self) {
        let mut orders = self.signals.orders.lock();
        if !std::mem::replace(&mut orders.wake, true) {
            self.signals.arrival.notify_one();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.signals.orders.lock().stop = true;
        self.signals.arrival.notify_one();
    }
}

impl Signals {
    fn run(&self) {
        while let Some(stores) = self.wait_until(self.next()) {
            for store in stores {
                // A store that panics costs its own requests, not the thread of the others.
                let _ = catch_unwind(AssertUnwindSafe(|| store.run()));
            }
        }
    }

    /// When something will be due.
    fn next(&self) -> Instant {
        let now = Instant::now();
        let stores = self.orders.lock().stores.clone();
        // One at a time, so that none stays because of the others.
        let times = stores.iter().filter_map(|store| store.upgrade()?.due_at());
        let next = times.min().unwrap_or(now + TICK);
        next.clamp(now + TICK_MIN, now + TICK)
    }

    /// Waits until then, or until it is woken; `None` when it is time to end.
    fn wait_until(&self, next: Instant) -> Option<Vec<Arc<dyn Work>>> {
        let mut orders = self.orders.lock();
        while !orders.stop && !orders.wake {
            let Some(left) = next.checked_duration_since(Instant::now()) else {
                break;
            };
            orders = self.arrival.wait(orders, left);
        }
        orders.wake = false;
        if orders.stop {
            return None;
        }
        orders.stores.retain(|store| store.strong_count() > 0);
        let stores = orders.stores.iter().filter_map(Weak::upgrade).collect();
        Some(stores)
    }
}
