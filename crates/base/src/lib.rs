//! What several crates share.

pub mod calendar;
pub mod clock;
mod decimal;
pub mod duration;
pub mod files;
pub mod late;
pub mod likeness;
pub mod line;
pub mod mix;
pub mod mounts;
pub mod network;
pub mod pieces;
pub mod shards;
pub mod size;
pub mod spans;
pub mod sync;
pub mod timer;
pub mod waits;
