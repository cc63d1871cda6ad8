//! Processor time of a simulated device.
//!
//! **Problem.** A modelled disk costs processor time that a real one does not: its bytes are
//! computed, its clock is a thread that spins. On a small machine that is more than the cost of the
//! paths above, and would hide their difference.
//!
//! **Rule.** A layer in front of the device reads the clock of the thread (its processor time, not
//! the wall's) where requests go down and where completions come up:
//!
//! ```text
//!   thread of a reader   ...engine...|submit: device...|completion: engine|...device|...engine...
//!   thread of the device ...spin.....|completion: engine|..spin............|completion: engine|..
//! ```
//!
//! The device's time is the time below the layer, plus that of the device's own threads, less the
//! completions that ran there; the rest of the process's time is the engine's. Completions inside a
//! submission, and submissions inside completions, count once each. Known weakness: reading the
//! clock costs some hundred nanoseconds for each request, shared by both.

use std::cell::Cell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_device::{Device, Request};
use pagewell_layers::forward_device;
use rustix::time::{ClockId, clock_gettime};

/// The name of modelled devices' threads.
const DEVICE_THREAD: &str = "device-model";

thread_local! {
    /// Submissions around this thread's present work.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
    /// Time of completions inside submissions of this thread.
    static NESTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Time of this thread below the layers.
    static BELOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Processor time of this thread in metered devices, since it began.
pub(super) fn below_on_this_thread() -> Duration {
    BELOW.get()
}

/// Processor time of this thread.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

/// A device whose processor time is measured.
pub(super) struct Metered {
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    submissions_ns: AtomicU64,
    completions_ns: AtomicU64,
}

impl Metered {
    pub(super) fn new(inner: Arc<dyn Device>) -> Self {
        Self {
            inner,
            shared: Arc::default(),
        }
    }

    /// Time below this layer in submissions, and time of completions on threads of the device.
    pub(super) fn times(&self) -> (Duration, Duration) {
        let load = |time: &AtomicU64| Duration::from_nanos(time.load(Ordering::Relaxed));
        (
            load(&self.shared.submissions_ns),
            load(&self.shared.completions_ns),
        )
    }
}

/// Processor time of the threads of all living modelled devices.
pub(super) fn device_threads_cpu() -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let times = threads.flatten().filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        if name.trim_end() != DEVICE_THREAD {
            return None;
        }
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

fn add(sum: &AtomicU64, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    sum.fetch_add(nanoseconds, Ordering::Relaxed);
}

impl Device for Metered {
    forward_device! { self => self.inner; name, length_bytes, geometry, register_memory }

    fn submit(&self, request: Request) {
        let shared = self.shared.clone();
        let metered = request.relay(move |request, outcome| {
            let start = thread_cpu();
            request.complete(outcome);
            let took = thread_cpu().saturating_sub(start);
            if INSIDE.get() > 0 {
                NESTED.set(NESTED.get() + took);
            } else {
                add(&shared.completions_ns, took);
            }
        });
        let nested = NESTED.get();
        let start = thread_cpu();
        INSIDE.set(INSIDE.get() + 1);
        self.inner.submit(metered);
        INSIDE.set(INSIDE.get() - 1);
        let took = thread_cpu().saturating_sub(start);
        let nested = NESTED.get().saturating_sub(nested);
        let below = took.saturating_sub(nested);
        BELOW.set(BELOW.get() + below);
        add(&self.shared.submissions_ns, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_device::read_exact;
    use pagewell_layers::Pattern;

    #[test]
    fn the_device_is_charged_for_its_bytes_and_not_for_completions() {
        let pattern = Pattern::new(1 << 30, 3);
        let metered = Metered::new(Arc::new(pattern.clone()));
        let mut target = vec![0; 8 << 20];
        read_exact(&metered, 4096, &mut target).unwrap();
        assert_eq!(pattern.check(4096, &target), Ok(()));
        let (submissions, completions) = metered.times();
        assert!(submissions > Duration::ZERO);
        assert_eq!(below_on_this_thread(), submissions);
        // The pattern completes inside its submission.
        assert_eq!(completions, Duration::ZERO);
        assert_eq!(INSIDE.get(), 0);
        assert!(NESTED.get() > Duration::ZERO);
        assert!(read_exact(&metered, 1 << 30, &mut target).is_err());
    }
}
