//! Reading: hit and miss, claims of what is missing, and read-ahead.

pub(crate) mod claim;
pub(crate) mod reader;
