//! Replies, from being built to having left.

pub mod batch;
pub mod file_range;
mod seen;
pub mod send_queue;
pub mod unsent;
