//! Reading from a device and waiting for it, whatever its alignment is.

use std::sync::mpsc;

use crate::{Buffer, Device, Error, Issuer, Operation, Request, Result};

/// Fills `target` with the bytes from `offset`: all of it, or an error and `target` holds
/// anything. For the few reads that come before there is a cache: each takes memory of its own
/// and copies.
pub fn read_exact(device: &dyn Device, offset: u64, target: &mut [u8]) -> Result<()> {
    let wanted = target.len();
    let past_end = || Error::past_end(device.name(), offset, wanted);
    let end = offset.checked_add(target.len() as u64);
    let end = end.filter(|end| *end <= device.length_bytes());
    let end = end.ok_or_else(past_end)?;
    if target.is_empty() {
        return Ok(());
    }
    let geometry = device.geometry();
    let block = u64::from(geometry.logical_block_bytes.max(1));
    let start = offset - offset % block;
    let covered = end.next_multiple_of(block) - start;
    let length = usize::try_from(covered).map_err(|_| past_end())?;
    let alignment = geometry.memory_alignment_bytes.max(1) as usize;
    let buffer = Buffer::new(length, alignment);
    let (sender, receiver) = mpsc::sync_channel(1);
    device.submit(Request::owned(
        Operation::Read,
        start,
        buffer,
        Issuer::Metadata,
        // The receiver waits below.
        move |outcome, buffer| drop(sender.send((outcome, buffer))),
    ));
    let Ok((outcome, buffer)) = receiver.recv() else {
        return Err(Error::Abandoned { offset });
    };
    // Less than a block.
    let skipped = (offset - start) as usize;
    // The last block of a file may be a part: only what was asked for has to be there.
    if outcome.transferred_bytes < skipped + target.len() {
        outcome.result?;
        return Err(past_end());
    }
    target.copy_from_slice(&buffer[skipped..skipped + target.len()]);
    Ok(())
}
