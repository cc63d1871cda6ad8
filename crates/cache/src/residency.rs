//! Which pages have a frame, what of them is there or in flight, and which goes.

pub(crate) mod eviction;
pub(crate) mod in_flight;
pub(crate) mod pages;
pub(crate) mod pins;
