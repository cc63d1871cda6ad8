//! Residency: which pages have a frame, which of their bytes are there or in flight, and which page
//! goes when another comes.

pub(crate) mod batch;
pub(crate) mod devices;
mod drop_behind;
pub(crate) mod eviction;
pub(crate) mod in_flight;
pub(crate) mod names;
pub(crate) mod own_pages;
pub(crate) mod pages;
mod resident;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
