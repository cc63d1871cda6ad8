//! A volatile cache for writes in front of a device, and a power cut.
//!
//! ```text
//!   write ──> log in memory ──> complete          reads see the log over the device below
//!                  │ flush, or more than there is room for: the oldest first
//!                  v
//!             device below                        the medium
//! ```
//!
//! - A write is complete as soon as it is in the log. A flush writes all that was in the log when
//!   it came to the device below, in order, and flushes that. A durable write goes below before it
//!   completes; older writes stay in the log, except for the bytes under it.
//! - The log is bounded: a write without room waits until the oldest ones are below.
//! - [`PowerCutHandle::cut`] ends everything at once: all present and later requests fail with
//!   `ENODEV`. Of the log, and of writes in flight, some reaches the device below, torn at any
//!   sectors and in any order, as `damage.rs` draws it from a seed. Then every sector of the device
//!   below is as a disk would hold it: as the last durable write left it, or one of those since.
//! - [`PowerCutHandle::cut_after`] cuts in the middle of a request, so that a test repeated with
//!   the same numbers ends the same way.
//! - A layer dropped without a cut sends everything to the device below.
//!
//! Blocks have at least 512 bytes, because sectors are written as a whole. One thread does the work
//! below, one request after the other.
//!
//! Known weakness: reads look through the whole log, so it should not be large.

mod damage;
mod log;
mod work;

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;

pub use damage::Damage;

use crate::forward::submit_part;
use crate::forward_device;
use damage::SECTOR_BYTES;
use log::{Entry, Log};
use pagewell_device::{
    Device, Error, Geometry, Operation, Outcome, Request, Result, check, complete,
};
use work::Task;

/// See the module's text.
pub struct PowerCut {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Cuts the power.
#[derive(Clone)]
pub struct PowerCutHandle(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Device>,
    geometry: Geometry,
    log_bytes_max: usize,
    state: Mutex<State>,
    /// There is a task, the power is off, or the thread has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    log: Log,
    tasks: VecDeque<Task>,
    sequence: u64,
    power: Power,
    /// How many more writes and flushes until the power is cut, and the seed.
    fuse: Option<(u64, u64)>,
    closing: bool,
    ended: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Power {
    #[default]
    On,
    /// Requests fail; the log is not damaged yet.
    Failing(u64),
    Off(Damage),
}

impl PowerCut {
    /// A cache of about `log_bytes_max` bytes, or of one request, in front of `inner`. Starts one
    /// thread.
    pub fn new(inner: Arc<dyn Device>, log_bytes_max: usize) -> std::io::Result<Self> {
        let below = inner.geometry();
        let geometry = Geometry {
            logical_block_bytes: below.logical_block_bytes.max(SECTOR_BYTES as u32),
            ..below
        };
        let shared = Arc::new(Shared {
            inner,
            geometry,
            log_bytes_max,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let own = shared.clone();
        let builder = std::thread::Builder::new().name("device-power-cut".to_owned());
        let thread = builder.spawn(move || own.work())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Cuts the power.
    pub fn handle(&self) -> PowerCutHandle {
        PowerCutHandle(self.shared.clone())
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_all();
        let current = std::thread::current().id();
        if let Some(thread) = self.thread.take()
            // A completion may drop the last reference: the thread cannot wait for itself.
            && thread.thread().id() != current
        {
            let _ = thread.join();
        }
    }
}

impl PowerCutHandle {
    /// Cuts the power, waits for the final state of the device below, and returns the damage. A
    /// second cut changes nothing. Must not be called by a completion.
    pub fn cut(&self, seed: u64) -> Damage {
        self.0.state.lock().begin(seed);
        self.0.changed.notify_all();
        self.wait()
    }

    /// Cuts the power in the middle of the write or flush after the next `count`. [`Self::wait`]
    /// returns after that.
    pub fn cut_after(&self, count: u64, seed: u64) {
        self.0.state.lock().fuse = Some((count, seed));
    }

    /// Whether the power is cut.
    pub fn is_cut(&self) -> bool {
        self.0.state.lock().power != Power::On
    }

    /// Bytes of writes that a cut would damage.
    pub fn unflushed_bytes(&self) -> usize {
        self.0.state.lock().log.bytes()
    }

    /// Waits until the device below is in its final state after a cut, or the layer is gone. Must
    /// not be called by a completion.
    pub fn wait(&self) -> Damage {
        let mut state = self.0.state.lock();
        loop {
            if let Power::Off(damage) = state.power {
                return damage;
            }
            if state.ended {
                return Damage::default();
            }
            state = self.0.changed.wait(state);
        }
    }
}

impl State {
    fn begin(&mut self, seed: u64) {
        if self.power == Power::On {
            self.power = Power::Failing(seed);
        }
    }

    /// Counts a request, and returns whether the power fails in the middle of it.
    fn burn(&mut self) -> bool {
        match &mut self.fuse {
            None => false,
            Some((0, seed)) => {
                let seed = *seed;
                self.fuse = None;
                self.begin(seed);
                true
            }
            Some((count, _)) => {
                *count -= 1;
                false
            }
        }
    }

    /// Logs the first `there` bytes of a write, and returns its number.
    fn log(&mut self, request: &Request, there: usize) -> u64 {
        let sequence = self.sequence;
        self.sequence += 1;
        let mut bytes = Vec::with_capacity(request.len());
        request
            .slices()
            .for_each(|slice| bytes.extend_from_slice(slice));
        bytes.truncate(there);
        self.log.push(Entry {
            sequence,
            offset: request.offset(),
            bytes: bytes.into(),
        });
        sequence
    }
}

impl Shared {
    fn gone(&self, offset: u64) -> Error {
        Error::Failed {
            device: self.inner.name().to_owned(),
            offset,
            errno: Errno::NODEV,
        }
    }

    fn there(&self, request: &Request) -> usize {
        request.bytes_there(self.inner.length_bytes())
    }

    /// Ends a request with all bytes that the device has, or none.
    fn end(&self, request: Request, result: Result<()>) {
        let there = self.there(&request);
        let whole = there == request.len();
        let outcome = match result {
            Ok(()) => Outcome {
                transferred_bytes: there,
                result: if whole {
                    Ok(())
                } else {
                    let (offset, length) = (request.offset(), request.len());
                    Err(Error::past_end(self.inner.name(), offset, length))
                },
            },
            Err(error) => Outcome {
                transferred_bytes: 0,
                result: Err(error),
            },
        };
        complete(request, outcome);
    }

    fn read(self: &Arc<Self>, request: Request) {
        let state = self.state.lock();
        if state.power != Power::On {
            drop(state);
            let error = self.gone(request.offset());
            return request.fail(0, error);
        }
        // What leaves the log later is below by then.
        let over = state.log.over(request.offset(), request.len());
        drop(state);
        let shared = self.clone();
        let covered = request.relay(move |mut request, outcome| {
            if shared.state.lock().power != Power::On {
                let error = shared.gone(request.offset());
                return request.fail(0, error);
            }
            let mut at = request.offset();
            for slice in request.slices_mut() {
                over.iter().for_each(|entry| entry.cover(at, slice));
                at += slice.len() as u64;
            }
            request.complete(outcome);
        });
        let there = self.there(&covered);
        let block = u64::from(self.inner.geometry().logical_block_bytes.max(1));
        if there == covered.len() || block >= SECTOR_BYTES as u64 {
            return self.inner.submit(covered);
        }
        // The device below would refuse bytes beyond its end.
        let error = Error::past_end(self.inner.name(), covered.offset(), covered.len());
        submit_part(&*self.inner, covered, there, error);
    }

    fn write(&self, request: Request) {
        let there = self.there(&request);
        let mut state = self.state.lock();
        if state.power == Power::On {
            if state.burn() {
                // In flight: it may reach the medium, and is not acknowledged.
                state.log(&request, there);
            } else if request.is_durable() {
                let sequence = state.log(&request, there);
                return self.assign(state, Task::Durable(sequence, request));
            } else if !state.tasks.is_empty() || state.log.bytes() + there > self.log_bytes_max {
                return self.assign(state, Task::Write(request));
            } else {
                state.log(&request, there);
                drop(state);
                return self.end(request, Ok(()));
            }
        }
        drop(state);
        self.changed.notify_all();
        let error = self.gone(request.offset());
        request.fail(0, error);
    }

    fn flush(&self, request: Request) {
        let mut state = self.state.lock();
        if state.power == Power::On && !state.burn() {
            let before = state.sequence;
            return self.assign(state, Task::Flush(before, request));
        }
        drop(state);
        self.changed.notify_all();
        request.fail(0, self.gone(0));
    }

    fn assign(&self, mut state: MutexGuard<'_, State>, task: Task) {
        state.tasks.push_back(task);
        drop(state);
        self.changed.notify_all();
    }
}

impl Device for PowerCut {
    forward_device! { self => self.shared.inner;
        name, length_bytes, keeps_until_flush, register_memory,
    }

    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn submit(&self, request: Request) {
        if let Err(error) = check(self, &request) {
            return request.fail(0, error);
        }
        match request.operation() {
            Operation::Flush => self.shared.flush(request),
            _ if request.is_empty() => request.succeed(),
            Operation::Read => self.shared.read(request),
            Operation::Write => self.shared.write(request),
        }
    }
}

#[cfg(test)]
mod tests;
