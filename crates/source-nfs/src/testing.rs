//! What the tests of this folder share.

use pagewell_fs::{Attributes, FileType, Timestamp};

/// Attributes of an object of this type.
pub(crate) fn attributes(file_type: FileType) -> Attributes {
    Attributes {
        file_type,
        mode: 0o644,
        link_count: 1,
        uid: 1,
        gid: 2,
        size: 0,
        used: 0,
        device: (0, 0),
        filesystem_id: 3,
        file_id: 4,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
        may_be_kept: true,
    }
}
