//! What an object becomes, where its bytes are, and why it was not made.

use pagewell_base::spans::Spans;
use pagewell_fs::Error as FileError;
use pagewell_object_client::{Condition, Error as RemoteError, Metadata, Upload, Version};

/// What an object becomes.
#[derive(Clone, Copy)]
pub(crate) struct NewObject<'a> {
    /// Its key.
    pub key: &'a str,
    /// The object that has some of the bytes already.
    pub base: Option<Base<'a>>,
    /// How many bytes it has.
    pub length_bytes: u64,
    /// Bytes that differ from the base. What is neither here nor in the base is zeros.
    pub dirty: &'a Spans,
    /// Of the object `key`.
    pub condition: &'a Condition,
    /// All of it, as nothing is taken from the base.
    pub metadata: &'a Metadata,
}

/// An object whose first bytes are part of another.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    /// That of the new object, when it is a version of the same.
    pub key: &'a str,
    /// The version that has them.
    pub version: &'a Version,
    /// How many of its first bytes are still there, but for those that are dirty.
    pub kept_bytes: u64,
}

/// The bytes of the new object, wherever they are.
pub(crate) trait Source: Sync {
    /// Fills `target` with the bytes from `offset`, which are within the object. Called by several
    /// threads.
    ///
    /// # Errors
    /// What storage can meet; the object is not made.
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), FileError>;
}

/// Keeps in mind which uploads a process may leave behind when it dies.
pub(crate) trait Notes: Sync {
    /// It has begun.
    fn begun(&self, upload: &Upload);
    /// The store has nothing more of it but the object.
    fn ended(&self, upload: &Upload);
}

/// Why an object was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// By the store. [`Exists`](RemoteError::Exists), [`Changed`](RemoteError::Changed) and
    /// [`NotFound`](RemoteError::NotFound) say that the condition does not hold, or that the base
    /// is not what it was. After [`Unreachable`](RemoteError::Unreachable) and
    /// [`TryLater`](RemoteError::TryLater) the object may be there all the same.
    Remote(RemoteError),
    /// Its bytes could not be read, or it is larger than an object can be.
    Local(FileError),
}

impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Local(error)
    }
}
