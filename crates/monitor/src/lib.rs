//! What a running process tells of itself, and those that ask.
//!
//! ```text
//!   counters, histograms ──> [`metrics`] ──> a snapshot: as a table, as JSON, for Prometheus
//!                               ├─ [`http`]     to programs and browsers, with what was
//!                               ├─ [`control`]  to another `pagewell` of the same user
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
