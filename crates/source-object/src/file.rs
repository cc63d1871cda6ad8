//! A file: the version that was seen last, and its data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_fs::{Error, Payload, Result};
use pagewell_object_client::{Error as RemoteError, Version};

use super::data::{Data, VersionData};
use super::error;

/// How soon a remote is asked again that gave no answer.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Default)]
pub(super) struct File(Mutex<State>);

#[derive(Default)]
struct State {
    seen: Option<Seen>,
    data: Option<Arc<VersionData>>,
    /// Opens that were not closed.
    opens: u64,
    /// The version that programs with it open have bytes of, from here or from their kernel; while
    /// none has it open, the one that the kernel may have bytes of.
    given: Option<Version>,
    /// When the remote gave no answer last.
    silent_at: Option<Instant>,
}

/// A version, and when the remote had it.
#[derive(Clone)]
struct Seen {
    version: Version,
    at: Instant,
}

/// The bytes of a read, and the version that they are of.
pub(super) struct Bytes {
    pub payload: Payload,
    pub version: Version,
}

impl File {
    /// Notes that the remote has, or had at `at`, this version.
    pub(super) fn see(&self, version: &Version, at: Instant) {
        let mut state = self.0.lock();
        if state.seen.as_ref().is_some_and(|seen| seen.at > at) {
            return;
        }
        // A listing may know less of the same version.
        let known = state.seen.take().map(|seen| seen.version);
        let known = known.filter(|known| known.is_same(version) && version.is_weak());
        let version = known.unwrap_or_else(|| version.clone());
        state.seen = Some(Seen { version, at });
    }

    /// The version, if it was seen less than `age` ago.
    pub(super) fn fresh(&self, age: Duration) -> Option<Version> {
        let state = self.0.lock();
        let seen = state.seen.as_ref()?;
        (seen.at.elapsed() < age).then(|| seen.version.clone())
    }

    /// The version as the remote has it now. One that gives no answer is believed to have what it
    /// had: what memory has of it can be read on. One that refuses is not.
    pub(super) fn ask(&self, key: &str, data: &Data) -> Result<Version> {
        let at = Instant::now();
        match data.remote().head(key) {
            Ok(found) => {
                self.see(&found.version, at);
                Ok(found.version)
            }
            Err(RemoteError::NotFound) => {
                let mut state = self.0.lock();
                // A program that has bytes of it gets none of what comes in its place.
                let data = state.data.take();
                state.seen = None;
                drop(state);
                drop(data);
                Err(Error::NotFound)
            }
            Err(failure @ (RemoteError::Unreachable(_) | RemoteError::TryLater(_))) => {
                let mut state = self.0.lock();
                state.silent_at = Some(Instant::now());
                let Some(seen) = &mut state.seen else {
                    return Err(error::of_call(failure));
                };
                tracing::warn!("{}: {key}: {failure}", data.remote().describe());
                seen.at = Instant::now();
                Ok(seen.version.clone())
            }
            Err(failure) => Err(error::of_call(failure)),
        }
    }

    /// The version that reads are of, without asking.
    pub(super) fn known(&self) -> Option<Version> {
        let state = self.0.lock();
        Some(state.seen.as_ref()?.version.clone())
    }

    /// Counts an open. Whether what the kernel kept of an earlier one is still valid: never where
    /// memory has no pages, and the remote was not asked.
    pub(super) fn open(&self, has_pages: bool) -> bool {
        let mut state = self.0.lock();
        let is_kept = match (&state.given, &state.seen) {
            (Some(given), Some(seen)) => has_pages && given.is_same(&seen.version),
            _ => false,
        };
        if state.opens == 0 && !is_kept {
            state.given = None;
        }
        state.opens += 1;
        is_kept
    }

    /// Ends an open.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.opens = state.opens.saturating_sub(1);
    }

    /// Whether an open has to ask for the version: memory has pages, which no request compares.
    pub(super) fn has_pages(&self) -> bool {
        let state = self.0.lock();
        state.data.as_ref().is_some_and(|data| data.has_pages())
    }

    /// Whether the remote was silent so lately that it is not asked again.
    pub(super) fn was_just_silent(&self) -> bool {
        let silent_at = self.0.lock().silent_at;
        silent_at.is_some_and(|at| at.elapsed() < AGAIN_AFTER)
    }

    /// The data of the version that was seen last. An open file keeps the version of which it has
    /// given bytes.
    fn data(&self, key: &str, data: &Data) -> Result<Option<Arc<VersionData>>> {
        let mut state = self.0.lock();
        let Some(seen) = &state.seen else {
            return Ok(None);
        };
        let is_current = |open: &VersionData| open.version().is_same(&seen.version);
        match &state.data {
            Some(open) if is_current(open) => return Ok(Some(open.clone())),
            _ => state.check_given(&seen.version, key, data)?,
        }
        let opened = Arc::new(data.open(key, &seen.version));
        let before = state.data.replace(opened.clone());
        drop(state);
        drop(before);
        Ok(Some(opened))
    }

    /// Reads up to `count` bytes from `offset` of one version.
    pub(super) fn read(
        &self,
        key: &str,
        data: &Data,
        (offset, count): (u64, u32),
        may_block: bool,
    ) -> Result<Bytes> {
        let mut is_first = true;
        loop {
            if self.known().is_none() {
                Error::WouldBlock.unless(may_block)?;
                self.ask(key, data)?;
            }
            let Some(open) = self.data(key, data)? else {
                return Err(Error::Stale);
            };
            let version = open.version().clone();
            let rest = version.length_bytes.saturating_sub(offset);
            let length = u32::try_from(rest).unwrap_or(u32::MAX).min(count);
            if length == 0 {
                let payload = Payload::Bytes(Vec::new());
                return Ok(Bytes { payload, version });
            }
            match open.read(offset, length as usize, may_block) {
                Ok(payload) => {
                    let mut state = self.0.lock();
                    // It may have been replaced, and read by another thread, since.
                    state.check_given(&version, key, data)?;
                    if state.opens > 0 && state.given.is_none() {
                        state.given = Some(version.clone());
                    }
                    return Ok(Bytes { payload, version });
                }
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(_) if open.is_gone() && is_first => {
                    Error::WouldBlock.unless(may_block)?;
                    is_first = false;
                    self.ask(key, data)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl State {
    /// Refuses bytes of this version to programs that have bytes of another.
    fn check_given(&self, version: &Version, key: &str, data: &Data) -> Result<()> {
        match &self.given {
            Some(given) if self.opens > 0 && !given.is_same(version) => Err(Error::Io(format!(
                "{}: {key}: was replaced while it was open",
                data.remote().describe()
            ))),
            _ => Ok(()),
        }
    }
}
