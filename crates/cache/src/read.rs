//! Reading: hits, misses, claims and read-ahead.

pub(crate) mod claim;
pub(crate) mod reader;
