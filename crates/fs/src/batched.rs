//! A file system for the calls of a receive batch.

use crate::{
    Access, Attributes, BatchCache, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, FileId, FileSystem, Limits, NodeKind, ReadReply, RenameMode, Result,
    SetAttributes, Stability, Statistics, Timestamp, Written,
};

/// Prepares the thread of a front, gives the cache of the receive batch to reading calls, and
/// empties it before changes.
#[derive(Clone, Copy)]
pub struct Batched<'a> {
    filesystem: &'a dyn FileSystem,
    cache: Option<&'a BatchCache>,
}

macro_rules! methods {
    (reads { $($read:ident($($of:ident: $type:ty),*) -> $read_result:ty;)* }
     changes { $($change:ident($($what:ident: $kind:ty),*) -> $change_result:ty;)* }) => {
        $(#[doc = concat!("[`FileSystem::", stringify!($read), "`].")]
        pub fn $read(&self, call: &Call<'_>, $($of: $type),*) -> Result<$read_result> {
            self.filesystem.$read(&self.within(call), $($of),*)
        })*
        $(#[doc = concat!("[`FileSystem::", stringify!($change), "`].")]
        pub fn $change(&self, call: &Call<'_>, $($what: $kind),*) -> Result<$change_result> {
            if let Some(cache) = self.cache {
                cache.invalidate();
            }
            self.filesystem.$change(call, $($what),*)
        })*
    };
}

impl<'a> Batched<'a> {
    /// Prepares the thread for the calls of a batch.
    #[must_use]
    pub fn new(filesystem: &'a dyn FileSystem, cache: Option<&'a BatchCache>) -> Self {
        filesystem.prepare_thread();
        Self { filesystem, cache }
    }

    fn within<'c>(&self, call: &Call<'c>) -> Call<'c>
    where
        'a: 'c,
    {
        Call {
            batch: self.cache,
            ..*call
        }
    }

    /// [`FileSystem::limits`].
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.filesystem.limits()
    }

    /// [`FileSystem::path_of`].
    #[must_use]
    pub fn path_of(&self, id: &FileId) -> Option<String> {
        self.filesystem.path_of(id)
    }

    /// [`FileSystem::object_of`].
    #[must_use]
    pub fn object_of(&self, id: &FileId) -> FileId {
        self.filesystem.object_of(id)
    }

    methods! {
        reads {
            current_root() -> FileId;
            lookup(directory: &FileId, name: &[u8]) -> Entry;
            attributes(id: &FileId) -> Attributes;
            access(id: &FileId, wanted: Access) -> (Access, Attributes);
            read_link(id: &FileId) -> (Vec<u8>, Attributes);
            read(id: &FileId, offset: u64, count: u32) -> ReadReply;
            read_directory(directory: &FileId, cookie: u64, with_attributes: bool,
                visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool) -> DirectoryPage;
            statistics() -> Statistics;
        }
        changes {
            set_attributes(id: &FileId, attributes: &SetAttributes, guard: Option<Timestamp>)
                -> Change;
            write(id: &FileId, offset: u64, data: &[u8], stability: Stability) -> Written;
            commit(id: &FileId, offset: u64, count: u32) -> Committed;
            create(directory: &FileId, name: &[u8], mode: &CreateMode) -> Created;
            make_directory(directory: &FileId, name: &[u8], attributes: &SetAttributes) -> Created;
            make_symlink(directory: &FileId, name: &[u8], target: &[u8],
                attributes: &SetAttributes) -> Created;
            make_node(directory: &FileId, name: &[u8], kind: NodeKind,
                attributes: &SetAttributes) -> Created;
            link(id: &FileId, directory: &FileId, name: &[u8]) -> (Attributes, Change);
            remove(directory: &FileId, name: &[u8]) -> Change;
            remove_directory(directory: &FileId, name: &[u8]) -> Change;
            rename(from: (&FileId, &[u8]), to: (&FileId, &[u8]), mode: RenameMode)
                -> (Change, Change);
        }
    }
}
