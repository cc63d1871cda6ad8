//! Counts what goes to a device, split by origin and by what was asked for: reads, writes and
//! flushes apart, and the durable ones among the writes.
//!
//! Sums are relaxed atomic additions. One short lock holds what needs an order:
//! the number of requests outstanding and where the last one ended. To see what
//! the device itself was asked, this layer is put next to it, below whatever cuts and merges.

mod queue;
mod sizes;
mod snapshot;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pagewell_base::sync::Mutex;

pub use sizes::SizeHistogram;
pub use snapshot::{Flow, Snapshot};

use pagewell_device::{Device, Geometry, Issuer, Memory, Operation, Request};
use queue::Queue;

const OPERATIONS: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Flush];

/// See the module's text.
pub struct Stats {
    inner: Arc<dyn Device>,
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    /// By issuer and operation.
    cells: [[Cell; OPERATIONS.len()]; Issuer::ALL.len()],
    queue: Mutex<Queue>,
}

struct Cell {
    requests: AtomicU64,
    durable: AtomicU64,
    bytes: AtomicU64,
    sizes: Box<[AtomicU64]>,
}

impl Cell {
    fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            sizes: (0..sizes::BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn read(&self, issuer: Issuer, operation: Operation) -> Flow {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Flow {
            issuer,
            operation,
            requests: load(&self.requests),
            durable: load(&self.durable),
            bytes: load(&self.bytes),
            sizes: SizeHistogram {
                counts: self.sizes.iter().map(load).collect(),
            },
        }
    }
}

impl Shared {
    fn cell(&self, issuer: Issuer, operation: Operation) -> &Cell {
        let row = match issuer {
            Issuer::Reader => 0,
            Issuer::ReadAhead => 1,
            Issuer::Flusher => 2,
            Issuer::Metadata => 3,
        };
        let column = match operation {
            Operation::Read => 0,
            Operation::Write => 1,
            Operation::Flush => 2,
        };
        &self.cells[row][column]
    }
}

impl Stats {
    /// Counts what goes to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Self {
        let cells = Issuer::ALL.map(|_| OPERATIONS.map(|_| Cell::new()));
        Self {
            inner,
            shared: Arc::new(Shared {
                began: Instant::now(),
                cells,
                queue: Mutex::new(Queue::default()),
            }),
        }
    }

    /// All that was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let (time, queue) = {
            let mut queue = shared.queue.lock();
            let time = shared.began.elapsed();
            queue.pass(time);
            (time, queue.clone())
        };
        let pairs = Issuer::ALL.into_iter();
        let pairs = pairs.flat_map(|issuer| OPERATIONS.map(|operation| (issuer, operation)));
        let flows =
            pairs.map(|(issuer, operation)| shared.cell(issuer, operation).read(issuer, operation));
        Snapshot {
            time,
            flows: flows.collect(),
            outstanding_time: queue.outstanding_time,
            backward: queue.backward,
            places: queue.places,
        }
    }
}

impl Device for Stats {
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

    fn submit(&self, mut request: Request) {
        let (issuer, operation) = (request.issuer(), request.operation());
        let cell = self.shared.cell(issuer, operation);
        cell.requests.fetch_add(1, Ordering::Relaxed);
        let durable = u64::from(request.is_durable());
        cell.durable.fetch_add(durable, Ordering::Relaxed);
        // A flush has no size and is nowhere.
        let place = (operation != Operation::Flush).then(|| (request.offset(), request.len()));
        if let Some((_, length)) = place
            && let Some(count) = cell.sizes.get(SizeHistogram::bucket(length))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        {
            let mut queue = self.shared.queue.lock();
            queue.enter(self.shared.began.elapsed(), place);
        }
        let shared = self.shared.clone();
        request.observe(move |outcome| {
            {
                let mut queue = shared.queue.lock();
                queue.exit(shared.began.elapsed());
            }
            let cell = shared.cell(issuer, operation);
            let bytes = outcome.transferred_bytes as u64;
            cell.bytes.fetch_add(bytes, Ordering::Relaxed);
        });
        self.inner.submit(request);
    }

    fn register_memory(&self, memory: &Memory) {
        self.inner.register_memory(memory);
    }
}

#[cfg(test)]
mod tests;
