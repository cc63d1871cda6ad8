//! From bytes on a socket to calls.

pub mod reader;
pub mod readers;
pub mod receiver;
