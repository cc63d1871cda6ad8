//! The numbers of this process, for Prometheus, programs and people.

mod clients;
#[cfg(test)]
mod document_tests;
mod prices;
pub mod prometheus;
pub mod snapshot;
pub mod table;
pub mod text;

pub use clients::{Client, ExportUse};
pub use prices::{Prices, set_prices};
pub use snapshot::Snapshot;
