//! Names and attributes on the device.
//!
//! A change of a directory is on the device when the call returns. On file systems with one journal
//! for all metadata (ext4, XFS) syncing the new object, or the directory, commits the whole
//! operation; elsewhere both are synced. Objects that cannot be opened (symbolic links, devices)
//! are synced with the whole file system; with one journal only when their attributes were changed
//! after creation.

use super::durability::Durability;
use super::object::Object;
use super::objects::Objects;
use pagewell_fs::{Error, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

pub(super) struct MetadataSync {
    objects: Arc<Objects>,
    durability: Arc<Durability>,
    /// One sync commits all metadata of an operation.
    one_journal: bool,
    /// Changes are on the device when they return.
    is_wanted: bool,
}

impl MetadataSync {
    pub(super) fn new(
        objects: &Arc<Objects>,
        durability: &Arc<Durability>,
        one_journal: bool,
        is_wanted: bool,
    ) -> Self {
        Self {
            objects: Arc::clone(objects),
            durability: Arc::clone(durability),
            one_journal,
            is_wanted,
        }
    }

    #[cfg(test)]
    pub(super) fn has_one_journal(&self) -> bool {
        self.one_journal
    }

    pub(super) fn attributes(&self, object: &Object) -> Result<()> {
        match self.is_wanted {
            true => self.object(object),
            false => Ok(()),
        }
    }

    /// With the whole file system when the server may not open the object.
    pub(super) fn object(&self, object: &Object) -> Result<()> {
        let file = match object.write_if_open() {
            None if object.can_open() => self.objects.readable(object, true).ok(),
            open => open,
        };
        match file {
            Some(file) => self.durability.sync_all(object, file),
            None => self.everything(),
        }
    }

    /// Syncs a name in a directory, and its object, with `touched` when its attributes changed
    /// after creation. Also for an existing name: its maker may still wait for its sync, or be a
    /// local program.
    pub(super) fn new_name(
        &self,
        object: &Object,
        (is_new, touched): (bool, bool),
        directory: &Object,
    ) -> Result<()> {
        if !self.is_wanted {
            return Ok(());
        }
        if !object.can_open() && (touched || !self.one_journal) {
            return self.everything();
        }
        if object.can_open() && (is_new || touched || !self.one_journal) {
            self.object(object)?;
            if self.one_journal {
                return Ok(());
            }
        }
        self.names(&[directory])
    }

    /// The directories are those that one operation changed.
    pub(super) fn names(&self, directories: &[&Object]) -> Result<()> {
        if !self.is_wanted {
            return Ok(());
        }
        let needed = if self.one_journal { 1 } else { 2 };
        for directory in directories.iter().take(needed) {
            match self.objects.readable(directory, true) {
                Ok(file) => self.durability.sync_all(directory, file)?,
                // Without root a directory may be writable but not readable.
                Err(_) => return self.everything(),
            }
        }
        Ok(())
    }

    fn everything(&self) -> Result<()> {
        self.durability.sync_filesystem(self.objects.root().as_fd())
    }

    /// Syncs the whole file system, and then each written object, to see whether its data was lost.
    pub(super) fn sync(&self) -> Result<()> {
        let mut outcome = self.everything();
        self.objects.each(|object| {
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

/// [`MetadataSync::sync`] of a directory that is no longer used. Gives up when the kernel has
/// written nothing to any device for `patience`; on a file system behind a program or another
/// machine, after `patience`. The kernel goes on writing.
pub(super) fn finish(all: &Arc<MetadataSync>, patience: Duration) -> Result<()> {
    let (done, outcome) = channel();
    let syncing = Arc::clone(all);
    let thread = std::thread::Builder::new().name("dir-sync".to_owned());
    thread
        .spawn(move || {
            let acts = syncing.objects.access().become_server();
            done.send(acts.and_then(|()| syncing.sync()))
        })
        .map_err(|error| Error::Io(error.to_string()))?;
    let written = || written_pages().filter(|_| all.objects.knows_inodes());
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
