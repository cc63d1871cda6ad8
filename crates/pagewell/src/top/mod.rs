//! What a running process does, live: rates, ratios and latencies of the last interval, drawn as
//! sparklines, and the procedures that were called.
//!
//! Two snapshots of `/stat.json` make one [`measure::Look`]; [`history`] remembers the last looks;
//! [`screen`] draws them on a terminal and [`text`] writes one of them for scripts.

pub(crate) mod history;
pub(crate) mod measure;
pub(crate) mod screen;
pub(crate) mod terminal;
pub(crate) mod text;

#[cfg(test)]
mod tests;
