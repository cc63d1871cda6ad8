//! Pages of remote objects on a disk of this machine, behind memory: what was fetched is there
//! after a restart. Names and attributes are not: they are asked for again after seconds, 10,000
//! names by ten requests.
//!
//! ```text
//!   DIR/pages   slots of 64 KiB, each a page of one version of one object, or anything
//!   DIR/index   a block that says what this is; then a record of 64 bytes for each slot
//! ```
//!
//! **Never wrong bytes.** A page is named by a hash of its object *and version* and by its number;
//! the record has a checksum over name and bytes, which each read compares. Whatever a crash, a
//! full disk or a flipped bit leaves in a slot is a miss, and so is a record without its page: data
//! and record are written in that order, and never flushed.
//!
//! **Eviction** is second chance: a hand goes over the slots, takes back the marks of those read
//! since, and gives the first without one to a new page. One bit for each slot, and what is read
//! once does not push out what is read again.
//!
//! **Bounds.** The two files have the given size; memory is some 80 bytes for each slot, a
//! thousandth of it. At most [`WRITING_PAGES_MAX`] pages are on their way to the disk; more are not
//! kept.
//!
//! **Why not `foyer`.** It keeps entries of any length in a log behind a memory cache of its own,
//! on tokio. Here the memory in front is the page cache, and all entries have one length: fixed
//! slots need no log, no cleaning and no second copy.
//!
//! **Known weaknesses.** Parts of pages are not kept. One process has the folder. The tier's user
//! tells versions apart: it must not bring what may look alike, as without a strong tag.

mod index;
mod record;
mod tier;
mod version;

pub use record::{PAGE_BYTES, PageName};
pub use tier::{Tier, WRITING_PAGES_MAX};
pub use version::{TierVersion, fill};
