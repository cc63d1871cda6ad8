//! Where stored bytes come from: files, block devices, memory.
//!
//! A [`Device`] is a run of bytes with a fixed length that can be read from any number of
//! threads at once. It caches nothing; what stands above it does.

mod device;
mod file;
mod memory;

pub use device::{Device, Error, Geometry, Result};
pub use file::FileDevice;
pub use memory::MemoryDevice;
