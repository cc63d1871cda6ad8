//! A simulated disk, DVD or flash drive over the bytes of another device.
//!
//! The other device transfers the bytes at once, while [`Mechanism`] says when the modelled one
//! would have been done; the request completes at the later of the two. The model's clock is
//! absolute and runs `speed` times as fast as the wall's, so a completion that was late does not
//! delay those queued behind it. Nor does it delay a reader that submits one request at a time: by
//! how much the last completion came late is taken off the time at which the next request arrives,
//! so that a sum of such times comes out right although the single time may not. What remains is
//! the time that the host takes from a completion to its next request, often ten microseconds with
//! a change of threads, and it counts `speed` times: keep the service time well above it.
//! [`Model::totals`] has the time that the modelled device was busy, which nothing on the machine
//! can disturb.
//!
//! The modelled device takes any number of requests and works on as many as its queue depth, in
//! the order in which they came. Requests above its longest transfer are cut, and each piece pays
//! for itself.
//!
//! It has no cache for writes: they are on the medium when they are complete, durable ones at no
//! further cost. A flush waits until all that came before it is done and costs the fixed part of
//! a request. Both are passed on to the device below.

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

/// A thread that sleeps wakes up that much late on most machines, virtual ones included.
const SPIN: Duration = Duration::from_micros(60);

/// A completion that came later than this was not late for want of a better timer; the machine
/// stood still, and nobody wants the model to answer at once until it has caught up.
const LATE_MAX: Duration = Duration::from_millis(100);

/// See the module's text.
pub struct Model {
    name: String,
    inner: Arc<dyn Device>,
    parameters: Parameters,
    geometry: Geometry,
    mechanism: Mutex<Mechanism>,
    began: Instant,
    /// Nanoseconds by which the last completion was later than it should have been.
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

    /// What it is like.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sums over all requests taken so far, those that are not complete yet included.
    pub fn totals(&self) -> Totals {
        self.mechanism.lock().totals()
    }

    /// The time on the wall at which the model's clock shows `time`; nothing when that is beyond
    /// what clocks can show.
    fn wall(&self, time: Duration) -> Option<Instant> {
        let passed = time.as_secs_f64() / self.parameters.speed;
        let passed = Duration::try_from_secs_f64(passed).ok()?;
        self.began.checked_add(passed)
    }

    fn submit_piece(&self, request: Request) {
        let (operation, offset) = (request.operation(), request.offset());
        let late = Duration::from_nanos(self.late.load(Ordering::Relaxed));
        let done = {
            // The clock is read under the lock, so that it does not go back.
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
            // The device below may be the slower one; that is not for the model to make up for.
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

    /// Waits when, and only when, the device below does.
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
