//! Reading: the hit and the miss, the claim of what is missing, and read-ahead.

pub(crate) mod claim;
pub(crate) mod reader;
