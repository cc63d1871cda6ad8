//! Brings a copy to the device, once, at its end.
//!
//! A few files are synchronised one by one, more by their whole file system, which waits for what
//! other programs wrote, too. The kernel reports both ways what it could not write since the target
//! was opened.

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Finish};
use pagewell_tree::Tree;

use super::object::Object;

/// Objects synchronised one by one, about one commit of a journal each; as many take as long as a
/// quiet file system.
const FEW: usize = 16;

/// What changed in a directory of this machine.
#[derive(Default)]
pub(super) struct Unsynced {
    few: Mutex<Vec<Object>>,
    are_many: AtomicBool,
}

impl Unsynced {
    /// Notes a file that was filled, or a directory with a new name.
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
                // Removed since.
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
