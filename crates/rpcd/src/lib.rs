//! A server's ONC RPC transport.
//!
//! A [reader](receive::reader) receives bytes; a [receiver](receive::receiver) finds records; the
//! [`program`], which alone knows their meaning, answers hits at once into a block of
//! [replies](reply) that leaves with one system call. Calls that may block go to the [`pool`].

pub mod acceptor;
pub mod bounds;
pub mod call;
pub mod clients;
pub mod connection;
pub mod datagrams;
pub mod dispatch;
pub mod limits;
pub mod pool;
pub mod program;
pub mod pulse;
pub mod receive;
pub mod refusals;
pub mod reply;
pub mod request_memory;
pub mod server;
pub mod share;
pub mod slow;
pub mod usage;
