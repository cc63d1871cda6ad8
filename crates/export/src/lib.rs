//! What a server serves: exports, their clients and users, handles, and the directories above
//! exports.

pub mod config;
pub mod cookies;
pub mod ending;
pub mod exports;
pub mod faults;
pub mod handles;
pub mod pseudo_tree;
pub mod report;
pub mod shown;

/// Why exports are invalid, alone or together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);
