//! The transport of a server of ONC RPC: sockets, records, memory for requests, threads that may
//! wait for storage, replies, and what clients and exports may have.
//!
//! The life of a call: a [reader](receive::reader) receives bytes, a [receiver](receive::receiver)
//! finds the record in them, the [`program`] answers it. A hit is answered there and then, into
//! the block of replies that leaves with one system call ([`reply`]). What may wait goes to the
//! [`pool`]. What a record means is known to the program alone.

pub mod acceptor;
pub mod answer;
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
