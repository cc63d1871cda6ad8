//! Calls that storage holds.

pub mod parking;
pub mod slow;
