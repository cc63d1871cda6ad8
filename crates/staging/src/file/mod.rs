//! One staged file: its requests, in order, and what is stored.

mod journal;
mod transfer;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use pagewell_base::spans::Span;
use pagewell_base::sync::{Condvar, Mutex, MutexGuard};
use pagewell_device::{Error as DeviceError, Operation, Outcome, Request, complete};
use rustix::io::Errno;

use crate::folder::{Folder, Kind};
use crate::places::{Home, Part, Places};
use crate::pool::Turns;
use crate::sums::Sums;

/// Of any file.
const LENGTH_BYTES_MAX: u64 = i64::MAX.cast_unsigned();

/// Bytes of a changed object. Dropping the last clone removes its bytes, unless they are journaled
/// or kept.
#[derive(Clone)]
pub struct StagedFile(Arc<Inner>);

struct Inner {
    folder: Arc<Folder>,
    number: u64,
    key: String,
    state: Mutex<State>,
    /// For the turn.
    turn_ended: Condvar,
}

/// What becomes of the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Removed,
    /// A record promises so many.
    Journaled(u64),
    /// For people, or not removable.
    Left,
}

struct State {
    places: Places,
    sums: Sums,
    queue: VecDeque<Waiting>,
    /// A thread runs a request, or writes a record.
    has_turn: bool,
    /// Threads that wait for the turn, before requests.
    waiting: usize,
    /// The running request stores nothing behind it.
    end_max: u64,
    files: [DataState; 2],
    /// A data file's name is not durable.
    has_new_name: bool,
    fate: Fate,
    /// A flush has failed.
    is_doubtful: bool,
    /// Takes no writes.
    is_closed: bool,
}

/// A data file.
#[derive(Clone, Copy, Default)]
struct DataState {
    is_made: bool,
    /// At most.
    length_bytes: u64,
    /// Some bytes are not durable.
    is_unsynced: bool,
}

enum Waiting {
    Transfer {
        request: Request,
        /// Cut meanwhile.
        end_max: u64,
    },
    /// Data files may be too long.
    Trim,
}

impl StagedFile {
    pub(crate) fn new(folder: &Arc<Folder>, number: u64, key: &str) -> Self {
        let files = [DataState::default(); 2];
        Self::with(folder, number, key, Places::default(), files, Fate::Removed)
    }

    /// As a record promises it; `lengths` of the data files.
    pub(crate) fn restored(
        folder: &Arc<Folder>,
        number: u64,
        key: &str,
        parts: &[Part],
        lengths: [Option<u64>; 2],
    ) -> Self {
        let files = lengths.map(|length_bytes| DataState {
            is_made: length_bytes.is_some(),
            length_bytes: length_bytes.unwrap_or(0),
            is_unsynced: false,
        });
        let places = Places::promised(parts);
        let bytes = places.bytes();
        folder.take_over(bytes);
        folder.count_journaled(None, Some(bytes));
        Self::with(folder, number, key, places, files, Fate::Journaled(bytes))
    }

    fn with(
        folder: &Arc<Folder>,
        number: u64,
        key: &str,
        places: Places,
        files: [DataState; 2],
        fate: Fate,
    ) -> Self {
        let state = State {
            places,
            sums: Sums::default(),
            queue: VecDeque::new(),
            has_turn: false,
            waiting: 0,
            end_max: u64::MAX,
            files,
            has_new_name: false,
            fate,
            is_doubtful: false,
            is_closed: false,
        };
        Self(Arc::new(Inner {
            folder: folder.clone(),
            number,
            key: key.to_owned(),
            state: Mutex::new(state),
            turn_ended: Condvar::new(),
        }))
    }

    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Carries a request out, after earlier ones of this file. A complete write is stored, not
    /// durable; `ENOSPC`: the folder is full. A read of bytes not stored fails (`EIO`). A flush
    /// does nothing: [`Self::journal`] makes durable.
    pub fn submit(&self, request: Request) {
        let inner = &self.0;
        let end = request.offset().checked_add(request.len() as u64);
        let Some(end) = end.filter(|end| *end <= LENGTH_BYTES_MAX) else {
            let error = inner.error(request.offset(), Errno::FBIG);
            return request.fail(0, error);
        };
        if request.operation() == Operation::Flush || request.is_empty() {
            return request.succeed();
        }
        let mut state = inner.state.lock();
        let is_refused = match request.operation() {
            Operation::Read => !state.places.covers(request.offset(), end),
            _ => state.is_closed,
        };
        if is_refused {
            drop(state);
            let error = inner.error(request.offset(), Errno::IO);
            return request.fail(0, error);
        }
        let end_max = u64::MAX;
        let transfer = Waiting::Transfer { request, end_max };
        state.queue.push_back(transfer);
        inner.begin(state);
    }

    /// What is stored, ascending.
    #[must_use]
    pub fn spans_within(&self, start: u64, end: u64) -> Vec<Span> {
        self.0.state.lock().places.spans_within(start, end)
    }

    /// Bytes stored.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.0.state.lock().places.bytes()
    }

    /// Whether a flush has failed, so that the disk may have lost bytes.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.0.state.lock().is_doubtful
    }

    /// Forgets what is behind, and what earlier writes store there. What a record promises stays.
    pub fn cut(&self, length_bytes: u64) {
        let mut state = self.0.state.lock();
        state.end_max = state.end_max.min(length_bytes);
        for waiting in &mut state.queue {
            if let Waiting::Transfer { end_max, .. } = waiting {
                *end_max = length_bytes.min(*end_max);
            }
        }
        let forgotten = state.places.cut(length_bytes);
        state.sums.forget(length_bytes, u64::MAX);
        self.0.folder.release(forgotten);
        let is_idle = !state.has_turn && state.queue.is_empty();
        if is_idle && state.files.iter().all(|file| !file.is_made) {
            return;
        }
        state.queue.push_back(Waiting::Trim);
        self.0.begin(state);
    }

    /// The object was made. Waits for the running request, and for the disk if there is a record.
    /// Later writes fail.
    pub fn finish(&self) {
        self.0.state.lock().is_closed = true;
        self.withdraw();
    }

    /// Removes the record; the bytes stay while the file is used. Waits as [`Self::finish`] does.
    pub fn withdraw(&self) {
        let turn = self.0.take_turn();
        let mut state = self.0.state.lock();
        let Fate::Journaled(bytes) = state.fate else {
            return;
        };
        state.fate = Fate::Left;
        drop(state);
        let folder = &self.0.folder;
        // Before its bytes, and for certain.
        let removed = folder.remove(self.0.number, Kind::Record);
        match removed.and_then(|()| folder.sync()) {
            Ok(()) => self.0.state.lock().fate = Fate::Removed,
            Err(error) => tracing::warn!("{}: its record stays: {error}", self.0.name()),
        }
        folder.count_journaled(Some(bytes), None);
        drop(turn);
    }
}

/// The right to use the data files; its end lets the next request run.
struct Turn(Arc<Inner>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.end_turn() {
            self.0.folder.pool().push(turns);
        }
    }
}

impl Inner {
    /// For messages.
    fn name(&self) -> String {
        let path = self.folder.file(self.number, Kind::Data(0));
        format!("{} ({})", path.display(), self.key)
    }

    fn error(&self, offset: u64, errno: Errno) -> DeviceError {
        DeviceError::failed(&self.name(), offset, errno)
    }

    /// Has the queue run, unless it will be.
    fn begin(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let begins = !state.has_turn && state.waiting == 0;
        state.has_turn |= begins;
        drop(state);
        if begins {
            // Without the lock: this thread runs the queue when there is no other.
            self.folder.pool().push(self.clone());
        }
    }

    fn take_turn(self: &Arc<Self>) -> Turn {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.has_turn {
            state = self.turn_ended.wait(state);
        }
        state.waiting -= 1;
        state.has_turn = true;
        state.end_max = u64::MAX;
        Turn(self.clone())
    }

    fn end_turn(self: &Arc<Self>) -> Option<Arc<dyn Turns>> {
        let mut state = self.state.lock();
        if state.waiting == 0 && !state.queue.is_empty() {
            return Some(self.clone());
        }
        state.has_turn = false;
        drop(state);
        self.turn_ended.notify_one();
        None
    }

    /// A data file, made if missing. Only with the turn.
    fn data(&self, home: Home) -> io::Result<Arc<File>> {
        let known = |state: &State| state.files.get(home).is_some_and(|file| file.is_made);
        let is_new = !known(&self.state.lock());
        let path = self.folder.file(self.number, Kind::Data(home));
        let file = self
            .folder
            .descriptors()
            .get((self.number, home), &path, is_new)?;
        if is_new {
            let mut state = self.state.lock();
            state.has_new_name = true;
            if let Some(file) = state.files.get_mut(home) {
                file.is_made = true;
            }
        }
        Ok(file)
    }

    fn write(&self, request: &Request) -> Outcome {
        let (start, end) = span_of(request);
        let mut state = self.state.lock();
        if state.is_closed {
            return failed(0, self.error(start, Errno::IO));
        }
        let targets = state.places.targets(start, end);
        let missing = state.places.missing(start, end);
        state.sums.forget(start, end);
        drop(state);
        if !self.folder.reserve(missing) {
            return failed(0, self.error(start, Errno::NOSPC));
        }
        let mut transferred_bytes = 0;
        let mut stored = 0;
        let mut result = Ok(());
        for target in targets {
            let (bytes, written) = self.write_part(request, target);
            stored += self.note_written(target, bytes);
            transferred_bytes += bytes;
            if let Err(errno) = written {
                if matches!(errno, Errno::NOSPC | Errno::DQUOT) {
                    self.folder.note_refusal();
                }
                let at = start + transferred_bytes as u64;
                result = Err(self.error(at, errno));
                break;
            }
        }
        self.folder.release(missing.saturating_sub(stored));
        Outcome {
            transferred_bytes,
            result,
        }
    }

    fn write_part(&self, request: &Request, target: Part) -> (usize, Result<(), Errno>) {
        match self.data(target.home) {
            Ok(file) => transfer::write(&file, request, target.span),
            Err(error) => (0, Err(transfer::errno(&error))),
        }
    }

    /// The first `bytes` of a target are written. Returns how many are new.
    fn note_written(&self, target: Part, bytes: usize) -> u64 {
        let mut state = self.state.lock();
        let (start, _) = target.span;
        let written = start + bytes as u64;
        if let Some(file) = state.files.get_mut(target.home) {
            file.is_unsynced = true;
            // A failed write may have reached further.
            file.length_bytes = file.length_bytes.max(target.span.1);
        }
        let span = (start, written.min(state.end_max));
        if span.0 >= span.1 {
            return 0;
        }
        let home = target.home;
        state.places.written(Part { span, home })
    }

    fn read(&self, request: &mut Request) -> Outcome {
        let (start, end) = span_of(request);
        let parts = self.state.lock().places.within(start, end);
        let mut at = start;
        for part in parts {
            if part.span.0 != at {
                break;
            }
            let (bytes, read) = match self.data(part.home) {
                Ok(file) => transfer::read(&file, request, part.span),
                Err(error) => (0, Err(transfer::errno(&error))),
            };
            at += bytes as u64;
            if let Err(errno) = read {
                // Less than the length of the request.
                return failed((at - start) as usize, self.error(at, errno));
            }
        }
        let transferred_bytes = (at - start) as usize;
        if at < end {
            // Cut meanwhile.
            return failed(transferred_bytes, self.error(at, Errno::IO));
        }
        Outcome {
            transferred_bytes,
            result: Ok(()),
        }
    }

    /// Cuts data files behind all that is stored or promised.
    fn trim(&self) {
        let state = self.state.lock();
        let ends = state.places.ends();
        let files = state.files;
        drop(state);
        for (home, (file, end)) in files.into_iter().zip(ends).enumerate() {
            if !file.is_made || file.length_bytes <= end {
                continue;
            }
            // If not, the room is only not free.
            if self.data(home).and_then(|file| file.set_len(end)).is_ok()
                && let Some(file) = self.state.lock().files.get_mut(home)
            {
                file.length_bytes = end;
            }
        }
    }
}

impl Turns for Inner {
    fn run(self: Arc<Self>) -> Option<Arc<dyn Turns>> {
        let mut state = self.state.lock();
        let waiting = state.queue.pop_front();
        state.end_max = match &waiting {
            Some(Waiting::Transfer { end_max, .. }) => *end_max,
            _ => u64::MAX,
        };
        drop(state);
        match waiting {
            Some(Waiting::Transfer { mut request, .. }) => {
                let outcome = match request.operation() {
                    Operation::Read => self.read(&mut request),
                    _ => self.write(&request),
                };
                complete(request, outcome);
            }
            Some(Waiting::Trim) => self.trim(),
            None => {}
        }
        self.end_turn()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.folder.descriptors().forget(self.number);
        let state = std::mem::take(&mut self.state.lock().places);
        let (fate, files) = {
            let state = self.state.lock();
            (state.fate, state.files)
        };
        if fate != Fate::Removed {
            return;
        }
        for (home, _) in files.iter().enumerate().filter(|(_, file)| file.is_made) {
            if let Err(error) = self.folder.remove(self.number, Kind::Data(home)) {
                tracing::warn!("{}: is not removed: {error}", self.name());
            }
        }
        self.folder.release(state.bytes());
    }
}

fn span_of(request: &Request) -> Span {
    // Was checked when it came.
    let end = request.offset().saturating_add(request.len() as u64);
    (request.offset(), end)
}

fn failed(transferred_bytes: usize, error: DeviceError) -> Outcome {
    Outcome {
        transferred_bytes,
        result: Err(error),
    }
}

#[cfg(test)]
mod tests;
