//! When a modelled device would have answered.
//!
//! Problem: measurements of read-ahead and of request order need a disk or a DVD, whose time goes
//! into moving a head, and must come out the same on every machine.
//!
//! Rule: requests are served in the order in which they come. Four kinds of answers:
//!
//! ```text
//! flush    |-- wait for all before --|-- fixed --|
//! head     |-- fixed --|-- seek --|-- rotation --|-- bytes / media rate --|   one at a time
//! buffer   |-- fixed --|-- bytes / interface rate --|       but not before the medium got there
//! flash    |-- fixed --|-- wait for the bus --|-- bytes / media rate --|
//!               |-- fixed --|-- ...           the fixed parts of `queue_depth` requests overlap
//! ```
//!
//! *Contiguous* is a request that starts at the byte where the last one ended: no seek and no
//! rotation. With a fixed seek everything else costs that seek. With a seek curve the arm needs
//! `track + (full - track) * sqrt(distance / length)`, nothing within a track; the square root
//! has the mean 8/15 over random pairs of places, from which `full` follows. Then the medium turns
//! until the first byte comes by. A track holds what passes in one turn; the angle of a byte is
//! its place in its track, and the medium stood at the angle of the last byte when the last
//! request ended. So the wait depends on addresses only, its mean is half a turn, and the same
//! requests always take the same time, however long the machine rested between them.
//!
//! The *buffer* of a drive goes on reading behind a read, half the buffer far, at media rate, and
//! keeps the other half for what was read. A read that starts in what it holds does not move the
//! head; it ends when its bytes are through the interface and the last one has been read.
//!
//! A write is done when it is on the medium; there is no cache for writes. So a durable write
//! costs what any other does, and a *flush* has nothing to move: it waits until all that came
//! before it is done, also on flash, whose requests overlap otherwise, and costs the fixed part.
//! The head stays where it is, and the drive's buffer keeps what it holds.
//!
//! Time is the model's own and absolute: a request that comes late while others are queued loses
//! nothing. Rounding is at most half a nanosecond for each part of a request.
//!
//! Known weaknesses: zones all have one rate; the bytes count as the whole disk, so that a short
//! device has long seeks all the same; the drive does not reorder its queue; its buffer is
//! one segment, so two alternating streams get nothing from it; writes always reach the medium;
//! the time between requests does not turn the medium.

use std::collections::VecDeque;
use std::time::Duration;

use super::parameters::{Parameters, Seek};
use pagewell_device::Operation;

/// Mean of the square root of the distance between two random places, as a part of the whole.
const ROOT_DISTANCE_MEAN: f64 = 8.0 / 15.0;

/// When and how one request was served, on the model's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Work on it began.
    pub start: Duration,
    /// It was complete.
    pub done: Duration,
    /// The head moved for it.
    pub sought: bool,
    /// It came from the drive's buffer.
    pub buffered: bool,
}

impl Service {
    /// Without a move of the head, and not from the buffer.
    fn plain(start: Duration, done: Duration) -> Self {
        Self {
            start,
            done,
            sought: false,
            buffered: false,
        }
    }
}

/// Sums over all requests served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads and writes, after cutting.
    pub requests: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests for which the head moved.
    pub seeks: u64,
    /// Requests that came from the drive's buffer.
    pub buffered: u64,
    /// Time in which at least one request was worked on, on the model's clock.
    pub busy: Duration,
}

/// A drive's buffer. The medium passed `anchor` at `anchor_time` and goes on to `limit`.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    first: u64,
    anchor: u64,
    anchor_time: Duration,
    limit: u64,
}

/// The state of a modelled device: where its head is and until when it is busy.
pub struct Mechanism {
    parameters: Parameters,
    length_bytes: u64,
    /// Where the last request ended.
    position: u64,
    /// The head, or the bus of flash, is busy until then.
    free: Duration,
    /// When the last `queue_depth` requests are done, the oldest first.
    inside: VecDeque<Duration>,
    buffer: Option<Buffer>,
    totals: Totals,
}

impl Mechanism {
    /// A device of this length, its head at the first byte.
    pub fn new(parameters: Parameters, length_bytes: u64) -> Self {
        Self {
            parameters,
            length_bytes,
            position: 0,
            free: Duration::ZERO,
            inside: VecDeque::new(),
            buffer: None,
            totals: Totals::default(),
        }
    }

    /// Sums since the beginning.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Serves a request that came at `arrival`. Requests are served in the order of the calls.
    pub fn serve(
        &mut self,
        arrival: Duration,
        operation: Operation,
        offset: u64,
        length: u64,
    ) -> Service {
        let depth = self.parameters.queue_depth.max(1) as usize;
        let mut entry = arrival;
        while self.inside.len() >= depth {
            entry = entry.max(self.inside.pop_front().unwrap_or_default());
        }
        // When the last of all that came before is done.
        let before = self.free;
        let (start, end) = (entry.max(before), offset.saturating_add(length));
        let service = match operation {
            Operation::Flush => Service::plain(start, start.saturating_add(self.parameters.fixed)),
            _ if self.parameters.seek == Seek::None => self.serve_flash(entry, length),
            Operation::Read => {
                let buffered = self.serve_buffered(start, offset, end);
                buffered.unwrap_or_else(|| self.serve_head(start, operation, offset, end))
            }
            Operation::Write => self.serve_head(start, operation, offset, end),
        };
        self.free = service.done;
        self.inside.push_back(service.done);
        // The time that was not that of the ones before it.
        let busy = service.done.saturating_sub(service.start.max(before));
        self.totals.busy = self.totals.busy.saturating_add(busy);
        if operation == Operation::Flush {
            self.totals.flushes += 1;
            return service;
        }
        self.position = end;
        self.totals.requests += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(length);
        self.totals.seeks += u64::from(service.sought);
        self.totals.buffered += u64::from(service.buffered);
        service
    }

    fn serve_flash(&mut self, start: Duration, length: u64) -> Service {
        let ready = start.saturating_add(self.parameters.fixed);
        let done = ready.max(self.free).saturating_add(self.media_time(length));
        Service::plain(start, done)
    }

    fn serve_head(
        &mut self,
        start: Duration,
        operation: Operation,
        offset: u64,
        end: u64,
    ) -> Service {
        let sought = offset != self.position;
        let mut before_transfer = self.parameters.fixed;
        if sought {
            let seek = self.seek_time(self.position.abs_diff(offset));
            let moved = before_transfer.saturating_add(seek);
            before_transfer = moved.saturating_add(self.rotation_time(moved, offset));
        }
        let service = before_transfer.saturating_add(self.media_time(end - offset));
        let done = start.saturating_add(service);
        let reads_on = self.parameters.cache_bytes > 0 && operation == Operation::Read;
        self.buffer = reads_on.then(|| Buffer {
            first: offset,
            anchor: end,
            anchor_time: done,
            limit: self.look_ahead(end),
        });
        Service {
            start,
            done,
            sought,
            buffered: false,
        }
    }

    /// Serves a read from the drive's buffer, when it starts in what that holds.
    fn serve_buffered(&mut self, start: Duration, offset: u64, end: u64) -> Option<Service> {
        let limit = self.look_ahead(end);
        let mut buffer = self.buffer?;
        let full_time = buffer
            .anchor_time
            .saturating_add(self.media_time(buffer.limit - buffer.anchor));
        let frontier = if start >= full_time {
            buffer.limit
        } else {
            let passed = start.saturating_sub(buffer.anchor_time).as_secs_f64();
            let passed = passed * self.parameters.media_bytes_per_second;
            // Positive; what is too large becomes the largest number.
            buffer.anchor.saturating_add(passed as u64)
        };
        if offset < buffer.first || offset > frontier {
            return None;
        }
        if start >= full_time {
            // It had stopped for want of room, which this read makes.
            buffer.anchor = buffer.limit;
            buffer.anchor_time = start;
        }
        let kept = end.saturating_sub(self.parameters.cache_bytes / 2);
        buffer.first = buffer.first.max(kept.min(offset));
        buffer.limit = buffer.limit.max(limit).max(end);
        let medium = buffer
            .anchor_time
            .saturating_add(self.media_time(end.saturating_sub(buffer.anchor)));
        let medium = if end > buffer.anchor { medium } else { start };
        let interface = self.parameters.interface_bytes_per_second;
        let sent = start
            .saturating_add(self.parameters.fixed)
            .saturating_add(transfer_time(end - offset, interface));
        self.buffer = Some(buffer);
        Some(Service {
            start,
            done: sent.max(medium),
            sought: false,
            buffered: true,
        })
    }

    /// How far the drive reads on after the host has got the bytes before `end`.
    fn look_ahead(&self, end: u64) -> u64 {
        let limit = end.saturating_add(self.parameters.cache_bytes / 2);
        limit.min(self.length_bytes).max(end)
    }

    fn seek_time(&self, distance: u64) -> Duration {
        match self.parameters.seek {
            Seek::None => Duration::ZERO,
            Seek::Fixed(time) => time,
            Seek::Curve { .. } if (distance as f64) < self.track_bytes() => Duration::ZERO,
            Seek::Curve { track, average } => {
                let part = distance as f64 / self.length_bytes.max(1) as f64;
                let sweep = average.saturating_sub(track).as_secs_f64() / ROOT_DISTANCE_MEAN;
                let sweep = sweep * part.min(1.0).sqrt();
                track.saturating_add(Duration::try_from_secs_f64(sweep).unwrap_or_default())
            }
        }
    }

    /// The wait for the byte at `offset`, `moved` after the last request ended.
    fn rotation_time(&self, moved: Duration, offset: u64) -> Duration {
        let turn = self.parameters.turn.as_secs_f64();
        if turn == 0.0 {
            return Duration::ZERO;
        }
        let track = self.track_bytes();
        let angle = |byte: u64| (byte as f64 % track) / track;
        let wait = angle(offset) - angle(self.position) - moved.as_secs_f64() / turn;
        Duration::try_from_secs_f64(wait.rem_euclid(1.0) * turn).unwrap_or_default()
    }

    fn track_bytes(&self) -> f64 {
        let turn = self.parameters.turn.as_secs_f64();
        (turn * self.parameters.media_bytes_per_second).max(1.0)
    }

    fn media_time(&self, bytes: u64) -> Duration {
        transfer_time(bytes, self.parameters.media_bytes_per_second)
    }
}

fn transfer_time(bytes: u64, bytes_per_second: f64) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 / bytes_per_second).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
