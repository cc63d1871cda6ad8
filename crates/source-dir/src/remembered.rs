//! Attributes of listed objects, kept as long as the kernel says that they are true.
//!
//! Problem: a listing with attributes costs a statx and a name_to_handle_at for each name, which
//! is nine tenths of its time; clients list the same directories again and again.
//!
//! Rule: what such a listing has read is remembered by inode number, apart from the names
//! ([`super::kept_names`]). Before a listing uses what is remembered, it reads the kernel's queue
//! of changes ([`super::watch`]) empty and forgets every object named there, so it shows the state
//! of the moment at which it began or a later one, whatever made the change.
//!
//! ```text
//!   listing ──> drain changes ──> forget them ──┐
//!      │                                        v
//!      └─ inode number of a name ──> remembered? ── yes ──> identifier and attributes
//!                                        └── no ──> statx, name_to_handle_at ──> remember
//! ```
//!
//! A change may be drained by another listing between this one's statx and its remembering. So a
//! listing only remembers while nothing has been forgotten since it began.
//!
//! Constants: [`KEPT_FOR`] bounds what the kernel does not report (stores through shared mappings,
//! access times, block counts of delayed allocation). Setting an access time alone is reported as
//! an access; done through Pagewell, the object is forgotten by hand. [`ENTRIES_MAX`] entries take
//! 16 MiB. The watch makes each write on the file system a little dearer for everybody on the host,
//! so it is given up when no listing has used it for [`IDLE_FOR`].
//!
//! Weaknesses: needs root and a file system whose inode numbers in listings are those of statx and
//! whose handles are known (ext4, XFS, tmpfs). A directory that changes all the time remembers
//! little.

use super::kept_names::{Gathered, KeptNames, Names, Ticket};
use super::watch::{News, Watch};
use pagewell_base::mix::NumberHasher;
use pagewell_base::sync::{RwLock, RwLockWriteGuard};
use pagewell_counters::names;
use pagewell_fs::{Entry, FileId};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long something is remembered at most.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// Objects remembered.
const ENTRIES_MAX: usize = 32 << 10;
/// Without a listing for this long the watch ends.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// What is remembered of one file system.
#[derive(Default)]
pub(super) struct Remembered {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Watch>,
    refused: bool,
    used_at: Option<Instant>,
    /// By inode number, which comes from the kernel.
    entries: HashMap<u64, (Entry, Instant), BuildHasherDefault<NumberHasher>>,
    inodes: HashMap<FileId, u64>,
    names: KeptNames,
    /// Counts what was forgotten.
    forgotten: u64,
}

/// The moment at which a listing began.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    forgotten: u64,
    now: Instant,
}

impl Moment {
    fn is_young(&self, since: Instant) -> bool {
        self.now.saturating_duration_since(since) < KEPT_FOR
    }
}

impl Remembered {
    /// Hears of all changes until now. `None` where they cannot be watched.
    pub(super) fn begin(&self, mount: BorrowedFd<'_>) -> Option<Moment> {
        let now = Instant::now();
        let mut state = self.write();
        if state.refused {
            return None;
        }
        if state.watch.is_none() {
            match Watch::new(mount) {
                Ok(watch) => state.watch = Some(watch),
                Err(_) => {
                    names::DIR_WATCHES_REFUSED.add(1);
                    state.refused = true;
                    return None;
                }
            }
        }
        state.used_at = Some(now);
        match state.watch.as_ref().map(Watch::drain) {
            Some(News::Changed(changed)) => {
                for id in changed {
                    state.forget(&id);
                }
            }
            Some(News::Everything) | None => state.forget_all(),
        }
        Some(Moment {
            forgotten: state.forgotten,
            now,
        })
    }

    /// What is remembered of the object with this inode number.
    pub(super) fn get(&self, moment: Moment, inode: u64) -> Option<Entry> {
        let state = self.state.read();
        let (entry, since) = state.entries.get(&inode)?;
        moment.is_young(*since).then_some(*entry)
    }

    /// The names of a directory.
    pub(super) fn names(&self, moment: Moment, directory: &FileId) -> Option<Arc<Names>> {
        let state = self.state.read();
        state.names.get(directory, (moment.now, KEPT_FOR))
    }

    /// A listing of a directory begins that may keep the names.
    pub(super) fn begin_names(&self, moment: Moment, directory: &FileId) -> Option<Ticket> {
        let mut state = self.write();
        let is_heard = state.forgotten == moment.forgotten && state.watch.is_some();
        is_heard.then(|| state.names.begin(directory, (moment.now, KEPT_FOR)))
    }

    /// It has come to its end, and has read these.
    pub(super) fn end_names(&self, directory: &FileId, gathered: Gathered) {
        self.write().names.end(directory, gathered);
    }

    /// Remembers what was read after `moment`.
    pub(super) fn put(&self, moment: Moment, inode: u64, entry: Entry) {
        let mut state = self.write();
        if state.forgotten != moment.forgotten || state.watch.is_none() {
            return;
        }
        if state.entries.len() >= ENTRIES_MAX && !state.entries.contains_key(&inode) {
            state.entries.clear();
            state.inodes.clear();
        }
        state.entries.insert(inode, (entry, moment.now));
        state.inodes.insert(entry.id, inode);
    }

    /// Forgets one object that was changed in a way the kernel does not report.
    pub(super) fn forget(&self, id: &FileId) {
        self.write().forget(id);
    }

    /// Ends the watch when it was not used for long.
    pub(super) fn rest(&self, now: Instant) {
        let mut state = self.write();
        let used_at = state.used_at.unwrap_or(now);
        if state.watch.is_some() && now.saturating_duration_since(used_at) > IDLE_FOR {
            state.forget_all();
            state.watch = None;
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }
}

impl State {
    fn forget(&mut self, id: &FileId) {
        self.forgotten += 1;
        if let Some(inode) = self.inodes.remove(id) {
            self.entries.remove(&inode);
        }
        self.names.forget(id);
    }

    fn forget_all(&mut self) {
        names::DIR_ATTRIBUTES_LOST.add(1);
        self.forgotten += 1;
        self.entries = HashMap::default();
        self.inodes = HashMap::new();
        self.names.forget_all();
    }
}
