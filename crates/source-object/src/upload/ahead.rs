//! The upload of a file that is still being written.
//!
//! ```text
//!   file     |  slot 0  |  slot 1  |  slot 2  |  slot 3  | .....  <- written up to here
//!             sent       sent       on its way            '- as much as may be one body
//!   commit   kept       written    waited for  sent with the rest, completed
//!                       again: sent
//! ```
//!
//! A file is cut into slots of one size, each a part with the number of its slot. They are sent in
//! order, each once at most: what is written again and again costs no more than twice its bytes.
//! The commit sends the rest. Which of the bytes that went are those of the file then, the file
//! alone knows: a slot that was touched counts as not sent.
//!
//! A commit waits for the threads before it looks at anything: two requests for one part are never
//! under way at once, as only the store would know which of them came last. An upload that is not
//! needed is aborted by the last thread, behind all parts.
//!
//! Weaknesses: once an upload is given up, all is sent at the commit. Of very large files the
//! second half of the parts is, so that these may be larger.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use pagewell_base::sync::{Condvar, Mutex};
use pagewell_object_client::{Error as RemoteError, Metadata, Part, Remote, Upload};

use super::object::{Failure, Notes, Source};
use super::{Uploader, run};

/// Parts of one file on their way at once. They leave a quarter of the memory of uploads to others.
const PARALLEL_MAX: usize = 3;

/// A file that is being written.
pub(crate) trait Written: Source {
    /// The metadata of the object, as far as it is known.
    ///
    /// # Errors
    /// [`Failure`]; all is sent at the commit.
    fn begin(&self) -> Result<Metadata, Failure>;

    /// Whether it is a file to be sent so, and all is written up to `until`.
    fn is_written(&self, until: u64) -> bool;

    /// [`Self::is_written`]. If it is, this range is sent now: from here on the file knows which of
    /// these bytes are written again.
    fn goes(&self, range: Range<u64>, until: u64) -> bool;
}

#[derive(Default)]
pub(crate) struct Ahead {
    state: Mutex<Progress>,
    a_thread_left: Condvar,
    /// The next slot, held while a thread looks whether it goes.
    next: Mutex<u32>,
    /// The same, for a look at every write.
    next_shown: AtomicU32,
}

#[derive(Default)]
struct Progress {
    threads: usize,
    has_begun: bool,
    early: Option<Early>,
    /// Nothing more is sent before the file is an object.
    is_over: bool,
    is_given_up: bool,
}

/// An upload, and the parts that the store has.
pub(crate) struct Early {
    pub upload: Upload,
    /// With which it was created.
    pub metadata: Metadata,
    pub parts: Vec<Part>,
}

impl Early {
    /// Slots, up to the last that was sent.
    pub(super) fn slots(&self) -> u32 {
        let numbers = self.parts.iter().map(|part| part.number);
        numbers.max().unwrap_or(0)
    }
}

impl Progress {
    fn may_enter(&self) -> bool {
        let is_beginning = self.has_begun && self.early.is_none();
        !self.is_over && !is_beginning && self.threads < PARALLEL_MAX
    }
}

impl Ahead {
    /// How far the file has to be written for another thread to be of use; `None`: it is of none.
    pub(crate) fn is_due_at(&self, uploader: &Uploader) -> Option<u64> {
        let slot = self.next_shown.load(Ordering::Acquire);
        uploader.sizes.slot_is_due_at(slot)
    }

    pub(crate) fn may_enter(&self) -> bool {
        self.state.lock().may_enter()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// Has the calling thread send what is due. It does nothing where enough others do.
    ///
    /// # Errors
    /// [`Failure`]: the upload is given up.
    pub(crate) fn send(
        &self,
        uploader: &Uploader,
        (remote, notes): (&dyn Remote, &dyn Notes),
        (key, file): (&str, &dyn Written),
    ) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if !state.may_enter() {
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let thread = Thread {
            ahead: self,
            uploader,
            remote,
            notes,
        };
        let worked = thread.work(key, file);
        if worked.is_err() {
            let mut state = self.state.lock();
            (state.is_over, state.is_given_up) = (true, true);
        }
        worked
    }

    /// The upload, for a caller that completes or aborts it; waits for parts on their way. Nothing
    /// is sent before [`Self::reset`].
    pub(crate) fn take(&self) -> Option<Early> {
        let mut state = self.state.lock();
        state.is_over = true;
        while state.threads > 0 {
            state = self.a_thread_left.wait(state);
        }
        state.early.take()
    }

    /// The file needs the upload no more. Returns it, if the caller has to abort it.
    pub(crate) fn give_up(&self) -> Option<Upload> {
        let mut state = self.state.lock();
        (state.is_over, state.is_given_up) = (true, true);
        if state.threads > 0 {
            return None;
        }
        state.early.take().map(|early| early.upload)
    }

    /// The file is an object, after [`Self::take`].
    pub(crate) fn reset(&self) {
        let mut next = self.next.lock();
        *self.state.lock() = Progress::default();
        *next = 0;
        self.next_shown.store(0, Ordering::Release);
    }

    fn upload(&self) -> Option<Upload> {
        let state = self.state.lock();
        state.early.as_ref().map(|early| early.upload.clone())
    }

    /// The next slot, if it goes now.
    fn claim(&self, uploader: &Uploader, file: &dyn Written) -> Option<u32> {
        let mut next = self.next.lock();
        let is_over = self.state.lock().is_over;
        let until = uploader.sizes.slot_is_due_at(*next)?;
        let slot = *next;
        if is_over || !file.goes(uploader.sizes.slot(slot), until) {
            return None;
        }
        *next += 1;
        self.next_shown.store(*next, Ordering::Release);
        Some(slot)
    }
}

/// A thread that sends; it counts until this is dropped.
struct Thread<'a> {
    ahead: &'a Ahead,
    uploader: &'a Uploader,
    remote: &'a dyn Remote,
    notes: &'a dyn Notes,
}

impl Thread<'_> {
    fn work(&self, key: &str, file: &dyn Written) -> Result<(), Failure> {
        let Some(store) = self.remote.as_writable() else {
            return Ok(());
        };
        // A commit may have been faster than this thread.
        let until = self.ahead.is_due_at(self.uploader);
        if !until.is_some_and(|until| file.is_written(until)) {
            return Ok(());
        }
        self.begin(key, file)?;
        let Some(upload) = self.ahead.upload() else {
            return Ok(());
        };
        loop {
            // A claim may wait for a writer, so this thread has no memory yet that others wait for.
            let Some(slot) = self.ahead.claim(self.uploader, file) else {
                return Ok(());
            };
            let range = self.uploader.sizes.slot(slot);
            let _taken = self.uploader.budget.bytes(range.end - range.start);
            if self.ahead.state.lock().is_given_up {
                return Ok(());
            }
            let body = run::body(file, key, &range)?;
            let part = store.upload_part(&upload, slot + 1, body)?;
            if let Some(early) = &mut self.ahead.state.lock().early {
                early.parts.push(part);
            }
        }
    }

    /// Asks for an upload, if no thread has.
    fn begin(&self, key: &str, file: &dyn Written) -> Result<(), Failure> {
        let has_begun = std::mem::replace(&mut self.ahead.state.lock().has_begun, true);
        if has_begun {
            return Ok(());
        }
        let metadata = file.begin()?;
        let store = self.remote.as_writable();
        let store = store.ok_or_else(|| RemoteError::Unsupported(self.remote.describe()))?;
        let upload = store.create_upload(key, &metadata)?;
        self.notes.begun(&upload);
        self.ahead.state.lock().early = Some(Early {
            upload,
            metadata,
            parts: Vec::new(),
        });
        Ok(())
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let mut state = self.ahead.state.lock();
        let is_needed = !state.is_given_up || state.threads > 1;
        let early = if is_needed { None } else { state.early.take() };
        if let Some(early) = early {
            drop(state);
            run::abort(self.remote, &early.upload, self.notes);
            state = self.ahead.state.lock();
        }
        state.threads -= 1;
        drop(state);
        self.ahead.a_thread_left.notify_all();
    }
}
