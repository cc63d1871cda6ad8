//! Disc images: which of their trees is served, and what the others have.
//!
//! The readers of formats know their own trees; this crate compares them.
//!
//! ```text
//! bytes ──┬─ source-iso: Rock Ridge, 1999, Joliet, plain ─┐
//!         └─ source-udf ──────────────────────────────────┴─ choose ──> one tree, and notes
//! ```

mod check;
mod choose;
mod compare;
mod open;
mod options;
mod owner;
mod paths;

pub use check::{Counts, Depth, Tick, Troubles, Unshown, Walked};
pub use choose::TreeFound;
pub use open::{Disc, TreeChecked};
pub use options::{DiscOptions, OPTIONS, TreeName};
pub use owner::Owner;
