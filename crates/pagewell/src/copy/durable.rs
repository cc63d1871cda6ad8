//! Brings a copy to the device, once, at its end.
//!
//! A few files are synchronised one by one; of more, the whole file system is, which is cheaper
//! for them and dearer for all others: it waits for what other programs have written, too. The
//! kernel tells both ways what it could not write since the target was opened.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Finish};
use pagewell_tree::Tree;

use super::object::Object;

/// Objects that are synchronised one by one. Each costs about one commit of a journal; in the time
/// of so many a file system that is not busy has been synchronised.
const FEW: usize = 16;

/// What was made or changed in a directory of this machine.
#[derive(Default)]
pub(super) struct Unsynced {
    few: Mutex<Vec<Object>>,
    are_many: AtomicBool,
}

impl Unsynced {
    /// Notes a file that was filled, or a directory that has a new name.
    pub(super) fn note(&self, object: &Object) {
        if self.are_many.load(Ordering::Relaxed) {
            return;
        }
        let mut few = self.few.lock();
        if few.iter().any(|other| is_same(other, object)) {
            return;
        }
        if few.len() < FEW {
            few.push(object.clone());
        } else {
            self.are_many.store(true, Ordering::Relaxed);
        }
    }

    /// Brings all of it to the device.
    pub(super) fn sync(&self, tree: &Tree) -> Result<(), Error> {
        if self.are_many.load(Ordering::Relaxed) {
            return tree.filesystem.finish(Finish::Sync).map(drop);
        }
        let few = self.few.lock();
        for object in few.iter() {
            let synced = match object {
                Object::Known(id) => tree.filesystem.commit_metadata(&tree.call(), id),
                Object::Open(file) => rustix::fs::fsync(file).map_err(Error::from),
            };
            match synced {
                // Removed since, by this copy or by others.
                Ok(()) | Err(Error::Stale | Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_same(one: &Object, other: &Object) -> bool {
    matches!((one, other), (Object::Known(one), Object::Known(other)) if one == other)
}
