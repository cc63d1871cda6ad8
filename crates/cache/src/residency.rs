//! Residency: which pages have a frame, which of their bytes are there or in flight, and which page
//! goes when another comes.

pub(crate) mod eviction;
pub(crate) mod in_flight;
pub(crate) mod pages;
pub(crate) mod pins;
