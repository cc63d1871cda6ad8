//! What a file looks like.

use std::sync::Arc;

use pagewell_fs::Timestamp;
use pagewell_object_client::{Metadata, Version};

use super::identifier::hash_of;
use super::metadata::Marks;

pub(super) struct Known {
    pub metadata: Metadata,
    pub marks: Marks,
}

impl Known {
    pub(super) fn new(metadata: Metadata) -> Arc<Self> {
        let marks = Marks::of(&metadata);
        Arc::new(Self { metadata, marks })
    }
}

/// The times of a change that was made here.
pub(super) struct Own {
    pub modified: Timestamp,
    pub changed: Timestamp,
    /// The version that it became; `None`: not at the remote.
    pub version: Option<Version>,
}

impl Own {
    pub(super) fn is_of(&self, version: &Version) -> bool {
        let own = self.version.as_ref();
        own.is_some_and(|own| own.is_same(version))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub length_bytes: u64,
    pub modified: Timestamp,
    pub changed: Timestamp,
    /// What the metadata says, where it is known.
    pub marks: Marks,
    /// The remote has it so.
    pub is_settled: bool,
}

impl Shown {
    pub(super) fn of(version: &Version) -> Self {
        let modified = version.last_modified.map(Timestamp::from);
        let modified = modified.unwrap_or_default();
        // Versions of one second differ in this.
        let (tag, _) = hash_of(version.etag.as_deref().unwrap_or_default()).halves();
        let nanoseconds = u32::try_from(tag % 1_000_000_000).unwrap_or(0);
        Self {
            length_bytes: version.length_bytes,
            modified,
            changed: Timestamp {
                nanoseconds,
                ..modified
            },
            marks: Marks::default(),
            is_settled: true,
        }
    }
}
