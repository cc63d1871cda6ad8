//! How objects are changed: as a whole or in parts, under a condition.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::version::Version;

/// Names without `x-amz-meta-` (in lower case where headers carry them), and values as bytes.
pub type Metadata = Vec<(String, Vec<u8>)>;

/// The condition of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Always,
    /// There is no object; else [`Exists`](crate::Error::Exists).
    Absent,
    /// It is this version, which has a strong tag; else [`Changed`](crate::Error::Changed), or
    /// [`NotFound`](crate::Error::NotFound).
    Is(Version),
}

/// Parts on their way to become an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Key of the object to be.
    pub key: String,
    /// The server's name of the upload.
    pub id: String,
    /// Marks the object as made by this upload.
    pub token: String,
    /// Of the object, where the server wants it at the end.
    pub metadata: Metadata,
}

/// A part that the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// 1 to 10,000.
    pub number: u32,
    /// As the server named it.
    pub etag: String,
    /// How many bytes it has.
    pub length_bytes: u64,
}

impl Part {
    const NUMBER_MAX: u32 = 10_000;

    pub(crate) fn check_number(number: u32) -> Result<()> {
        if number == 0 || number > Self::NUMBER_MAX {
            let text = format!("a part is one of 1 to {}, not {number}", Self::NUMBER_MAX);
            return Err(Error::Invalid(text));
        }
        Ok(())
    }

    pub(crate) fn check_order(parts: &[Self]) -> Result<()> {
        let mut last = 0;
        for part in parts {
            Self::check_number(part.number)?;
            if part.number <= last {
                let text = "parts are completed in the order of their numbers";
                return Err(Error::Invalid(text.to_owned()));
            }
            last = part.number;
        }
        Ok(())
    }

    pub(crate) fn check_range(range: &Range<u64>, version: &Version) -> Result<()> {
        if range.is_empty() || range.end > version.length_bytes {
            let length = version.length_bytes;
            let text = format!("no bytes {range:?} of {length} to copy");
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

/// What a store copies inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Any range of an object.
    Ranges,
    /// An object as a whole.
    Objects,
}

/// An upload that has neither ended nor been given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    /// Key of the object to be.
    pub key: String,
    /// The server's name of the upload.
    pub id: String,
    /// When it began.
    pub initiated: Option<std::time::SystemTime>,
}

/// A remote whose objects can be changed.
///
/// Each body goes with its hash, and is sent again after a failure: it has to be in memory. After a
/// lost reply a HEAD settles a conditional change: it counts as done when the object carries its
/// token.
///
/// [`Unreachable`](crate::Error::Unreachable) and [`TryLater`](crate::Error::TryLater) leave open
/// whether the change happened. A caller that tries again later puts a mark of its own into the
/// metadata.
///
/// Servers may ignore a condition silently, or let two that race for it both win: probe first.
pub trait WritableRemote: Send + Sync {
    /// Whether an object of this key can be made that the store does not confuse with another.
    fn takes(&self, _key: &str) -> bool {
        true
    }

    /// Makes an object of `body`, and returns its version (without the time of the change).
    ///
    /// # Errors
    /// As the [`Condition`] says, and what a request can meet.
    fn put(
        &self,
        key: &str,
        body: Bytes,
        condition: &Condition,
        metadata: &Metadata,
    ) -> Result<Version>;

    /// Begins an upload in parts.
    ///
    /// # Errors
    /// What a request can meet.
    fn create_upload(&self, key: &str, metadata: &Metadata) -> Result<Upload>;

    /// Sends a part; all but the last have 5 MiB or more.
    ///
    /// # Errors
    /// What a request can meet.
    fn upload_part(&self, upload: &Upload, number: u32, body: Bytes) -> Result<Part>;

    /// Whether an object is made of a part as it was sent last, also where an earlier request for
    /// it, which was given up, is carried out after that.
    fn replaces_parts(&self) -> bool {
        true
    }

    /// What [`Self::copy_part`] takes.
    fn copies(&self) -> Copies {
        Copies::Ranges
    }

    /// Makes a part of the bytes `range` of `version` of the object `source`, inside the server.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) for what is none of [`Self::copies`];
    /// [`Changed`](crate::Error::Changed) when the source is another version now, where the server
    /// looks; and what a request can meet.
    fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Part>;

    /// Makes an object of all parts, in order, and returns its version (without the time of the
    /// change).
    ///
    /// # Errors
    /// As the [`Condition`] says, and what a request can meet. The parts stay.
    fn complete(&self, upload: &Upload, parts: &[Part], condition: &Condition) -> Result<Version>;

    /// Gives up an upload and its parts. One that is gone is no error.
    ///
    /// # Errors
    /// What a request can meet.
    fn abort(&self, upload: &Upload) -> Result<()>;

    /// Uploads of keys that begin with `prefix`, at most 10,000.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) where the server has no list; what a request can
    /// meet.
    fn uploads(&self, prefix: &str) -> Result<Vec<ListedUpload>>;

    /// Deletes an object; with [`Condition::Always`] one that is not there is no error.
    ///
    /// # Errors
    /// As the [`Condition`] says, which is not [`Condition::Absent`], and what a request can meet.
    fn delete(&self, key: &str, condition: &Condition) -> Result<()>;

    /// Deletes objects, up to 1,000 by one request, and returns those still there with the reasons.
    ///
    /// # Errors
    /// What a request can meet; some objects may be deleted.
    fn delete_many(&self, keys: &[String]) -> Result<Vec<(String, String)>>;

    /// Whether the server refuses an object `key` with a wrong MD5. An object may be there
    /// afterwards.
    ///
    /// # Errors
    /// What a request can meet.
    fn compares_hashes(&self, key: &str) -> Result<bool>;

    /// Whether signatures hold the hashes of bodies.
    fn signs_bodies(&self) -> bool {
        false
    }

    /// Whether the SHA-256 in the signature is enough: the server takes an object and a part with
    /// it and without MD5, and refuses them with a wrong one. Tried with the key of an upload and
    /// its first part; an object may be there afterwards.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) unless [`Self::signs_bodies`], and where the
    /// server wants an MD5; what a request can meet.
    fn compares_signed_hashes(&self, upload: &Upload) -> Result<bool>;

    /// Sets whether the server compares signed hashes: then bodies need no MD5 beside them.
    fn trust_signed_hashes(&self, _compares: bool) {}

    /// Whether the server refuses a GET under a condition that fails.
    /// [`Remote::fetch`](crate::Remote::fetch) does not rely on it.
    ///
    /// # Errors
    /// What a request can meet.
    fn honours_if_match(&self, key: &str) -> Result<bool>;
}
