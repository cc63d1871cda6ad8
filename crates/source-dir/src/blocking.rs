//! What a thread that may not wait for storage answers itself.
//!
//! - *any call*: only on a file system whose inodes the kernel itself knows ([`knows_inodes`]; not
//!   FUSE or NFS), and only for an object that is held open.
//! - *attributes, access, statistics*: always; inodes of held objects and counts are in memory.
//! - *lookup*: when the kernel has the name in its caches (`RESOLVE_CACHED`).
//! - *read*: always; the front reads the bytes with `RWF_NOWAIT`.
//! - *read_link*: when the target is short, and so in the inode.
//! - *write*: unstable, into a file open for writing, whole pages or past the end, so that it reads
//!   nothing. Another thread would cost six system calls and 50 % more processor time.
//! - *the rest*: never; it changes metadata, lists a directory or syncs.
//!
//! Weakness: the kernel stalls a write, and its thread, when too much memory is dirty. Then and for
//! a while after it, writes go to threads that may wait ([`HeldWrites`]): one or two threads stall,
//! once a second at most. A frozen file system (`fsfreeze`) stalls them until it is thawed. A
//! stacked one (overlay) counts as local, whatever is below it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_fs::{Call, Error, Result, Stability};

use super::identifier;
use super::object::{Object, Status};

/// ext4 keeps targets below 60 bytes in the inode, XFS and others longer ones.
const INLINE_TARGET_BYTES_MAX: u64 = 59;
/// A longer write was stalled: the largest takes half a millisecond, and preemption some.
const HELD_AFTER: Duration = Duration::from_millis(20);
/// For so long writes then go to threads that may wait.
const HANDED_OVER_FOR: Duration = Duration::from_secs(1);
const PAGE_BYTES: u64 = 4096;

/// Whether such a file system is on a disk of this machine or in its memory.
pub(super) fn knows_inodes(magic: i64) -> bool {
    const NUMBERS: [i64; 19] = [
        identifier::EXT4_MAGIC, // ext2 and ext3, too
        identifier::XFS_MAGIC,
        identifier::BTRFS_MAGIC,
        identifier::TMPFS_MAGIC,
        identifier::RAMFS_MAGIC,
        identifier::OVERLAY_MAGIC,
        0xca45_1a4e, // bcachefs
        0xf2f5_2010, // F2FS
        0x2fc1_2fc1, // ZFS
        0x3153_464a, // JFS
        0x3434,      // NILFS2
        0x2405_1905, // UBIFS
        0x4d44,      // FAT
        0x2011_bab0, // exFAT
        0x7366_746e, // NTFS3
        0x9660,      // ISO 9660
        0x1501_3346, // UDF
        0x7371_7368, // SquashFS
        0xe0f5_e1e2, // EROFS
    ];
    NUMBERS.contains(&magic)
}

pub(super) fn may_wait(call: &Call<'_>) -> Result<()> {
    Error::WouldBlock.unless(call.may_block)
}

pub(super) fn may_read_target(call: &Call<'_>, status: &Status) -> Result<()> {
    let is_short = status.attributes.size <= INLINE_TARGET_BYTES_MAX;
    Error::WouldBlock.unless(call.may_block || is_short)
}

pub(super) struct HeldWrites {
    since: Instant,
    /// Nanoseconds after `since`.
    until: AtomicU64,
    /// Start of one of the running writes, counted from one; zero without any.
    running: AtomicU64,
}

pub(super) struct InlineWrite<'a> {
    held: &'a HeldWrites,
    began: Instant,
    stands_for_all: bool,
}

impl HeldWrites {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            until: AtomicU64::new(0),
            running: AtomicU64::new(0),
        }
    }

    /// Begins a write of a receiving thread. While it is stalled, other threads do not follow it.
    pub(super) fn begin(&self, began: Instant) -> InlineWrite<'_> {
        let number = self.number(began).saturating_add(1);
        let (relaxed, running) = (Ordering::Relaxed, &self.running);
        let first = running.compare_exchange(0, number, relaxed, relaxed);
        InlineWrite {
            held: self,
            began,
            stands_for_all: first.is_ok(),
        }
    }

    pub(super) fn are_likely(&self, now: Instant) -> bool {
        let now = self.number(now);
        let running = self.running.load(Ordering::Relaxed);
        let longest = u64::try_from(HELD_AFTER.as_nanos()).unwrap_or(u64::MAX);
        now < self.until.load(Ordering::Relaxed)
            || (running > 0 && now.saturating_sub(running) >= longest)
    }

    fn number(&self, time: Instant) -> u64 {
        let after = time.saturating_duration_since(self.since);
        u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Drop for InlineWrite<'_> {
    fn drop(&mut self) {
        if self.stands_for_all {
            self.held.running.store(0, Ordering::Relaxed);
        }
        let ended = Instant::now();
        if ended.saturating_duration_since(self.began) >= HELD_AFTER {
            let until = self.held.number(ended + HANDED_OVER_FOR);
            self.held.until.store(until, Ordering::Relaxed);
        }
    }
}

pub(super) fn may_write(
    call: &Call<'_>,
    object: &Object,
    status: &Status,
    offset: u64,
    length: usize,
    stability: Stability,
) -> Result<()> {
    let end = offset.saturating_add(length as u64);
    // A page written in part must be read first, unless nothing in it is kept.
    let first_page = offset - offset % PAGE_BYTES;
    let starts_clean = first_page == offset || first_page >= status.attributes.size;
    let ends_clean = end.is_multiple_of(PAGE_BYTES) || end >= status.attributes.size;
    let inline = stability == Stability::Unstable
        && object.write_if_open().is_some()
        && starts_clean
        && ends_clean;
    Error::WouldBlock.unless(call.may_block || inline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_held_back_sends_others_elsewhere_for_a_while() {
        let held = HeldWrites::new();
        let now = Instant::now();
        assert!(!held.are_likely(now));
        let first = held.begin(now);
        let second = held.begin(now);
        assert!(!held.are_likely(now), "they have only begun");
        assert!(held.are_likely(now + 2 * HELD_AFTER), "they do not end");
        drop((first, second));
        // The test may have taken long itself, but no second.
        assert!(
            !held.are_likely(now + 2 * HANDED_OVER_FOR),
            "they were short"
        );
        std::thread::sleep(2 * HELD_AFTER);
        drop(held.begin(now));
        let ended = Instant::now();
        assert!(held.are_likely(ended), "one was long");
        assert!(!held.are_likely(ended + HANDED_OVER_FOR));
    }
}
