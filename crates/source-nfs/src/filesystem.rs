//! [`FileSystem`] for a mounted export.

use std::time::Duration;

use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, FileId, FileSystem, Hold, Limits, NodeKind, OpenIntent, Opened,
    ReadReply, Result, SetAttributes, Stability, Statistics, Timestamp, Written,
};

use super::NfsFileSystem;

/// How long a front may believe a name.
const NAMES_FOR: Duration = Duration::from_secs(1);
/// How long it may believe attributes. The kernel looks at them before each read(2), also of pages
/// that it has: to answer each of these looks costs more than the reads do.
const ATTRIBUTES_FOR: Duration = Duration::from_secs(1);

impl FileSystem for NfsFileSystem {
    fn describe(&self) -> String {
        format!("nfs {}", self.shared.calls.name())
    }

    fn root(&self) -> FileId {
        self.shared.root
    }

    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        self.shared.lookup(call, directory, name)
    }

    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        self.shared.attributes(call, id)
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.shared.set_attributes(call, id, attributes, guard)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        self.shared.access(call, id, wanted)
    }

    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.shared.read_link(call, id)
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        self.shared.read(call, id, offset, count)
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        self.shared.write(call, id, offset, data, stability)
    }

    fn commit(&self, call: &Call<'_>, id: &FileId, _offset: u64, _count: u32) -> Result<Committed> {
        self.shared.commit(call, id)
    }

    fn write_verifier(&self) -> [u8; 8] {
        self.shared.write_verifier()
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        self.shared.create(call, directory, name, mode)
    }

    fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.shared
            .make_directory(call, directory, name, attributes)
    }

    fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.shared
            .make_symlink(call, directory, name, target, attributes)
    }

    fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.shared
            .make_node(call, directory, name, kind, attributes)
    }

    fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        self.shared.link(call, id, directory, name)
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.shared.remove(call, directory, name)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.shared.remove_directory(call, directory, name)
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from_directory: &FileId,
        from_name: &[u8],
        to_directory: &FileId,
        to_name: &[u8],
    ) -> Result<(Change, Change)> {
        self.shared
            .rename(call, from_directory, from_name, to_directory, to_name)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        self.shared
            .read_directory(call, directory, cookie, with_attributes, visit)
    }

    fn statistics(&self, call: &Call<'_>) -> Result<Statistics> {
        self.shared.statistics(call)
    }

    fn sync(&self) -> Result<()> {
        self.shared.sync()
    }

    fn finish(&self, patience: Duration) -> Result<u64> {
        match self.close_within(patience) {
            // Nothing is thrown away any more, so nothing has to be waited for.
            0 => self.shared.untold_failure().map(|()| 0),
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

    fn close(&self, call: &Call<'_>, id: &FileId) -> Result<()> {
        self.shared.close(call, id)
    }
}
