//! The verifier that tells writers when data did not reach the device.
//!
//! Unstable writes live in the kernel's page cache. When the kernel fails to write them back it
//! drops them and says so once, to the next sync of each open descriptor. A client that has not
//! committed yet must learn that it has to send them again (RFC 1813 section 3.3.21).
//!
//! The verifier is new in each life of the program, and changes after *every* failed sync. A write
//! reports the verifier from before it began, a commit the one from after its sync: equal means
//! that nothing was lost in between. The failed commit itself is an error; the next commit of the
//! same file would look clean to the kernel, but returns another verifier than the lost writes were
//! given. A mount cannot have programs send again what only may be lost: for each file there is
//! also a verifier that moves with failed syncs of that one.
//!
//! It is clock and process mixed with randomness, so that a restart within the clock's grain
//! differs too. A change adds an odd constant: 2^64 changes until one returns.

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

/// The system calls that make data durable. Replaced in tests of what happens when they fail.
pub trait SyncCalls: Send + Sync {
    /// Data of a file and what is needed to read it back.
    fn sync_data(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fdatasync(file)
    }

    /// Data and all metadata of a file or directory.
    fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    /// The whole file system that `file` is on.
    fn sync_filesystem(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::syncfs(file)
    }

    /// Starts writing the data of a file, without waiting for the device or telling of errors.
    fn start_writing(&self, file: BorrowedFd<'_>) {
        system::start_writing(file);
    }
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelSync;

impl SyncCalls for KernelSync {}

/// Files with a verifier of their own: some 0.5 MiB.
const LOST_MAX: usize = 4096;

/// The verifiers of single files.
struct Lost {
    /// Of each file that has lost something, the export's from then.
    of: HashMap<FileId, u64>,
    of_others: u64,
}

/// The verifier and the calls it watches.
pub(super) struct Durability {
    verifier: AtomicU64,
    lost: Mutex<Lost>,
    calls: Arc<dyn SyncCalls>,
    /// Those of the whole file system.
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

    /// The verifier of the file with this key ([`Object::key`]).
    pub(super) fn verifier_of(&self, key: &FileId) -> [u8; 8] {
        let lost = self.lost.lock();
        let verifier = lost.of.get(key).unwrap_or(&lost.of_others);
        verifier.to_be_bytes()
    }

    /// After a failure the verifier is another one before anything else is synced.
    fn watched(&self, result: Result<(), Errno>) -> Result<(), Errno> {
        names::DIR_SYNCS.add(1);
        result.inspect_err(|_| {
            names::DIR_SYNC_FAILURES.add(1);
            self.verifier.fetch_add(verifier::STEP, Ordering::SeqCst);
        })
    }

    /// After a failed sync of an object its own verifier is another one, too.
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
            // before the sync: what is written meanwhile counts as not synced
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

    /// Syncs an object that the table is to close.
    pub(super) fn sync_unused(&self, object: &Object) {
        if let Some(file) = object.write_if_open() {
            // A failure has changed the verifier, which the next commits return.
            let _ = self.sync_data(object, file);
        }
    }
}
