//! What the tests of devices share.
#![allow(clippy::unwrap_used, missing_docs, reason = "for tests")]

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::io::Errno;

use crate::device::check;
use crate::{Buffer, Device, Error, Geometry, Issuer, Operation, Outcome, RamDevice, Request};

/// Longer than anything takes: a test that hangs fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and where its outcome and memory come back.
pub fn request(
    operation: Operation,
    offset: u64,
    buffer: Buffer,
) -> (Request, mpsc::Receiver<(Outcome, Buffer)>) {
    let (sender, receiver) = mpsc::channel();
    let done = move |outcome, buffer| drop(sender.send((outcome, buffer)));
    let request = Request::owned(operation, offset, buffer, Issuer::Reader, done);
    (request, receiver)
}

/// Reads and waits.
pub fn read(device: &dyn Device, offset: u64, length: usize) -> (Outcome, Buffer) {
    let buffer = Buffer::new(length, 4096);
    let (request, receiver) = request(Operation::Read, offset, buffer);
    device.submit(request);
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// Writes and waits.
pub fn write(device: &dyn Device, offset: u64, bytes: &[u8]) -> Outcome {
    write_as(device, offset, bytes, false)
}

/// Writes durably and waits.
pub fn write_durable(device: &dyn Device, offset: u64, bytes: &[u8]) -> Outcome {
    write_as(device, offset, bytes, true)
}

fn write_as(device: &dyn Device, offset: u64, bytes: &[u8], durable: bool) -> Outcome {
    let mut buffer = Buffer::new(bytes.len(), 4096);
    buffer[..bytes.len()].copy_from_slice(bytes);
    let (mut request, receiver) = request(Operation::Write, offset, buffer);
    if durable {
        request.set_durable();
    }
    device.submit(request);
    receiver.recv_timeout(PATIENCE).unwrap().0
}

/// A flush, and where its outcome comes.
pub fn flush_request() -> (Request, mpsc::Receiver<Outcome>) {
    let (sender, receiver) = mpsc::channel();
    let flush = Request::flush(Issuer::Flusher, move |outcome| drop(sender.send(outcome)));
    (flush, receiver)
}

/// Flushes and waits.
pub fn flush(device: &dyn Device) -> Outcome {
    let (request, receiver) = flush_request();
    device.submit(request);
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// Bytes that tell where they belong.
pub fn pattern(length: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(0x9E37_79B9) >> 13) as u8;
    (0..length).map(byte).collect()
}

/// Memory with bad places, which can hold requests back, and tells what was asked of it.
pub struct Faulty {
    pub ram: RamDevice,
    pub geometry: Geometry,
    /// Touching one of these bytes fails there; of flushes the range means nothing.
    pub bad: Mutex<Vec<(Operation, Range<u64>)>>,
    /// Operation, offset, bytes, segments.
    pub seen: Mutex<Vec<(Operation, u64, usize, usize)>>,
    /// How many of them were durable writes.
    pub durable: AtomicUsize,
    held: Mutex<Option<Vec<Request>>>,
}

impl Faulty {
    pub fn new(name: &str, length_bytes: u64) -> Self {
        Self {
            ram: RamDevice::new(name, length_bytes),
            geometry: Geometry::MEMORY,
            bad: Mutex::default(),
            seen: Mutex::default(),
            durable: AtomicUsize::new(0),
            held: Mutex::default(),
        }
    }

    /// Keeps requests until [`Self::release`].
    pub fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    /// Answers what was kept, the last first.
    pub fn release(&self) {
        let held = self.held.lock().unwrap().take().unwrap_or_default();
        held.into_iter()
            .rev()
            .for_each(|request| self.answer(request));
    }

    pub fn held(&self) -> usize {
        self.held.lock().unwrap().as_ref().map_or(0, Vec::len)
    }

    /// The first bad byte of the request.
    fn first_bad(&self, request: &Request) -> Option<u64> {
        let end = request.offset() + request.len() as u64;
        let bad = self.bad.lock().unwrap();
        if request.operation() == Operation::Flush {
            let mut bad = bad.iter();
            return bad.any(|(it, _)| *it == Operation::Flush).then_some(0);
        }
        let touched = bad.iter().filter(|(operation, range)| {
            *operation == request.operation() && range.start < end && range.end > request.offset()
        });
        touched
            .map(|(_, range)| range.start.max(request.offset()))
            .min()
    }

    fn answer(&self, request: Request) {
        let Some(bad) = self.first_bad(&request) else {
            return self.ram.submit(request);
        };
        let good = usize::try_from(bad - request.offset()).unwrap();
        let error = Error::failed(self.name(), bad, Errno::IO);
        if request.operation() == Operation::Flush {
            return request.fail(0, error);
        }
        let rest = request.len() - good;
        let mut pieces = request.split(&[good, rest]);
        let last = pieces.pop().unwrap();
        self.ram.submit(pieces.pop().unwrap());
        last.fail(0, error);
    }
}

impl Device for Faulty {
    fn name(&self) -> &str {
        self.ram.name()
    }

    fn length_bytes(&self) -> u64 {
        self.ram.length_bytes()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) {
        if let Err(error) = check(self, &request) {
            return request.fail(0, error);
        }
        let segments = request.segments().len();
        let what = (
            request.operation(),
            request.offset(),
            request.len(),
            segments,
        );
        self.seen.lock().unwrap().push(what);
        let durable = usize::from(request.is_durable());
        self.durable.fetch_add(durable, Ordering::Relaxed);
        if let Some(held) = self.held.lock().unwrap().as_mut() {
            return held.push(request);
        }
        self.answer(request);
    }
}
