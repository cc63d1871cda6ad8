//! Calls that storage holds.

pub mod deferred;
pub mod slow;
