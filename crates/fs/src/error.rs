//! The error type, and its mapping to and from errno.

use rustix::io::Errno;

/// The result of every call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Each maps to one `nfsstat3` (in the server) and one errno
/// ([`Error::to_errno`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not the owner, or not the superuser.
    #[error("operation not permitted")]
    NotPermitted,
    /// No such name.
    #[error("no such file or directory")]
    NotFound,
    /// The storage failed; names the place and the reason.
    #[error("I/O error: {0}")]
    Io(String),
    /// No such device.
    #[error("no such device")]
    NoDevice,
    /// Permission bits refuse.
    #[error("permission denied")]
    AccessDenied,
    /// The name exists already.
    #[error("file exists")]
    Exists,
    /// Crosses from one file system to another.
    #[error("crosses file systems")]
    CrossDevice,
    /// Needs a directory.
    #[error("not a directory")]
    NotDirectory,
    /// Does not work on a directory.
    #[error("is a directory")]
    IsDirectory,
    /// An argument makes no sense.
    #[error("invalid argument")]
    Invalid,
    /// Past the largest size of a file.
    #[error("file too large")]
    FileTooLarge,
    /// The storage or the configured size is full.
    #[error("no space left")]
    NoSpace,
    /// The storage below the source is full; names it and the reason. For callers
    /// [`Error::NoSpace`].
    #[error("no space left below: {0}")]
    FullBelow(String),
    /// The source cannot be written.
    #[error("read-only file system")]
    ReadOnly,
    /// Too many hard links.
    #[error("too many links")]
    TooManyLinks,
    /// A name longer than [`crate::Limits::name_bytes_max`].
    #[error("name too long")]
    NameTooLong,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// The owner's quota is used up.
    #[error("quota exceeded")]
    QuotaExceeded,
    /// The same of the storage below; names it and the reason.
    #[error("quota exceeded below: {0}")]
    QuotaBelow(String),
    /// No such extended attribute.
    #[error("no data available")]
    NoData,
    /// The value of an extended attribute is too long.
    #[error("argument list too long")]
    TooBig,
    /// The object is gone.
    #[error("stale file identifier")]
    Stale,
    /// The identifier was never valid.
    #[error("malformed file identifier")]
    BadId,
    /// The guard of a set-attributes call differs.
    #[error("guard does not match")]
    NotSync,
    /// A directory cookie without a place.
    #[error("bad directory cookie (NFS3ERR_BAD_COOKIE)")]
    BadCookie,
    /// The source has no such operation.
    #[error("operation not supported")]
    NotSupported,
    /// The source makes no such type of object.
    #[error("type not supported")]
    BadType,
    /// The storage is slow, or the machine short of a resource.
    #[error("try again later: storage is slow, or memory or file descriptors are short")]
    TryLater,
    /// The call would wait, against [`crate::Call::may_block`]. Never reaches a client.
    #[error("would block")]
    WouldBlock,
}

impl Error {
    /// This error, if `is_so`.
    #[inline]
    pub fn when(self, is_so: bool) -> Result<()> {
        if is_so { Err(self) } else { Ok(()) }
    }

    /// This error, unless `is_so`.
    #[inline]
    pub fn unless(self, is_so: bool) -> Result<()> {
        self.when(!is_so)
    }

    /// The text for the operator; callers get only the errno.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Io(text) | Self::FullBelow(text) | Self::QuotaBelow(text) => Some(text),
            _ => None,
        }
    }

    /// For a local program.
    #[must_use]
    pub fn to_errno(&self) -> Errno {
        match self {
            Self::NotPermitted => Errno::PERM,
            Self::NotFound => Errno::NOENT,
            Self::Io(_) => Errno::IO,
            Self::NoDevice => Errno::NXIO,
            Self::AccessDenied => Errno::ACCESS,
            Self::Exists => Errno::EXIST,
            Self::CrossDevice => Errno::XDEV,
            Self::NotDirectory => Errno::NOTDIR,
            Self::IsDirectory => Errno::ISDIR,
            Self::Invalid | Self::BadCookie => Errno::INVAL,
            Self::FileTooLarge => Errno::FBIG,
            Self::NoSpace | Self::FullBelow(_) => Errno::NOSPC,
            Self::ReadOnly => Errno::ROFS,
            Self::TooManyLinks => Errno::MLINK,
            Self::NameTooLong => Errno::NAMETOOLONG,
            Self::NotEmpty => Errno::NOTEMPTY,
            Self::QuotaExceeded | Self::QuotaBelow(_) => Errno::DQUOT,
            Self::NoData => Errno::NODATA,
            Self::TooBig => Errno::TOOBIG,
            Self::Stale | Self::BadId => Errno::STALE,
            Self::NotSync | Self::TryLater | Self::WouldBlock => Errno::AGAIN,
            Self::NotSupported | Self::BadType => Errno::OPNOTSUPP,
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PERM => Self::NotPermitted,
            Errno::NOENT => Self::NotFound,
            Errno::NXIO | Errno::NODEV => Self::NoDevice,
            Errno::ACCESS => Self::AccessDenied,
            Errno::EXIST => Self::Exists,
            Errno::XDEV => Self::CrossDevice,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::ISDIR => Self::IsDirectory,
            Errno::INVAL | Errno::LOOP => Self::Invalid,
            Errno::FBIG => Self::FileTooLarge,
            Errno::NOSPC => Self::NoSpace,
            Errno::ROFS => Self::ReadOnly,
            Errno::MLINK => Self::TooManyLinks,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::DQUOT => Self::QuotaExceeded,
            Errno::NODATA => Self::NoData,
            Errno::TOOBIG => Self::TooBig,
            Errno::STALE => Self::Stale,
            Errno::OPNOTSUPP | Errno::NOSYS => Self::NotSupported,
            Errno::AGAIN => Self::WouldBlock,
            other => Self::Io(other.to_string()),
        }
    }
}
