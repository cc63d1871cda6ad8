//! [`FileSystem`] for a mounted export.

use std::time::Duration;

use pagewell_fs::{
    Call, Coherence, Committed, FileId, FileSystem, Hold, Limits, OpenIntent, Opened, Result,
    forward,
};

use super::NfsFileSystem;

/// How long a front may believe a name.
const NAMES_FOR: Duration = Duration::from_secs(1);
/// How long it may believe attributes. The kernel looks at them before each read(2), also of pages
/// that it has: to answer each of these looks costs more than the reads do.
const ATTRIBUTES_FOR: Duration = Duration::from_secs(1);

impl FileSystem for NfsFileSystem {
    forward! { self => self.shared;
        lookup, attributes, set_attributes, access, read_link, read, write, write_verifier, create,
        make_directory, make_symlink, make_node, link, remove, remove_directory, rename,
        read_directory, statistics, sync, close,
    }

    fn describe(&self) -> String {
        format!("nfs {}", self.shared.calls.name())
    }

    fn root(&self) -> FileId {
        self.shared.root
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.shared.commit(call, id)
    }

    fn finish(&self, patience: Duration) -> Result<u64> {
        match self.close_within(patience) {
            // Nothing is thrown away any more, so nothing has to be waited for.
            0 => self.shared.unreported_failure().map(|()| 0),
            lost_bytes => Ok(lost_bytes),
        }
    }

    fn abandon(&self) -> u64 {
        self.give_up()
    }

    fn coherence(&self) -> Coherence {
        let ages = &self.shared.options.ages;
        // What an open has found out is not kept from programs: a front forgets at each open.
        Coherence {
            attributes: ATTRIBUTES_FOR.min(ages.file_min).min(ages.directory_min),
            names: NAMES_FOR.min(ages.directory_min),
            missing_names: Duration::ZERO,
        }
    }

    fn open(&self, call: &Call<'_>, id: &FileId, _intent: OpenIntent) -> Result<Opened> {
        self.shared.open(call, id)
    }

    fn hold(&self, _call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        Ok(Some(self.shared.hold_directory(id)))
    }
}
