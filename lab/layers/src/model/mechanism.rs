//! When a modelled device would have answered.
//!
//! Problem: measurements of read-ahead and of the order of requests need a device whose head takes
//! time to move, with the same times on every machine.
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
//! A request that starts where the last one ended has no seek and no rotation. A fixed seek is the
//! cost of all others. On a seek curve the arm needs `track + (full - track) * sqrt(part of
//! length)`, nothing within a track; `full` follows from the average, as the square root has the
//! mean 8/15 over random pairs of places. Then the medium turns to the first byte. A track holds
//! the bytes of one turn; the angle of a byte is its place in its track, and the medium stands at
//! the last byte when a request ends. So the wait depends on addresses only, its mean is half a
//! turn, and the same requests always take the same time.
//!
//! The *buffer* of a drive reads on behind a read at media rate, for half its size, and keeps what
//! was read in the other half. A read that starts in it does not move the head; it ends when its
//! bytes are through the interface and the last one has been read.
//!
//! A write is done on the medium, so a durable one costs no more. A *flush* waits until all before
//! it is done, also on flash. It moves neither the head nor the buffer.
//!
//! Time is the model's own and absolute: a late request loses nothing while others are queued.
//! Rounding is at most half a nanosecond for each part of a request.
//!
//! Known weaknesses: all zones have one rate; the bytes count as the whole disk, so that a short
//! device has long seeks, too; the drive does not reorder its queue; its buffer is one segment,
//! useless to two alternating streams; the medium does not turn between requests.

use std::collections::VecDeque;
use std::time::Duration;

use super::parameters::{Parameters, Seek};
use pagewell_device::Operation;

/// Mean square root of the distance between two random places, as a part of the whole.
const ROOT_DISTANCE_MEAN: f64 = 8.0 / 15.0;

/// When and how one request was served, on the model's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When work on it began.
    pub start: Duration,
    /// When it was complete.
    pub done: Duration,
    /// The head moved for it.
    pub sought: bool,
    /// It came from the drive's buffer.
    pub buffered: bool,
}

impl Service {
    fn plain(start: Duration, done: Duration) -> Self {
        Self {
            start,
            done,
            sought: false,
            buffered: false,
        }
    }
}

/// Sums over all requests.
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
    /// Time with at least one request at work, on the model's clock.
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

/// The state of a modelled device.
pub struct Mechanism {
    parameters: Parameters,
    length_bytes: u64,
    /// Where the last request ended.
    position: u64,
    /// Until then the head, or the bus of flash, is busy.
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

    /// Serves a request that came at `arrival`, in the order of the calls.
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
        // Without the time that it shares with those before.
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
            // Positive; too large a number becomes the largest.
            buffer.anchor.saturating_add(passed as u64)
        };
        if offset < buffer.first || offset > frontier {
            return None;
        }
        if start >= full_time {
            // A full buffer; this read makes room.
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

    /// The end of reading on after the host has got the bytes before `end`.
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
