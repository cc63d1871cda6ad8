//! Utilities that several crates share: sizes and times as people write them, dates, locks, tables
//! divided among locks, a timer, sets of bytes, random-looking numbers, maps with eviction, files
//! that are replaced as a whole, names that a misspelt one may mean, ranges of addresses, the list
//! of mounts, texts on one line, the waiting time of a thread.

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
