//! Residency: which pages have a frame, which of their bytes are there or on their way, and which
//! page goes when another comes.

pub(crate) mod batch;
pub(crate) mod drop_behind;
pub(crate) mod in_flight;
pub(crate) mod pages;
pub(crate) mod resident;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
