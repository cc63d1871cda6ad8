//! The same cases on several servers, in turn.
//!
//! Problem: the machine is small and shared, and its other work changes from second to second.
//! Rule: in every round each server does the case once, so that the runs of a round see nearly the
//! same machine; a ratio is taken inside a round, and the median of the ratios is reported with the
//! lowest and the highest. Every other round goes backwards, so that no server profits from being
//! first.
//!
//! ```text
//!   case 1:  A B  B A  A B  B A  A B      ratio of each pair, then their median
//!   case 2:  A B  B A  ...
//! ```
//!
//! Beside the first server, which is in question, and its peers there may be bare servers
//! ([`crate::limit`]), which show what the machine lets through: they take part where the first is
//! judged by that. System calls are counted in short runs of their own, as counting takes time.
//!
//! Weakness: five pairs say little about 3 %; a median near 1 with a spread around it is a tie.

mod case;
mod document;
mod required;
mod rounds;
mod table;
mod verdict;

pub use case::{Case, Rate, memory_case, prepare_directory, serve_cases};
pub use document::replace_between;
pub use required::{Beside, Measure, Required};
pub use rounds::{CaseResult, Plan, Server, compare, warm};
pub use table::{rows, table};
pub use verdict::verdicts;
