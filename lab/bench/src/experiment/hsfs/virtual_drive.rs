//! A drive and its reader in virtual time, on one thread: the same counts on every machine.
//!
//! The drive keeps what it is asked for, and a [`Mechanism`] says when it is done. A reader that
//! finds its bytes in memory goes on; each read costs it [`HOST`], and what the drive has done by
//! then is complete. A reader that would have to wait moves the clock to when the drive has
//! brought what it wants, and asks again.
//!
//! ```text
//!   read ──> Cache ──> Drive: done at 3 ms, 5 ms, ...        no thread, no sleep
//!     └── would block: the clock goes to 3 ms, the drive answers, the read is made again
//! ```
//!
//! The cache still asks the host's clock whether a stream has been silent for a second and whether
//! a read is overdue. Deadlines are switched off here, and a stream is silent for so long only on a
//! machine that is very busy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::Mutex;
use pagewell_cache::{Cache, Error, ReadMode};
use pagewell_device::{Device, Geometry, Request};
use pagewell_layers::model::{Mechanism, Parameters};
use pagewell_layers::{Pattern, Snapshot, Stats};

use super::job::Job;
use super::variant::Variant;

/// What the host takes for one read: far less than the 0.66 ms of the drive's smallest request.
const HOST: Duration = Duration::from_micros(20);

/// A modelled drive whose time the test sets.
struct Drive {
    name: String,
    pattern: Pattern,
    geometry: Geometry,
    state: Mutex<State>,
}

struct State {
    mechanism: Mechanism,
    now: Duration,
    /// What is asked for, and when it is done: in this order, as one head serves one at a time.
    asked: VecDeque<(Duration, Request)>,
}

impl Drive {
    fn new(length_bytes: u64) -> Self {
        let parameters = Parameters::parse("dvd").unwrap();
        let pattern = Pattern::new(length_bytes, 1);
        Self {
            name: "virtual".to_owned(),
            geometry: Geometry {
                transfer_bytes_max: parameters.transfer_bytes_max,
                rotational: parameters.rotational(),
                queue_depth: 1,
                ..pattern.geometry()
            },
            pattern,
            state: Mutex::new(State {
                mechanism: Mechanism::new(parameters, length_bytes),
                now: Duration::ZERO,
                asked: VecDeque::new(),
            }),
        }
    }

    /// Time passes; what is done by then is complete.
    fn pass(&self, time: Duration) {
        let until = self.state.lock().now + time;
        while self
            .state
            .lock()
            .asked
            .front()
            .is_some_and(|next| next.0 <= until)
        {
            self.answer();
        }
        self.state.lock().now = until;
    }

    /// The clock goes to where the next request is done. Says which bytes that brought.
    fn answer(&self) -> Option<std::ops::Range<u64>> {
        let mut state = self.state.lock();
        let (done, request) = state.asked.pop_front()?;
        state.now = state.now.max(done);
        // What is asked for in answer to this is asked for now.
        drop(state);
        let bytes = request.offset()..request.offset() + request.len() as u64;
        self.pattern.submit(request);
        Some(bytes)
    }
}

impl Device for Drive {
    fn name(&self) -> &str {
        &self.name
    }

    fn length_bytes(&self) -> u64 {
        self.pattern.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) {
        let mut state = self.state.lock();
        let (now, length) = (state.now, request.len() as u64);
        let service = state
            .mechanism
            .serve(now, request.operation(), request.offset(), length);
        state.asked.push_back((service.done, request));
    }
}

/// Runs a job with all mechanisms on; what the drive was asked for.
pub(super) fn run(job: Job, length_bytes: u64, cache_bytes: u64) -> Snapshot {
    let drive = Arc::new(Drive::new(length_bytes));
    let stats = Arc::new(Stats::new(drive.clone()));
    let mut options = Variant::ENHANCED.options(cache_bytes, 1.0);
    options.read_deadline = None;
    let device = Cache::new(options).unwrap().open(stats.clone());
    let mut buffer = Vec::new();
    for read in job.reads {
        buffer.resize(read.length, 0);
        let mode = ReadMode {
            may_block: false,
            issuer: read.issuer,
            bounds: read.bounds,
        };
        let wanted = read.offset..read.offset + read.length as u64;
        loop {
            match device.read_at(read.offset, &mut buffer, mode) {
                Ok(()) => break,
                Err(Error::WouldBlock) => {}
                Err(error) => panic!("{error}"),
            }
            // Until something comes that it may have waited for.
            loop {
                let came = drive.answer().expect("the drive was asked for it");
                if came.start < wanted.end && wanted.start < came.end {
                    break;
                }
            }
        }
        assert_eq!(drive.pattern.check(read.offset, &buffer), Ok(()));
        drive.pass(HOST);
    }
    while drive.answer().is_some() {}
    stats.snapshot()
}
