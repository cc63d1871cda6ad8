//! What the tests of devices share.

use std::sync::mpsc;
use std::time::Duration;

use crate::{Buffer, Device, Issuer, Operation, Outcome, Request};

/// Longer than anything takes: a test that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and where its outcome and memory come back.
pub(crate) fn request(
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
pub(crate) fn read(device: &dyn Device, offset: u64, length: usize) -> (Outcome, Buffer) {
    let buffer = Buffer::new(length, 4096);
    let (request, receiver) = request(Operation::Read, offset, buffer);
    device.submit(request);
    receiver.recv_timeout(PATIENCE).unwrap()
}

/// Writes and waits.
pub(crate) fn write(device: &dyn Device, offset: u64, bytes: &[u8]) -> Outcome {
    let mut buffer = Buffer::new(bytes.len(), 4096);
    buffer[..bytes.len()].copy_from_slice(bytes);
    let (request, receiver) = request(Operation::Write, offset, buffer);
    device.submit(request);
    receiver.recv_timeout(PATIENCE).unwrap().0
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(0x9E37_79B9) >> 13) as u8;
    (0..length).map(byte).collect()
}
