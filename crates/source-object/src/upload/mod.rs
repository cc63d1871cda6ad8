//! How a changed object is sent: what differs from its base as bytes, the rest as copies inside the
//! store, all under one condition.
//!
//! ```text
//!   NewObject ──> plan: one body, or parts ──> run: parts side by side ──> complete ──> Version
//!                                               │
//!                                               └── Budget: memory and threads of all uploads
//! ```
//!
//! `Ahead`: of a new file, parts go while it is written; the plan has them already then.
//!
//! Readers see nothing before the end, which happens under the condition: a failure leaves the
//! object as it was, and gives the upload up.
//!
//! Weakness: bodies are in memory. From 320 GB of sent bytes on, parts are larger than the budget,
//! and go one at a time: 525 MiB for 5 TiB.

mod ahead;
mod budget;
mod object;
mod plan;
mod run;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_base::spans::Spans;
use pagewell_counters::names::OBJECT_UPLOADS;
use pagewell_fs::Error as FileError;
use pagewell_object_client::{Copies, Error as RemoteError, Part, Remote, Upload, Version};

pub(crate) use ahead::{Ahead, Early, Written};
pub(crate) use budget::{Budget, TakenBytes};
pub(crate) use object::{Base, Failure, NewObject, Notes, Source};
pub(crate) use plan::Sizes;
use plan::{Change, Plan};
use run::Job;

pub(crate) struct Uploader {
    sizes: Sizes,
    budget: Budget,
    can_copy: AtomicBool,
}

impl Uploader {
    /// `can_copy`: the store copies parts, and refuses one of another version than the named one. A
    /// store that turns out not to copy ranges is not asked again.
    pub(crate) fn new(sizes: Sizes, budget: Budget, can_copy: bool) -> Self {
        Self {
            sizes,
            budget,
            can_copy: AtomicBool::new(can_copy),
        }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn small_bytes_max(&self) -> u64 {
        self.sizes.part_bytes_min
    }

    pub(crate) fn forbid_copies(&self) {
        self.can_copy.store(false, Ordering::Release);
    }

    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn upload(
        &self,
        remote: &dyn Remote,
        object: &NewObject<'_>,
        source: &dyn Source,
        notes: &dyn Notes,
    ) -> Result<Version, Failure> {
        let _under_way = OBJECT_UPLOADS.hold();
        let job = self.job(remote, object, source, notes)?;
        let result = self.make(&job, self.can_copy.load(Ordering::Acquire));
        if result.is_ok() || !job.is_copying_refused.load(Ordering::Acquire) {
            return result;
        }
        // A store that copies whole objects alone refuses this one, not all.
        let copies_none = job.store.copies() == Copies::Ranges;
        if copies_none && self.can_copy.swap(false, Ordering::AcqRel) {
            let place = remote.describe();
            tracing::warn!("{place}: the store copies no parts, so all bytes of files are sent");
        }
        self.make(&job, false)
    }

    /// Makes the object of an upload that began while it was written, of which the bytes `current`
    /// were not written again. None: all is to be sent, and what is still in `early` is not needed.
    ///
    /// # Errors
    /// [`Failure`]; the upload was given up.
    pub(crate) fn finish(
        &self,
        (remote, notes): (&dyn Remote, &dyn Notes),
        (object, source): (&NewObject<'_>, &dyn Source),
        early: &mut Option<Early>,
        current: &Spans,
    ) -> Result<Option<Version>, Failure> {
        let length_bytes = object.length_bytes;
        let plan = |early: &Early| plan::plan_behind(early.slots(), length_bytes, &self.sizes);
        let Some(pieces) = early.as_ref().and_then(plan) else {
            return Ok(None);
        };
        let job = self.job(remote, object, source, notes)?;
        let is_current = |part: &Part| {
            let slot = self.sizes.slot(part.number - 1);
            current.covers(slot.start, slot.end)
        };
        let may =
            |early: &mut Early| job.store.replaces_parts() || early.parts.iter().all(is_current);
        let Some(early) = early.take_if(may) else {
            return Ok(None);
        };
        let _under_way = OBJECT_UPLOADS.hold();
        let there = early.parts.into_iter().filter(is_current).collect();
        // A store may have ended the upload, or refuse a part that it has (rclone does).
        let is_refused = |failure: &Failure| {
            let is_gone = job.is_upload_gone.load(Ordering::Acquire);
            let Failure::Remote(error) = failure else {
                return false;
            };
            is_gone || matches!(error, RemoteError::Unsupported(_) | RemoteError::Invalid(_))
        };
        match job.finish(&early.upload, &pieces, there) {
            Err(failure) if is_refused(&failure) => {
                tracing::debug!("{}: all is sent again: {failure:?}", object.key);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    pub(crate) fn abort(&self, remote: &dyn Remote, upload: &Upload, notes: &dyn Notes) {
        run::abort(remote, upload, notes);
    }

    /// Whether an object of so many bytes gets other metadata without its bytes being sent again.
    pub(crate) fn copies_whole(&self, length_bytes: u64) -> bool {
        self.can_copy.load(Ordering::Acquire) && length_bytes > self.small_bytes_max()
    }

    fn job<'a>(
        &'a self,
        remote: &'a dyn Remote,
        object: &'a NewObject<'a>,
        source: &'a dyn Source,
        notes: &'a dyn Notes,
    ) -> Result<Job<'a>, Failure> {
        let store = remote.as_writable().ok_or_else(|| {
            let text = format!("{}: objects cannot be changed", remote.describe());
            RemoteError::Unsupported(text)
        })?;
        Ok(Job {
            remote,
            store,
            object,
            source,
            notes,
            budget: &self.budget,
            is_copying_refused: AtomicBool::new(false),
            is_upload_gone: AtomicBool::new(false),
        })
    }

    fn make(&self, job: &Job<'_>, can_copy: bool) -> Result<Version, Failure> {
        let object = job.object;
        let copies = job.store.copies();
        let base_bytes = object.base.map_or(0, |base| {
            // A range is copied only of an object that is larger than a part has to be.
            let base_bytes = base.version.length_bytes;
            let is_large = base_bytes > self.small_bytes_max();
            let is_copied = can_copy && is_large && !base.version.is_weak();
            let kept_bytes = base.kept_bytes.min(base_bytes);
            let is_dirty = || object.dirty.within(0, base_bytes).next().is_some();
            let is_unchanged = || kept_bytes == base_bytes && !is_dirty();
            match copies {
                Copies::Ranges if is_copied => kept_bytes,
                Copies::Objects if is_copied && is_unchanged() => base_bytes,
                Copies::Ranges | Copies::Objects => 0,
            }
        });
        let sizes = match copies {
            Copies::Ranges => self.sizes.clone(),
            Copies::Objects => self.sizes.of_whole_copies(),
        };
        let change = Change {
            length_bytes: object.length_bytes,
            base_bytes,
            dirty: object.dirty,
        };
        match plan::plan(&change, &sizes) {
            None => Err(FileError::FileTooLarge.into()),
            Some(Plan::Whole) => job.whole(),
            Some(Plan::Parts(pieces)) => job.parts(&pieces),
        }
    }
}
