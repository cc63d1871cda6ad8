//! A file: the version that was seen last, its bytes, and what was changed here.
//!
//! A file with changes shows them, whatever the remote has. Whether they may become an object shows
//! when they are sent, by the condition that the object is still the version they are based on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::{Mutex, MutexGuard};
use pagewell_fs::{Error, Payload, Result, Timestamp};
use pagewell_object_client::{Error as RemoteError, Metadata, Version};
use pagewell_staging::StagedFile;

use super::content::Content;
use super::data::Data;
use super::error;
use super::metadata::Marks;
use super::shown::{Known, Shown};

/// The name in the metadata of the mark of the changes that made an object.
pub(super) const MARK: &str = "pagewell-mark";
/// How soon a silent remote is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct File {
    state: Mutex<FileState>,
    /// Held while changes are sent, and while the file is cut off.
    sending: Mutex<()>,
}

#[derive(Default)]
struct FileState {
    seen: Option<Seen>,
    content: Option<Arc<Content>>,
    own: Option<Own>,
    /// What was set here and the remote has not, and how often.
    wanted: Option<Marks>,
    wanted_count: u64,
    /// Changes here, and those of them that are durable on this machine.
    changes: u64,
    journaled_changes: u64,
    mark: Option<String>,
    ahead: Option<SentAhead>,
    /// What came of a change, not reported to a caller yet.
    failure: Option<Error>,
    removed_at: Option<Instant>,
    opens: u64,
    /// The version that programs with the file open have bytes of, from here or from their kernel;
    /// while none has it open, the one that the kernel may have bytes of.
    given: Option<Version>,
    silent_at: Option<Instant>,
}

#[derive(Clone)]
struct Own {
    modified: Timestamp,
    changed: Timestamp,
    /// The version they became; `None`: not at the remote.
    version: Option<Version>,
}

/// What the metadata says of changes that are sent before they are committed.
#[derive(Clone)]
struct SentAhead {
    modified: Timestamp,
    mark: String,
}

/// A version, when the remote had it, and its metadata where that is known.
#[derive(Clone)]
struct Seen {
    version: Version,
    at: Instant,
    known: Option<Arc<Known>>,
}

/// The bytes of a read, and what the file looked like.
pub(super) struct Bytes {
    pub payload: Payload,
    pub shown: Shown,
}

impl File {
    pub(super) fn begin(&self, content: Content, mark: Option<String>) -> Arc<Content> {
        let now = Timestamp::now();
        let content = Arc::new(content);
        let mut state = self.state.lock();
        *state = FileState {
            content: Some(content.clone()),
            changes: 1,
            mark,
            own: Some(Own {
                modified: now,
                changed: now,
                version: None,
            }),
            opens: state.opens,
            ..FileState::default()
        };
        content
    }

    /// Notes that the remote had this version at `at`, with this metadata if it was asked for.
    pub(super) fn see(&self, version: &Version, metadata: Option<Metadata>, at: Instant) {
        let mut state = self.state.lock();
        if state.seen.as_ref().is_some_and(|seen| seen.at > at) {
            return;
        }
        let mut given_up = None;
        if let Some(removed_at) = state.removed_at {
            if at <= removed_at {
                return;
            }
            // It is another file with the old name.
            state.removed_at = None;
            (state.own, state.mark, state.ahead) = (None, None, None);
            given_up = state.content.take();
        }
        let before = state.seen.take();
        let before = before.filter(|before| before.version.is_same(version));
        let known = metadata.map(Known::new).or_else(|| {
            // Metadata changes without the tag, but not without the time, which is unknown of what
            // was made here.
            let before = before.as_ref()?;
            let time = before.version.last_modified;
            let is_as_old = time.is_none() || time == version.last_modified;
            before.known.clone().filter(|_| is_as_old)
        });
        // A listing may know less of the same version.
        let before = before.filter(|_| version.is_weak());
        state.seen = Some(Seen {
            version: before.map_or_else(|| version.clone(), |before| before.version),
            at,
            known,
        });
        drop(state);
        drop(given_up);
    }

    /// Notes the metadata of the version that was seen last, if that is this one.
    pub(super) fn learn(&self, version: &Version, metadata: &Metadata) {
        let mut state = self.state.lock();
        if let Some(seen) = &mut state.seen
            && seen.version.is_same(version)
        {
            seen.known = Some(Known::new(metadata.clone()));
        }
    }

    /// What it looks like, if it was changed here or seen less than `age` ago; `needs_metadata`:
    /// only with its metadata.
    pub(super) fn fresh(&self, age: Duration, needs_metadata: bool) -> Option<Shown> {
        let state = self.state.lock();
        let is_fresh = |seen: &Seen| seen.at.elapsed() < age;
        let has_metadata = |seen: &Seen| !needs_metadata || seen.known.is_some();
        let is_good = match &state.seen {
            Some(seen) => has_metadata(seen) && (state.is_changed() || is_fresh(seen)),
            None => state.is_changed(),
        };
        state.shown().filter(|_| is_good)
    }

    pub(super) fn shown(&self) -> Option<Shown> {
        self.state.lock().shown()
    }

    /// Asks for the version that the remote has now. A silent remote is believed to have what it
    /// had, so that memory's bytes can be read on; a refusal is an error.
    pub(super) fn ask(&self, key: &str, data: &Data) -> Result<Shown> {
        let at = Instant::now();
        let state = self.state.lock();
        if state.removed_at.is_some() {
            // Its key has another file now.
            return state.shown().ok_or(Error::NotFound);
        }
        drop(state);
        match data.remote().head(key) {
            Ok(found) => {
                self.see(&found.version, Some(found.metadata), at);
                self.shown().ok_or(Error::Stale)
            }
            Err(RemoteError::NotFound) => {
                let mut state = self.state.lock();
                state.seen = None;
                if state.is_changed() {
                    // What was made or changed here is not at the remote yet, or not any more.
                    return state.shown().ok_or(Error::Stale);
                }
                // A program that has bytes of it gets none of what comes in its place.
                let content = state.content.take();
                drop(state);
                drop(content);
                Err(Error::NotFound)
            }
            Err(failure @ (RemoteError::Unreachable(_) | RemoteError::TryLater(_))) => {
                let mut state = self.state.lock();
                state.silent_at = Some(Instant::now());
                let Some(seen) = &mut state.seen else {
                    return Err(error::of_call(failure));
                };
                tracing::warn!("{}: {key}: {failure}", data.remote().describe());
                seen.at = Instant::now();
                state.shown().ok_or(Error::Stale)
            }
            Err(failure) => Err(error::of_call(failure)),
        }
    }

    /// The version that was seen last.
    pub(super) fn known(&self) -> Option<Version> {
        let state = self.state.lock();
        Some(state.seen.as_ref()?.version.clone())
    }

    /// Its metadata, if it was asked for.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let state = self.state.lock();
        let known = state.seen.as_ref()?.known.as_ref()?;
        Some(known.metadata.clone())
    }

    /// Counts an open. Returns whether what the kernel kept of an earlier one is still valid: never
    /// where memory has no pages and the remote was not asked.
    pub(super) fn open(&self, has_pages: bool) -> bool {
        let mut state = self.state.lock();
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

    /// Ends an open. Returns the bytes of a removed file when the last program has closed it.
    pub(super) fn close(&self) -> Option<Arc<Content>> {
        let mut state = self.state.lock();
        state.opens = state.opens.saturating_sub(1);
        let is_gone = state.removed_at.is_some() && state.opens == 0;
        state.content.take_if(|_| is_gone)
    }

    /// Begins to fetch all of it, if it is that small and memory has nothing of it.
    pub(super) fn prefetch(&self, key: &str, data: &Data, bytes_max: u64) {
        if self.has_pages() {
            return;
        }
        if let Ok(Some(content)) = self.content(key, data)
            && content.backing().length_bytes() <= bytes_max
        {
            content.prefetch();
        }
    }

    /// Whether an open has to ask for the version: memory has pages, which no request compares.
    pub(super) fn has_pages(&self) -> bool {
        let state = self.state.lock();
        let content = state.content.as_ref();
        content.is_some_and(|content| content.has_pages())
    }

    pub(super) fn is_changed(&self) -> bool {
        self.state.lock().is_changed()
    }

    /// Whether a program that closes it has to wait, or to get an error.
    pub(super) fn has_to_send(&self) -> bool {
        let state = self.state.lock();
        state.failure.is_some() || state.is_changed() && state.removed_at.is_none()
    }

    /// Whether the remote cannot have it: it was made here, and not sent.
    pub(super) fn is_only_here(&self) -> bool {
        let state = self.state.lock();
        let content = state.content.as_ref();
        let is_new = content.is_some_and(|content| content.backing().base().is_none());
        is_new && state.mark.is_none()
    }

    /// Whether the remote was silent so lately that it is not asked again.
    pub(super) fn was_just_silent(&self) -> bool {
        let silent_at = self.state.lock().silent_at;
        silent_at.is_some_and(|at| at.elapsed() < AGAIN_AFTER)
    }

    /// The bytes: with the changes made here, or of the version seen last. An open file keeps the
    /// version of which it has given bytes.
    fn content(&self, key: &str, data: &Data) -> Result<Option<Arc<Content>>> {
        let mut state = self.state.lock();
        if state.has_new_bytes() {
            return Ok(state.content.clone());
        }
        let Some(seen) = &state.seen else {
            return Ok(None);
        };
        match &state.content {
            Some(open) if open.is_as(&seen.version) => return Ok(Some(open.clone())),
            _ => state.check_given(&seen.version, key, data)?,
        }
        let opened = Arc::new(data.open(key, &seen.version));
        let before = state.content.replace(opened.clone());
        drop(state);
        drop(before);
        Ok(Some(opened))
    }

    /// The bytes; the remote is asked for a version if none is known.
    pub(super) fn known_content(
        &self,
        key: &str,
        data: &Data,
        may_block: bool,
    ) -> Result<Arc<Content>> {
        if let Some(content) = self.content(key, data)? {
            return Ok(content);
        }
        Error::WouldBlock.unless(may_block)?;
        self.ask(key, data)?;
        self.content(key, data)?.ok_or(Error::Stale)
    }

    pub(super) fn read(
        &self,
        key: &str,
        data: &Data,
        (offset, count): (u64, u32),
        may_block: bool,
    ) -> Result<Bytes> {
        let mut is_first = true;
        loop {
            let open = self.known_content(key, data, may_block)?;
            let shown = self.shown().ok_or(Error::Stale)?;
            let end = open.backing().length_bytes();
            let rest = end.saturating_sub(offset);
            let length = u32::try_from(rest).unwrap_or(u32::MAX).min(count);
            let shown = Shown {
                length_bytes: end,
                ..shown
            };
            if length == 0 {
                let payload = Payload::Bytes(Vec::new());
                return Ok(Bytes { payload, shown });
            }
            match open.read(offset, length as usize, may_block) {
                Ok(payload) => {
                    self.give(&open, key, data)?;
                    return Ok(Bytes { payload, shown });
                }
                Err(Error::WouldBlock) => return Err(Error::WouldBlock),
                Err(error) => {
                    Error::WouldBlock.when(open.is_gone() && !may_block)?;
                    if !is_first || !self.may_try_again(key, data, &open)? {
                        return Err(error);
                    }
                    is_first = false;
                }
            }
        }
    }

    pub(super) fn write(
        &self,
        (key, data): (&str, &Data),
        (offset, bytes): (u64, &[u8]),
        may_block: bool,
        changed: &mut usize,
    ) -> Result<()> {
        let mut is_first = true;
        loop {
            let content = self.known_content(key, data, may_block)?;
            let shared = content.share(may_block)?;
            let state = self.state.lock();
            if !state.has(&content) {
                continue;
            }
            // From here on the file is changed, and this is its content until that is given up.
            let end = offset + bytes.len() as u64;
            content.backing().will_write(offset, end);
            drop(state);
            let written = content.write(&shared, (offset, bytes), may_block, changed);
            drop(shared);
            if *changed > 0 || written.is_ok() {
                self.change();
            }
            if !self.state.lock().has(&content) {
                return Err(replaced(key, data));
            }
            let is_io = matches!(written, Err(Error::Io(_)));
            if !is_io || !is_first || !may_block || !self.may_try_again(key, data, &content)? {
                return written;
            }
            is_first = false;
        }
    }

    /// Moves the end. The caller has [`Self::hold_to_send`].
    pub(super) fn set_length(&self, key: &str, data: &Data, length_bytes: u64) -> Result<()> {
        let mut is_first = true;
        loop {
            let content = self.known_content(key, data, true)?;
            if let Err(error) = content.set_length(length_bytes) {
                if !is_first || !self.may_try_again(key, data, &content)? {
                    return Err(error);
                }
                is_first = false;
                continue;
            }
            if self.state.lock().has(&content) {
                self.change();
                return Ok(());
            }
        }
    }

    pub(super) fn changed_content(&self, key: &str, data: &Data) -> Result<Option<Arc<Content>>> {
        let state = self.state.lock();
        if !state.is_changed() {
            return Ok(None);
        }
        let own = state.content.clone().filter(|_| state.has_new_bytes());
        drop(state);
        match own {
            Some(content) => Ok(Some(content)),
            None => self.known_content(key, data, true).map(Some),
        }
    }

    /// The bytes, if there are any that may be changed.
    pub(super) fn changing_content(&self) -> Option<Arc<Content>> {
        self.state.lock().content.clone()
    }

    pub(super) fn staged(&self) -> Option<Arc<StagedFile>> {
        self.changing_content()?.backing().staged()
    }

    /// Bytes that the remote has not.
    pub(super) fn changed_bytes(&self) -> u64 {
        let content = self.changing_content();
        content.map_or(0, |content| content.backing().draft().dirty.bytes())
    }

    /// Notes that a program gets bytes. Another thread may have read a newer version since.
    fn give(&self, content: &Content, key: &str, data: &Data) -> Result<()> {
        let Some(base) = content.backing().base() else {
            return Ok(());
        };
        let mut state = self.state.lock();
        if content.backing().is_changed() {
            // The send decides which version it is.
            return Ok(());
        }
        state.check_given(base.version(), key, data)?;
        if state.opens > 0 && state.given.is_none() {
            state.given = Some(base.version().clone());
        }
        Ok(())
    }

    /// Taken to send changes, and to cut the file off.
    pub(super) fn hold_to_send(&self) -> MutexGuard<'_, ()> {
        self.sending.lock()
    }

    /// How often it was changed here, unless all of that is durable on this machine.
    pub(super) fn changes_to_journal(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.changes != state.journaled_changes).then_some(state.changes)
    }

    pub(super) fn note_journaled(&self, changes: u64) {
        let mut state = self.state.lock();
        state.journaled_changes = changes;
    }

    pub(super) fn change(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        let ahead = state.ahead.as_ref().map(|ahead| ahead.modified);
        let own = Own {
            modified: ahead.unwrap_or_else(Timestamp::now),
            changed: state.next_change(),
            version: None,
        };
        state.own = Some(own);
        if let Some(wanted) = &mut state.wanted {
            wanted.modified = None;
        }
    }

    /// Its changes are sent from now on, before they are committed: until [`Self::end_ahead`], or
    /// until they are an object, writes do not move the time of the last change. Returns the mark
    /// of that object.
    pub(super) fn begin_ahead(&self) -> String {
        let mut state = self.state.lock();
        // What was set holds until the next write.
        let is_set = state.wanted.is_some_and(|wanted| wanted.modified.is_some());
        let own = state.own.as_ref().filter(|_| !is_set);
        let modified = own.map(|own| own.modified);
        let mark = state.mark.clone().unwrap_or_else(fresh_mark);
        state.ahead = Some(SentAhead {
            modified: modified.unwrap_or_else(Timestamp::now),
            mark: mark.clone(),
        });
        mark
    }

    /// All of it is sent at the commit. It was changed until now, unless a time was set.
    pub(super) fn end_ahead(&self) {
        self.state.lock().end_ahead();
    }

    /// Notes that the object has the bytes, and that its metadata has still to become this.
    pub(super) fn want(&self, marks: Marks) {
        let mut state = self.state.lock();
        state.wanted = Some(state.wanted.unwrap_or_default().over(marks));
        state.wanted_count += 1;
    }

    /// Notes what was set here. With `is_kept` it goes to the metadata; else memory alone shows it.
    pub(super) fn set(&self, marks: Marks, is_kept: bool) {
        let mut state = self.state.lock();
        state.changes += 1;
        let version = state.seen.as_ref().map(|seen| seen.version.clone());
        let before = state.shown().map(|shown| shown.modified);
        let modified = marks.modified.or(before).unwrap_or_else(Timestamp::now);
        let own = Own {
            modified,
            changed: state.next_change(),
            version: version.filter(|_| !state.has_new_bytes()),
        };
        state.own = Some(own);
        if is_kept {
            state.wanted = Some(marks.over(state.wanted.unwrap_or_default()));
            state.wanted_count += 1;
        }
    }

    /// What is to go to the metadata, and how often that was set.
    pub(super) fn wanted(&self) -> (Marks, u64) {
        let state = self.state.lock();
        (state.wanted.unwrap_or_default(), state.wanted_count)
    }

    /// Notes that the remote has the changes, as this version. Returns the staged file once nothing
    /// needs it.
    pub(super) fn sent(
        &self,
        content: &Content,
        version: &Version,
        (metadata, wanted_count): (Metadata, u64),
    ) -> Option<Arc<StagedFile>> {
        let mut state = self.state.lock();
        let staged = content.backing().sent(version.clone());
        if state.wanted_count == wanted_count {
            state.wanted = None;
        }
        if let Some(own) = &mut state.own {
            own.version = Some(version.clone());
        }
        if state.opens > 0 {
            state.given = Some(version.clone());
        }
        if content.backing().is_changed() {
            // A write since the changes were taken to be sent is in none of this version.
            state.end_ahead();
        }
        (state.mark, state.ahead) = (None, None);
        state.seen = Some(Seen {
            version: version.clone(),
            at: Instant::now(),
            known: Some(Known::new(metadata)),
        });
        staged
    }

    /// The staged file, if no change needs it: all is as it was, or an upload succeeded whose reply
    /// was lost.
    pub(super) fn take_unneeded(&self) -> Option<Arc<StagedFile>> {
        let mut state = self.state.lock();
        if state.is_changed() {
            return None;
        }
        state.mark = None;
        state.content.as_ref()?.backing().take_staged()
    }

    /// Notes that it was made here, as this version at the remote.
    pub(super) fn made(&self, version: &Version, metadata: Option<Metadata>, modified: Timestamp) {
        let mut state = self.state.lock();
        *state = FileState {
            seen: Some(Seen {
                version: version.clone(),
                at: Instant::now(),
                known: metadata.map(Known::new),
            }),
            own: Some(Own {
                modified,
                changed: state.next_change(),
                version: Some(version.clone()),
            }),
            opens: state.opens,
            ..FileState::default()
        };
    }

    /// Gives up its changes, and a failure that was not reported.
    pub(super) fn give_up(&self) -> Option<Arc<Content>> {
        let mut state = self.state.lock();
        state.seen = None;
        state.own = None;
        state.wanted = None;
        state.ahead = None;
        state.failure = None;
        state.content.take()
    }

    pub(super) fn fail(&self, failure: Error) {
        self.state.lock().failure = Some(failure);
    }

    /// By which an object is known as made of these changes, whatever came of the request; a new
    /// one if there is none.
    pub(super) fn mark(&self) -> String {
        let mut state = self.state.lock();
        let ahead = state.ahead.as_ref().map(|ahead| ahead.mark.clone());
        let mark = state
            .mark
            .get_or_insert_with(|| ahead.unwrap_or_else(fresh_mark));
        mark.clone()
    }

    /// Whether the object was made of the changes of this file though the reply was lost: they are
    /// based on it from then on.
    pub(super) fn find_own(&self, key: &str, data: &Data) -> Result<bool> {
        let content = self.state.lock().content.clone();
        let Some(content) = content else {
            return Ok(false);
        };
        let found = match data.remote().head(key) {
            Ok(found) => found,
            Err(RemoteError::NotFound) => return Ok(false),
            Err(failure) => return Err(error::of_call(failure)),
        };
        let mark = self.mark();
        let is_mark = |(name, value): &(String, Vec<u8>)| {
            name.eq_ignore_ascii_case(MARK) && *value == mark.as_bytes()
        };
        let is_own = found.metadata.iter().any(is_mark);
        if is_own {
            content.backing().rebase(found.version.clone());
            self.see(&found.version, Some(found.metadata), Instant::now());
        }
        Ok(is_own)
    }

    /// Whether to try once more: bytes of the base were not there, and now are.
    fn may_try_again(&self, key: &str, data: &Data, content: &Content) -> Result<bool> {
        if !content.is_gone() {
            return Ok(false);
        }
        if self.is_changed() {
            return self.find_own(key, data);
        }
        self.ask(key, data)?;
        Ok(true)
    }

    /// The failure that was not reported yet.
    pub(super) fn take_failure(&self) -> Result<()> {
        match self.state.lock().failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Its name is gone. Returns whether a program has it open, and so reads and writes on.
    pub(super) fn remove(&self) -> bool {
        let mut state = self.state.lock();
        state.removed_at = Some(Instant::now());
        state.opens > 0
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.lock().opens > 0
    }

    pub(super) fn is_removed(&self) -> bool {
        self.state.lock().removed_at.is_some()
    }
}

fn fresh_mark() -> String {
    let number = pagewell_fs::verifier::fresh();
    format!("{number:016x}")
}

/// The error of a program whose file is another one now.
fn replaced(key: &str, data: &Data) -> Error {
    let place = data.remote().describe();
    Error::Io(format!("{place}: {key}: was replaced while it was open"))
}

impl FileState {
    /// All is sent at the commit. It was changed until now, unless a time was set.
    fn end_ahead(&mut self) {
        let Some(ahead) = self.ahead.take() else {
            return;
        };
        let changed = self.next_change();
        let is_set = self.wanted.is_some_and(|wanted| wanted.modified.is_some());
        if let Some(own) = &mut self.own
            && own.modified == ahead.modified
            && !is_set
        {
            (own.modified, own.changed) = (Timestamp::now(), changed);
        }
    }

    fn has(&self, content: &Arc<Content>) -> bool {
        let own = self.content.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, content))
    }

    fn has_new_bytes(&self) -> bool {
        let content = self.content.as_ref();
        content.is_some_and(|content| content.backing().is_changed())
    }

    fn is_changed(&self) -> bool {
        self.wanted.is_some() || self.has_new_bytes()
    }

    fn next_change(&self) -> Timestamp {
        let before = self.shown().map(|shown| shown.changed);
        let now = Timestamp::now();
        match before {
            Some(before) if before >= now => before.next(),
            _ => now,
        }
    }

    fn shown(&self) -> Option<Shown> {
        let known = self.seen.as_ref().and_then(|seen| seen.known.as_ref());
        let marks = known.map_or_else(Marks::default, |known| known.marks);
        let marks = self.wanted.unwrap_or_default().over(marks);
        if let (Some(content), Some(own)) = (&self.content, &self.own)
            && content.backing().is_changed()
        {
            return Some(Shown {
                length_bytes: content.backing().length_bytes(),
                modified: own.modified,
                changed: own.changed,
                marks: Marks {
                    modified: Some(own.modified),
                    ..marks
                },
                is_settled: false,
            });
        }
        let version = &self.seen.as_ref()?.version;
        let shown = Shown {
            marks,
            is_settled: self.wanted.is_none(),
            ..Shown::of(version)
        };
        let own = self.own.as_ref().filter(|own| {
            // Times of a change made here stay until another version comes.
            let of = own.version.as_ref();
            of.is_some_and(|of| of.is_same(version))
        });
        Some(own.map_or(shown, |own| Shown {
            modified: own.modified,
            changed: own.changed,
            ..shown
        }))
    }

    fn check_given(&self, version: &Version, key: &str, data: &Data) -> Result<()> {
        match &self.given {
            Some(given) if self.opens > 0 && !given.is_same(version) => Err(replaced(key, data)),
            _ => Ok(()),
        }
    }
}
