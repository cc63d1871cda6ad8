//! Storage of bytes: files, block devices, memory.
//!
//! A [`Device`] is a run of bytes with a fixed length, usable from any thread, without a cache. A
//! [`Store`] holds many [`Object`]s behind one queue.

mod buffer;
mod device;
mod file;
mod ram;
mod request;
mod waiting;
mod warning;
mod workers;

pub use buffer::Buffer;
pub use device::{Device, Error, Geometry, Memory, Object, OneObject, Result, Store, check};
pub use file::{Engine, FileDevice, FileOptions};
pub use ram::RamDevice;
pub use request::{
    Issuer, Operation, Outcome, Request, Segment, after_burst, complete, completion_panicked,
    pieces,
};
pub use waiting::read_exact;
pub use workers::{Work, Workers};

#[cfg(any(test, feature = "testing"))]
pub mod testing;
