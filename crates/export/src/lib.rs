//! What a server serves: exports, who may use them and as which user, the handles of their objects,
//! and the directories above them. It knows no protocol: results are those of file systems.

pub mod config;
pub mod cookies;
pub mod ending;
pub mod exports;
pub mod faults;
pub mod handles;
pub mod in_force;
pub mod pseudo_tree;
pub mod report;
pub mod shown;

/// Exports that make no sense, alone or together: what is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);
