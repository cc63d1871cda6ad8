//! What a running process does, live: rates, ratios and latencies of the last interval, drawn as
//! sparklines, and the procedures that were called.
//!
//! Two snapshots of `/stat.json` make one [`measure::Look`]; [`history`] remembers the last looks;
//! [`screen`] draws them on a terminal and [`text`] writes one of them for scripts.

pub mod history;
pub mod measure;
pub mod screen;
pub mod text;

#[cfg(test)]
mod tests;
