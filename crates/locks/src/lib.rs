//! File locks of network clients: pure rules, without clocks, threads and sockets.
//!
//! ```text
//!   [`table`]    byte ranges of files: what is held, what is waited for, what is offered
//!     └ [`file`], [`range`], [`owner`]
//!   [`shares`]   DOS share modes
//!   [`records`]  clients that hold locks, on disk, for the next life of the server
//! ```

pub mod file;
pub mod owner;
pub mod range;
pub mod records;
pub mod shares;
pub mod table;
#[cfg(test)]
mod testing;
