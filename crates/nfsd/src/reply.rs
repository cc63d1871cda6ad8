//! Replies, from being built to having left.

pub mod batch;
pub mod pipe;
pub mod resident;
pub mod send_queue;
pub mod unsent;
