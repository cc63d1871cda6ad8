//! Who may come in, and how much each may have of what there is one of for all.
//!
//! [`door`] accepts connections on a thread of its own. What no export allows is closed at once;
//! others take one of the [`places`], of which each address has its [`share`]. [`refusals`] tells
//! the operator who was turned away and why. [`descriptors`] says how many places there can be.

pub mod descriptors;
pub mod door;
pub mod places;
pub mod refusals;
pub mod share;
