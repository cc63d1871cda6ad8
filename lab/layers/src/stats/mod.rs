//! Counts requests to a device by issuer and operation, and the durable ones among the writes.
//!
//! One short lock holds all of it. This layer counts requests of the device itself if it is next to
//! it, below all layers that cut and merge.

mod queue;
mod sizes;
mod snapshot;

use std::sync::Arc;
use std::time::Instant;

use pagewell_base::sync::Mutex;
use pagewell_device::{Device, Issuer, Operation, Request};

use crate::forward_device;
use queue::Queue;
pub use sizes::SizeHistogram;
pub use snapshot::{Flow, Snapshot};

const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Flush];

/// See the module's text.
pub struct Stats {
    inner: Arc<dyn Device>,
    began: Instant,
    counted: Arc<Mutex<Counted>>,
}

struct Counted {
    flows: Vec<Flow>,
    queue: Queue,
}

impl Counted {
    fn flow(&mut self, issuer: Issuer, operation: Operation) -> Option<&mut Flow> {
        let mut flows = self.flows.iter_mut();
        flows.find(|flow| flow.issuer == issuer && flow.operation == operation)
    }
}

impl Stats {
    /// Counts requests to `inner`.
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let pairs = Issuer::ALL.into_iter();
        let pairs = pairs.flat_map(|issuer| OPERATIONS.map(|operation| (issuer, operation)));
        let flows = pairs.map(|(issuer, operation)| Flow::new(issuer, operation));
        let counted = Counted {
            flows: flows.collect(),
            queue: Queue::default(),
        };
        Self {
            inner,
            began: Instant::now(),
            counted: Arc::new(Mutex::new(counted)),
        }
    }

    /// All counts so far.
    pub fn snapshot(&self) -> Snapshot {
        let mut counted = self.counted.lock();
        let time = self.began.elapsed();
        counted.queue.pass(time);
        Snapshot {
            time,
            flows: counted.flows.clone(),
            outstanding_time: counted.queue.outstanding_time,
            backward: counted.queue.backward,
            places: counted.queue.places.clone(),
        }
    }
}

impl Device for Stats {
    forward_device! { self => self.inner;
        name, length_bytes, geometry, keeps_until_flush, register_memory,
    }

    fn submit(&self, mut request: Request) {
        let (issuer, operation) = (request.issuer(), request.operation());
        // A flush has no size and no place.
        let place = (operation != Operation::Flush).then(|| (request.offset(), request.len()));
        let mut counted = self.counted.lock();
        if let Some(flow) = counted.flow(issuer, operation) {
            flow.requests += 1;
            flow.durable += u64::from(request.is_durable());
            if let Some((_, length)) = place {
                flow.sizes.count(length);
            }
        }
        counted.queue.enter(self.began.elapsed(), place);
        drop(counted);
        let (began, counted) = (self.began, self.counted.clone());
        request.observe(move |outcome| {
            let mut counted = counted.lock();
            counted.queue.exit(began.elapsed());
            if let Some(flow) = counted.flow(issuer, operation) {
                flow.bytes += outcome.transferred_bytes as u64;
            }
        });
        self.inner.submit(request);
    }
}

#[cfg(test)]
mod tests;
