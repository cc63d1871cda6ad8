//! Holds every request back for a while before the device below gets it.
//!
//! One thread waits for all requests, so the submitter does not. Requests keep their order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::timer::Timer;
use pagewell_counters::names::PANICS;
use pagewell_device::{Device, Request};

use crate::forward_device;

/// See the module's text.
pub struct Delay {
    inner: Arc<dyn Device>,
    time: Duration,
    timer: Timer,
}

impl Delay {
    /// Delays all requests to `inner` by this time. Starts one thread.
    pub fn new(inner: Arc<dyn Device>, time: Duration) -> std::io::Result<Self> {
        let timer = Timer::new("device-delay", Duration::ZERO, || PANICS.add(1))?;
        Ok(Self { inner, time, timer })
    }
}

impl Device for Delay {
    forward_device! { self => self.inner;
        name, length_bytes, geometry, keeps_until_flush, register_memory,
    }

    fn submit(&self, request: Request) {
        let due = Instant::now().checked_add(self.time);
        let inner = self.inner.clone();
        self.timer.handle().at(due, move || inner.submit(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;
    use crate::Stats;
    use pagewell_device::testing::{flush, write_durable};
    use pagewell_device::{Buffer, Issuer, Operation, RamDevice};
    use std::sync::mpsc;

    #[test]
    fn writes_and_flushes_are_delayed_and_stay_what_they_are() {
        let stats = Arc::new(Stats::new(Arc::new(RamDevice::new("ram", 8192))));
        let delay = Delay::new(stats.clone(), Duration::from_millis(2)).unwrap();
        let start = Instant::now();
        assert_eq!(write_durable(&delay, 0, &[1; 4096]).result, Ok(()));
        assert_eq!(flush(&delay).result, Ok(()));
        assert!(start.elapsed() >= Duration::from_millis(4));
        let counted = stats.snapshot();
        assert_eq!((counted.durable(), counted.count(Operation::Flush)), (1, 1));
    }

    #[test]
    fn nothing_comes_early_and_order_stays() {
        let pattern = Arc::new(Pattern::new(1 << 20, 1));
        let delay = Delay::new(pattern, Duration::from_millis(3)).unwrap();
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        for offset in 0..20 {
            let sender = sender.clone();
            let buffer = Buffer::new(512, 512);
            let operation = Operation::Read;
            let done = move |_, _| sender.send(offset).unwrap();
            delay.submit(Request::owned(
                operation,
                offset,
                buffer,
                Issuer::Reader,
                done,
            ));
        }
        let order: Vec<u64> = (0..20).map(|_| receiver.recv().unwrap()).collect();
        assert!(start.elapsed() >= Duration::from_millis(3));
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}
