//! From runs to lines for people, rows for programs and tables for documents.

mod row;
mod units;

pub use row::{line, micro_per_operation, row, seconds_per_gib};
pub use units::{bytes, rate};
