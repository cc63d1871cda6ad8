//! One object under another key.

use std::sync::mpsc;

use pagewell_base::spans::Spans;
use pagewell_fs::Error as FileError;
use pagewell_object_client::{
    Bytes, Condition, Error as RemoteError, Metadata, ObjectInfo, Remote, Result as RemoteResult,
    Sink, Version, WritableRemote,
};

use super::failure::Failure;
use crate::upload::{
    Base, Failure as UploadFailure, NewObject, Notes, Source, TakenBytes, Uploader,
};

const TRIES_MAX: u32 = 4;
/// The metadata of a copy in a moved directory: the tag of its source.
const MARK: &str = "pagewell-moved";
/// Bytes of metadata, with the prefix of the headers, up to which the mark has room.
const MARKED_BYTES_MAX: usize = 1_900;

#[derive(Clone, Copy)]
pub(crate) struct Mover<'a> {
    pub remote: &'a dyn Remote,
    pub uploader: &'a Uploader,
    pub notes: &'a dyn Notes,
    /// Whether DELETE holds to the named version. Where it does not, a HEAD looks first.
    pub guards_deletes: bool,
}

/// An object that was given another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The version that was copied.
    pub of: Version,
    /// Its version at the new key.
    pub made: Version,
}

struct Found<'a> {
    info: ObjectInfo,
    /// Its bytes, if there are few, with their place in the budget.
    body: Option<(Bytes, TakenBytes<'a>)>,
}

enum Stopped {
    Source,
    Failed(Failure),
}

impl<'a> Mover<'a> {
    /// Gives an object another key. `version` is what is known of it: a newer one is moved as
    /// well. `target` is what is replaced.
    ///
    /// When a request fails in the middle, both may be there; the same call, with the new version
    /// as `target`, goes on.
    ///
    /// # Errors
    /// [`Failure`]. Nothing was changed after [`Failure::NoSource`] and [`Failure::Target`].
    pub(crate) fn rename_file(
        &self,
        (from, version): (&str, &Version),
        to: &str,
        target: Option<&Version>,
    ) -> Result<Carried, Failure> {
        let condition = target.map_or(Condition::Absent, |version| Condition::Is(version.clone()));
        let carried = self.carry((from, version), to, condition, false)?;
        let place = self.remote.describe();
        tracing::debug!("{place}: {from} is {to} now");
        Ok(carried)
    }

    pub(super) fn store(&self) -> Result<&'a dyn WritableRemote, Failure> {
        self.remote.as_writable().ok_or_else(|| {
            let text = format!("{}: objects cannot be changed", self.remote.describe());
            RemoteError::Unsupported(text).into()
        })
    }

    /// [`Self::rename_file`]; with `is_marked` the copy names its source.
    pub(super) fn carry(
        &self,
        (from, version): (&str, &Version),
        to: &str,
        mut condition: Condition,
        is_marked: bool,
    ) -> Result<Carried, Failure> {
        let store = self.store()?;
        let mut known = version.clone();
        let mut carried: Option<Carried> = None;
        for _ in 0..TRIES_MAX {
            let found = match self.look(from, &known) {
                Ok(found) => found,
                // The copy is there; what came in the source's place was deleted by others.
                Err(RemoteError::NotFound) => return carried.ok_or(Failure::NoSource),
                Err(error) => return Err(error.into()),
            };
            known = found.info.version.clone();
            let copied = match self.copy(store, from, &found, to, &condition, is_marked) {
                Ok(made) => Carried {
                    of: known.clone(),
                    made,
                },
                Err(Stopped::Source) => continue,
                Err(Stopped::Failed(failure)) => return Err(failure),
            };
            drop(found);
            match self.delete(store, from, &known) {
                // The other deleter meant the object that is here now, or has moved it elsewhere.
                Ok(()) | Err(RemoteError::NotFound) => return Ok(copied),
                Err(RemoteError::Changed) => {}
                Err(error) => {
                    let place = self.remote.describe();
                    tracing::warn!("{place}: {from} was copied to {to}, and stays: {error}");
                    return Err(error.into());
                }
            }
            condition = Condition::Is(copied.made.clone());
            carried = Some(copied);
        }
        let place = self.remote.describe();
        let text = format!("{place}: {from} changes all the time, and is not moved to {to}");
        Err(RemoteError::TryLater(text).into())
    }

    /// The source, with its bytes if it is known as small.
    fn look(&self, from: &str, known: &Version) -> RemoteResult<Found<'a>> {
        if known.length_bytes > self.uploader.small_bytes_max() {
            let info = self.remote.head(from)?;
            return Ok(Found { info, body: None });
        }
        let taken = self.uploader.budget().bytes(known.length_bytes);
        let (info, body) = self.remote.get(from, known.length_bytes)?;
        let body = body.map(|body| (body, taken));
        Ok(Found { info, body })
    }

    fn copy(
        &self,
        store: &dyn WritableRemote,
        from: &str,
        found: &Found<'_>,
        to: &str,
        condition: &Condition,
        is_marked: bool,
    ) -> Result<Version, Stopped> {
        let version = &found.info.version;
        let Some(etag) = version.strong_etag() else {
            let place = self.remote.describe();
            let text = format!("{place}: {from} has no strong ETag, by which it could be moved");
            return Err(Stopped::Failed(RemoteError::Unsupported(text).into()));
        };
        let metadata = marked(&found.info.metadata, is_marked.then_some(etag));
        let result = match &found.body {
            Some((body, _)) => store
                .put(to, body.clone(), condition, &metadata)
                .map_err(UploadFailure::from),
            None => {
                let source = Fetched {
                    remote: self.remote,
                    key: from,
                    version,
                };
                let object = NewObject {
                    key: to,
                    base: Some(Base {
                        key: from,
                        version,
                        kept_bytes: version.length_bytes,
                    }),
                    length_bytes: version.length_bytes,
                    dirty: &Spans::default(),
                    condition,
                    metadata: &metadata,
                };
                self.uploader
                    .upload(self.remote, &object, &source, self.notes)
            }
        };
        match result {
            Ok(copied) => Ok(copied),
            Err(UploadFailure::Remote(
                RemoteError::Exists | RemoteError::Changed | RemoteError::NotFound,
            ))
            | Err(UploadFailure::Local(FileError::Stale)) => Err(self.unmet(from, found)),
            Err(failure) => Err(Stopped::Failed(failure.into())),
        }
    }

    fn unmet(&self, from: &str, found: &Found<'_>) -> Stopped {
        if found.body.is_some() {
            return Stopped::Failed(Failure::Target);
        }
        match self.remote.head(from) {
            Ok(now) if now.version.is_same(&found.info.version) => Stopped::Failed(Failure::Target),
            Ok(_) | Err(RemoteError::NotFound) => Stopped::Source,
            Err(error) => Stopped::Failed(error.into()),
        }
    }

    pub(super) fn delete(
        &self,
        store: &dyn WritableRemote,
        key: &str,
        version: &Version,
    ) -> RemoteResult<()> {
        if !self.guards_deletes && !self.remote.head(key)?.version.is_same(version) {
            return Err(RemoteError::Changed);
        }
        store.delete(key, &Condition::Is(version.clone()))
    }
}

fn marked(metadata: &Metadata, etag: Option<&str>) -> Metadata {
    let others = metadata.iter().filter(|(name, _)| name != MARK);
    let mut metadata: Metadata = others.cloned().collect();
    let sizes = metadata
        .iter()
        .map(|(name, value)| "x-amz-meta-".len() + name.len() + value.len());
    let bytes: usize = sizes.sum();
    if let Some(etag) = etag
        && bytes + etag.len() <= MARKED_BYTES_MAX
    {
        metadata.push((MARK.to_owned(), etag.as_bytes().to_vec()));
    }
    metadata
}

pub(super) fn is_copy_of(info: &ObjectInfo, version: &Version) -> bool {
    let mut metadata = info.metadata.iter();
    let mark = metadata.find(|(name, _)| name == MARK);
    let etag = version.strong_etag().map(str::as_bytes);
    mark.is_some_and(|(_, value)| Some(value.as_slice()) == etag)
}

/// The bytes of a version, for a store that copies no ranges.
struct Fetched<'a> {
    remote: &'a dyn Remote,
    key: &'a str,
    version: &'a Version,
}

impl Source for Fetched<'_> {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), FileError> {
        let (sender, receiver) = mpsc::channel();
        let arriving = Arriving {
            bytes: Vec::with_capacity(target.len()),
            sender,
        };
        let range = offset..offset + target.len() as u64;
        self.remote
            .fetch(self.key, self.version, range, Box::new(arriving));
        let wrong = |text: &str| {
            let (place, key) = (self.remote.describe(), self.key);
            FileError::Io(format!("{place}: {key}: {text}"))
        };
        let ended = receiver.recv();
        match ended.map_err(|_| wrong("the fetch has no end"))? {
            Ok(bytes) if bytes.len() == target.len() => {
                target.copy_from_slice(&bytes);
                Ok(())
            }
            Ok(_) => Err(wrong("other bytes came than were asked for")),
            Err(RemoteError::Changed | RemoteError::NotFound) => Err(FileError::Stale),
            Err(error) => Err(crate::error::of_call(error)),
        }
    }
}

struct Arriving {
    bytes: Vec<u8>,
    sender: mpsc::Sender<RemoteResult<Vec<u8>>>,
}

impl Sink for Arriving {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn end(self: Box<Self>, result: RemoteResult<()>) {
        let Self { bytes, sender } = *self;
        // The receiver waits for it.
        let _ = sender.send(result.map(|()| bytes));
    }
}
