//! One object that is held open.
//!
//! An object is one descriptor that only names it (`O_PATH`: no permission needed, no side
//! effects on devices and pipes) and, once they were needed, one for reading and one for reading
//! and writing. While any of them is open the kernel cannot reuse the inode number.
//!
//! Weak cache consistency data is true when nothing comes between the two looks at an object but
//! the change that lies between them. Changes of contents (those of a directory are its names) and
//! of attributes exclude each other, as the kernel has writes of one file exclude each other, too.
//! What also touches an object, a change of its own names, is detected by counting: it announces
//! itself before its first look and retires after its last; the first look of others counts only
//! when nobody was announced in between.
//!
//! The kernel moves the times of a file first and copies the bytes of a write afterwards. A client
//! that sees the new times meanwhile, and reads the old bytes, takes them for the new ones for
//! ever. So while a write is at work, lookers see how the file was before it.

use super::status::{Node, Status, mixed};
use super::syncs::Syncs;
use super::{Tree, error_of};
use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_counters::names;
use pagewell_fs::{Change, Entry, Error, FileId, FileType, OpenFile, Result, Timestamp};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// An object held open.
pub(super) struct Object {
    pub(super) id: FileId,
    pub(super) node: Node,
    pub(super) file_type: FileType,
    name: Descriptor,
    read: OnceLock<Descriptor>,
    write: OnceLock<Descriptor>,
    marked: AtomicBool,
    /// Whether there may be data that no sync has covered yet.
    unsynced: AtomicBool,
    pub(super) syncs: Syncs,
    /// How many programs have it open.
    holds: AtomicUsize,
    pub(super) changes: Changes,
    /// When it was last asked whether it is in the export, and its change time then.
    asked: AtomicU64,
    asked_changed: AtomicU64,
    /// Held by a change of contents or attributes from its first look to its last.
    pub(super) contents: Mutex<()>,
    /// How it was before the write that is at work.
    before_write: Mutex<Option<Status>>,
    /// Whether there is one.
    is_written: AtomicBool,
    /// Whether it has an access control list, beside its change time when that was found.
    acl: AtomicU64,
}

/// A descriptor that is counted while an object holds it.
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
    /// An object behind a descriptor that may only name it.
    pub(super) fn new(id: FileId, status: &Status, name: OpenFile) -> Self {
        Self {
            id,
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

    /// One look at the object, which may have no names any more.
    pub(super) fn status(&self) -> Result<Status> {
        Status::of(self)
    }

    /// Whether it was asked in this turn where it is.
    pub(super) fn was_asked(&self, turn: u64) -> bool {
        self.asked.load(Ordering::Relaxed) == turn
    }

    /// It was found in the export, in this turn.
    pub(super) fn set_asked(&self, turn: u64, status: &Status) {
        self.asked_changed
            .store(mixed(status.attributes.changed), Ordering::Relaxed);
        self.asked.store(turn, Ordering::Relaxed);
    }

    /// Whether it may have been moved since it was asked where it is.
    pub(super) fn may_have_moved(&self, status: &Status) -> bool {
        self.is_directory()
            && self.asked_changed.load(Ordering::Relaxed) != mixed(status.attributes.changed)
    }

    /// A program opens it.
    pub(super) fn hold(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    /// A program is done with it. Returns whether it was the last.
    pub(super) fn release(&self) -> bool {
        self.holds.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(super) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// Whether it can be opened, for what is asked of its descriptor: that has no effects.
    pub(super) fn can_open(&self) -> bool {
        matches!(self.file_type, FileType::Regular | FileType::Directory)
    }

    /// Adds a descriptor for writing that was opened elsewhere.
    pub(super) fn keep_write(&self, file: OpenFile) {
        let _ = self.write.set(Descriptor::new(file));
    }

    /// Marks the object as used since the hand of the cache last passed.
    pub(super) fn mark(&self) {
        // Most often it is: then nothing is written that other threads use.
        if !self.marked.load(Ordering::Relaxed) {
            self.marked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was marked; it is not any more.
    pub(super) fn unmark(&self) -> bool {
        self.marked.swap(false, Ordering::Relaxed)
    }

    /// The file open for writing, if it is.
    pub(super) fn write_if_open(&self) -> Option<&OpenFile> {
        self.write.get().map(Descriptor::file)
    }

    /// The object open for reading, if it is; a file may be open for writing, too.
    pub(super) fn read_if_open(&self) -> Option<&OpenFile> {
        let opened = self.read.get().or_else(|| self.write.get());
        opened.map(Descriptor::file)
    }

    /// Opens a file or directory for reading, with the identity of the thread.
    pub(super) fn open_to_read(&self) -> Result<&OpenFile> {
        let opened = match self.is_directory() {
            true => open_directory(self.as_fd())?,
            false => self.reopen(OFlags::RDONLY)?,
        };
        Ok(keep(&self.read, opened))
    }

    /// Opens a file for reading and writing, with the identity of the thread.
    pub(super) fn open_to_write(&self) -> Result<&OpenFile> {
        Ok(keep(&self.write, self.reopen(OFlags::RDWR)?))
    }

    /// Opens the same inode again. Only for regular files: they cannot block or have effects.
    pub(super) fn reopen(&self, access: OFlags) -> Result<OpenFile> {
        self.file_type.expect_regular()?;
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(self.link(), flags, Mode::empty()).map_err(error_of)?;
        Ok(OpenFile::new(file))
    }

    /// A path that leads to the object and nowhere else.
    pub(super) fn link(&self) -> String {
        link_to(self.as_fd())
    }

    /// A write begins, of a thread that holds the contents; it ends when what is returned is
    /// dropped. From here on there is data that no sync has covered.
    pub(super) fn begin_write(&self, before: &Status) -> Writing<'_> {
        self.set_unsynced(true);
        let mut before = *before;
        before.attributes.may_be_kept = false; // they lack this write
        *self.before_write.lock() = Some(before);
        self.is_written.store(true, Ordering::SeqCst);
        Writing(self)
    }

    /// What lookers see that found this: see the top of the file.
    pub(super) fn settled(&self, status: Status) -> Status {
        if !self.is_written.load(Ordering::SeqCst) {
            return status;
        }
        self.before_write.lock().unwrap_or(status)
    }

    /// What others are told of it after that look.
    pub(super) fn entry(&self, status: &Status) -> Entry {
        Entry {
            id: self.id,
            attributes: self.settled(*status).attributes,
        }
    }

    /// Notes that there is data which only a sync makes durable.
    pub(super) fn set_unsynced(&self, unsynced: bool) {
        self.unsynced.store(unsynced, Ordering::Release);
    }

    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// What was found about an access control list when the object was last changed at `changed`.
    pub(super) fn known_acl(&self, changed: Timestamp) -> Option<bool> {
        let known = self.acl.load(Ordering::Relaxed);
        (known & !HAS_ACL == acl_key(changed)).then_some(known & HAS_ACL != 0)
    }

    pub(super) fn remember_acl(&self, changed: Timestamp, has: bool) {
        let has = if has { HAS_ACL } else { 0 };
        self.acl.store(acl_key(changed) | has, Ordering::Relaxed);
    }
}

/// In what is known of an access control list: that there is one, and that anything is known.
const HAS_ACL: u64 = 1;
const KNOWN_ACL: u64 = 2;

fn acl_key(changed: Timestamp) -> u64 {
    mixed(changed) << 2 | KNOWN_ACL // some 146 years fit
}

/// A write at work.
pub(super) struct Writing<'a>(&'a Object);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.is_written.store(false, Ordering::SeqCst);
        *self.0.before_write.lock() = None;
        // again: a commit that ran meanwhile has taken the mark away
        self.0.set_unsynced(true);
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.name.file().as_fd()
    }
}

fn keep(slot: &OnceLock<Descriptor>, opened: OpenFile) -> &OpenFile {
    // of two threads that opened, one descriptor stays and the other is closed here
    slot.get_or_init(|| Descriptor::new(opened)).file()
}

/// Opens a directory for listing and syncing, with the identity of the thread.
pub(super) fn open_directory(directory: BorrowedFd<'_>) -> Result<OpenFile> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(directory, c".", flags, Mode::empty()) {
        // looking up `.` needs permission to search, which listing does not
        Err(Errno::ACCESS) => rustix::fs::open(link_to(directory), flags, Mode::empty()),
        opened => opened,
    };
    opened.map(OpenFile::new).map_err(error_of)
}

/// A path that leads to what is open as `fd` and nowhere else.
pub(super) fn link_to(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Counts changes in flight, see the top of the file.
#[derive(Default)]
pub(super) struct Changes {
    begun: AtomicU64,
    running: AtomicU64,
}

/// A change in flight; retires when dropped.
pub(super) struct Running<'a> {
    changes: &'a Changes,
    first: u64,
    alone: bool,
}

impl Changes {
    /// Announces a change, before the first look.
    pub(super) fn begin(&self) -> Running<'_> {
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
    /// After the last look: whether no other change was announced meanwhile.
    pub(super) fn was_alone(&self) -> bool {
        let begun = self.changes.begun.load(Ordering::SeqCst);
        self.alone && begun == self.first.wrapping_add(1)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.changes.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A change of an object's contents or attributes that has begun; it keeps others out.
pub(super) struct Changing<'a> {
    object: &'a Object,
    running: Running<'a>,
    _locked: MutexGuard<'a, ()>,
    /// How the object was before.
    pub(super) before: Status,
}

impl Tree {
    /// Begins a change with the first look. [`Error::WouldBlock`] where another one is at work and
    /// the caller must not wait for it.
    pub(super) fn begin_change<'a>(
        &self,
        object: &'a Object,
        may_wait: bool,
    ) -> Result<Changing<'a>> {
        let locked = match may_wait {
            true => Some(object.contents.lock()),
            false => object.contents.try_lock(),
        };
        let locked = locked.ok_or(Error::WouldBlock)?;
        let running = object.changes.begin();
        Ok(Changing {
            object,
            running,
            _locked: locked,
            before: self.look(object, may_wait)?,
        })
    }
}

impl Changing<'_> {
    /// Ends it with the last look: what a client learns of it.
    pub(super) fn end(self) -> Change {
        let after = self.object.status().ok();
        let alone = self.running.was_alone();
        Change {
            before: alone.then(|| self.before.attributes.wcc()),
            after: after.map(|status| status.attributes),
        }
    }
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
}
