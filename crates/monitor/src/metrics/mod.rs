//! The numbers of this process, for Prometheus, programs and people.

mod clients;
#[cfg(test)]
mod document_tests;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod text;

pub use clients::{Client, ExportUse};
pub use snapshot::Snapshot;
