//! What is written and not durable.

pub(crate) mod set;
pub(crate) mod written;
