//! What every crate needs one of: sizes and times as people write them, locks, tables divided
//! among locks, a timer, sets of bytes, numbers that look random, a map that forgets.

pub mod clock;
mod decimal;
pub mod duration;
pub mod mix;
pub mod shards;
pub mod size;
pub mod spans;
pub mod sync;
pub mod timer;
