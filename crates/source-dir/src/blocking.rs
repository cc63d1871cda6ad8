//! What a thread that may not wait for storage answers itself: every such decision, in one place.
//!
//! - *any call*: only for an object that is held open; opening one again reads inodes and
//!   directories.
//! - *attributes, access, statistics*: always; the inode of a held object and the counts of a
//!   mounted file system are in memory.
//! - *lookup*: when the kernel finds the name without leaving its caches (`RESOLVE_CACHED`).
//! - *read*: always; it only says where the bytes are, and the front reads with `RWF_NOWAIT`.
//! - *read_link*: when the target is short; it is then in the inode, and a long one in a block.
//! - *write*: unstable, small, into a file open for writing, whole pages or past the end; it then
//!   goes to the page cache and reads nothing.
//! - *the rest*: never; it changes metadata, lists a directory or syncs.
//!
//! Weakness: an unstable write may still be held back by the kernel when too much memory is
//! dirty; it then slows the thread as it would slow a local writer.

use pagewell_fs::{Call, Error, Result, Stability};

use super::object::Object;
use super::status::Status;

/// ext4 keeps targets below 60 bytes in the inode, XFS and others longer ones.
const INLINE_TARGET_BYTES_MAX: u64 = 59;
/// A write of this many bytes takes about as long as handing it to another thread.
const INLINE_WRITE_BYTES_MAX: usize = 32 * 1024;
/// The smallest page of any Linux.
const PAGE_BYTES: u64 = 4096;

/// For what always may wait.
pub(super) fn may_wait(call: &Call<'_>) -> Result<()> {
    if call.may_block {
        Ok(())
    } else {
        Err(Error::WouldBlock)
    }
}

/// For reading the target of a symbolic link.
pub(super) fn may_read_target(call: &Call<'_>, status: &Status) -> Result<()> {
    if status.size() <= INLINE_TARGET_BYTES_MAX {
        Ok(())
    } else {
        may_wait(call)
    }
}

/// For writing `length` bytes at `offset`.
pub(super) fn may_write(
    call: &Call<'_>,
    object: &Object,
    status: &Status,
    offset: u64,
    length: usize,
    stability: Stability,
) -> Result<()> {
    let end = offset.saturating_add(length as u64);
    // a page that is written in part must be read first, unless nothing in it is kept
    let first_page = offset - offset % PAGE_BYTES;
    let starts_clean = first_page == offset || first_page >= status.size();
    let ends_clean = end.is_multiple_of(PAGE_BYTES) || end >= status.size();
    let inline = stability == Stability::Unstable
        && length <= INLINE_WRITE_BYTES_MAX
        && object.write_if_open().is_some()
        && starts_clean
        && ends_clean;
    if inline { Ok(()) } else { may_wait(call) }
}
