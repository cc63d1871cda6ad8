//! Which connections are accepted.

pub mod acceptor;
pub mod descriptors;
