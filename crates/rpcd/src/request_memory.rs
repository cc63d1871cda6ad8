//! Memory for requests: one budget, and records that grow into it.

pub mod budget;
mod careless;
pub mod record;
