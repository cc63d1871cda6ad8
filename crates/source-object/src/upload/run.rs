//! An object on its way: one body, or parts side by side, until all are there or one has failed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pagewell_base::sync::Mutex;
use pagewell_fs::Error as FileError;
use pagewell_object_client::{
    Bytes, Condition, Error as RemoteError, Part, Remote, Upload, Version, WritableRemote,
};

use super::budget::Budget;
use super::object::{Failure, NewObject, Notes, Source};
use super::plan::Piece;

const PARALLEL_MAX: usize = 8;
/// Bytes of an object of which nothing is copied, from which on a HEAD asks first whether the
/// condition holds.
const ASKED_BYTES_MIN: u64 = 64 << 20;

pub(super) struct Job<'a> {
    pub remote: &'a dyn Remote,
    pub store: &'a dyn WritableRemote,
    pub object: &'a NewObject<'a>,
    pub source: &'a dyn Source,
    pub notes: &'a dyn Notes,
    pub budget: &'a Budget,
    /// Set when the store turns out to copy no parts.
    pub is_copying_refused: AtomicBool,
    /// Set when the store turns out to have the upload no more.
    pub is_upload_gone: AtomicBool,
}

/// Gives an upload up, with its parts.
pub(super) fn abort(remote: &dyn Remote, upload: &Upload, notes: &dyn Notes) {
    let ended = remote.as_writable().map(|store| store.abort(upload));
    if let Some(Err(error)) = ended {
        let (place, key, id) = (remote.describe(), &upload.key, &upload.id);
        tracing::warn!("{place}: {key}: parts of the upload {id} are left behind: {error}");
    } else {
        notes.ended(upload);
    }
}

/// Bytes to be sent, read into memory.
pub(super) fn body(source: &dyn Source, key: &str, range: &Range<u64>) -> Result<Bytes, FileError> {
    let length = range.end - range.start;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).map_err(|_| FileError::FileTooLarge)?;
    bytes
        .try_reserve_exact(length)
        .map_err(|_| FileError::Io(format!("{key}: no memory for {length} bytes to send")))?;
    bytes.resize(length, 0);
    if length > 0 {
        source.read(range.start, &mut bytes)?;
    }
    Ok(Bytes::from(bytes))
}

impl Job<'_> {
    pub(super) fn whole(&self) -> Result<Version, Failure> {
        let object = self.object;
        let _taken = self.budget.bytes(object.length_bytes);
        let body = body(self.source, object.key, &(0..object.length_bytes))?;
        let made = self
            .store
            .put(object.key, body, object.condition, object.metadata);
        Ok(made?)
    }

    pub(super) fn parts(&self, pieces: &[Piece]) -> Result<Version, Failure> {
        let object = self.object;
        if pieces.iter().all(|piece| !piece.is_copied) && object.length_bytes >= ASKED_BYTES_MIN {
            self.ask()?;
        }
        let upload = self.store.create_upload(object.key, object.metadata)?;
        self.notes.begun(&upload);
        self.finish(&upload, pieces, Vec::new())
    }

    /// Brings what the store does not have yet of all pieces, and makes the object of them. The
    /// upload ends with this, whatever comes of it.
    pub(super) fn finish(
        &self,
        upload: &Upload,
        pieces: &[Piece],
        there: Vec<Part>,
    ) -> Result<Version, Failure> {
        let sent = self.send(upload, pieces, there);
        let made = sent.and_then(|parts| {
            let made = self.store.complete(upload, &parts, self.object.condition);
            made.map_err(|error| {
                self.note_refusal(&error, pieces.iter().any(|piece| piece.is_copied));
                self.explained(error)
            })
        });
        match made {
            Ok(_) => self.notes.ended(upload),
            // Where the end may have happened, this keeps it from happening later; at Azure only
            // its condition does.
            Err(_) => abort(self.remote, upload, self.notes),
        }
        made
    }

    fn note_refusal(&self, error: &RemoteError, has_copies: bool) {
        if has_copies && matches!(error, RemoteError::Unsupported(_)) {
            self.is_copying_refused.store(true, Ordering::Release);
        }
    }

    fn ask(&self) -> Result<(), Failure> {
        let found = match self.object.condition {
            Condition::Always => return Ok(()),
            _ => self.remote.head(self.object.key),
        };
        match (self.object.condition, found) {
            (Condition::Absent, Ok(_)) => Err(RemoteError::Exists.into()),
            (Condition::Is(version), Ok(found)) if !found.version.is_same(version) => {
                Err(RemoteError::Changed.into())
            }
            (Condition::Absent, Err(RemoteError::NotFound)) | (_, Ok(_)) => Ok(()),
            (_, Err(error)) => Err(error.into()),
        }
    }

    /// Brings all parts to the store that are not there, on this thread and helpers.
    fn send(
        &self,
        upload: &Upload,
        pieces: &[Piece],
        there: Vec<Part>,
    ) -> Result<Vec<Part>, Failure> {
        let is_there = |number: &u32| there.iter().any(|part| part.number == *number);
        let numbered = (1..).zip(pieces);
        let missing: Vec<_> = numbered.filter(|(number, _)| !is_there(number)).collect();
        let sending = Sending {
            job: self,
            upload,
            pieces: &missing,
            next: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            came: Mutex::default(),
        };
        thread::scope(|scope| {
            for _ in 1..missing.len().min(PARALLEL_MAX) {
                let Some(helper) = self.budget.helper() else {
                    break;
                };
                let sending = &sending;
                let help = move || {
                    sending.work();
                    drop(helper);
                };
                let thread = thread::Builder::new().name("upload".to_owned());
                // Without a thread the others do the work.
                let _ = thread.spawn_scoped(scope, help);
            }
            sending.work();
        });
        let mut came = sending.came.into_inner();
        if let Some(failure) = came.failure {
            return Err(failure);
        }
        came.parts.extend(there);
        came.parts.sort_unstable_by_key(|part| part.number);
        Ok(came.parts)
    }

    /// What it means that something was not found: the object, or the upload.
    fn explained(&self, error: RemoteError) -> Failure {
        if error != RemoteError::NotFound {
            return error.into();
        }
        let base = self.object.base.map(|base| (base.key, base.version));
        let needed = match self.object.condition {
            Condition::Is(version) => Some((self.object.key, version)),
            _ => base,
        };
        let found = needed.map(|(key, version)| (self.remote.head(key), version));
        match found {
            Some((Err(error), _)) => error.into(),
            Some((Ok(found), version)) if !found.version.is_same(version) => {
                RemoteError::Changed.into()
            }
            _ => {
                let (place, key) = (self.remote.describe(), self.object.key);
                let text = format!("{place}: {key}: another program has ended the upload");
                self.is_upload_gone.store(true, Ordering::Release);
                RemoteError::TryLater(text).into()
            }
        }
    }
}

struct Sending<'a> {
    job: &'a Job<'a>,
    upload: &'a Upload,
    pieces: &'a [(u32, &'a Piece)],
    next: AtomicUsize,
    is_stopped: AtomicBool,
    came: Mutex<Came>,
}

#[derive(Default)]
struct Came {
    parts: Vec<Part>,
    failure: Option<Failure>,
}

impl Sending<'_> {
    fn work(&self) {
        while !self.is_stopped.load(Ordering::Acquire) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(number, piece)) = self.pieces.get(at) else {
                return;
            };
            let result = if piece.is_copied {
                self.copy(number, piece)
            } else {
                self.part(number, piece)
            };
            let mut came = self.came.lock();
            match result {
                Ok(part) => came.parts.extend(part),
                Err(failure) => {
                    came.failure.get_or_insert(failure);
                    self.is_stopped.store(true, Ordering::Release);
                }
            }
        }
    }

    /// Sends a part, unless another has failed while this one waited for memory.
    fn part(&self, number: u32, piece: &Piece) -> Result<Option<Part>, Failure> {
        let job = self.job;
        let _taken = job.budget.bytes(piece.range.end - piece.range.start);
        if self.is_stopped.load(Ordering::Acquire) {
            return Ok(None);
        }
        let body = body(job.source, job.object.key, &piece.range)?;
        let sent = job.store.upload_part(self.upload, number, body);
        sent.map(Some).map_err(|error| job.explained(error))
    }

    fn copy(&self, number: u32, piece: &Piece) -> Result<Option<Part>, Failure> {
        let job = self.job;
        let Some(base) = job.object.base else {
            let text = format!("{}: there is nothing to copy", job.object.key);
            return Err(RemoteError::Invalid(text).into());
        };
        let range = piece.range.clone();
        let store = job.store;
        let copied = store.copy_part(self.upload, number, base.key, base.version, range);
        copied.map(Some).map_err(|error| {
            job.note_refusal(&error, true);
            job.explained(error)
        })
    }
}
