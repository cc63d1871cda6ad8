//! What an object becomes, where its bytes are, and why it was not made.

use pagewell_base::spans::Spans;
use pagewell_fs::Error as FileError;
use pagewell_object_client::{Condition, Error as RemoteError, Metadata, Upload, Version};

#[derive(Clone, Copy)]
pub(crate) struct NewObject<'a> {
    pub key: &'a str,
    pub base: Option<Base<'a>>,
    pub length_bytes: u64,
    pub dirty: &'a Spans,
    pub condition: &'a Condition,
    /// Complete: nothing is taken from the base.
    pub metadata: &'a Metadata,
}

#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    /// That of the new object, when it is a version of the same.
    pub key: &'a str,
    pub version: &'a Version,
    /// First bytes that are kept, but for dirty ones.
    pub kept_bytes: u64,
}

pub(crate) trait Source: Sync {
    /// Fills `target` with the bytes from `offset`, all within the object. Several threads call it.
    ///
    /// # Errors
    /// What storage can meet; the object is not made.
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), FileError>;
}

/// Keeps in mind which uploads a process may leave behind when it dies.
pub(crate) trait Notes: Sync {
    fn begun(&self, upload: &Upload);
    /// The store has nothing more of it but the object.
    fn ended(&self, upload: &Upload);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// By the store. [`Exists`](RemoteError::Exists), [`Changed`](RemoteError::Changed) and
    /// [`NotFound`](RemoteError::NotFound): the condition does not hold, or the base is another.
    /// After [`Unreachable`](RemoteError::Unreachable) and [`TryLater`](RemoteError::TryLater) the
    /// object may be there all the same.
    Remote(RemoteError),
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
