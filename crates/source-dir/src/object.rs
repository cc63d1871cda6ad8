//! One object that is held open, and one look at it.
//!
//! An object is one descriptor that only names it (`O_PATH`: no permission needed, no side effects
//! on devices and pipes) and, at their first use, one for reading and one for reading and writing.
//! While any of them is open the kernel cannot reuse the inode number.
//!
//! For true weak cache consistency data, changes of contents (names, for a directory) and of
//! attributes exclude each other ([`Object::exclude`]). A change of the object's own names
//! ([`Object::touch`]) announces itself before its first look and retires after its last; a first
//! look counts only when no other change was announced.
//!
//! The kernel moves the times of a file before it copies the bytes of a write. A client that sees
//! the new times and reads the old bytes would keep them for ever. So during a write, other calls
//! see the file as before it.

use super::syncs::Syncs;
use super::system::error_of;
use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;
use pagewell_fs::{
    Attributes, Change, Entry, Error, FileId, FileType, OpenFile, Result, Timestamp,
};
use rustix::fs::{
    AtFlags, Mode, OFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp, makedev,
};
use rustix::io::Errno;
use rustix::path::Arg;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The slowest kernels tick every 10 ms.
const SETTLED_NANOSECONDS: i128 = 20_000_000;
/// For times of whole seconds (ext3, ext4 with small inodes), or of even ones (FAT).
const COARSE_SETTLED_NANOSECONDS: i128 = 2_000_000_000 + SETTLED_NANOSECONDS;
pub(super) struct Object {
    id: FileId,
    /// The common part of the object's identifiers.
    key: FileId,
    node: Node,
    file_type: FileType,
    name: Descriptor,
    read: OnceLock<Descriptor>,
    write: OnceLock<Descriptor>,
    marked: AtomicBool,
    /// Data may exist that no sync has covered.
    unsynced: AtomicBool,
    syncs: Syncs,
    holds: AtomicUsize,
    changes: Changes,
    /// The turn of its last check to be in the export, and its change time then.
    asked: AtomicU64,
    asked_changed: AtomicU64,
    /// Held by a change of contents or attributes between its two looks.
    contents: Mutex<()>,
    before_write: Mutex<Option<Status>>,
    is_written: AtomicBool,
    /// Whether it has an access control list, with its change time at that look.
    acl: AtomicU64,
}

pub(super) struct Descriptor(OpenFile);

impl Descriptor {
    pub(super) fn new(file: OpenFile) -> Self {
        names::DIR_OPEN_DESCRIPTORS.add(1);
        Self(file)
    }

    pub(super) fn file(&self) -> &OpenFile {
        &self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        names::DIR_OPEN_DESCRIPTORS.add(-1);
    }
}

impl Object {
    pub(super) fn new(id: FileId, key: FileId, status: &Status, name: OpenFile) -> Self {
        Self {
            id,
            key,
            node: status.node,
            file_type: status.attributes.file_type,
            name: Descriptor::new(name),
            read: OnceLock::new(),
            write: OnceLock::new(),
            marked: AtomicBool::new(true),
            unsynced: AtomicBool::new(false),
            syncs: Syncs::default(),
            holds: AtomicUsize::new(0),
            changes: Changes::default(),
            asked: AtomicU64::new(0),
            asked_changed: AtomicU64::new(0),
            contents: Mutex::default(),
            before_write: Mutex::default(),
            is_written: AtomicBool::new(false),
            acl: AtomicU64::new(0),
        }
    }

    pub(super) fn id(&self) -> &FileId {
        &self.id
    }

    pub(super) fn key(&self) -> &FileId {
        &self.key
    }

    pub(super) fn node(&self) -> Node {
        self.node
    }

    pub(super) fn file_type(&self) -> FileType {
        self.file_type
    }

    pub(super) fn syncs(&self) -> &Syncs {
        &self.syncs
    }

    /// Announces a change of the object's own names; dropping the result retires it.
    pub(super) fn touch(&self) -> Running<'_> {
        self.changes.begin()
    }

    /// Begins a change of contents or attributes. [`Error::WouldBlock`] where another one runs and
    /// the caller must not wait.
    pub(super) fn exclude(&self, may_wait: bool) -> Result<Exclusion<'_>> {
        let locked = match may_wait {
            true => Some(self.contents.lock()),
            false => self.contents.try_lock(),
        };
        let locked = locked.ok_or(Error::WouldBlock)?;
        Ok(Exclusion {
            object: self,
            running: self.touch(),
            _locked: locked,
        })
    }

    pub(super) fn status(&self) -> Result<Status> {
        Status::of(self)
    }

    pub(super) fn was_asked(&self, turn: u64) -> bool {
        self.asked.load(Ordering::Relaxed) == turn
    }

    pub(super) fn set_asked(&self, turn: u64, status: &Status) {
        self.asked_changed
            .store(mixed(status.attributes.changed), Ordering::Relaxed);
        self.asked.store(turn, Ordering::Relaxed);
    }

    pub(super) fn may_have_moved(&self, status: &Status) -> bool {
        self.is_directory()
            && self.asked_changed.load(Ordering::Relaxed) != mixed(status.attributes.changed)
    }

    pub(super) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn release(&self) -> bool {
        self.holds.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether opening it has no effects.
    pub(super) fn can_open(&self) -> bool {
        matches!(self.file_type, FileType::Regular | FileType::Directory)
    }

    pub(super) fn keep_write(&self, file: OpenFile) {
        let _ = self.write.set(Descriptor::new(file));
    }

    pub(super) fn mark(&self) {
        // Usually it is: then no shared cache line is written.
        if !self.marked.load(Ordering::Relaxed) {
            self.marked.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn unmark(&self) -> bool {
        self.marked.swap(false, Ordering::Relaxed)
    }

    pub(super) fn write_if_open(&self) -> Option<&OpenFile> {
        self.write.get().map(Descriptor::file)
    }

    pub(super) fn read_if_open(&self) -> Option<&OpenFile> {
        let opened = self.read.get().or_else(|| self.write.get());
        opened.map(Descriptor::file)
    }

    pub(super) fn open_to_read(&self) -> Result<&OpenFile> {
        let opened = match self.is_directory() {
            true => open_directory(self.as_fd())?,
            false => self.reopen(OFlags::RDONLY)?,
        };
        Ok(keep(&self.read, opened))
    }

    pub(super) fn open_to_write(&self) -> Result<&OpenFile> {
        Ok(keep(&self.write, self.reopen(OFlags::RDWR)?))
    }

    /// Only for regular files: they cannot block or have effects.
    pub(super) fn reopen(&self, access: OFlags) -> Result<OpenFile> {
        self.file_type.expect_regular()?;
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(self.link(), flags, Mode::empty()).map_err(error_of)?;
        Ok(OpenFile::new(file))
    }

    pub(super) fn link(&self) -> String {
        link_to(self.as_fd())
    }

    /// Begins a write of a thread that excludes others. From here on there is unsynced data.
    pub(super) fn begin_write(&self, before: &Status) -> Writing<'_> {
        self.set_unsynced(true);
        let mut before = *before;
        before.attributes.may_be_kept = false; // they lack this write
        *self.before_write.lock() = Some(before);
        self.is_written.store(true, Ordering::SeqCst);
        Writing(self)
    }

    /// The status that other calls see.
    pub(super) fn settled(&self, status: Status) -> Status {
        if !self.is_written.load(Ordering::SeqCst) {
            return status;
        }
        self.before_write.lock().unwrap_or(status)
    }

    pub(super) fn entry(&self, status: &Status) -> Entry {
        Entry {
            id: self.id,
            attributes: self.settled(*status).attributes,
        }
    }

    pub(super) fn set_unsynced(&self, unsynced: bool) {
        self.unsynced.store(unsynced, Ordering::Release);
    }

    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Whether there was an access control list at the change time `changed`.
    pub(super) fn known_acl(&self, changed: Timestamp) -> Option<bool> {
        let known = self.acl.load(Ordering::Relaxed);
        (known & !HAS_ACL == acl_key(changed)).then_some(known & HAS_ACL != 0)
    }

    pub(super) fn remember_acl(&self, changed: Timestamp, has: bool) {
        let has = if has { HAS_ACL } else { 0 };
        self.acl.store(acl_key(changed) | has, Ordering::Relaxed);
    }
}

/// Flags in the knowledge of an access control list: it exists; it is known.
const HAS_ACL: u64 = 1;
const KNOWN_ACL: u64 = 2;

fn acl_key(changed: Timestamp) -> u64 {
    mixed(changed) << 2 | KNOWN_ACL // some 146 years fit
}

pub(super) struct Writing<'a>(&'a Object);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.is_written.store(false, Ordering::SeqCst);
        *self.0.before_write.lock() = None;
        // Again: a commit meanwhile has cleared it.
        self.0.set_unsynced(true);
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.name.file().as_fd()
    }
}

fn keep(slot: &OnceLock<Descriptor>, opened: OpenFile) -> &OpenFile {
    // Of two threads that opened, one descriptor is closed here.
    slot.get_or_init(|| Descriptor::new(opened)).file()
}

pub(super) fn open_directory(directory: BorrowedFd<'_>) -> Result<OpenFile> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(directory, c".", flags, Mode::empty()) {
        // Looking up `.` needs permission to search, which listing does not.
        Err(Errno::ACCESS) => rustix::fs::open(link_to(directory), flags, Mode::empty()),
        opened => opened,
    };
    opened.map(OpenFile::new).map_err(error_of)
}

pub(super) fn link_to(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

#[derive(Default)]
struct Changes {
    begun: AtomicU64,
    running: AtomicU64,
}

pub(super) struct Running<'a> {
    changes: &'a Changes,
    first: u64,
    alone: bool,
}

impl Changes {
    fn begin(&self) -> Running<'_> {
        let alone = self.running.fetch_add(1, Ordering::SeqCst) == 0;
        let first = self.begun.fetch_add(1, Ordering::SeqCst);
        Running {
            changes: self,
            first,
            alone,
        }
    }
}

impl Running<'_> {
    /// Asked after the last look.
    fn was_alone(&self) -> bool {
        let begun = self.changes.begun.load(Ordering::SeqCst);
        self.alone && begun == self.first.wrapping_add(1)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.changes.running.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) struct Exclusion<'a> {
    object: &'a Object,
    running: Running<'a>,
    _locked: MutexGuard<'a, ()>,
}

impl Exclusion<'_> {
    pub(super) fn end(self, before: &Status) -> Change {
        let after = self.object.status().ok();
        let alone = self.running.was_alone();
        Change {
            before: alone.then(|| before.attributes.wcc()),
            after: after.map(|status| status.attributes),
        }
    }
}

/// The place of an object, which identifies it while a descriptor of it is open. Its birth time
/// does not: overlayfs changes that of an open object at copy-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Identifies an object of one file system, also among earlier ones with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Inode {
    pub(super) number: u64,
    /// Nanoseconds since 1970, wrapped to 64 bits; 0 where the file system has none. On another
    /// device than the root's, mixed with the number of that file system ([`Inode::of`]).
    pub(super) birth: u64,
}

impl Inode {
    /// The inode of an open object, in an export whose root is on the device `root`.
    ///
    /// Subvolumes of btrfs and their snapshots share numbers and births. The number of the device
    /// of each may change at a restart; that of its file system stays.
    pub(super) fn of(opened: impl AsFd, status: &Status, root: u64) -> Result<Self> {
        let mut inode = Self {
            number: status.node.inode,
            birth: status.birth,
        };
        if status.node.device != root {
            let sizes = rustix::fs::fstatvfs(opened).map_err(error_of)?;
            inode.birth = inode.birth.wrapping_add(spread(sizes.f_fsid));
        }
        Ok(inode)
    }
}

/// A number whose top bits depend on all bits of this one (Fibonacci hashing).
pub(super) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Clone, Copy)]
pub(super) struct Status {
    pub(super) node: Node,
    pub(super) birth: u64,
    /// The mount it was reached through; `None` before Linux 5.8.
    pub(super) mount: Option<u64>,
    /// The root of its mount (Linux 5.8).
    pub(super) is_mount_root: bool,
    /// Immutable or append-only.
    pub(super) is_frozen: bool,
    /// The file system encrypts its names and data (fscrypt).
    pub(super) is_encrypted: bool,
    pub(super) attributes: Attributes,
}

impl Status {
    pub(super) fn of(fd: impl AsFd) -> Result<Self> {
        Self::at(fd, c"", AtFlags::EMPTY_PATH)
    }

    /// Looks at `name` in the directory `fd`, never at a link's target.
    pub(super) fn of_name(fd: impl AsFd, name: &[u8]) -> Result<Self> {
        Self::at(fd, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
    }

    fn at(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<Self> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
        let said = rustix::fs::statx(fd, name, flags, mask).map_err(error_of)?;
        let knows = |what: StatxFlags| said.stx_mask & what.bits() != 0;
        let frozen = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        Ok(Self {
            node: Node {
                device: makedev(said.stx_dev_major, said.stx_dev_minor),
                inode: said.stx_ino,
            },
            birth: match knows(StatxFlags::BTIME) {
                true => mixed(timestamp(&said.stx_btime)),
                false => 0,
            },
            mount: knows(StatxFlags::MNT_ID).then_some(said.stx_mnt_id),
            is_mount_root: said.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            is_frozen: said.stx_attributes.intersects(frozen),
            is_encrypted: said.stx_attributes.contains(StatxAttributes::ENCRYPTED),
            attributes: attributes(&said)?,
        })
    }
}

fn attributes(said: &Statx) -> Result<Attributes> {
    let mode = u32::from(said.stx_mode);
    Ok(Attributes {
        file_type: file_type(mode)?,
        mode: mode & 0o7777,
        link_count: said.stx_nlink,
        uid: said.stx_uid,
        gid: said.stx_gid,
        size: said.stx_size,
        used: said.stx_blocks.saturating_mul(512),
        device: (said.stx_rdev_major, said.stx_rdev_minor),
        filesystem_id: makedev(said.stx_dev_major, said.stx_dev_minor),
        file_id: said.stx_ino,
        accessed: timestamp(&said.stx_atime),
        modified: timestamp(&said.stx_mtime),
        changed: timestamp(&said.stx_ctime),
        may_be_kept: true,
    })
}

fn file_type(mode: u32) -> Result<FileType> {
    Ok(match mode & libc::S_IFMT {
        libc::S_IFREG => FileType::Regular,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFCHR => FileType::CharacterDevice,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFIFO => FileType::Fifo,
        other => return Err(Error::Io(format!("object of unknown type {other:o}"))),
    })
}

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

/// For comparison only.
pub(super) fn mixed(time: Timestamp) -> u64 {
    #[allow(clippy::cast_sign_loss)] // equal times stay equal
    let seconds = time.seconds as u64;
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(time.nanoseconds))
}

pub(super) fn times_of(status: &Status) -> (Timestamp, Timestamp) {
    (status.attributes.modified, status.attributes.changed)
}

/// The times of a directory that was the same before and after a reading, and for longer than the
/// grain of its times.
pub(super) fn settled_times(before: &Status, after: &Status) -> Option<(Timestamp, Timestamp)> {
    let times = times_of(before);
    (is_settled(times, Timestamp::now()) && times == times_of(after)).then_some(times)
}

/// A whole second may be the grain of the file system.
pub(super) fn is_settled((modified, changed): (Timestamp, Timestamp), now: Timestamp) -> bool {
    let is_coarse = modified.nanoseconds == 0 || changed.nanoseconds == 0;
    let grain = if is_coarse {
        COARSE_SETTLED_NANOSECONDS
    } else {
        SETTLED_NANOSECONDS
    };
    nanoseconds(now) - nanoseconds(changed) > grain
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_alone_only_when_no_other_was_announced() {
        let changes = Changes::default();
        let first = changes.begin();
        assert!(first.was_alone());
        drop(first);

        let first = changes.begin();
        let second = changes.begin();
        assert!(!first.was_alone() && !second.was_alone());
        drop(second);
        assert!(!first.was_alone(), "the second one came and went");
        drop(first);

        let third = changes.begin();
        assert!(third.was_alone());
    }

    #[test]
    fn times_of_whole_seconds_prove_nothing_within_their_second() {
        let at = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        let fine = (at(100, 5), at(100, 900_000_000));
        assert!(!is_settled(fine, at(100, 915_000_000)));
        assert!(is_settled(fine, at(100, 925_000_000)));
        let coarse = (at(100, 0), at(100, 0));
        assert!(!is_settled(coarse, at(100, 999_999_999)));
        assert!(!is_settled(coarse, at(101, 999_999_999)));
        assert!(is_settled(coarse, at(102, 30_000_000)));
        // one of the two has only whole seconds
        assert!(!is_settled((at(100, 0), at(101, 500_000_000)), at(102, 0)));
        // the clock was set back
        assert!(!is_settled(fine, at(99, 0)));
    }
}
