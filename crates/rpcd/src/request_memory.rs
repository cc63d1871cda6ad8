//! Memory for requests: one budget, and records that grow within it.

pub mod budget;
pub mod record;
