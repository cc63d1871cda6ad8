//! What the elevator did.

/// How often each branch was taken since the elevator was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests taken.
    pub inserted: u64,
    /// Requests refused: empty, past the end of addresses, or their name was queued already.
    pub refused: u64,
    /// Queued requests that became more urgent.
    pub promoted: u64,
    /// Requests that had to stand in line behind an earlier one that they overlap.
    pub overlapped: u64,
    /// Dispatches.
    pub dispatched: u64,
    /// Dispatches given back.
    pub completed: u64,
    /// Requests that travelled with another: members beyond the first of each dispatch.
    pub merged: u64,
    /// Dispatches that went back to the lowest address.
    pub wraps: u64,
    /// Dispatches that left the order for a request past its deadline.
    pub deadline_picks: u64,
    /// Dispatches while a request was past its deadline but had to wait for the end of a batch.
    pub deadline_postponed: u64,
    /// Dispatches that began below the end of the one before. In C-LOOK order they are at most
    /// wraps + deadline picks.
    pub backward_moves: u64,
    /// Dispatches that carried on where the one before had ended.
    pub run_continuations: u64,
    /// Holes that were read over.
    pub bridged_gaps: u64,
    /// Bytes in them.
    pub bridged_gap_bytes: u64,
    /// Calls that found requests but no place at the device for them.
    pub depth_refusals: u64,
}
