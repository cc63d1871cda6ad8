//! Holds every request back for a while before the device below gets it.
//!
//! The submitter does not wait. All waiting is done by one thread, however many requests there
//! are. With a fixed delay requests keep their order; with a random one they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::duration;
use pagewell_base::mix::{STEP, mix};
use pagewell_base::timer::Timer;
use pagewell_counters::names::PANICS;

use pagewell_device::{Device, Geometry, Memory, Request, Result};

/// How long a request is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayAmount {
    /// All the same.
    Fixed(Duration),
    /// Uniform between two times, both included. Request N gets the same with the same seed.
    Uniform {
        /// The shortest.
        low: Duration,
        /// The longest.
        high: Duration,
        /// Which row of random numbers.
        seed: u64,
    },
}

impl DelayAmount {
    /// Reads `5ms`, `1ms..10ms` or `1ms..10ms,seed=7`.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((low, high)) = text.split_once("..") else {
            return duration::parse(text).map(Self::Fixed);
        };
        let (high, seed) = high.split_once(",seed=").unwrap_or((high, "0"));
        let seed = seed
            .parse()
            .map_err(|_| format!("'{seed}' is no whole number"))?;
        let (low, high) = (duration::parse(low)?, duration::parse(high)?);
        if low > high {
            return Err(format!("'{text}' ends before it begins"));
        }
        Ok(Self::Uniform { low, high, seed })
    }

    /// For the request of this number.
    fn of(self, number: u64) -> Duration {
        match self {
            Self::Fixed(duration) => duration,
            Self::Uniform { low, high, seed } => {
                let random = mix(number.wrapping_mul(STEP).wrapping_add(mix(seed)));
                let part = random as f64 / u64::MAX as f64;
                low + high.saturating_sub(low).mul_f64(part)
            }
        }
    }
}

/// See the module's text.
pub struct Delay {
    inner: Arc<dyn Device>,
    amount: DelayAmount,
    submitted: AtomicU64,
    timer: Timer,
}

impl Delay {
    /// Delays everything for `inner`. Starts one thread.
    pub fn new(inner: Arc<dyn Device>, amount: DelayAmount) -> std::io::Result<Self> {
        Ok(Self {
            inner,
            amount,
            submitted: AtomicU64::new(0),
            timer: Timer::new("device-delay", Duration::ZERO, || PANICS.add(1))?,
        })
    }
}

impl Device for Delay {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn keeps_until_flush(&self) -> bool {
        self.inner.keeps_until_flush()
    }

    fn submit(&self, request: Request) {
        let number = self.submitted.fetch_add(1, Ordering::Relaxed);
        let due = Instant::now().checked_add(self.amount.of(number));
        let inner = self.inner.clone();
        self.timer.handle().at(due, move || inner.submit(request));
    }

    fn register_memory(&self, memory: &Memory) {
        self.inner.register_memory(memory);
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
    fn amounts() {
        let milliseconds = Duration::from_millis;
        assert_eq!(
            DelayAmount::parse("5ms"),
            Ok(DelayAmount::Fixed(milliseconds(5)))
        );
        let uniform = DelayAmount::parse("1ms..10ms,seed=7").unwrap();
        let (low, high) = (milliseconds(1), milliseconds(10));
        assert_eq!(uniform, DelayAmount::Uniform { low, high, seed: 7 });
        let times: Vec<_> = (0..1000).map(|number| uniform.of(number)).collect();
        assert!(times.iter().all(|time| (low..=high).contains(time)));
        assert!(times.iter().min().unwrap() < &milliseconds(2));
        assert!(times.iter().max().unwrap() > &milliseconds(9));
        assert_eq!(uniform.of(5), times[5]);
        for text in [
            "",
            "5d",
            "2ms..1ms",
            "1ms..",
            "1ms..2ms,seed=x",
            "1ms..2ms,colour=1",
        ] {
            assert!(DelayAmount::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_and_flushes_are_delayed_and_stay_what_they_are() {
        let stats = Arc::new(Stats::new(Arc::new(RamDevice::new("ram", 8192))));
        let amount = DelayAmount::Fixed(Duration::from_millis(2));
        let delay = Delay::new(stats.clone(), amount).unwrap();
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
        let amount = DelayAmount::Fixed(Duration::from_millis(3));
        let delay = Delay::new(pattern, amount).unwrap();
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
