//! What every crate needs one of: sizes and times as people write them, dates, locks, tables
//! divided among locks, a timer, sets of bytes, numbers that look random, a map that forgets, files
//! that are replaced as a whole, ranges of addresses, the list of mounts, what is said to people on
//! one line, how long a thread has waited.

pub mod calendar;
pub mod clock;
mod decimal;
pub mod duration;
pub mod files;
pub mod line;
pub mod mix;
pub mod mounts;
pub mod network;
pub mod shards;
pub mod size;
pub mod spans;
pub mod sync;
pub mod timer;
pub mod waits;
