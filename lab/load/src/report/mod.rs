//! From runs to lines for people, rows for programs and tables for documents.

mod machine;
mod row;
mod units;

pub use machine::machine;
pub use row::{line, micro_per_operation, row};
pub use units::{bytes, rate};
