//! The verifier that tells writers when data did not reach the device.
//!
//! When the kernel fails to write back unstable writes, it drops them and reports that once, to the
//! next sync of each open descriptor. A client that has not committed yet must send them again (RFC
//! 1813 section 3.3.21).
//!
//! The verifier is new in each life of the program, and changes after *every* failed sync. A write
//! reports the verifier from before it began, a commit the one from after its sync: equal means
//! that nothing was lost in between. A failed commit is an error; the next one looks clean to the
//! kernel, but returns another verifier than the lost writes got. A mount cannot have programs
//! repeat writes, so each file also has a verifier that moves with its own failed syncs.
//!
//! A verifier is clock and process mixed with randomness, as a restart may come within the clock's
//! grain. A change adds an odd constant: 2^64 changes until one returns.

use super::object::Object;
use super::syncs::{Extent, Syncs};
use super::system::{self, error_of};
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{FileId, OpenFile, Result, verifier};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaceable for tests of their failures.
pub trait SyncCalls: Send + Sync {
    /// Syncs the data of a file and the metadata needed to read it back.
    fn sync_data(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fdatasync(file)
    }

    /// Syncs the data and all metadata of a file or directory.
    fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    /// Syncs the file system of `file`.
    fn sync_filesystem(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::syncfs(file)
    }

    /// Starts writing the data of a file, without waiting and without reporting errors.
    fn start_writing(&self, file: BorrowedFd<'_>) {
        system::start_writing(file);
    }
}

/// The system's own calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelSync;

impl SyncCalls for KernelSync {}

/// Files with a verifier of their own: some 0.5 MiB.
const LOST_MAX: usize = 4096;

struct Lost {
    /// For each file that lost data, the export's verifier from then.
    of: HashMap<FileId, u64>,
    of_others: u64,
}

pub(super) struct Durability {
    verifier: AtomicU64,
    lost: Mutex<Lost>,
    calls: Arc<dyn SyncCalls>,
    syncs: Syncs,
}

impl Durability {
    pub(super) fn new(calls: Arc<dyn SyncCalls>) -> Self {
        let verifier = verifier::fresh();
        Self {
            verifier: AtomicU64::new(verifier),
            lost: Mutex::new(Lost {
                of: HashMap::new(),
                of_others: verifier,
            }),
            calls,
            syncs: Syncs::default(),
        }
    }

    pub(super) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    /// Of the file with this key ([`Object::key`]).
    pub(super) fn verifier_of(&self, key: &FileId) -> [u8; 8] {
        let lost = self.lost.lock();
        let verifier = lost.of.get(key).unwrap_or(&lost.of_others);
        verifier.to_be_bytes()
    }

    /// Changes the verifier after a failure, before the next sync.
    fn watched(&self, result: Result<(), Errno>) -> Result<(), Errno> {
        names::DIR_SYNCS.add(1);
        result.inspect_err(|_| {
            names::DIR_SYNC_FAILURES.add(1);
            self.verifier.fetch_add(verifier::STEP, Ordering::SeqCst);
        })
    }

    fn note_lost(&self, object: &Object) {
        let mut lost = self.lost.lock();
        let verifier = self.verifier.load(Ordering::SeqCst);
        if lost.of.len() >= LOST_MAX {
            lost.of.clear();
            lost.of_others = verifier;
        }
        lost.of.insert(*object.key(), verifier);
    }

    pub(super) fn sync_data(&self, object: &Object, file: &OpenFile) -> Result<()> {
        self.sync(object, file, Extent::Data)
    }

    pub(super) fn sync_all(&self, object: &Object, file: &OpenFile) -> Result<()> {
        self.sync(object, file, Extent::All)
    }

    fn sync(&self, object: &Object, file: &OpenFile, extent: Extent) -> Result<()> {
        let file = file.as_fd();
        let start = || self.calls.start_writing(file);
        let sync = |extent| {
            // Before the sync: writes meanwhile count as not synced.
            object.set_unsynced(false);
            let synced = self.watched(match extent {
                Extent::Data => self.calls.sync_data(file),
                Extent::All => self.calls.sync_all(file),
            });
            synced.inspect_err(|_| self.note_lost(object))
        };
        object.syncs().sync(extent, start, sync).map_err(error_of)
    }

    pub(super) fn sync_filesystem(&self, file: impl AsFd) -> Result<()> {
        let sync = |_| self.watched(self.calls.sync_filesystem(file.as_fd()));
        let outcome = self.syncs.sync(Extent::All, || (), sync);
        outcome.map_err(error_of)
    }

    pub(super) fn sync_unused(&self, object: &Object) {
        if let Some(file) = object.write_if_open() {
            // A failure changed the verifier, which later commits return.
            let _ = self.sync_data(object, file);
        }
    }
}
