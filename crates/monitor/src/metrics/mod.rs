//! The numbers of this process, for Prometheus, for programs and for people.

mod buffers;
#[cfg(test)]
mod document_tests;
mod nfsstat;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod text;

pub use snapshot::Snapshot;
