//! One object that fronts know: a directory or a file.

use std::collections::VecDeque;
use std::sync::Arc;

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::FileId;

use super::directory::Directory;
use super::file::File;
use super::identifier::{Hash, Identifier, Kind, Turn};
use super::metadata::Marks;

/// A node keeps the directories above it in memory.
pub(super) struct Node {
    identifier: Identifier,
    /// Of a directory with its slash; of the root the prefix of all keys.
    key: Box<str>,
    parent: Option<Arc<Self>>,
    body: Body,
    /// Mode and owner set here, where attributes are not those of the metadata.
    set: Mutex<Marks>,
    /// What it was before it was moved, the oldest first.
    former: Mutex<VecDeque<(Hash, Turn)>>,
}

enum Body {
    Directory(Directory),
    File(File),
}

impl Node {
    /// The object with this key in a directory; without one, the root.
    pub(super) fn new(
        kind: Kind,
        hash: (Hash, Turn),
        key: &str,
        parent: Option<&Arc<Self>>,
    ) -> Self {
        let ancestors = parent.map_or_else(Vec::new, |parent| parent.way());
        Self {
            identifier: Identifier::new(kind, hash, &ancestors),
            key: key.into(),
            parent: parent.cloned(),
            body: match kind {
                Kind::Directory => Body::Directory(Directory::default()),
                Kind::File => Body::File(File::default()),
            },
            set: Mutex::default(),
            former: Mutex::default(),
        }
    }

    /// Identifiers that lead here because it had them; for [`super::nodes::Nodes`] alone.
    pub(super) fn former(&self) -> MutexGuard<'_, VecDeque<(Hash, Turn)>> {
        self.former.lock()
    }

    pub(super) fn set_here(&self) -> Marks {
        *self.set.lock()
    }

    /// Notes mode and owner.
    pub(super) fn set(&self, marks: Marks) {
        let marks = Marks {
            mode: marks.mode,
            uid: marks.uid,
            gid: marks.gid,
            ..Marks::default()
        };
        let mut set = self.set.lock();
        *set = marks.over(*set);
    }

    /// The hashes of the directories from the root's child to this one.
    pub(super) fn way(&self) -> Vec<Hash> {
        let mut way = Vec::new();
        let mut node = self;
        while let Some(parent) = &node.parent {
            way.push(node.identifier.hash());
            node = parent;
        }
        way.reverse();
        way
    }

    pub(super) fn hash(&self) -> Hash {
        self.identifier.hash()
    }

    pub(super) fn turn(&self) -> Turn {
        self.identifier.turn()
    }

    pub(super) fn id(&self) -> FileId {
        self.identifier.to_id()
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The key behind that of its directory; of a directory with its slash.
    pub(super) fn own_key(&self) -> &str {
        let parent = self.parent.as_ref().map_or("", |parent| parent.key());
        self.key.strip_prefix(parent).unwrap_or_default()
    }

    /// The directory that it is in; the root is in itself.
    pub(super) fn parent(self: &Arc<Self>) -> &Arc<Self> {
        self.parent.as_ref().unwrap_or(self)
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            Body::File(_) => None,
        }
    }

    pub(super) fn file(&self) -> Option<&File> {
        match &self.body {
            Body::File(file) => Some(file),
            Body::Directory(_) => None,
        }
    }
}
