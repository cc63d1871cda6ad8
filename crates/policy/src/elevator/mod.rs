//! In which order, and in which pieces, does a device get its requests?
//!
//! [`Elevator::insert`] queues a request, [`Elevator::dispatch`] chooses the next with what lies
//! beside it, [`Elevator::complete`] ends it. The theory is in `scheduler.rs`.
//!
//! Requests of two objects never overlap or travel together; all of one come before those of the
//! next.

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

/// Names a request; unique among those not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a dispatch until it is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DispatchId(pub u64);

/// Bytes of one object: a device, or a file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1; `offset + length` does not overflow.
    pub length: u64,
}

impl Extent {
    /// From the first byte to the one after the last.
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

/// How urgent a request is. A dispatch has one class, or reads of both as the more urgent.
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
    /// The most urgent first.
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

/// Dispatches of a class at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Granted however busy others are; minimums above [`Settings::depth_max`] are dealt one by
    /// one, the most urgent class first.
    pub minimum: u32,
    /// Never more; 0 counts as 1.
    pub maximum: u32,
}

/// How to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// C-LOOK.
    CircularLook,
    /// As they came; still merged.
    Arrival,
}

/// How an elevator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How to order.
    pub order: Order,
    /// Whether one dispatch takes adjacent requests.
    pub merge: bool,
    /// Longest dispatch, in bytes; a longer request goes alone.
    pub transfer_bytes_max: u64,
    /// Widest hole to read over, in bytes; 0 where seeks are free.
    pub read_gap_bytes_max: u64,
    /// How long a read waits before it goes next; `None`: no limit.
    pub read_deadline: Option<Duration>,
    /// The same of a write.
    pub write_deadline: Option<Duration>,
    /// By class, as [`Class::ALL`].
    pub depths: [Depth; Class::ALL.len()],
    /// Dispatches at the device; 0 counts as 1.
    pub depth_max: u32,
}

/// Why a dispatch was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Next in the order.
    Order,
    /// Nothing was left above.
    Wrap,
    /// Overdue, and not the next in the order.
    Deadline,
}

/// A request of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The request.
    pub id: RequestId,
    /// Its bytes.
    pub extent: Extent,
}

/// What goes to the device as one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// For [`Elevator::complete`].
    pub id: DispatchId,
    /// The object.
    pub object: u32,
    /// All bytes, with holes.
    pub extent: Extent,
    /// The members' most urgent class.
    pub class: Class,
    /// Ascending, not overlapping; what is read of holes is dropped.
    pub members: Vec<Member>,
    /// Why.
    pub reason: Reason,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests taken.
    pub inserted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that became more urgent.
    pub promoted: u64,
    /// Requests that overlapped an earlier one.
    pub overlapped: u64,
    /// Dispatches.
    pub dispatched: u64,
    /// Dispatches completed.
    pub completed: u64,
    /// Members beyond the first of a dispatch.
    pub merged: u64,
    /// Dispatches back to the lowest address.
    pub wraps: u64,
    /// Dispatches at a deadline.
    pub deadline_picks: u64,
    /// Dispatches while an overdue request waited.
    pub deadline_postponed: u64,
    /// Dispatches below the last: in C-LOOK at most wraps and deadline picks.
    pub backward_moves: u64,
    /// Dispatches at the end of the last.
    pub run_continuations: u64,
    /// Holes read over.
    pub bridged_gaps: u64,
    /// Bytes in them.
    pub bridged_gap_bytes: u64,
    /// Calls without a place at the device.
    pub depth_refusals: u64,
}
