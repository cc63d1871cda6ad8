//! Replies, from building to sending.

pub mod batch;
pub mod file_range;
mod seen;
pub mod send_queue;
pub mod unsent;
