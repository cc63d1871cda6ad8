//! What calls are given, and what they answer.

use std::time::Duration;

use crate::{
    Attributes, BatchCache, Change, Credentials, Error, FileId, OpenFile, Payload, SetAttributes,
};

/// On whose behalf a call is made, and whether this thread may wait.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// On whose behalf.
    pub credentials: &'a Credentials,
    /// When false, a call that would wait for storage returns [`crate::Error::WouldBlock`]. It has
    /// changed nothing then, but for a write: the first of its bytes may be in the file already, as
    /// after a write that failed. A front asks so first, on the thread that received the request,
    /// and again with true on a thread that may wait. A source that cannot tell answers
    /// `WouldBlock` to whatever may wait.
    pub may_block: bool,
    pub(crate) batch: Option<&'a BatchCache>,
}

impl<'a> Call<'a> {
    /// A call of no receive batch.
    #[must_use]
    pub const fn new(credentials: &'a Credentials, may_block: bool) -> Self {
        Self {
            credentials,
            may_block,
            batch: None,
        }
    }

    /// What the calls share that were received with this one ([`crate::Batched`]).
    #[must_use]
    pub fn batch(&self) -> Option<&'a BatchCache> {
        self.batch
    }
}

/// An object found or made, with its attributes at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names it from now on.
    pub id: FileId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// What a read found.
#[derive(Debug)]
pub struct ReadReply {
    /// Where the bytes are; at most as many as asked for, fewer only at the end of the file or
    /// before bytes that cannot be read (the next read, from there, then fails).
    pub payload: Payload,
    /// Whether the payload ends at (or the offset is past) the end of the file.
    pub end_of_file: bool,
    /// The file's attributes.
    pub attributes: Attributes,
}

/// How durable a write must be, or is (RFC 1813 `stable_how`). Ordered: more is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// In memory: lost with the power unless a later [`crate::FileSystem::commit`] returned.
    Unstable,
    /// The data, and what is needed to read it back, is on the device.
    DataSync,
    /// Data and all attributes are on the device.
    FileSync,
}

/// What a write did.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Bytes written, at least 1 unless none were given.
    pub count: u32,
    /// What was really reached; never claims more than was done.
    pub committed: Stability,
    /// [`crate::FileSystem::write_verifier`] as it was *before* the write began: a loss after that
    /// changes the verifier that the next commit returns.
    pub verifier: [u8; 8],
    /// The file before and after.
    pub change: Change,
}

/// What a commit did.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// The verifier *after* the data reached the device. A writer that was given another one
    /// must send its unstable writes again.
    pub verifier: [u8; 8],
    /// The file before and after.
    pub change: Change,
}

/// How to create a regular file (RFC 1813 `createmode3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// An existing regular file is fine: only `size` of the attributes is applied to it.
    Unchecked(SetAttributes),
    /// The name must not exist.
    Guarded(SetAttributes),
    /// The name must not exist, unless it was made with the same verifier (a retry). The
    /// verifier is kept with the file, survives restart, and goes with the next set-attributes.
    Exclusive([u8; 8]),
}

/// A special object to make (RFC 1813 `mknoddata3`).
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

/// An object that was made.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The object.
    pub entry: Entry,
    /// Its directory, before and after.
    pub parent: Change,
}

/// What becomes of the new name of a rename (renameat2(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// What it meant is replaced, as rename(2) does.
    Replace,
    /// It must not exist.
    NoReplace,
    /// It exists, and each of the two means from now on what the other one did.
    Exchange,
}

/// What becomes of unstable data when the use of a file system ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It goes to the device, however long that takes. The file system can be used further.
    Sync,
    /// The same, and the file system is not used any more. Without progress for so long the data
    /// is abandoned.
    Within(Duration),
    /// Every call in progress and to come ends with an error, and what is not on the device is
    /// lost. For a source that may wait for ever, such as a server that is gone, when the program
    /// is to end all the same; others have nothing to give up.
    Abandon,
}

/// One name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// The name; `.` and `..` are listed too.
    pub name: &'a [u8],
    /// [`Attributes::file_id`] of the object.
    pub file_id: u64,
    /// Resumes the listing *after* this entry. Never 0, unique in the directory, stable while
    /// other names come and go, the same with and without attributes.
    pub cookie: u64,
    /// The object itself, when attributes were asked for and it could be examined; a source that
    /// knows it anyway may tell it also when they were not.
    pub entry: Option<Entry>,
}

/// How a listing went.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryPage {
    /// The directory's attributes.
    pub attributes: Attributes,
    /// Whether the last entry was given to the visitor and taken.
    pub end: bool,
    /// Entries that were left out because what the source calls them can be no name, among those
    /// that this call looked at.
    pub unusable: u64,
}

/// Sizes of the whole file system, in bytes and in objects (RFC 1813 FSSTAT).
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

/// What a file system can hold and do (RFC 1813 FSINFO and PATHCONF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Largest file, in bytes, below 2^63.
    pub file_bytes_max: u64,
    /// Longest name, in bytes.
    pub name_bytes_max: u32,
    /// Most hard links to one object; 1 when there are no hard links.
    pub links_max: u32,
    /// Whether symbolic links can exist.
    pub symlinks: bool,
    /// Whether times can be set.
    pub times_settable: bool,
    /// Grain of times, in nanoseconds.
    pub time_grain_nanoseconds: u32,
    /// Whether lookups ignore the case of letters.
    pub case_insensitive: bool,
    /// Whether objects can have POSIX access control lists, which are extended attributes, and the
    /// caller's umask is applied where a directory has no default one.
    pub access_lists: bool,
    /// Whether opened files lie on a file system that itself lies on others, such as overlayfs.
    pub stacked: bool,
    /// How long a front may keep answers.
    pub coherence: Coherence,
}

impl Limits {
    /// The answer to a change that the source does not implement.
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
    /// Files and directories that can only be read, and of which nothing is kept.
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
            coherence: Coherence::NONE,
        }
    }
}

/// What a file is searched for (lseek(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that were written.
    Data,
    /// None.
    Hole,
}

/// What is done with a range of a file, instead of writing to it (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Space is allocated for it, so that writes to it find some. What is there stays. The file
    /// gets as long as the range reaches.
    Reserve,
    /// The same, and the file stays as long as it is.
    ReserveOnly,
    /// It becomes a hole; the file stays as long as it is.
    Punch,
    /// It reads as zeros, and space is allocated for it. The file gets as long as the range
    /// reaches.
    Zero,
    /// The same, and the file stays as long as it is.
    ZeroOnly,
}

/// Keeps an object there, also without a name, until it is dropped.
pub type Hold = Box<dyn Send + Sync>;

/// An open file.
pub struct Opened {
    /// Its attributes, asked for anew where others may have changed them.
    pub attributes: Attributes,
    /// Whether data that a front kept from an earlier open is still right.
    pub keep_cache: bool,
    /// The file itself, where it is one of this machine: a front may have the kernel read and
    /// write it without asking again.
    pub file: Option<OpenFile>,
    /// Keeps the object there, also without a name, until it is dropped.
    pub hold: Option<Hold>,
}

impl Opened {
    /// A file of a source that needs to know nothing of opening, and that nobody else changes.
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
    /// What a name means.
    pub names: Duration,
    /// That a name means nothing.
    pub missing_names: Duration,
}

impl Coherence {
    /// Nothing is kept: others change the source in ways that it cannot see.
    pub const NONE: Self = Self::same(Duration::ZERO);

    /// Nothing changes but through the front itself: as good as for ever.
    pub const UNCHANGED: Self = Self::same(Duration::from_secs(24 * 60 * 60));

    /// Everything is kept so long.
    #[must_use]
    pub const fn same(time: Duration) -> Self {
        Self {
            attributes: time,
            names: time,
            missing_names: time,
        }
    }
}
