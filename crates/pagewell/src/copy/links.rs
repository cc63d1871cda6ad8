//! What this copy has made: further names of a file become links, and no named source replaces the
//! copy of another.
//!
//! Of threads that reach names of one file the first claims it. The others wait until it is copied,
//! and make links, or until that fails: then one of them copies it.

use std::collections::{HashMap, HashSet};

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_fs::{Entry, FileId, FileType};

use super::object::Original;

/// An object of a source: the source, and its numbers there. Directories of this machine are one
/// source.
type Key = (usize, u64, u64);

#[derive(Default)]
struct Known {
    copies: HashMap<Key, (FileType, FileId)>,
    claimed: HashSet<Key>,
    made: HashSet<FileId>,
    given: HashSet<(Key, Vec<u8>)>,
    /// Number of the present source, from 1.
    source: usize,
}

impl Known {
    fn key(&self, original: &Original<'_>) -> Key {
        let attributes = &original.entry.attributes;
        let source = if original.place.is_local() {
            0
        } else {
            self.source
        };
        (source, attributes.filesystem_id, attributes.file_id)
    }
}

#[derive(Default)]
pub(super) struct Links {
    known: Mutex<Known>,
    released: Condvar,
}

/// A file with several names that one thread is to copy or link.
pub(super) struct Claim<'a> {
    links: &'a Links,
    key: Option<Key>,
    /// The copy of another name of it.
    pub(super) linked: Option<FileId>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.links.known.lock().claimed.remove(&key);
            self.links.released.notify_all();
        }
    }
}

impl Links {
    /// Begins another source; false when it was given before, for the same name.
    pub(super) fn begin(&self, original: &Original<'_>, name: &[u8]) -> bool {
        let mut known = self.known.lock();
        known.source += 1;
        let key = known.key(original);
        known.given.insert((key, name.to_vec()))
    }

    /// Claims the original until the claim is dropped, if further names are to be links. Waits for
    /// other claims.
    pub(super) fn claim(&self, original: &Original<'_>, has_names: bool) -> Claim<'_> {
        let mut claim = Claim {
            links: self,
            key: None,
            linked: None,
        };
        if !has_names {
            return claim;
        }
        let mut known = self.known.lock();
        let key = known.key(original);
        while !known.claimed.insert(key) {
            known = self.released.wait(known);
        }
        claim.key = Some(key);
        let copy = known.copies.get(&key);
        claim.linked = copy
            .filter(|(file_type, _)| *file_type == original.entry.attributes.file_type)
            .map(|(_, id)| *id);
        claim
    }

    /// Remembers a copy for the further names of its original.
    pub(super) fn remember(&self, original: &Original<'_>, id: FileId) {
        let mut known = self.known.lock();
        let key = known.key(original);
        let file_type = original.entry.attributes.file_type;
        known.copies.insert(key, (file_type, id));
    }

    /// Notes that this copy made an object.
    pub(super) fn note_made(&self, id: FileId) {
        self.known.lock().made.insert(id);
    }

    /// Whether this copy made an object.
    pub(super) fn is_made(&self, entry: &Entry) -> bool {
        self.known.lock().made.contains(&entry.id)
    }
}
