//! What is on the device, and the verifier that tells writers when something is not.
//!
//! Problem: unstable writes live in the kernel's page cache. When the kernel fails to write them
//! back it drops them and says so once, to the next sync of each open descriptor. A client that
//! has not committed yet must learn that it has to send them again (RFC 1813 section 3.3.21).
//!
//! Rule: a verifier of 8 bytes that is new in each life of the program, and is changed after
//! *every* failed sync, whatever asked for it and whatever it covered. A write reports the verifier
//! from before it began, a commit the one from after its sync: equal means that nothing was lost
//! in between. The failed commit itself is an error; the next commit of the same file would look
//! clean to the kernel, but returns another verifier than the lost writes were given.
//!
//! A mount tells programs of what their files have lost, and cannot have them send again what only
//! may be lost. So for each file there is also a verifier that moves with failed syncs of that one.
//!
//! The verifier is clock and process mixed with randomness, so that a restart within the clock's
//! grain differs too. A change adds an odd constant: 2^64 changes until one returns.
//!
//! Names: an operation that changes a directory is on the device when it returns. On file systems
//! with one journal for all metadata (ext4, XFS) syncing the new object, or the directory, commits
//! the whole operation; elsewhere both are synced. Threads that sync several objects at once share
//! a journal commit in the kernel; those that sync the same one share the sync (`syncs.rs`). What
//! cannot be opened (symbolic links, devices) is synced with the whole file system; with one
//! journal only when its attributes were changed after it was made.

use super::Tree;
use super::error_of;
use super::object::Object;
use super::path_hint;
use super::syncs::{Extent, Syncs};
use super::system;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{Error, FileId, OpenFile, Result, verifier};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

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

/// Files whose failed syncs are told from those of others: some 0.5 MiB.
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
    /// Whether one sync commits all metadata of an operation.
    pub(super) one_journal: bool,
    metadata_sync: bool,
}

impl Durability {
    pub(super) fn new(calls: Arc<dyn SyncCalls>, one_journal: bool, metadata_sync: bool) -> Self {
        let verifier = verifier::fresh();
        Self {
            verifier: AtomicU64::new(verifier),
            lost: Mutex::new(Lost {
                of: HashMap::new(),
                of_others: verifier,
            }),
            calls,
            syncs: Syncs::default(),
            one_journal,
            metadata_sync,
        }
    }

    pub(super) fn verifier(&self) -> [u8; 8] {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    /// The verifier of one file.
    pub(super) fn verifier_of(&self, id: &FileId) -> [u8; 8] {
        let lost = self.lost.lock();
        let verifier = lost.of.get(&key_of(id)).unwrap_or(&lost.of_others);
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
        lost.of.insert(key_of(&object.id), verifier);
    }

    /// Brings the data of an object to the device through `file`, one of its descriptors.
    pub(super) fn sync_data(&self, object: &Object, file: &OpenFile) -> Result<()> {
        self.sync(object, file, Extent::Data)
    }

    /// Brings data and attributes of an object to the device.
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
        object.syncs.sync(extent, start, sync).map_err(error_of)
    }

    pub(super) fn sync_filesystem(&self, file: impl AsFd) -> Result<()> {
        let sync = |_| self.watched(self.calls.sync_filesystem(file.as_fd()));
        let outcome = self.syncs.sync(Extent::All, || (), sync);
        outcome.map_err(error_of)
    }
}

/// What is the same in all identifiers of an object.
fn key_of(id: &FileId) -> FileId {
    path_hint::key_of(id).unwrap_or(*id)
}

/// [`Tree::sync`] of a directory that is not used any more. It is given up when for so long the
/// kernel has written nothing to any device; on a file system that asks a program or another
/// machine, when it has taken so long. The kernel keeps what was written, and goes on writing it.
pub(super) fn finish(tree: &Arc<Tree>, patience: Duration) -> Result<()> {
    let (done, outcome) = channel();
    let syncing = Arc::clone(tree);
    let thread = std::thread::Builder::new().name("dir-sync".to_owned());
    thread
        .spawn(move || done.send(syncing.acting.become_server().and_then(|()| syncing.sync())))
        .map_err(|error| Error::Io(error.to_string()))?;
    let written = || written_pages().filter(|_| tree.knows_inodes);
    let mut before = written();
    loop {
        match outcome.recv_timeout(patience) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Io("the sync ended in a defect".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = written();
        if now == before {
            return Err(Error::Io(format!(
                "the file system has not answered for {} s; the kernel goes on writing",
                patience.as_secs()
            )));
        }
        before = now;
    }
}

/// Pages that the kernel has written since the machine started (proc_vmstat(5)).
fn written_pages() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/vmstat").ok()?;
    let mut lines = counts.lines();
    let count = lines.find_map(|line| line.strip_prefix("nr_written "))?;
    count.parse().ok()
}

impl Tree {
    /// Brings the attributes of an object to the device.
    pub(super) fn sync_attributes(&self, object: &Object) -> Result<()> {
        if !self.durability.metadata_sync {
            return Ok(());
        }
        self.sync_object(object)
    }

    /// The same where it was asked for. What the server may not open is synced with all else.
    pub(super) fn sync_object(&self, object: &Object) -> Result<()> {
        let file = match object.write_if_open() {
            None if object.can_open() => self.readable(object, true).ok(),
            open => open,
        };
        match file {
            Some(file) => self.durability.sync_all(object, file),
            None => self.sync_everything(),
        }
    }

    /// Brings a name in a directory to the device, and the object it names, with `touched` when its
    /// attributes were changed after it was made. Also a name that was found there: the call that
    /// made it may still be waiting for that, or be a local program that does not.
    pub(super) fn sync_new(
        &self,
        object: &Object,
        (is_new, touched): (bool, bool),
        directory: &Object,
    ) -> Result<()> {
        if !self.durability.metadata_sync {
            return Ok(());
        }
        let one_journal = self.durability.one_journal;
        if !object.can_open() && (touched || !one_journal) {
            return self.sync_everything();
        }
        if object.can_open() && (is_new || touched || !one_journal) {
            self.sync_attributes(object)?;
            if one_journal {
                return Ok(());
            }
        }
        self.sync_names(&[directory])
    }

    /// Brings the names in these directories to the device; all of them were changed by one
    /// operation.
    pub(super) fn sync_names(&self, directories: &[&Object]) -> Result<()> {
        if !self.durability.metadata_sync {
            return Ok(());
        }
        let needed = if self.durability.one_journal { 1 } else { 2 };
        for directory in directories.iter().take(needed) {
            match self.readable(directory, true) {
                Ok(file) => self.durability.sync_all(directory, file)?,
                // without root a directory may be writable and not readable
                Err(_) => return self.sync_everything(),
            }
        }
        Ok(())
    }

    fn sync_everything(&self) -> Result<()> {
        self.durability.sync_filesystem(self.root.as_fd())
    }

    /// Syncs an object that the cache is to close.
    pub(super) fn sync_unused(&self, object: &Object) {
        if let Some(file) = object.write_if_open() {
            // a failure has changed the verifier: the writers will be told
            let _ = self.durability.sync_data(object, file);
        }
    }

    /// Brings everything unstable to the device: the whole file system at once, and then each
    /// object that was written, which finds little to do and tells whether its data was lost.
    pub(super) fn sync(&self) -> Result<()> {
        let mut outcome = self.sync_everything();
        self.cache.each(|object| {
            if let Some(file) = object.write_if_open()
                && object.is_unsynced()
                && let Err(error) = self.durability.sync_data(object, file)
            {
                outcome = Err(error);
            }
        });
        outcome
    }
}
