//! What is written and not durable: the dirty set of a device, and the quota of each.

pub(crate) mod quota;
pub(crate) mod set;
pub(crate) mod state;
pub(crate) mod written;
