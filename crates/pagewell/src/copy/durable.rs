//! Brings a copy to the device, once, at its end.
//!
//! A few files are synchronised one by one; of more, the whole file system is, which is cheaper
//! for them and dearer for everybody else: it waits for what other programs have written, too. The
//! kernel tells both ways what it could not write since the target was opened.

use pagewell_fs::{Error, FileId};

use crate::tree::Tree;

/// Objects that are synchronised one by one. Each costs about one commit of a journal; in the time
/// of so many a file system that is not busy has been synchronised.
const FEW: usize = 16;

/// What was made or changed in a directory of this machine.
#[derive(Default)]
pub(super) struct Unsynced {
    few: Vec<FileId>,
    are_many: bool,
}

impl Unsynced {
    /// Notes a file that was filled, or a directory that has a new name.
    pub(super) fn note(&mut self, id: &FileId) {
        if self.are_many || self.few.contains(id) {
            return;
        }
        if self.few.len() < FEW {
            self.few.push(*id);
        } else {
            self.are_many = true;
        }
    }

    /// Brings all of it to the device.
    pub(super) fn sync(&self, tree: &Tree) -> Result<(), Error> {
        if self.are_many {
            return tree.filesystem.sync();
        }
        for id in &self.few {
            match tree.filesystem.commit_metadata(&tree.call(), id) {
                // Removed since, by this copy or by others.
                Ok(()) | Err(Error::Stale | Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
