//! What is written and not durable: the dirty set of an object, and the quota of each store.

pub(crate) mod set;
pub(crate) mod written;
