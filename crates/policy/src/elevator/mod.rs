//! In which order, and in which pieces, does a device get its requests?
//!
//! [`Elevator::insert`] queues a request, or lets it stand in line behind one that it overlaps.
//! [`Elevator::dispatch`] chooses the next and takes along what lies beside it. The caller gives
//! the [`Dispatch`] back to [`Elevator::complete`]. The theory is in `scheduler.rs`.
//!
//! Requests of two objects of a store never overlap and never travel together; in the order of
//! addresses all of one object come before those of the next.

mod scheduler;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use scheduler::{BATCH_BYTES, Elevator, RUN_BYTES_MAX, SEEK_CHARGE_BYTES};
pub use settings::{
    FLASH_DEPTH_FACTOR, FLASH_DEPTH_MAX, READ_DEADLINE, ROTATING_DEPTH_MAX,
    ROTATING_READ_GAP_BYTES_MAX, WRITE_DEADLINE,
};

/// Names a request. Chosen by the caller, never used twice at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a dispatch until it is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DispatchId(pub u64);

/// Bytes of one object: of a device, or of a file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1; `offset + length` does not overflow.
    pub length: u64,
}

impl Extent {
    /// From a first byte to the byte after the last.
    #[must_use]
    pub fn of((start, end): (u64, u64)) -> Self {
        Self {
            offset: start,
            length: end - start,
        }
    }

    /// The byte after the last.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// How urgent a request is. Only requests of one class are dispatched together, and reads of both,
/// as the more urgent class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A reader waits for it.
    SynchronousRead,
    /// Read-ahead.
    AsynchronousRead,
    /// Write-back.
    AsynchronousWrite,
}

impl Class {
    /// All, the most urgent first.
    pub const ALL: [Self; 3] = [
        Self::SynchronousRead,
        Self::AsynchronousRead,
        Self::AsynchronousWrite,
    ];

    /// Whether it writes.
    #[must_use]
    pub fn is_write(self) -> bool {
        self == Self::AsynchronousWrite
    }
}

/// How many dispatches of a class may be at the device at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// So many are granted, however busy the other classes are. If all minimums exceed
    /// [`Settings::depth_max`], places are dealt one by one, the most urgent class first.
    pub minimum: u32,
    /// Never more; 0 counts as 1.
    pub maximum: u32,
}

/// How to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// C-LOOK.
    CircularLook,
    /// As they came. Adjacent requests are merged all the same.
    Arrival,
}

/// Settings of an elevator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How to order.
    pub order: Order,
    /// Whether adjacent requests become one dispatch.
    pub merge: bool,
    /// Longest dispatch, in bytes. A single request may be longer and goes alone.
    pub transfer_bytes_max: u64,
    /// Widest hole that is read over, in bytes; 0 where seeks are free.
    pub read_gap_bytes_max: u64,
    /// A read that has waited this long goes next; `None` switches deadlines off.
    pub read_deadline: Option<Duration>,
    /// A write that has waited this long goes next.
    pub write_deadline: Option<Duration>,
    /// Of each class, in the order of [`Class::ALL`].
    pub depths: [Depth; Class::ALL.len()],
    /// All dispatches at the device together; 0 counts as 1.
    pub depth_max: u32,
}

/// Why a dispatch was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Next in the order.
    Order,
    /// Nothing above was left: back to the lowest.
    Wrap,
    /// The oldest was overdue, and not the next in the order.
    Deadline,
}

/// One request inside a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The request.
    pub id: RequestId,
    /// Its bytes.
    pub extent: Extent,
}

/// What to send to the device as one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// To be given to [`Elevator::complete`].
    pub id: DispatchId,
    /// Of which object.
    pub object: u32,
    /// All bytes, holes included.
    pub extent: Extent,
    /// The most urgent class of its members.
    pub class: Class,
    /// The requests, ascending and apart; holes are read and thrown away.
    pub members: Vec<Member>,
    /// Why it was chosen.
    pub reason: Reason,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests taken.
    pub inserted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Queued requests that became more urgent.
    pub promoted: u64,
    /// Requests that overlapped an earlier one.
    pub overlapped: u64,
    /// Dispatches.
    pub dispatched: u64,
    /// Dispatches given back.
    pub completed: u64,
    /// Members beyond the first of each dispatch.
    pub merged: u64,
    /// Dispatches that went back to the lowest address.
    pub wraps: u64,
    /// Dispatches because of a deadline.
    pub deadline_picks: u64,
    /// Dispatches while an overdue request waited for the end of a batch.
    pub deadline_postponed: u64,
    /// Dispatches below the end of the one before: in C-LOOK at most wraps and deadline picks.
    pub backward_moves: u64,
    /// Dispatches at the end of the one before.
    pub run_continuations: u64,
    /// Holes that were read over.
    pub bridged_gaps: u64,
    /// Bytes in them.
    pub bridged_gap_bytes: u64,
    /// Calls without a place at the device.
    pub depth_refusals: u64,
}
