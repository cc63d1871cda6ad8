//! What a running process does, live: rates, ratios and latencies of the last interval, drawn as
//! sparklines, and the procedures that were called.
//!
//! Two snapshots of `/stat.json` make one [`measure::Look`]; [`screen`] remembers the last looks
//! and draws them on a terminal, [`text`] writes one of them for scripts.

pub mod measure;
pub mod screen;
pub mod text;

#[cfg(test)]
mod tests;
