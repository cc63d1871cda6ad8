//! Live view of a running process.
//!
//! Two snapshots of `/stat.json` make a [`measure::Look`]; [`screen`] draws the last ones on a
//! terminal, [`text`] writes one for scripts.

pub mod measure;
pub mod screen;
pub mod text;

#[cfg(test)]
mod tests;
