//! Where stored bytes come from: files, block devices, memory.
//!
//! A [`Device`] is a run of bytes with a fixed length that can be used from any number of
//! threads at once. It caches nothing; what stands above it does.

mod buffer;
mod combined;
mod completing;
mod device;
mod file;
mod mirror;
pub mod model;
mod ram;
mod request;
mod stripe;
mod waiting;
mod warning;

pub use buffer::Buffer;
pub use combined::CombineError;
pub use completing::{after_burst, complete};
pub use device::{Device, Error, Geometry, Memory, Result, check};
pub use file::{Engine, FileDevice, FileOptions};
pub use mirror::{
    Assessment, Condition, LegState, MemoryRecord, Mirror, MirrorError, MirrorRecord, RecordError,
    Refusal, Resync, ResyncReport, Standing,
};
pub use model::Model;
pub use ram::RamDevice;
pub use request::{Issuer, Operation, Outcome, Piece, Request, Segment};
pub use stripe::Stripe;
pub use waiting::read_exact;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
