//! Whether a directory would be copied into itself, which would never end: found out before
//! anything is made.

use pagewell_fs::{Entry, FileId};

use super::terms::Terms;
use crate::identity::FileIdentity;
use crate::location::{Home, Place};

/// Why such a copy is not begun.
pub(super) const INTO_ITSELF: &str = "will not copy a directory into itself";

/// Directories above each other: beyond any path that can be named.
const DEPTH_MAX: usize = 4096;

fn identity(entry: &Entry) -> (u64, u64) {
    (entry.attributes.filesystem_id, entry.attributes.file_id)
}

impl Terms {
    /// Whether two objects are one. Directories of this machine can be open twice, and so can
    /// exports of one server.
    pub(super) fn is_same(&self, place: &Place, one: &Entry, other: &Entry) -> bool {
        let is_one_home = match (&place.home, &self.home) {
            (Home::Local(_), Home::Local(_)) => true,
            (Home::Server(one), Home::Server(other)) => one == other,
            _ => false,
        };
        is_one_home && identity(one) == identity(other)
    }

    /// Whether a directory of the target is in the directory `source`, or is that.
    pub(super) fn is_within(&self, place: &Place, source: &Entry, directory: &FileId) -> bool {
        let (filesystem, call) = (&self.tree.filesystem, self.tree.call());
        let mut below: Option<Entry> = None;
        let mut id = *directory;
        for _ in 0..DEPTH_MAX {
            let Ok(attributes) = filesystem.attributes(&call, &id) else {
                break;
            };
            let here = Entry { id, attributes };
            if self.is_same(place, source, &here) {
                return true;
            }
            if below.is_some_and(|below| identity(&below) == identity(&here)) {
                break;
            }
            below = Some(here);
            match filesystem.lookup(&call, &id, b"..") {
                Ok(parent) => id = parent.id,
                Err(_) => break,
            }
        }
        self.is_root_within(place, source)
    }

    /// The same of the directories above the root of the target.
    fn is_root_within(&self, place: &Place, source: &Entry) -> bool {
        let (Some(local), true) = (&self.local, place.is_local()) else {
            return false;
        };
        let Ok(root) = local.path().canonicalize() else {
            return false;
        };
        let wanted = FileIdentity::of_local(&source.attributes);
        root.ancestors()
            .any(|path| FileIdentity::of_path(path).is_ok_and(|found| found == wanted))
    }
}
