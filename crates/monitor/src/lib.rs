//! A running process' description of itself, and its readers.
//!
//! ```text
//!   counters, histograms ──> [`metrics`] ──> a snapshot: as a table, as JSON, for Prometheus
//!                               ├─ [`http`]     for programs and browsers, with a history
//!                               ├─ [`control`]  for another `pagewell` of the same user
//!                               └─ [`top`]      two of them, live on a terminal
//! ```

mod acceptor;
pub mod control;
mod history;
pub mod http;
pub mod metrics;
pub mod plotting;
pub mod status;
#[cfg(test)]
mod testing;
pub mod top;
