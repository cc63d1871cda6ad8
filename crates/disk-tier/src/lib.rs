//! Pages of remote objects on a disk of this machine, behind memory: what was fetched once is there
//! after a restart. Names and attributes are not: they are believed for seconds, and asked for
//! again whatever the disk has. A listing of 10,000 names is ten requests.
//!
//! ```text
//!   DIR/pages   slots of 64 KiB, each a page of one version of one object, or anything
//!   DIR/index   a block that says what this is; then a record of 64 bytes for each slot
//! ```
//!
//! **Never wrong bytes.** A page is named by a hash of its object *and version* and by its number;
//! the record has that name and a checksum over name and bytes. Each read compares it. Whatever a
//! crash, a full disk or a flipped bit leaves in a slot is a miss, and so is a record without its
//! page: data and record are written without waiting for either, in that order, and nothing is ever
//! flushed.
//!
//! **Eviction** is second chance: a hand goes over the slots, takes back the mark of a slot that
//! was read since it came by, and gives the first without one to a new page. One bit for each slot,
//! no list, and what is read once does not push out what is read again.
//!
//! **Bounds.** The two files have the size that was asked for; memory is some 80 bytes for each
//! slot, a thousandth of it. Pages on their way to the disk are at most [`WRITING_PAGES_MAX`]; more
//! are not kept.
//!
//! **Why not `foyer`.** It keeps entries of any length in a log of regions behind a memory cache of
//! its own, on tokio. Here the memory in front is the page cache, all entries have one length, and
//! the rings of `device` carry them: fixed slots need no log, no cleaning and no second copy in
//! memory.
//!
//! **Known weaknesses.** Parts of pages are not kept. One process has the folder. Versions are told
//! apart by what uses the tier: what may look alike, as without a strong tag, it must not bring.

mod index;
mod record;
mod tier;
mod version;

pub use record::{PAGE_BYTES, PageName};
pub use tier::{Tier, WRITING_PAGES_MAX};
pub use version::{TierVersion, fill};
