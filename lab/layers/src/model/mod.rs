//! A simulated disk, DVD or flash drive over the bytes of another device.
//!
//! The other device transfers the bytes at once, while [`Mechanism`] says when the modelled one
//! would be done; the request completes at the later of the two. The model's clock is absolute and
//! runs `speed` times as fast as the wall's, so a late completion does not delay those queued
//! behind it. With one request at a time, the next one arrives earlier by the lateness of the last
//! completion: sums of times are right where a single time may not be. What remains is the host's
//! time from a completion to its next request, often ten microseconds with a change of threads,
//! which counts `speed` times: the service time should be well above it. [`Model::totals`] has the
//! busy time of the modelled device, which nothing on the machine disturbs.
//!
//! The device works on as many requests as its queue depth, in their order. Requests above its
//! longest transfer are cut, and each piece has its own costs. Flushes and durable writes go on to
//! the device below.

mod mechanism;
mod parameters;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_base::timer::Timer;

pub use mechanism::{Mechanism, Service, Totals};
pub use parameters::{Parameters, ParametersError, Seek};

use crate::forward_device;
use pagewell_device::{Device, Geometry, Request, completion_panicked, pieces};

/// How late a sleeping thread wakes on most machines, virtual ones included.
const SPIN: Duration = Duration::from_micros(60);

/// A later completion means that the machine stood still: the model should not answer at once until
/// it has caught up.
const LATE_MAX: Duration = Duration::from_millis(100);

/// See the module's text.
pub struct Model {
    name: String,
    inner: Arc<dyn Device>,
    parameters: Parameters,
    geometry: Geometry,
    mechanism: Mutex<Mechanism>,
    began: Instant,
    /// Nanoseconds by which the last completion was late.
    late: Arc<AtomicU64>,
    timer: Timer,
}

impl Model {
    /// A modelled device with the bytes of `inner`. Starts one thread.
    pub fn new(inner: Arc<dyn Device>, parameters: Parameters) -> std::io::Result<Self> {
        let below = inner.geometry();
        let block = below.logical_block_bytes.max(1);
        let longest = parameters.transfer_bytes_max;
        let longest = (longest - longest % block).max(block);
        let geometry = Geometry {
            transfer_bytes_max: longest,
            rotational: parameters.rotational(),
            queue_depth: parameters.queue_depth,
            ..below
        };
        Ok(Self {
            name: format!("model:{}:{}", parameters.name, inner.name()),
            geometry,
            mechanism: Mutex::new(Mechanism::new(parameters.clone(), inner.length_bytes())),
            parameters,
            inner,
            began: Instant::now(),
            late: Arc::new(AtomicU64::new(0)),
            timer: Timer::new("device-model", SPIN, completion_panicked)?,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sums over all requests so far, also those not yet complete.
    pub fn totals(&self) -> Totals {
        self.mechanism.lock().totals()
    }

    /// When the model's clock shows `time`, on the wall's; none beyond the range of clocks.
    fn wall(&self, time: Duration) -> Option<Instant> {
        let passed = time.as_secs_f64() / self.parameters.speed;
        let passed = Duration::try_from_secs_f64(passed).ok()?;
        self.began.checked_add(passed)
    }

    fn submit_piece(&self, request: Request) {
        let (operation, offset) = (request.operation(), request.offset());
        let late = Duration::from_nanos(self.late.load(Ordering::Relaxed));
        let done = {
            // Read under the lock, the clock does not go back.
            let mut mechanism = self.mechanism.lock();
            let now = self.began.elapsed().saturating_sub(late).as_secs_f64();
            let now = Duration::try_from_secs_f64(now * self.parameters.speed);
            let now = now.unwrap_or(Duration::MAX);
            mechanism
                .serve(now, operation, offset, request.len() as u64)
                .done
        };
        let due = self.wall(done);
        let timer = self.timer.handle();
        let lateness = self.late.clone();
        let transfer = request.relay(move |request, outcome| {
            // The model does not make up for a slower device below.
            let ready = Instant::now().checked_sub(late);
            let due = due.map(|due| ready.map_or(due, |ready| due.max(ready)));
            timer.at(due, move || {
                let late = due.map_or(Duration::ZERO, |due| due.elapsed());
                let late = u64::try_from(late.min(LATE_MAX).as_nanos()).unwrap_or(0);
                lateness.store(late, Ordering::Relaxed);
                request.complete(outcome);
            });
        });
        self.inner.submit(transfer);
    }
}

impl Device for Model {
    fn name(&self) -> &str {
        &self.name
    }

    forward_device! { self => self.inner; length_bytes, keeps_until_flush, register_memory }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Waits if and only if the device below does.
    fn submit(&self, request: Request) {
        let longest = self.geometry.transfer_bytes_max as usize;
        if request.len() <= longest {
            self.submit_piece(request);
            return;
        }
        let lengths: Vec<_> = pieces(request.len(), longest).collect();
        for piece in request.split(&lengths) {
            self.submit_piece(piece);
        }
    }
}

#[cfg(test)]
mod tests;
