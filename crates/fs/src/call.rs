//! Arguments and results of the methods of a file system.

use std::time::Duration;

use crate::{
    Attributes, BatchCache, Change, Credentials, Error, FileId, OpenFile, Payload, SetAttributes,
};

/// The caller, and whether this thread may wait.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The caller.
    pub credentials: &'a Credentials,
    /// When false, a call that would wait for storage returns [`crate::Error::WouldBlock`], and has
    /// changed nothing, except that a write's first bytes may be in the file. A front tries this on
    /// the receiving thread, then repeats the call on one that may wait. A source that cannot
    /// predict a wait answers `WouldBlock` to all calls that may wait.
    pub may_block: bool,
    pub(crate) batch: Option<&'a BatchCache>,
}

impl<'a> Call<'a> {
    /// Outside a receive batch.
    #[must_use]
    pub const fn new(credentials: &'a Credentials, may_block: bool) -> Self {
        Self {
            credentials,
            may_block,
            batch: None,
        }
    }

    /// The cache of its receive batch ([`crate::Batched`]).
    #[must_use]
    pub fn batch(&self) -> Option<&'a BatchCache> {
        self.batch
    }
}

/// An object found or made, with its attributes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its identifier.
    pub id: FileId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The result of a read.
#[derive(Debug)]
pub struct ReadReply {
    /// At most as many bytes as wanted; fewer only at the end of the file or before unreadable
    /// bytes (where the next read fails).
    pub payload: Payload,
    /// Whether the payload ends at, or the offset is past, the end of the file.
    pub end_of_file: bool,
    /// The file's attributes.
    pub attributes: Attributes,
}

/// The durability of a write (RFC 1813 `stable_how`); more is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// In memory: lost with the power before a [`crate::FileSystem::commit`] returns.
    Unstable,
    /// Data, and metadata to read it back, are on the device.
    DataSync,
    /// Data and all attributes are on the device.
    FileSync,
}

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Bytes written, at least 1 unless none were given.
    pub count: u32,
    /// The durability reached, never more.
    pub committed: Stability,
    /// [`crate::FileSystem::write_verifier`] *before* the write began: a later loss changes that of
    /// the next commit.
    pub verifier: [u8; 8],
    /// The file before and after.
    pub change: Change,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The verifier *after* the data reached the device. An unstable write with another must be
    /// sent again.
    pub verifier: [u8; 8],
    /// The file before and after.
    pub change: Change,
}

/// How to create a regular file (RFC 1813 `createmode3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// An existing regular file is fine; of the attributes it takes only `size`.
    Unchecked(SetAttributes),
    /// The name must not exist.
    Guarded(SetAttributes),
    /// The name must not exist, unless made with the same verifier (a retry). The file keeps the
    /// verifier, even over a restart, until the next set-attributes.
    Exclusive([u8; 8]),
}

/// A special object (RFC 1813 `mknoddata3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Character device, major and minor.
    CharacterDevice(u32, u32),
    /// Block device, major and minor.
    BlockDevice(u32, u32),
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

/// The result of making an object.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The object.
    pub entry: Entry,
    /// Its directory, before and after.
    pub parent: Change,
}

/// What a rename does to an existing new name (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces its object, as rename(2) does.
    Replace,
    /// It must not exist.
    NoReplace,
    /// It must exist; the names exchange their objects.
    Exchange,
}

/// The fate of unstable data when the use of a file system ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// To the device, however long that takes. The file system remains usable.
    Sync,
    /// The same, as the last use; without progress for this time, abandoned.
    Within(Duration),
    /// All calls end with an error, and unstable data is lost. For a source that may wait for ever,
    /// such as a lost server.
    Abandon,
}

/// One name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// The name; may be `.` or `..`.
    pub name: &'a [u8],
    /// [`Attributes::file_id`] of the object.
    pub file_id: u64,
    /// Resumes the listing *after* this entry. Never 0, unique in the directory, stable while other
    /// names come and go, the same with and without attributes.
    pub cookie: u64,
    /// The object, when the caller wants attributes and the source could read them; may be given
    /// unasked.
    pub entry: Option<Entry>,
}

/// The result of a listing.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryPage {
    /// The directory's attributes.
    pub attributes: Attributes,
    /// Whether the visitor took the last entry.
    pub end: bool,
    /// Entries seen by this call and left out, as their stored names are invalid.
    pub unusable: u64,
}

/// Sizes of the whole file system (RFC 1813 FSSTAT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes in all.
    pub bytes_total: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Bytes free to the caller.
    pub bytes_available: u64,
    /// Objects in all.
    pub files_total: u64,
    /// Objects that can still be made.
    pub files_free: u64,
    /// Objects that the caller can still make.
    pub files_available: u64,
}

/// Limits and capabilities of a file system (RFC 1813 FSINFO and PATHCONF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing can change.
    pub read_only: bool,
    /// Largest file, in bytes, below 2^63.
    pub file_bytes_max: u64,
    /// Longest name, in bytes.
    pub name_bytes_max: u32,
    /// Most hard links to an object; 1 without hard links.
    pub links_max: u32,
    /// Whether symbolic links can exist.
    pub symlinks: bool,
    /// Whether times can be set.
    pub times_settable: bool,
    /// Grain of times, in nanoseconds.
    pub time_grain_nanoseconds: u32,
    /// Whether lookups ignore case.
    pub case_insensitive: bool,
    /// Whether objects can have POSIX access control lists (extended attributes); then the caller's
    /// umask applies in directories without a default list.
    pub access_lists: bool,
    /// Whether files lie on a file system that lies on others, such as overlayfs.
    pub stacked: bool,
    /// Whether writes keep the length of files: one across the end is cut there, one behind it is
    /// [`Error::NoSpace`].
    pub fixed_lengths: bool,
    /// How long a front may keep answers.
    pub coherence: Coherence,
}

impl Limits {
    /// The error of changes that the source does not implement.
    #[must_use]
    pub const fn refusal(&self) -> Error {
        if self.read_only {
            Error::ReadOnly
        } else {
            Error::NotPermitted
        }
    }
}

impl Default for Limits {
    /// Files and directories to read, whose answers no front keeps.
    fn default() -> Self {
        Self {
            read_only: true,
            file_bytes_max: i64::MAX.cast_unsigned(),
            name_bytes_max: 255,
            links_max: 1,
            symlinks: false,
            times_settable: false,
            time_grain_nanoseconds: 1,
            case_insensitive: false,
            access_lists: false,
            stacked: false,
            fixed_lengths: false,
            coherence: Coherence::NONE,
        }
    }
}

/// What to search in a file (lseek(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Written bytes.
    Data,
    /// A hole.
    Hole,
}

/// A change of a range without data (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Allocates space for later writes. Data stays. The file grows to the end of the range.
    Reserve,
    /// The same; the file keeps its length.
    ReserveOnly,
    /// Makes a hole; the file keeps its length.
    Punch,
    /// Allocates space that reads as zeros. The file grows to the end of the range.
    Zero,
    /// The same; the file keeps its length.
    ZeroOnly,
}

/// Keeps an object until dropped, even without a name.
pub type Hold = Box<dyn Send + Sync>;

/// An open file.
pub struct Opened {
    /// Read anew where other clients may change them.
    pub attributes: Attributes,
    /// Whether what a front kept from an earlier open is valid.
    pub keep_cache: bool,
    /// The file, if of this machine: a front may let the kernel read and write it directly.
    pub file: Option<OpenFile>,
    /// Keeps the object.
    pub hold: Option<Hold>,
}

impl Opened {
    /// Of a source without state of open files, and without other clients.
    #[must_use]
    pub fn plain(attributes: Attributes) -> Self {
        Self {
            attributes,
            keep_cache: true,
            file: None,
            hold: None,
        }
    }
}

/// How long a front may keep answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coherence {
    /// Attributes.
    pub attributes: Duration,
    /// The object of a name.
    pub names: Duration,
    /// That a name is missing.
    pub missing_names: Duration,
}

impl Coherence {
    /// None: others may change the source unseen.
    pub const NONE: Self = Self::same(Duration::ZERO);

    /// Only the front makes changes: as good as for ever.
    pub const UNCHANGED: Self = Self::same(Duration::from_secs(24 * 60 * 60));

    /// All for this time.
    #[must_use]
    pub const fn same(time: Duration) -> Self {
        Self {
            attributes: time,
            names: time,
            missing_names: time,
        }
    }
}
