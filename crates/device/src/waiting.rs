//! Requests that the caller waits for, whatever their alignment.

use std::sync::mpsc;

use crate::{Buffer, Device, Error, Geometry, Issuer, Operation, Outcome, Request, Result};

/// A submitted request with its own memory. Dropping it waits.
pub(crate) struct Sent {
    pub(crate) offset: u64,
    /// Bytes wanted; the last block of the request may be partial.
    pub(crate) bytes: u64,
    answer: mpsc::Receiver<(Outcome, Buffer)>,
}

impl Sent {
    pub(crate) fn new(
        device: &dyn Device,
        (operation, issuer): (Operation, Issuer),
        offset: u64,
        bytes: u64,
        buffer: Buffer,
    ) -> Self {
        let (sender, answer) = mpsc::sync_channel(1);
        // Fails only when `Sent` is gone.
        let done = move |outcome, buffer| drop(sender.send((outcome, buffer)));
        device.submit(Request::owned(operation, offset, buffer, issuer, done));
        Self {
            offset,
            bytes,
            answer,
        }
    }

    /// Reads from the start of a block.
    pub(crate) fn read(
        device: &dyn Device,
        issuer: Issuer,
        offset: u64,
        bytes: u64,
        geometry: Geometry,
    ) -> Self {
        let whole = bytes.next_multiple_of(u64::from(geometry.logical_block_bytes.max(1)));
        let alignment = geometry.memory_alignment_bytes.max(1);
        // Less than a block more than `bytes`.
        let buffer = Buffer::new(whole as usize, alignment as usize);
        Self::new(device, (Operation::Read, issuer), offset, bytes, buffer)
    }

    /// Fails unless all wanted bytes were transferred.
    pub(crate) fn wait(&self) -> Result<Buffer> {
        let abandoned = Error::Abandoned {
            offset: self.offset,
        };
        match self.answer.recv() {
            Ok((outcome, buffer)) if outcome.transferred_bytes as u64 >= self.bytes => Ok(buffer),
            Ok((outcome, _)) => Err(outcome.result.err().unwrap_or(abandoned)),
            Err(_) => Err(abandoned),
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // Disconnected once the answer was taken.
        drop(self.answer.recv());
    }
}

/// Fills `target`, undefined after an error. Allocates and copies.
pub fn read_exact(device: &dyn Device, offset: u64, target: &mut [u8]) -> Result<()> {
    let wanted = target.len();
    let end = offset.checked_add(wanted as u64);
    let end = end.filter(|end| *end <= device.length_bytes());
    let end = end.ok_or_else(|| Error::past_end(device.name(), offset, wanted))?;
    if target.is_empty() {
        return Ok(());
    }
    let geometry = device.geometry();
    // Less than a block.
    let skipped = offset % u64::from(geometry.logical_block_bytes.max(1));
    let start = offset - skipped;
    // Of a partial last block, only the wanted bytes need exist.
    let buffer = Sent::read(device, Issuer::Metadata, start, end - start, geometry).wait()?;
    target.copy_from_slice(&buffer[skipped as usize..][..wanted]);
    Ok(())
}
