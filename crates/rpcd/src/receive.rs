//! From bytes on a socket to calls.

mod ending;
mod following;
pub mod reader;
pub mod readers;
pub mod receiver;
