//! Where the bytes of a file are that memory has not.
//!
//! ```text
//!   byte ──> changed since the base, and written back ──> the staged file
//!        ├─> before `base_bytes` ─────────────────────> the base, a version of the object
//!        └─> else ────────────────────────────────────> zero
//! ```
//!
//! A file that is only read has a base alone. Changed bytes are *dirty* until they are sent to the
//! store, then *being sent*, and then part of a new base. The cache writes pages back as it does to
//! a disk: bytes that the base has by then need no place; for others a staged file is made.
//!
//! Of a new file bytes are sent to the store while it is written (`ahead.rs`). They stay dirty, and
//! are *ahead* until they are written again.
//!
//! A dirty byte was written to memory after it became dirty. So the staged file has its newest
//! value, or memory has a newer one that is not written back yet.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pagewell_base::spans::Spans;
use pagewell_base::sync::Mutex;
use pagewell_device::{Error as DeviceError, Object, Operation, Request};
use pagewell_object_client::Version;
use pagewell_staging::StagedFile;
use rustix::io::Errno;

use super::data::Place;
use super::moves::Carried;
use super::transfer::RemoteVersion;

/// Spans of changed bytes of one file, beyond which they are joined.
const SPANS_MAX: usize = 1 << 18;
/// Earlier keys that are remembered.
const FORMER_BASES_MAX: usize = 4;

pub(super) struct Backing {
    place: Arc<Place>,
    state: Mutex<BackingState>,
}

#[derive(Default)]
struct BackingState {
    key: Box<str>,
    base: Option<Arc<RemoteVersion>>,
    /// The same bytes under earlier keys, which requests that are under way may ask for.
    former_bases: VecDeque<Arc<RemoteVersion>>,
    /// Of the base these first bytes are still part of the file.
    base_bytes: u64,
    length_bytes: u64,
    dirty: Spans,
    sending: Spans,
    /// The store may have a version that was sent, though nothing says so: the base is not certain.
    is_unsettled: bool,
    /// Dirty, and on their way or in an upload as they are.
    ahead: Spans,
    staged: Option<Arc<StagedFile>>,
    /// Bytes of the staged file that are not older than the base.
    kept: Spans,
}

/// A file at one time, to be made an object.
pub(super) struct Draft {
    /// What it is based on, and how many of its first bytes are still there; `None`: made here.
    pub base: Option<(Version, u64)>,
    pub length_bytes: u64,
    pub dirty: Spans,
    /// Of these, what an upload has that began while they were written.
    pub ahead: Spans,
}

impl BackingState {
    fn is_changed(&self) -> bool {
        let Some(base) = &self.base else {
            return true;
        };
        let length_bytes = base.version().length_bytes;
        self.is_unsettled
            || !self.dirty.is_empty()
            || !self.sending.is_empty()
            || self.base_bytes != length_bytes
            || self.length_bytes != length_bytes
    }

    fn parts(&self, start: u64, end: u64) -> Vec<(u64, Source)> {
        let mut changed = Spans::default();
        if let Some(staged) = &self.staged {
            for spans in [&self.dirty, &self.sending] {
                let kept = spans.within(start, end);
                let kept = kept.flat_map(|(from, to)| self.kept.within(from, to));
                for (from, to) in kept.flat_map(|(from, to)| staged.spans_within(from, to)) {
                    changed.insert(from, to);
                }
            }
        }
        let mut parts = Vec::new();
        let mut at = start;
        let base_end = self.base.as_ref().map_or(0, |_| self.base_bytes);
        let unchanged = |from: u64, to: u64, parts: &mut Vec<_>| {
            let middle = base_end.clamp(from, to);
            parts.push((middle - from, Source::Base));
            parts.push((to - middle, Source::Nothing));
        };
        for (from, to) in changed.iter() {
            unchanged(at, from, &mut parts);
            parts.push((to - from, Source::Staged));
            at = to;
        }
        unchanged(at, end, &mut parts);
        parts.retain(|(length, _)| *length > 0);
        parts
    }

    fn draft(&self, dirty: &Spans) -> Draft {
        let base = self.base.as_ref();
        Draft {
            base: base.map(|base| (base.version().clone(), self.base_bytes)),
            length_bytes: self.length_bytes,
            dirty: dirty.clone(),
            ahead: Spans::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Staged,
    Base,
    Nothing,
}

impl Backing {
    pub(super) fn of(place: &Arc<Place>, key: &str, base: Arc<RemoteVersion>) -> Self {
        let length_bytes = base.version().length_bytes;
        Self {
            place: place.clone(),
            state: Mutex::new(BackingState {
                key: key.into(),
                base: Some(base),
                base_bytes: length_bytes,
                length_bytes,
                ..BackingState::default()
            }),
        }
    }

    pub(super) fn empty(place: &Arc<Place>, key: &str) -> Self {
        Self {
            place: place.clone(),
            state: Mutex::new(BackingState {
                key: key.into(),
                ..BackingState::default()
            }),
        }
    }

    /// A file by the draft of an earlier run, whose bytes are in a staged file.
    pub(super) fn resumed(place: &Arc<Place>, key: &str, draft: Draft, staged: StagedFile) -> Self {
        let base_bytes = draft.base.as_ref().map_or(0, |(_, bytes)| *bytes);
        let base = draft.base.map(|(version, _)| place.version(key, version));
        Self {
            place: place.clone(),
            state: Mutex::new(BackingState {
                key: key.into(),
                base,
                base_bytes,
                length_bytes: draft.length_bytes,
                kept: draft.dirty.clone(),
                dirty: draft.dirty,
                staged: Some(Arc::new(staged)),
                ..BackingState::default()
            }),
        }
    }

    pub(super) fn base(&self) -> Option<Arc<RemoteVersion>> {
        self.state.lock().base.clone()
    }

    /// Whether a request has failed as it asked for a former key, and none for the present one.
    pub(super) fn was_asked_for_elsewhere(&self) -> bool {
        let state = self.state.lock();
        let base = state.base.as_ref();
        let is_well = base.is_some_and(|base| !base.is_gone() && base.failure().is_none());
        is_well && state.former_bases.iter().any(|base| base.is_gone())
    }

    /// Notes that the object has another key. Whether these were the bytes that went there.
    pub(super) fn move_to(&self, key: &str, carried: &Carried) -> bool {
        let new = self.place.version(key, carried.made.clone());
        let mut state = self.state.lock();
        let base = state.base.as_ref();
        let is_it = base.is_some_and(|base| base.version().is_same(&carried.of));
        if !is_it || state.is_changed() || state.staged.is_some() {
            return false;
        }
        state.key = key.into();
        let former = state.base.replace(new);
        state.former_bases.extend(former);
        if state.former_bases.len() > FORMER_BASES_MAX {
            state.former_bases.pop_front();
        }
        true
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.state.lock().length_bytes
    }

    pub(super) fn is_changed(&self) -> bool {
        self.state.lock().is_changed()
    }

    pub(super) fn staged(&self) -> Option<Arc<StagedFile>> {
        self.state.lock().staged.clone()
    }

    /// The staged file, made if there is none.
    ///
    /// # Errors
    /// [`Errno::ROFS`] where nothing is changed.
    pub(super) fn stage(&self) -> Result<Arc<StagedFile>, Errno> {
        let mut state = self.state.lock();
        self.stage_in(&mut state)
    }

    fn stage_in(&self, state: &mut BackingState) -> Result<Arc<StagedFile>, Errno> {
        if let Some(staged) = &state.staged {
            return Ok(staged.clone());
        }
        let staging = self.place.staging().ok_or(Errno::ROFS)?;
        let staged = Arc::new(staging.create(&state.key));
        state.staged = Some(staged.clone());
        Ok(staged)
    }

    /// Marks bytes as dirty before they are written to memory.
    pub(super) fn will_write(&self, start: u64, end: u64) {
        let mut state = self.state.lock();
        state.dirty.insert(start, end);
        state.dirty.melt(SPANS_MAX);
        state.ahead.take(start, end);
    }

    /// Whether no byte of the base is kept, and all is changed up to `until`.
    pub(super) fn may_go_ahead(&self, until: u64) -> bool {
        let state = self.state.lock();
        let is_new = state.base_bytes == 0 && state.sending.is_empty();
        is_new && until <= state.length_bytes && state.dirty.covers(0, until)
    }

    /// Notes that bytes go to an upload as they are from now on, if all is changed up to `until`.
    /// No write may be on its way: it would change them unseen.
    pub(super) fn goes_ahead(&self, range: Range<u64>, until: u64) -> bool {
        let goes = range.end <= until && self.may_go_ahead(until);
        if goes {
            self.state.lock().ahead.insert(range.start, range.end);
        }
        goes
    }

    /// Notes that memory has bytes up to `end`.
    pub(super) fn has_written(&self, end: u64) {
        let mut state = self.state.lock();
        state.length_bytes = state.length_bytes.max(end);
    }

    /// Moves the end. What is behind it is gone, also when the file grows again, and no part that
    /// went ahead has it. No byte may be on its way into memory, and no commit under way.
    pub(super) fn set_length(&self, length_bytes: u64) {
        let mut state = self.state.lock();
        state.dirty.take(length_bytes, u64::MAX);
        state.ahead.take(length_bytes, u64::MAX);
        state.kept.take(length_bytes, u64::MAX);
        state.base_bytes = state.base_bytes.min(length_bytes);
        state.length_bytes = length_bytes;
        if let Some(staged) = &state.staged {
            staged.cut(length_bytes);
        }
    }

    /// Takes what is to be sent to the store; `None` when the store has all, unless it is sent
    /// `anyway`. No write may be on its way.
    pub(super) fn begin_to_send(&self, anyway: bool) -> Option<Draft> {
        let mut state = self.state.lock();
        if !anyway && !state.is_changed() {
            return None;
        }
        // A failed write may have left dirty bytes behind the end.
        let length_bytes = state.length_bytes;
        state.dirty.take(length_bytes, u64::MAX);
        let dirty = std::mem::take(&mut state.dirty);
        state.sending.extend(dirty);
        let ahead = std::mem::take(&mut state.ahead);
        Some(Draft {
            ahead,
            ..state.draft(&state.sending)
        })
    }

    pub(super) fn draft(&self) -> Draft {
        let state = self.state.lock();
        let mut dirty = state.dirty.clone();
        dirty.extend(state.sending.clone());
        dirty.take(state.length_bytes, u64::MAX);
        state.draft(&dirty)
    }

    /// The store has what was sent, as this version. Returns the staged file once nothing needs it.
    pub(super) fn sent(&self, version: Version) -> Option<Arc<StagedFile>> {
        let mut state = self.state.lock();
        let base = self.place.version(&state.key, version);
        state.base_bytes = base.version().length_bytes;
        state.base = Some(base);
        state.is_unsettled = false;
        let sent = std::mem::take(&mut state.sending);
        if state.dirty.is_empty() {
            state.kept.clear();
            return state.staged.take();
        }
        for (start, end) in sent.iter() {
            for (from, to) in state.kept.take(start, end) {
                let again: Vec<_> = state.dirty.within(from, to).collect();
                for (from, to) in again {
                    state.kept.insert(from, to);
                }
            }
        }
        None
    }

    /// The staged file, if nothing is changed.
    pub(super) fn take_staged(&self) -> Option<Arc<StagedFile>> {
        let mut state = self.state.lock();
        if state.is_changed() {
            return None;
        }
        state.kept.clear();
        state.staged.take()
    }

    /// The store has a version that was made of these changes, perhaps without the last ones. What
    /// is not dirty is in it as in the old base.
    pub(super) fn rebase(&self, version: Version) {
        let mut state = self.state.lock();
        let base = self.place.version(&state.key, version);
        state.base_bytes = state.base_bytes.min(base.version().length_bytes);
        state.base = Some(base);
        state.is_unsettled = false;
    }

    /// What was taken to be sent is not known to be in the store.
    pub(super) fn not_sent(&self) {
        let mut state = self.state.lock();
        state.is_unsettled = true;
        let sending = std::mem::take(&mut state.sending);
        state.dirty.extend(sending);
    }

    fn read(&self, request: Request) {
        let (start, end) = (request.offset(), request.offset() + request.len() as u64);
        let state = self.state.lock();
        let parts = state.parts(start, end);
        let (base, staged) = (state.base.clone(), state.staged.clone());
        drop(state);
        let lengths = parts.iter().map(|(length, _)| usize::try_from(*length));
        let lengths: Vec<usize> = lengths.map(|length| length.unwrap_or(0)).collect();
        let pieces = match lengths.len() {
            0 | 1 => vec![request],
            _ => request.split(&lengths),
        };
        for (mut piece, (_, source)) in pieces.into_iter().zip(parts) {
            match (source, &base, &staged) {
                (Source::Staged, _, Some(staged)) => staged.submit(piece),
                (Source::Base, Some(base), _) => base.submit(piece),
                _ => {
                    piece.slices_mut().for_each(|bytes| bytes.fill(0));
                    piece.succeed();
                }
            }
        }
    }

    fn write(&self, request: Request) {
        let (start, end) = (request.offset(), request.offset() + request.len() as u64);
        let mut state = self.state.lock();
        if !state.dirty.overlaps(start, end) && !state.sending.overlaps(start, end) {
            drop(state);
            return request.succeed();
        }
        let staged = self.stage_in(&mut state);
        if staged.is_ok() {
            state.kept.insert(start, end);
        }
        let key = state.key.clone();
        drop(state);
        match staged {
            Ok(staged) => staged.submit(request),
            Err(errno) => request.fail(0, DeviceError::failed(&key, start, errno)),
        }
    }
}

impl Object for Backing {
    fn submit(&self, request: Request) {
        match request.operation() {
            Operation::Read => self.read(request),
            Operation::Write => self.write(request),
            Operation::Flush => request.succeed(),
        }
    }
}
