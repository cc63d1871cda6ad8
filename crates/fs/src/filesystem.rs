//! The trait that every source implements and every front uses.

use crate::{
    Access, Attributes, Call, Change, Committed, CreateMode, Created, DirectoryEntry,
    DirectoryPage, Entry, ExtendedAttributes, FileId, Finish, Hold, Limits, LocalFiles, NodeKind,
    Opened, ReadReply, RenameMode, Result, Seek, SetAttributes, Space, Stability, Statistics,
    Timestamp, Written,
};

/// A tree of files. Every method may be called from any number of threads at once.
///
/// Names are checked with [`crate::name`]. Permission is checked for `call.credentials` as the
/// local system would, with the two liberties of NFS (RFC 1813 section 4.4): the owner may read
/// and write a file whatever its mode says, and execute permission lets a file be read.
///
/// A source implements what it can do. Changes that it does not implement are refused
/// ([`Limits::refusal`]), so one that is only read implements none of them.
pub trait FileSystem: Send + Sync {
    /// One line for people: the kind and what it serves.
    fn describe(&self) -> String;

    /// The files of this machine that the objects are, where they are such files. A layer that
    /// changes what calls do has none.
    fn as_local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// Prepares the thread for calls, as [`crate::Batched::new`] does for a front that serves
    /// several file systems. By default it acts for the server; a source that sets its identity
    /// itself, or opens nothing and starts no thread, need not have that.
    fn prepare_thread(&self) {
        crate::identity::act_for_server();
    }

    /// The root directory.
    fn root(&self) -> FileId;

    /// The root directory for a client that begins to use the tree: another one than before where
    /// the old one was removed and there is a new one in its place.
    fn current_root(&self, _call: &Call<'_>) -> Result<FileId> {
        Ok(self.root())
    }

    /// What tells this tree from any other that may be served in its place, by the same name, in
    /// another life of the server: handles are only good for the tree that they were made for. The
    /// same after a restart.
    fn tree_id(&self) -> Vec<u8> {
        self.root().as_bytes().to_vec()
    }

    /// The path of an object, for people; `None` when it is not known at once.
    fn path_of(&self, _id: &FileId) -> Option<String> {
        None
    }

    /// The object with this number ([`Attributes::file_id`]), where no other ever had it.
    fn id_of_number(&self, _number: u64) -> Option<FileId> {
        None
    }

    /// What the file system can hold and do.
    fn limits(&self) -> Limits;

    /// Finds `name` in a directory. `.` is the directory itself, `..` its parent; the parent of
    /// the root is the root. Symbolic links are not followed.
    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry>;

    /// Attributes of an object.
    fn attributes(&self, call: &Call<'_>, id: &FileId) -> Result<Attributes>;

    /// Changes attributes. With `guard`, only if the object's `changed` time equals it, else
    /// [`crate::Error::NotSync`] and nothing is changed. All or nothing: what is refused is
    /// refused before the first change. The change is on the device when this returns.
    fn set_attributes(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _attributes: &SetAttributes,
        _guard: Option<Timestamp>,
    ) -> Result<Change> {
        Err(self.limits().refusal())
    }

    /// Which of the `wanted` kinds of access the caller has.
    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)>;

    /// Target of a symbolic link; [`crate::Error::Invalid`] on anything else.
    fn read_link(&self, call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)>;

    /// Where `count` bytes from `offset` are. Past the end there are none.
    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply>;

    /// Where from `offset` on the file has data, or a hole, which reads as zeros; its end counts as
    /// one. [`crate::Error::NoDevice`] at the end of the file and past it, and where no data
    /// follows.
    fn seek(&self, _call: &Call<'_>, _id: &FileId, _offset: u64, _wanted: Seek) -> Result<u64> {
        Err(crate::Error::NotSupported)
    }

    /// Allocates space for, or makes a hole of, the `(offset, length)` given.
    /// [`crate::Error::NotSupported`] where that is not known, or not this.
    fn allocate(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _range: (u64, u64),
        _space: Space,
    ) -> Result<()> {
        Err(crate::Error::NotSupported)
    }

    /// Copies up to `length` bytes from a file at an offset to another, or the same elsewhere, as
    /// copy_file_range(2) does, and says how many: none at the end of the file. Unstable, as
    /// written.
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

    /// Writes `data` at `offset`, extending the file as needed.
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

    /// Brings unstable writes of the range to the device; `count` 0 means to the end of the file.
    fn commit(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _offset: u64,
        _count: u32,
    ) -> Result<Committed> {
        Err(self.limits().refusal())
    }

    /// Names this life of the unstable data, of one file or of all: changes at every restart and
    /// whenever unstable data of it was or may have been lost. A source that is only read has no
    /// such data. What is lost of one file need not change the verifier of others, nor that of all.
    fn write_verifier(&self, _id: Option<&FileId>) -> [u8; 8] {
        [0; 8]
    }

    /// Creates a regular file. On the device when this returns, as all that follows here.
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

    /// Makes a symbolic link to `target`, which is any bytes but NUL and not looked at.
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

    /// Gives the object `id` one more name. Returns the object's attributes after, and the
    /// directory's change.
    fn link(
        &self,
        _call: &Call<'_>,
        _id: &FileId,
        _directory: &FileId,
        _name: &[u8],
    ) -> Result<(Attributes, Change)> {
        Err(self.limits().refusal())
    }

    /// Removes a name that is not a directory's ([`crate::Error::IsDirectory`]).
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

    /// Moves a name of a directory to a name of a directory. Returns the changes of the old and of
    /// the new directory. [`crate::Error::Invalid`] for a mode that the source does not have.
    fn rename(
        &self,
        _call: &Call<'_>,
        _from: (&FileId, &[u8]),
        _to: (&FileId, &[u8]),
        _mode: RenameMode,
    ) -> Result<(Change, Change)> {
        Err(self.limits().refusal())
    }

    /// Lists a directory after the entry whose cookie is given (0: from the start). `visit` is
    /// called for each entry, with attributes when `with_attributes`; when it returns false the
    /// entry was not taken and the listing stops there. No lock of a directory is held over the
    /// whole listing. A cookie that names no place any more resumes at the next entry that is
    /// there, or gives [`crate::Error::BadCookie`] when that cannot be told.
    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage>;

    /// Sizes of the whole.
    fn statistics(&self, call: &Call<'_>) -> Result<Statistics>;

    /// Brings everything unstable to the device, or gives it up, and says how many bytes are lost.
    /// There is nothing to do where nothing is written, or nothing kept.
    fn finish(&self, _how: Finish) -> Result<u64> {
        Ok(0)
    }

    /// A program opens an object that it will read or write. Fronts that are told of opening and
    /// closing call it once for each open file, and [`FileSystem::close`] for each close; NFS has
    /// no such calls, so every other method works on objects that nobody has opened.
    ///
    /// Access is not checked here: the caller has asked [`FileSystem::access`].
    fn open(&self, call: &Call<'_>, id: &FileId) -> Result<Opened> {
        Ok(Opened::plain(self.attributes(call, id)?))
    }

    /// A program opens a directory on this machine: keeps it there, also without a name, until what
    /// is returned is dropped. `None` where a directory without a name is gone all the same.
    fn hold(&self, _call: &Call<'_>, _id: &FileId) -> Result<Option<Hold>> {
        Ok(None)
    }

    /// The part of an identifier that names the object, of a kind whose identifiers also tell where
    /// it was found: the same in all identifiers of an object.
    fn object_of(&self, id: &FileId) -> FileId {
        *id
    }

    /// Brings the attributes of a file, or what was made, removed and renamed in a directory, to
    /// the device. There is nothing to do where that is done before those calls return.
    fn commit_metadata(&self, _call: &Call<'_>, _id: &FileId) -> Result<()> {
        Ok(())
    }

    /// A descriptor of an open file is closed: what was written through it goes where others see
    /// it, and an error of a write that was not reported yet is reported. Called for each close(2),
    /// so more than once for a file whose descriptor was duplicated.
    fn close(&self, _call: &Call<'_>, _id: &FileId) -> Result<()> {
        Ok(())
    }
}
