//! What several crates share: sizes, times and dates as text, locks and tables divided among them,
//! a timer, sets of bytes, random-looking numbers, maps with eviction, files replaced as a whole,
//! misspelt names, ranges of addresses, mounts, one-line texts, waiting times of threads.

pub mod calendar;
pub mod clock;
mod decimal;
pub mod duration;
pub mod files;
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
