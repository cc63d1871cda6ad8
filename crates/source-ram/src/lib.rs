//! A file system in memory, bounded by a size: `ram:SIZE`.
//!
//! Problem: behave as a local POSIX directory seen through NFSv3 does, for many threads at once,
//! with reads that copy nothing.
//!
//! Two kinds of lock, one rule. Every inode has a lock around its attributes and its content.
//! A call that changes which names exist also holds the one tree lock. **A thread without the tree
//! lock holds at most one inode lock at a time; a thread with it may hold several.** So the holder
//! of the tree lock waits only for threads that wait for nobody, and nothing can dead-lock. A
//! rename holds both directories, so nobody sees the object in both or in neither; a lookup, a
//! listing, a read or a write never waits for a rename elsewhere.
//!
//! Before and after of a change are both taken under the lock of the object that changed, so weak
//! cache consistency data is always there and always true.
//!
//! What is told about durability: nothing outlives the process, and no write can be made safer
//! than it is when it returns. A write reports the stability that was asked for: a client that
//! asks for FILE_SYNC gets the strongest there is and need not commit; one that asked for UNSTABLE
//! keeps its copy until it commits. The write verifier is another one in every life, and so are
//! the identifiers: after a restart every old one is stale, never another object.
//!
//! Access times: reading does not move them (as `noatime`); they start at creation and can be set.
//!
//! Known weaknesses: creations, removals and renames are one at a time (each takes microseconds);
//! memory of pages that readers hold is charged only once although a write made a second copy.

mod create;
mod data;
mod directory;
mod exchange;
mod extended;
mod files;
mod inode;
mod list;
mod memory;
mod opening;
mod page;
mod permission;
mod quota;
mod remove;
mod rename;
mod seek;
mod setattr;
mod space;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directory::Directory;
use inode::{Body, Inode, Metadata, State};
use quota::{INODE_BYTES, OBJECT_BYTES_MIN, Storage};
use table::Table;

use pagewell_fs::{
    Access, Attributes, Call, Change, Coherence, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, Error, FileId, FileSystem, Hold, Limits, Move, NodeKind, OpenIntent,
    Opened, Presence, ReadReply, Result, Seek, SetAttributes, Space, Stability, Statistics,
    Timestamp, Written,
};

/// Largest file: what a client's signed 64-bit offset reaches. A hole costs nothing.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Most names of an object, and sub-directories of a directory.
const LINKS_MAX: u32 = i32::MAX as u32;

/// Permission bits with set-user-id, set-group-id and sticky.
const MODE_BITS: u32 = 0o7777;

/// Mode of the root directory: as `/tmp`, since there is nobody else to open it for users.
const ROOT_MODE: u32 = 0o1777;

const INSTANCE_BYTES: usize = 8;
const ID_BYTES: usize = 16;

/// A writable tree in memory. Everything is lost when it is dropped.
pub struct RamFileSystem {
    /// Random for each life; the first half of every identifier.
    instance: [u8; INSTANCE_BYTES],
    verifier: [u8; 8],
    root: u64,
    storage: Arc<Storage>,
    table: Arc<Table>,
    /// Held while names change.
    tree: Mutex<()>,
}

impl RamFileSystem {
    /// An empty tree that holds at most `size_bytes` of data, names and objects. The root belongs
    /// to uid 0 and has the mode of `/tmp`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a size that cannot hold the root directory, such as 0;
    /// [`Error::Io`] when the system gives no random bytes or has not so many addresses.
    pub fn new(size_bytes: u64) -> Result<Self> {
        if size_bytes < INODE_BYTES {
            return Err(Error::Invalid);
        }
        let filesystem = Self {
            instance: random_bytes()?,
            verifier: random_bytes()?,
            root: 1,
            storage: Arc::new(Storage::new(size_bytes)?),
            table: Arc::new(Table::new()),
            tree: Mutex::new(()),
        };
        let root = filesystem.table.next_number();
        assert_eq!(root, filesystem.root, "the first number is the root's");
        filesystem.storage.quota.take(INODE_BYTES)?;
        let body = Body::Directory(Directory::new(root));
        let state = State::new(body, ROOT_MODE, 0, 0);
        filesystem.table.insert(root, state);
        Ok(filesystem)
    }

    fn lock_tree(&self) -> MutexGuard<'_, ()> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn filesystem_id(&self) -> u64 {
        u64::from_le_bytes(self.instance)
    }

    fn id_of(&self, number: u64) -> FileId {
        let mut bytes = [0; ID_BYTES];
        bytes[..INSTANCE_BYTES].copy_from_slice(&self.instance);
        bytes[INSTANCE_BYTES..].copy_from_slice(&number.to_le_bytes());
        FileId::of(&bytes)
    }

    /// The object an identifier names.
    fn inode(&self, id: &FileId) -> Result<Arc<Inode>> {
        let bytes: &[u8; ID_BYTES] = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        let (instance, number) = bytes.split_at(INSTANCE_BYTES);
        if instance != self.instance {
            return Err(Error::Stale);
        }
        let number: [u8; 8] = number.try_into().map_err(|_| Error::BadId)?;
        self.numbered(u64::from_le_bytes(number))
    }

    fn numbered(&self, number: u64) -> Result<Arc<Inode>> {
        self.table.get(number).ok_or(Error::Stale)
    }

    fn attributes_of(&self, inode: &Inode, state: &State) -> Attributes {
        state.attributes(inode.number, self.filesystem_id())
    }

    fn entry_of(&self, inode: &Inode, state: &State) -> Entry {
        Entry {
            id: self.id_of(inode.number),
            attributes: self.attributes_of(inode, state),
        }
    }

    /// Bytes that the quota counts now.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.storage.quota.used_bytes()
    }
}

impl State {
    /// An object made now; directories have two links from the start, others one.
    fn new(body: Body, mode: u32, uid: u32, gid: u32) -> Self {
        let now = Timestamp::now();
        let link_count = if body.file_type().is_directory() {
            2
        } else {
            1
        };
        Self {
            metadata: Metadata {
                mode,
                uid,
                gid,
                link_count,
                accessed: now,
                modified: now,
                changed: now,
                verifier: None,
            },
            body,
            extended: None,
            gone: false,
            holds: 0,
        }
    }
}

fn random_bytes() -> Result<[u8; 8]> {
    let mut bytes = [0; 8];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if count == bytes.len() {
        Ok(bytes)
    } else {
        Err(Error::Io(format!(
            "{count} random bytes of {}",
            bytes.len()
        )))
    }
}

fn describe_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    units
        .into_iter()
        .find(|(shift, _)| bytes >> shift > 0 && bytes.is_multiple_of(1 << shift))
        .map_or_else(
            || format!("{bytes} bytes"),
            |(shift, unit)| format!("{} {unit}", bytes >> shift),
        )
}

impl FileSystem for RamFileSystem {
    fn describe(&self) -> String {
        format!("ram, {}", describe_bytes(self.storage.quota.total_bytes()))
    }

    fn root(&self) -> FileId {
        self.id_of(self.root)
    }

    fn id_of_number(&self, number: u64) -> Option<FileId> {
        self.table.get(number).map(|_| self.id_of(number))
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: false,
            file_bytes_max: FILE_BYTES_MAX,
            name_bytes_max: 255,
            links_max: LINKS_MAX,
            symlinks: true,
            times_settable: true,
            time_grain_nanoseconds: 1,
            case_insensitive: false,
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        self.lookup_name(call.credentials, directory, name)
    }

    fn attributes(&self, _call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        Ok(self.attributes_of(&inode, &state))
    }

    fn set_attributes(
        &self,
        call: &Call<'_>,
        id: &FileId,
        attributes: &SetAttributes,
        guard: Option<Timestamp>,
    ) -> Result<Change> {
        self.set_attributes_of(call.credentials, id, attributes, guard)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        let granted = permission::access(call.credentials, &state, wanted);
        Ok((granted, self.attributes_of(&inode, &state)))
    }

    fn read_link(&self, _call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        let inode = self.inode(id)?;
        let state = inode.read()?;
        match &state.body {
            Body::Symlink(target) => Ok((target.to_vec(), self.attributes_of(&inode, &state))),
            _ => Err(Error::Invalid),
        }
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        self.read_data(call.credentials, id, offset, count)
    }

    fn seek(&self, call: &Call<'_>, id: &FileId, offset: u64, wanted: Seek) -> Result<u64> {
        self.seek_data(call.credentials, id, offset, wanted)
    }

    fn allocate(
        &self,
        call: &Call<'_>,
        id: &FileId,
        range: (u64, u64),
        space: Space,
    ) -> Result<()> {
        self.allocate_data(call.credentials, id, range, space)
    }

    fn has_extended_attributes(&self) -> bool {
        true
    }

    fn extended_attribute(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<Vec<u8>> {
        self.extended_of(call.credentials, id, name)
    }

    fn extended_attribute_names(&self, call: &Call<'_>, id: &FileId) -> Result<Vec<u8>> {
        self.extended_names_of(call.credentials, id)
    }

    fn set_extended_attribute(
        &self,
        call: &Call<'_>,
        id: &FileId,
        name: &CStr,
        value: &[u8],
        presence: Presence,
    ) -> Result<()> {
        self.set_extended_of(call.credentials, id, name, value, presence)
    }

    fn remove_extended_attribute(&self, call: &Call<'_>, id: &FileId, name: &CStr) -> Result<()> {
        self.remove_extended_of(call.credentials, id, name)
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        self.write_data(call.credentials, id, offset, data, stability)
    }

    fn commit(
        &self,
        _call: &Call<'_>,
        id: &FileId,
        _offset: u64,
        _count: u32,
    ) -> Result<Committed> {
        self.commit_data(id)
    }

    fn write_verifier(&self) -> [u8; 8] {
        self.verifier
    }

    fn create(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        mode: &CreateMode,
    ) -> Result<Created> {
        self.create_file(call.credentials, directory, name, mode)
    }

    fn make_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.create_directory(call.credentials, directory, name, attributes)
    }

    fn make_symlink(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        target: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.create_symlink(call.credentials, directory, name, target, attributes)
    }

    fn make_node(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        name: &[u8],
        kind: NodeKind,
        attributes: &SetAttributes,
    ) -> Result<Created> {
        self.create_node(call.credentials, directory, name, kind, attributes)
    }

    fn link(
        &self,
        call: &Call<'_>,
        id: &FileId,
        directory: &FileId,
        name: &[u8],
    ) -> Result<(Attributes, Change)> {
        self.link_name(call.credentials, id, directory, name)
    }

    fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.remove_name(call.credentials, directory, name, remove::What::File)
    }

    fn remove_directory(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
        self.remove_name(call.credentials, directory, name, remove::What::Directory)
    }

    fn rename(
        &self,
        call: &Call<'_>,
        from_directory: &FileId,
        from_name: &[u8],
        to_directory: &FileId,
        to_name: &[u8],
    ) -> Result<(Change, Change)> {
        self.rename_name(
            call.credentials,
            (from_directory, from_name),
            (to_directory, to_name),
            None,
        )
    }

    fn move_name(
        &self,
        call: &Call<'_>,
        from: (&FileId, &[u8]),
        to: (&FileId, &[u8]),
        how: Move,
    ) -> Result<(Change, Change)> {
        self.rename_name(call.credentials, from, to, Some(how))
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        self.list(call.credentials, directory, cookie, with_attributes, visit)
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        let bytes_total = self.storage.quota.total_bytes();
        let bytes_free = bytes_total - self.storage.quota.used_bytes();
        let files_free = bytes_free / OBJECT_BYTES_MIN;
        Ok(Statistics {
            bytes_total,
            bytes_free,
            bytes_available: bytes_free,
            files_total: self.table.count() + files_free,
            files_free,
            files_available: files_free,
        })
    }

    fn coherence(&self) -> Coherence {
        Coherence::UNCHANGED
    }

    fn open(&self, _call: &Call<'_>, id: &FileId, _intent: OpenIntent) -> Result<Opened> {
        self.open_object(id)
    }

    fn hold(&self, _call: &Call<'_>, id: &FileId) -> Result<Option<Hold>> {
        self.hold_directory(id).map(Some)
    }
}
