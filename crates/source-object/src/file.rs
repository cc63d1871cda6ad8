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
use super::moves::Carried;
use super::node::Node;
use super::opens::{OpenFile, Opens};
use super::seen::Seen;
use super::shown::{Own, Shown};

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
    /// It is another file now, with another key.
    is_moved: bool,
    opens: Opens,
    silent_at: Option<Instant>,
}

/// What the metadata says of changes that are sent before they are committed.
#[derive(Clone)]
struct SentAhead {
    modified: Timestamp,
    mark: String,
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
            opens: state.opens.anew(),
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
        state.seen = Some(Seen::after(state.seen.take(), version, metadata, at));
        drop(state);
        drop(given_up);
    }

    /// Notes the metadata of the version that was seen last, if that is this one.
    pub(super) fn learn(&self, version: &Version, metadata: &Metadata) {
        let mut state = self.state.lock();
        if let Some(seen) = &mut state.seen {
            seen.learn(version, metadata);
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

    /// [`Opens::begin`]; never where memory has no pages and the remote was not asked.
    ///
    /// # Errors
    /// [`Error::Stale`]: it was moved.
    pub(super) fn open(&self, open: &Arc<OpenFile>, has_pages: bool) -> Result<bool> {
        let mut state = self.state.lock();
        Error::Stale.when(state.is_moved)?;
        let seen = state.seen.as_ref().filter(|_| has_pages);
        let seen = seen.map(|seen| seen.version.clone());
        Ok(state.opens.begin(open, seen.as_ref()))
    }

    /// Ends an open, and throws the bytes of a removed file away when the last program has closed
    /// it. Whether it was one of this file.
    pub(super) fn close(&self, open: &Arc<OpenFile>) -> bool {
        let mut state = self.state.lock();
        let was_open = state.opens.end(open);
        let is_gone = state.removed_at.is_some() && !state.opens.any();
        let content = state.content.take_if(|_| is_gone);
        drop(state);
        content.inspect(|content| content.discard());
        was_open
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
                    Error::Stale.when(open.is_gone() && self.is_removed())?;
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
        Error::Stale.when(state.is_moved)?;
        if content.backing().is_changed() {
            // The send decides which version it is.
            return Ok(());
        }
        state.check_given(base.version(), key, data)?;
        state.opens.give(base.version());
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
        state.own = Some(Own {
            modified: ahead.unwrap_or_else(Timestamp::now),
            changed: state.next_change(),
            version: None,
        });
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
        state.own = Some(Own {
            modified,
            changed: state.next_change(),
            version: version.filter(|_| !state.has_new_bytes()),
        });
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
        state.opens.give_instead(version);
        if content.backing().is_changed() {
            // A write since the changes were taken to be sent is in none of this version.
            state.end_ahead();
        }
        (state.mark, state.ahead) = (None, None);
        state.seen = Some(Seen::now(version, Some(metadata)));
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
            opens: state.opens.anew(),
            seen: Some(Seen::now(version, metadata)),
            own: state.made(version, modified),
            ..FileState::default()
        };
    }

    /// Notes that it is another file now, which has all that its programs know of it. `carried` is
    /// how the remote made that one of it, where that is known. Returns bytes that it has not.
    pub(super) fn moved_to(
        &self,
        to: &Arc<Node>,
        carried: Option<&Carried>,
    ) -> Option<Arc<Content>> {
        let new = to.file()?;
        let mut state = self.state.lock();
        let gone = FileState {
            removed_at: Some(Instant::now()),
            is_moved: true,
            ..FileState::default()
        };
        let mut before = std::mem::replace(&mut *state, gone);
        // An open is known to one of both at any time.
        let mut now = new.state.lock();
        now.opens.take(&mut before.opens, to, carried);
        now.failure = now.failure.take().or(before.failure.take());
        let mut replaced = None;
        if let Some(carried) = carried {
            replaced = now.content.take();
            let is_as = |content: &mut Arc<Content>| content.move_to(to.key(), carried);
            let modified = before.modified_as(&carried.of);
            *now = FileState {
                opens: std::mem::take(&mut now.opens),
                failure: now.failure.take(),
                content: before.content.take_if(is_as),
                seen: Some(Seen::now(&carried.made, None)),
                own: modified.and_then(|modified| now.made(&carried.made, modified)),
                ..FileState::default()
            };
        }
        drop((now, state, replaced));
        before.content
    }

    /// It was moved: what is asked of it is to be asked of another.
    pub(super) fn is_moved(&self) -> bool {
        self.state.lock().is_moved
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
        state.opens.any()
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.lock().opens.any()
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

    /// The time of the last change of a version.
    fn modified_as(&self, version: &Version) -> Option<Timestamp> {
        let own = self.own.as_ref().filter(|own| own.is_of(version));
        let modified = version.last_modified.map(Timestamp::from);
        own.map(|own| own.modified).or(modified)
    }

    /// The times of what was made as this version.
    fn made(&self, version: &Version, modified: Timestamp) -> Option<Own> {
        Some(Own {
            modified,
            changed: self.next_change(),
            version: Some(version.clone()),
        })
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
        // Times of a change made here stay until another version comes.
        let own = self.own.as_ref().filter(|own| own.is_of(version));
        Some(own.map_or(shown, |own| Shown {
            modified: own.modified,
            changed: own.changed,
            ..shown
        }))
    }

    fn check_given(&self, version: &Version, key: &str, data: &Data) -> Result<()> {
        match self.opens.accept(version) {
            true => Ok(()),
            false => Err(replaced(key, data)),
        }
    }
}
