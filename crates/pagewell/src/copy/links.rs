//! What this copy has made: the other names of a file that has several are made links to its copy,
//! and none of the sources
//! that were named takes the place of the copy of another.

use std::collections::{HashMap, HashSet};

use pagewell_fs::{Entry, FileId, FileType};

use super::Original;

/// An object of a source: which source, and its numbers there. Directories of this machine are
/// all one source.
type Key = (usize, u64, u64);

/// See above.
#[derive(Default)]
pub(super) struct Links {
    copies: HashMap<Key, (FileType, FileId)>,
    made: HashSet<FileId>,
    given: HashSet<(Key, Vec<u8>)>,
    /// Number of the source that is being copied, from 1.
    source: usize,
}

impl Links {
    fn key(&self, original: &Original<'_>) -> Key {
        let attributes = &original.entry.attributes;
        let source = if original.place.is_local() {
            0
        } else {
            self.source
        };
        (source, attributes.filesystem_id, attributes.file_id)
    }

    /// Begins with another source; false when it was given before, to get the same name.
    pub(super) fn begin(&mut self, original: &Original<'_>, name: &[u8]) -> bool {
        self.source += 1;
        let key = self.key(original);
        self.given.insert((key, name.to_vec()))
    }

    /// The copy of another name of the same file, when hard links are kept.
    pub(super) fn find(&self, original: &Original<'_>, keeps: bool) -> Option<FileId> {
        if !keeps || original.entry.attributes.link_count < 2 {
            return None;
        }
        let (file_type, id) = self.copies.get(&self.key(original))?;
        (*file_type == original.entry.attributes.file_type).then_some(*id)
    }

    /// Remembers a copy, if its original has several names.
    pub(super) fn remember(&mut self, original: &Original<'_>, id: FileId) {
        let attributes = &original.entry.attributes;
        if attributes.link_count > 1 {
            let key = self.key(original);
            self.copies.insert(key, (attributes.file_type, id));
        }
    }

    /// Notes that this copy made it.
    pub(super) fn note_made(&mut self, id: FileId) {
        self.made.insert(id);
    }

    /// Whether this copy made it.
    pub(super) fn is_made(&self, entry: &Entry) -> bool {
        self.made.contains(&entry.id)
    }
}
