//! What a file looks like: its length and times, and what its metadata says of it.

use std::sync::Arc;

use pagewell_fs::{FileType, Timestamp};
use pagewell_object_client::{Metadata, Version};

use super::identifier::hash_of;
use super::metadata::Kept;

/// What is known of a file beside its length and the time of its last change, or is to be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub file_type: Option<FileType>,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub modified: Option<Timestamp>,
    pub accessed: Option<Timestamp>,
    pub device: Option<(u32, u32)>,
}

impl Marks {
    /// As the metadata of an object has them.
    fn of(kept: &Kept) -> Self {
        Self {
            file_type: kept.file_type,
            mode: kept.mode,
            uid: kept.uid,
            gid: kept.gid,
            modified: kept.modified,
            accessed: kept.accessed,
            device: kept.device,
        }
    }

    /// These over others.
    pub(super) fn over(self, others: Self) -> Self {
        Self {
            file_type: self.file_type.or(others.file_type),
            mode: self.mode.or(others.mode),
            uid: self.uid.or(others.uid),
            gid: self.gid.or(others.gid),
            modified: self.modified.or(others.modified),
            accessed: self.accessed.or(others.accessed),
            device: self.device.or(others.device),
        }
    }

    /// The metadata of an object with these, and with all that `others` has beside.
    pub(super) fn to(self, others: &Metadata) -> Metadata {
        let before = Kept::of(others);
        let all = self.over(Self::of(&before));
        let kept = Kept {
            file_type: all.file_type,
            mode: all.mode,
            uid: all.uid,
            gid: all.gid,
            modified: all.modified,
            accessed: all.accessed,
            device: all.device,
            ..before
        };
        kept.to(others)
    }
}

/// The metadata of an object, and what it says of the file.
pub(super) struct Known {
    pub metadata: Metadata,
    pub marks: Marks,
}

impl Known {
    pub(super) fn new(metadata: Metadata) -> Arc<Self> {
        let marks = Marks::of(&Kept::of(&metadata));
        Arc::new(Self { metadata, marks })
    }
}

/// What a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub length_bytes: u64,
    /// By the store, or by what was changed here.
    pub modified: Timestamp,
    pub changed: Timestamp,
    /// What the metadata says, where it is known.
    pub marks: Marks,
    /// The remote has it so.
    pub is_settled: bool,
}

impl Shown {
    /// As the remote has it.
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
