//! An NFS version 3 client that only makes load.
//!
//! Each connection has a thread and keeps a fixed number of calls in flight. The client must cost
//! little, as on one machine it takes processor time from the server it measures:
//!
//! ```text
//!            free slots                one send for all of them
//!   Generator ------> Slots ------> Outgoing ======> socket
//!       ^               |                              |
//!       | what follows  | call of the xid              | large receives
//!       +---------- Worker <------- Incoming <=========+
//!                             heads of replies; file data is dropped where it was received
//! ```
//!
//! A real client does more with replies, so the rates are those of the server and the network, not
//! of a mounted file system. Weakness: a closed loop. A slow reply delays the next call of its
//! slot, so latencies are those at a fixed depth, not at a fixed rate.

mod client;
mod error;
mod generator;
mod incoming;
mod outgoing;
mod pattern;
mod plan;
mod slots;
mod worker;
mod workload;

pub use error::LoadError;
pub use pattern::{pattern, write_pattern_file};
pub use plan::{Load, Measurement, Target, remove, run};
pub use slots::DEPTH_MAX;
pub use workload::Workload;
