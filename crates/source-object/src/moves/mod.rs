//! Other names for objects: a store has no rename, so an object is copied under the condition that
//! the target is as it was seen, and then its source is deleted under the condition that it is what
//! was copied.
//!
//! ```text
//!   file        GET + PUT (or parts that the store copies) ──> DELETE
//!   directory   list ──> intent ──> files, as above, several at a time ──> markers
//!                                   ──> list again: what came meanwhile ──> no intent
//! ```
//!
//! `CopyObject` is not used: stores ignore its condition on the target. Each object is in one of
//! both places at any time, whatever dies. No target is ever removed again: another gateway may
//! have made the same bytes there, which no condition can tell apart. So a source that changes in
//! between is copied once more, over the copy.
//!
//! A directory is moved object by object, which others see. One whose mover died goes on with the
//! next rename from and to the same names, since an intent is left: copies name the version that
//! they are of, and of an object with such a copy only the source has to be deleted.
//!
//! Known weaknesses: the media type and other words of HTTP about an object are not kept. A change
//! of metadata alone, which leaves the ETag as it is, is lost when it comes between copy and
//! delete. A rename of a directory that goes on does not ask for the target to be empty.

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
pub(crate) use file::Mover;
#[cfg(test)]
use intent::Intent;
pub(crate) use intent::unfinished;
