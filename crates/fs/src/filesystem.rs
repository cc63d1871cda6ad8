//! The trait that every source implements and every front uses.

use crate::{
    Access, Attributes, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, ExtendedAttributes, FileId, Finish, Hold, Limits, LocalFiles, NodeKind,
    Opened, ReadReply, RenameMode, Result, Seek, SetAttributes, Space, Stability, Statistics,
    Timestamp, Written,
};

/// A tree of files. Any number of threads may call each method at once.
///
/// A source checks names with [`crate::name`], and permission for `call.credentials` as the local
/// system does, with the liberties of NFS (RFC 1813 section 4.4): owners may read and write a file
/// whatever its mode, and execute permission lets it be read.
///
/// The defaults refuse changes ([`Limits::refusal`]).
pub trait FileSystem: Send + Sync {
    /// The kind and what it serves, in one line.
    fn describe(&self) -> String;

    /// The files of this machine behind the objects; none of a layer that changes the effect of
    /// calls.
    fn as_local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// Prepares the thread for calls; [`crate::Batched::new`] does so. By default takes the
    /// server's identity.
    fn prepare_thread(&self) {
        crate::identity::act_for_server();
    }

    /// The root directory.
    fn root(&self) -> FileId;

    /// The root directory for a new client: another where the old was replaced.
    fn current_root(&self, _call: &Call<'_>) -> Result<FileId> {
        Ok(self.root())
    }

    /// Distinguishes this tree from others that a later run may serve by the same name, as handles
    /// are valid only for their own. The same after a restart.
    fn tree_id(&self) -> Vec<u8> {
        self.root().as_bytes().to_vec()
    }

    /// The path of an object, for people; `None` if that would take time.
    fn path_of(&self, _id: &FileId) -> Option<String> {
        None
    }

    /// The object with this [`Attributes::file_id`], where numbers are never used again.
    fn id_of_number(&self, _number: u64) -> Option<FileId> {
        None
    }

    /// Limits and capabilities.
    fn limits(&self) -> Limits;

    /// Finds `name` in a directory; `..` of the root is the root. Does not follow symbolic links.
    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry>;

    /// Attributes of an object.
    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes>;

    /// Changes attributes, if `guard` equals the object's `changed` time, else
    /// [`crate::Error::NotSync`]. All or nothing, on the device on return.
    fn set_attributes(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _attributes: &SetAttributes,
        _guard: Option<Timestamp>,
    ) -> Result<Change> {
        Err(self.limits().refusal())
    }

    /// What of `wanted` the caller has.
    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)>;

    /// The target of a symbolic link; [`crate::Error::Invalid`] on other objects.
    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)>;

    /// Where `count` bytes from `offset` are; none past the end.
    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply>;

    /// Begins to bring files into memory, as room allows: they are read next, whole, in about this
    /// order. Waits for nothing, and reports no errors.
    fn read_ahead(&self, _files: &[FileId]) {}

    /// The first data, or hole, from `offset` on; the end of the file counts as a hole.
    /// [`crate::Error::NoDevice`] from there on, and where no data follows.
    fn seek(&self, _call: &Call<'_>, _id: &FileId, _offset: u64, _wanted: Seek) -> Result<u64> {
        Err(crate::Error::NotSupported)
    }

    /// Allocates space for `(offset, length)`, or makes it a hole. [`crate::Error::NotSupported`]
    /// where the source cannot do this.
    fn allocate(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _range: (u64, u64),
        _space: Space,
    ) -> Result<()> {
        Err(crate::Error::NotSupported)
    }

    /// Copies up to `length` bytes between offsets of two files, or of one, as copy_file_range(2)
    /// does. Returns how many: none at the end of the file. Unstable, as a write.
    fn copy(
        &self,
        _call: &Call<'_>,
        _from: (&FileId, u64),
        _to: (&FileId, u64),
        _length: u64,
    ) -> Result<u64> {
        Err(crate::Error::NotSupported)
    }

    /// Extended attributes (xattr(7)); `None` where objects have none.
    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        None
    }

    /// Writes at `offset`, extending the file as needed.
    fn write(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _offset: u64,
        _data: &[u8],
        _stability: Stability,
    ) -> Result<Written> {
        Err(self.limits().refusal())
    }

    /// Brings unstable writes of the range to the device; `count` 0: to the end of the file.
    fn commit(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _offset: u64,
        _count: u32,
    ) -> Result<Committed> {
        Err(self.limits().refusal())
    }

    /// Identifies this run for unstable data, of one file or of all: changes at each restart and
    /// whenever such data may have been lost. A loss in one file need not change other verifiers.
    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        [0; 8]
    }

    /// Creates a regular file, on the device on return, as for all methods below.
    fn create(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _name: &[u8],
        _mode: &CreateMode,
    ) -> Result<Created> {
        Err(self.limits().refusal())
    }

    /// Makes a directory.
    fn make_directory(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _name: &[u8],
        _attributes: &SetAttributes,
    ) -> Result<Created> {
        Err(self.limits().refusal())
    }

    /// Makes a symbolic link; `target` is any bytes but NUL.
    fn make_symlink(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _name: &[u8],
        _target: &[u8],
        _attributes: &SetAttributes,
    ) -> Result<Created> {
        Err(self.limits().refusal())
    }

    /// Makes a device, socket or pipe.
    fn make_node(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _name: &[u8],
        _kind: NodeKind,
        _attributes: &SetAttributes,
    ) -> Result<Created> {
        Err(self.limits().refusal())
    }

    /// Adds a name to an object. Returns its attributes after, and the directory's change.
    fn link(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _directory: &FileId,
        _name: &[u8],
    ) -> Result<(Attributes, Change)> {
        Err(self.limits().refusal())
    }

    /// Removes a name, but not of a directory ([`crate::Error::IsDirectory`]).
    fn remove(&self, _call: &Call<'_>, _directory: &FileId, _name: &[u8]) -> Result<Change> {
        Err(self.limits().refusal())
    }

    /// Removes an empty directory.
    fn remove_directory(
        &self,
        _call: &Call<'_>,
        _directory: &FileId,
        _name: &[u8],
    ) -> Result<Change> {
        Err(self.limits().refusal())
    }

    /// Moves a name. Returns the changes of the old and the new directory.
    /// [`crate::Error::Invalid`] for a mode that the source lacks.
    fn rename(
        &self,
        _call: &Call<'_>,
        _from: (&FileId, &[u8]),
        _to: (&FileId, &[u8]),
        _mode: RenameMode,
    ) -> Result<(Change, Change)> {
        Err(self.limits().refusal())
    }

    /// Lists a directory after the entry with this cookie (0: from the start). Calls `visit` for
    /// each entry, with attributes if `with_attributes`; false: it did not take the entry, and the
    /// listing ends. Holds no lock throughout. A cookie without a place resumes at the next entry,
    /// or gives [`crate::Error::BadCookie`].
    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage>;

    /// Sizes of the whole file system.
    fn statistics(&self, call: &Call<'_>) -> Result<Statistics>;

    /// Brings all unstable data to the device, or abandons it. Returns how many bytes are lost.
    fn finish(&self, _how: Finish) -> Result<u64> {
        Ok(0)
    }

    /// Opens an object for a program that will read or write it, until [`FileSystem::close`]. NFS
    /// has none, so other methods work on objects that are not open.
    ///
    /// Does not check access: the caller has called [`FileSystem::access`].
    fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        Ok(Opened::plain(self.attributes(call, id)?))
    }

    /// Keeps a directory that a program on this machine opens, even without a name. `None` where a
    /// directory ends with its name.
    fn hold(&self, _call: &Call<'_>, _id: &FileId) -> Result<Option<Hold>> {
        Ok(None)
    }

    /// What all identifiers of an object share, where they also have path hints.
    fn object_of(&self, id: &FileId) -> FileId {
        *id
    }

    /// Brings attributes of a file, or name changes in a directory, to the device, unless their
    /// calls did.
    fn commit_metadata(&self, _call: &Call<'_>, _id: &FileId) -> Result<()> {
        Ok(())
    }

    /// Closes a descriptor: data written through it becomes visible to other clients, and write
    /// errors are reported. Called for each close(2), so several times for duplicates.
    fn close(&self, _call: &Call<'_>, _id: &FileId) -> Result<()> {
        Ok(())
    }
}
