//! Where stored bytes come from: files, block devices, memory.
//!
//! A [`Device`] is a run of bytes with a fixed length that can be used from any number of
//! threads at once. It caches nothing; what stands above it does.

mod bounds;
mod buffer;
mod completing;
mod device;
mod file;
pub mod layer;
mod memory;
mod mix;
pub mod model;
mod pattern;
mod quantity;
mod read_exact;
mod request;
mod timer;
mod warning;

pub use buffer::Buffer;
pub use device::{Device, Error, Geometry, Memory, Result};
pub use file::{Engine, FileDevice, FileOptions, Preference};
pub use memory::MemoryDevice;
pub use model::Model;
pub use pattern::Pattern;
pub use read_exact::read_exact;
pub use request::{Issuer, Operation, Outcome, Piece, Request, Segment};

#[cfg(test)]
mod testing;
