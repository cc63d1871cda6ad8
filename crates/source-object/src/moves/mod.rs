//! Other names for objects: a store has no rename, so an object is copied if the target is as it
//! was seen, and then its source is deleted if it is what was copied.
//!
//! ```text
//!   file        GET + PUT (or parts that the store copies) ──> DELETE
//!   directory   list ──> intent ──> files, as above, several at a time ──> markers
//!                                   ──> list again: what came meanwhile ──> no intent
//! ```
//!
//! `CopyObject` is not used: stores ignore its condition on the target. Each object is in one of
//! both places at any time, whatever dies. No target is removed again, since another gateway may
//! have made the same bytes there; a source that changes meanwhile is copied once more, over the
//! copy.
//!
//! A directory is moved object by object, which others see. After a mover died, the next rename
//! from and to the same names goes on by the intent that is left: copies name the version of their
//! source, so of an object with such a copy only the source has to be deleted.
//!
//! Known weaknesses: the media type and other HTTP headers of an object are lost. A change of
//! metadata alone, which leaves the ETag as it is, is lost between copy and delete. A directory's
//! rename that goes on does not ask for an empty target.

mod directory;
mod failure;
mod file;
mod intent;
#[cfg(test)]
mod tests;

pub(crate) use directory::Limits;
#[cfg(test)]
use directory::Moved;
pub(crate) use failure::Failure;
pub(crate) use file::{Carried, Mover};
#[cfg(test)]
use intent::Intent;
pub(crate) use intent::unfinished;
