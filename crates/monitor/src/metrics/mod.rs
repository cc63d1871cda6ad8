//! The numbers of this process, for Prometheus, for programs and for people.

mod buffers;
mod clients;
#[cfg(test)]
mod document_tests;
mod nfsstat;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod text;

pub use clients::{Client, ExportUse};
pub use snapshot::Snapshot;
