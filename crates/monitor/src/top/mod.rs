//! Live view of a running process: rates, ratios and latencies of the last interval as sparklines,
//! and the called procedures.
//!
//! Two snapshots of `/stat.json` make a [`measure::Look`]; [`screen`] keeps the last ones and draws
//! them on a terminal, [`text`] writes one for scripts.

pub mod measure;
pub mod screen;
pub mod text;

#[cfg(test)]
mod tests;
