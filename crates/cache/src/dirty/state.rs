//! What is known of an object under the lock of its dirty set: which bytes are dirty, which writes
//! are at the device, which have to wait for something, what is written but not durable, and what
//! was lost.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pagewell_base::spans::Spans;
use pagewell_counters::names::{CACHE_DIRTY_BYTES, CACHE_KEPT_BYTES};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::{Settings, StoreShare, Write, WriteBack};

use crate::residency::in_flight::Fetches;

/// More spans than this of what is not durable, or was lost, become one. Then bytes between them
/// are lost with them that were never written: when half of it is reached, a flush is due.
pub(crate) const SPANS_MAX: usize = 65_536;

/// A write that cannot go yet.
pub(crate) struct Postponed {
    pub(crate) write: Write,
    /// What has to end first.
    pub(crate) fetches: Fetches,
}

/// How a flush ended, for all that wait for it.
#[derive(Default)]
pub(crate) struct Flush(OnceLock<Result<(), DeviceError>>);

impl Flush {
    pub(crate) fn end(&self, result: Result<(), DeviceError>) {
        let is_first = self.0.set(result).is_ok();
        // To those that it covers it may have been reported already.
        assert!(is_first, "a flush ended twice");
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.get().is_some()
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.0.get()?.clone().err()
    }
}

/// A flush at the device.
pub(crate) struct Flushing {
    pub(crate) flush: Arc<Flush>,
    /// What it covers.
    pub(crate) spans: Spans,
    pub(crate) since: Instant,
    pub(crate) answer: Option<Result<(), DeviceError>>,
}

/// What is known of an object, once something is: most objects of a store are only read, and many
/// more are known than are written at a time.
pub(crate) type LazyDirty = LazyCell<Box<Dirty>, Box<dyn FnOnce() -> Box<Dirty> + Send>>;

/// See the module.
pub(crate) struct Dirty {
    pub(crate) policy: WriteBack,
    /// Writes at the device, widened to blocks: first byte and the byte after the last.
    pub(crate) at_device: BTreeMap<u64, u64>,
    /// Writes that the policy has handed out and that cannot go yet.
    pub(crate) postponed: Vec<Postponed>,
    /// A thread is in the submit loop; those that come meanwhile leave it to that one.
    pub(crate) submitting: bool,
    /// One came meanwhile.
    pub(crate) again: bool,
    /// Threads that wait for a commit.
    pub(crate) committers: usize,
    /// Threads that wait for a tag, or for room.
    pub(crate) waiters: usize,
    /// What writes that were complete left to a flush.
    pub(crate) unflushed: Spans,
    /// The flush at the device.
    pub(crate) flushing: Option<Flushing>,
    /// The flush after that.
    pub(crate) next_flush: Arc<Flush>,
    /// What was unflushed when a flush failed, and has not been written since.
    pub(crate) lost: Spans,
    /// What of that memory may still have, and is to be made dirty again when there is room.
    pub(crate) unrecovered: Spans,
    /// Why the last flush that failed did.
    pub(crate) loss: Option<DeviceError>,
    /// How often the device said that it lost what was not flushed.
    pub(crate) replays: u64,
    /// Why the last write that failed did.
    pub(crate) failure: Option<DeviceError>,
    /// What the gauges show of this device.
    pub(super) shown: (i64, i64, i64),
}

impl Dirty {
    pub(super) fn new(settings: Settings, share: &StoreShare) -> Self {
        Self {
            policy: WriteBack::of_store(settings, share),
            at_device: BTreeMap::new(),
            postponed: Vec::new(),
            submitting: false,
            again: false,
            committers: 0,
            waiters: 0,
            unflushed: Spans::default(),
            flushing: None,
            next_flush: Arc::default(),
            lost: Spans::default(),
            unrecovered: Spans::default(),
            loss: None,
            replays: 0,
            failure: None,
            shown: (0, 0, 0),
        }
    }

    /// Whether nothing is dirty or on its way, nothing waits to become durable, was lost or is
    /// waited for.
    pub(crate) fn is_idle(&self) -> bool {
        let is_clean = self.policy.dirty_pages() == 0 && self.policy.flight_bytes() == 0;
        let is_still = self.at_device.is_empty() && self.postponed.is_empty() && !self.submitting;
        let is_durable = self.unflushed.is_empty() && self.flushing.is_none();
        let is_whole = self.lost.is_empty() && self.unrecovered.is_empty();
        let is_alone = self.committers == 0 && self.waiters == 0;
        is_clean && is_still && is_durable && is_whole && is_alone
    }

    /// Whether the flush at the device was answered, and no thread has looked.
    pub(crate) fn has_answer(&self) -> bool {
        let flushing = self.flushing.as_ref();
        flushing.is_some_and(|flushing| flushing.answer.is_some())
    }

    /// The flush that covers what was written of a range until now.
    pub(crate) fn flush_needed(&self, extent: Extent) -> Option<Arc<Flush>> {
        if self.unflushed.overlaps(extent.offset, extent.end()) {
            return Some(self.next_flush.clone());
        }
        let flushing = self.flushing.as_ref()?;
        let is_covered = flushing.spans.overlaps(extent.offset, extent.end());
        is_covered.then(|| flushing.flush.clone())
    }

    /// The next flush begins.
    pub(crate) fn begin_flush(&mut self) -> Arc<Flush> {
        assert!(self.flushing.is_none(), "one flush at a time");
        let flush = std::mem::take(&mut self.next_flush);
        self.policy.flush_begins();
        self.flushing = Some(Flushing {
            flush: flush.clone(),
            spans: std::mem::take(&mut self.unflushed),
            since: Instant::now(),
            answer: None,
        });
        flush
    }
}

impl Drop for Dirty {
    fn drop(&mut self) {
        CACHE_DIRTY_BYTES.add(-self.shown.0);
        CACHE_KEPT_BYTES.add(-self.shown.2);
    }
}
