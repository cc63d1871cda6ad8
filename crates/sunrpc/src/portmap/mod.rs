//! The port mapper, version 2 (RFC 1833 section 3): which program listens on which port.

mod client;
mod messages;

pub use client::{Address, Client, ClientError};
pub use messages::{
    DumpReply, Mapping, PORT, PROGRAM, PROTOCOL_TCP, PROTOCOL_UDP, Procedure, VERSION,
};
