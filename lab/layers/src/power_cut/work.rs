//! The thread of a power cut layer, and its tasks.

use std::sync::mpsc;

use super::damage::draw;
use super::log::Entry;
use super::{Power, Shared};
use pagewell_device::{Buffer, Error, Issuer, Operation, Outcome, Request, Result, read_exact};

pub(super) enum Task {
    /// Waits for room.
    Write(Request),
    /// In the log under this number.
    Durable(u64, Request),
    /// Of all writes with smaller numbers.
    Flush(u64, Request),
}

impl Shared {
    pub(super) fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Power::Failing(seed) = state.power {
                drop(state);
                self.fail(seed);
                state = self.state.lock();
            } else if let Some(task) = state.tasks.pop_front() {
                drop(state);
                self.run(task);
                state = self.state.lock();
            } else if state.closing {
                drop(state);
                // No request is left for an error.
                let _ = self
                    .write_out(u64::MAX, 0)
                    .and_then(|()| self.flush_below());
                self.state.lock().ended = true;
                self.changed.notify_all();
                return;
            } else {
                state = self.changed.wait(state);
            }
        }
    }

    fn run(&self, task: Task) {
        match task {
            Task::Write(request) => {
                let there = self.there(&request);
                let room = self.log_bytes_max.saturating_sub(there);
                let made = self.write_out(u64::MAX, room);
                let result = made.and_then(|()| {
                    let mut state = self.state.lock();
                    if state.power != Power::On {
                        return Err(self.gone(request.offset()));
                    }
                    state.log(&request, there);
                    Ok(())
                });
                self.end(request, result);
            }
            Task::Durable(sequence, request) => {
                let result = self.write_durably(sequence);
                self.end(request, result);
            }
            Task::Flush(before, request) => {
                let result = self.write_out(before, 0).and_then(|()| self.flush_below());
                self.end(request, result);
            }
        }
    }

    /// Writes the oldest writes, those numbered below `before`, to the device below until the log
    /// has at most `left_bytes`.
    fn write_out(&self, before: u64, left_bytes: usize) -> Result<()> {
        loop {
            let state = self.state.lock();
            if state.power != Power::On {
                return Err(self.gone(0));
            }
            let first = state.log.first().filter(|entry| entry.sequence < before);
            let Some(entry) = first.cloned() else {
                return Ok(());
            };
            if state.log.bytes() <= left_bytes {
                return Ok(());
            }
            drop(state);
            self.put(entry.offset, &entry.bytes, false)?;
            // Only this thread removes entries, so this is still the first.
            self.state.lock().log.pop();
        }
    }

    fn write_durably(&self, sequence: u64) -> Result<()> {
        let state = self.state.lock();
        let Some(entry) = state.log.find(sequence).cloned() else {
            // It made room for another write, and is below.
            drop(state);
            return self.flush_below();
        };
        if state.power != Power::On {
            return Err(self.gone(entry.offset));
        }
        drop(state);
        self.put(entry.offset, &entry.bytes, true)?;
        self.state.lock().log.supersede(&entry);
        Ok(())
    }

    fn fail(&self, seed: u64) {
        let mut state = self.state.lock();
        let tasks = std::mem::take(&mut state.tasks);
        for task in &tasks {
            // The others are in the log, or have no bytes.
            if let Task::Write(request) = task {
                let there = self.there(request);
                state.log(request, there);
            }
        }
        let (left, damage) = draw(state.log.take(), seed);
        drop(state);
        for entry in left {
            // A failed write is lost, as it may be.
            let _ = self.put_part(&entry);
        }
        let _ = self.flush_below();
        self.state.lock().power = Power::Off(damage);
        self.changed.notify_all();
        for task in tasks {
            let (Task::Write(request) | Task::Durable(_, request) | Task::Flush(_, request)) = task;
            let error = self.gone(request.offset());
            self.end(request, Err(error));
        }
    }

    /// Writes sectors, which may be parts of blocks of the device below.
    fn put_part(&self, entry: &Entry) -> Result<()> {
        let block = u64::from(self.inner.geometry().logical_block_bytes.max(1));
        let start = entry.offset - entry.offset % block;
        let end = entry.offset + entry.bytes.len() as u64;
        let end = end.next_multiple_of(block).min(self.inner.length_bytes());
        let length = usize::try_from(end - start).unwrap_or(entry.bytes.len());
        if length == entry.bytes.len() {
            return self.put(entry.offset, &entry.bytes, false);
        }
        let mut bytes = vec![0; length];
        read_exact(&*self.inner, start, &mut bytes)?;
        entry.cover(start, &mut bytes);
        self.put(start, &bytes, false)
    }

    /// Writes whole blocks, or all up to the end, to the device below and waits.
    fn put(&self, offset: u64, bytes: &[u8], durable: bool) -> Result<()> {
        let below = self.inner.geometry();
        let block = below.logical_block_bytes.max(1) as usize;
        let alignment = below.memory_alignment_bytes.max(1) as usize;
        let mut buffer = Buffer::new(bytes.len().next_multiple_of(block), alignment);
        if let Some(start) = buffer.get_mut(..bytes.len()) {
            start.copy_from_slice(bytes);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = move |outcome, _| drop(sender.send(outcome));
        let issuer = Issuer::Flusher;
        let mut request = Request::owned(Operation::Write, offset, buffer, issuer, done);
        if durable {
            request.set_durable();
        }
        self.inner.submit(request);
        let outcome = receiver.recv().map_err(|_| Error::Abandoned { offset })?;
        if outcome.transferred_bytes >= bytes.len() {
            return Ok(());
        }
        outcome.result
    }

    fn flush_below(&self) -> Result<()> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = move |outcome| drop(sender.send(outcome));
        self.inner.submit(Request::flush(Issuer::Flusher, done));
        let outcome: Outcome = receiver
            .recv()
            .map_err(|_| Error::Abandoned { offset: 0 })?;
        outcome.result
    }
}
