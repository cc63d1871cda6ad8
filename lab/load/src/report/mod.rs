//! Runs as lines for people, rows for programs and tables for documents.

mod machine;
mod row;
mod table;
mod units;
mod verdict;

pub use machine::machine;
pub use row::{line, micro_per_operation, row};
pub use table::{Column, Table};
pub use units::{bytes, rate};
pub use verdict::{Outcome, Verdict};
