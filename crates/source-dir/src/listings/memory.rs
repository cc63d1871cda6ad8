//! Attributes of listed objects, kept while the kernel reports no change.
//!
//! A listing with attributes costs a statx and a name_to_handle_at for each name, nine tenths of
//! its time. Attributes are remembered by inode number, apart from the names
//! ([`super::kept_names`]). A listing first drains the kernel's queue of changes ([`super::watch`])
//! and forgets every object in it, so it shows the state at which it began or a later one.
//!
//! ```text
//!   listing ──> drain changes ──> forget them ──┐
//!      │                                        v
//!      └─ inode number of a name ──> remembered? ── yes ──> identifier and attributes
//!                                        └── no ──> statx, name_to_handle_at ──> remember
//! ```
//!
//! As another listing may drain a change between statx and remembering, a listing only remembers
//! while nothing was forgotten since it began.
//!
//! Entries that are not young ([`is_young`]) are read again, for what the kernel does not report:
//! stores through shared mappings, access times, block counts of delayed allocation.
//! [`ENTRIES_MAX`] entries take 16 MiB. The watch makes each write dearer, so it ends after
//! [`IDLE_FOR`] without a listing.
//!
//! Weaknesses: needs root and a file system whose inode numbers in listings are those of statx and
//! whose handles are known (ext4, XFS, tmpfs); does little in a directory that changes all the
//! time.

use super::kept_names::{Gathered, KeptNames, NameList, Ticket, is_young};
use super::watch::Watch;
use pagewell_base::mix::NumberHasher;
use pagewell_base::sync::RwLock;
use pagewell_counters::names;
use pagewell_fs::Entry;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ENTRIES_MAX: usize = 32 << 10;
const IDLE_FOR: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Memory(RwLock<Remembered>);

#[derive(Default)]
struct Remembered {
    /// With the time of its last use.
    watch: Option<(Watch, Instant)>,
    refused: bool,
    /// By inode number, which the kernel assigns.
    entries: HashMap<u64, (Entry, Instant), BuildHasherDefault<NumberHasher>>,
    names: KeptNames,
    /// Counts forgettings.
    forgotten: u64,
}

/// When a listing began, with all changes drained.
#[derive(Clone, Copy)]
pub(super) struct Snapshot {
    forgotten: u64,
    now: Instant,
}

impl Memory {
    /// Drains all changes. `None` where they cannot be watched.
    pub(super) fn begin(&self, mount: BorrowedFd<'_>, magic: i64) -> Option<Snapshot> {
        let now = Instant::now();
        let mut state = self.0.write();
        if state.refused {
            return None;
        }
        let watch = match state.watch.take() {
            Some((watch, _)) => Ok(watch),
            None => Watch::new(mount, magic),
        };
        let Ok(watch) = watch else {
            names::DIR_WATCHES_REFUSED.add(1);
            state.refused = true;
            return None;
        };
        match watch.drain() {
            Some(changed) => changed.into_iter().for_each(|inode| state.forget(inode)),
            None => state.forget_all(),
        }
        state.watch = Some((watch, now));
        Some(Snapshot {
            forgotten: state.forgotten,
            now,
        })
    }

    pub(super) fn get(&self, snapshot: Snapshot, inode: u64) -> Option<Entry> {
        let state = self.0.read();
        let (entry, since) = state.entries.get(&inode)?;
        is_young(*since, snapshot.now).then_some(*entry)
    }

    pub(super) fn names(&self, snapshot: Snapshot, directory: u64) -> Option<Arc<NameList>> {
        self.0.read().names.get(directory, snapshot.now)
    }

    pub(super) fn begin_names(&self, snapshot: Snapshot, directory: u64) -> Option<Ticket> {
        let mut state = self.0.write();
        let may_keep = state.is_unchanged_since(snapshot);
        may_keep.then(|| state.names.begin(directory, snapshot.now))
    }

    pub(super) fn end_names(&self, directory: u64, gathered: Gathered) {
        self.0.write().names.end(directory, gathered);
    }

    pub(super) fn put(&self, snapshot: Snapshot, inode: u64, entry: Entry) {
        let mut state = self.0.write();
        if !state.is_unchanged_since(snapshot) {
            return;
        }
        if state.entries.len() >= ENTRIES_MAX && !state.entries.contains_key(&inode) {
            state.entries.clear();
        }
        state.entries.insert(inode, (entry, snapshot.now));
    }

    /// After a change that the kernel does not report.
    pub(super) fn forget(&self, inode: u64) {
        self.0.write().forget(inode);
    }

    pub(super) fn rest(&self, now: Instant) {
        let mut state = self.0.write();
        let is_idle = |since: Instant| now.saturating_duration_since(since) > IDLE_FOR;
        if state.watch.as_ref().is_some_and(|(_, used)| is_idle(*used)) {
            state.end();
        }
    }

    pub(super) fn end(&self) {
        self.0.write().end();
    }
}

impl Remembered {
    fn is_unchanged_since(&self, snapshot: Snapshot) -> bool {
        self.forgotten == snapshot.forgotten && self.watch.is_some()
    }

    fn forget(&mut self, inode: u64) {
        self.forgotten += 1;
        self.entries.remove(&inode);
        self.names.forget(inode);
    }

    fn end(&mut self) {
        self.forget_all();
        self.watch = None;
    }

    fn forget_all(&mut self) {
        self.forgotten += 1;
        self.entries = HashMap::default();
        self.names.forget_all();
    }
}
