//! What one device's writers, its write-out and its commits share: what is dirty.
//!
//! One lock holds the policy ([`pagewell_policy::writeback`]), which knows every dirty byte, and
//! what it does not know: which writes are at the device, which have to wait for something, what
//! is written but not durable, and what was lost. The flag [`DIRTY`] of a page says the same as
//! the policy, in one bit, to those who look for a page that may go; it is set and cleared under
//! this lock only.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pagewell_counters::names::{
    CACHE_DIRTY_BYTES, CACHE_DIRTY_PAGES, CACHE_KEPT_BYTES, CACHE_LOST_BYTES, CACHE_REWRITTEN_BYTES,
};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::{FileNumber, Settings, Tag, TagState, Urgency, WriteBack};

use crate::Error;
use crate::dirty::spans::Spans;
use crate::object::Object;
use crate::open_options::OpenOptions;
use crate::page::PAGE;
use crate::sync::{Condvar, Guard, Mutex, Rank};
use crate::table::page_table::SlotIndex;
use crate::table::state::DIRTY;
use crate::writeback::flush::Flushing;
use crate::writeback::submit::Postponed;

/// A device is one file to its policy.
pub(crate) const FILE: FileNumber = FileNumber(0);
/// Tags that nobody waits for any more and that have not ended.
const ABANDONED_MAX: usize = 1024;
/// Who closes a device waits so long for the one who drives it: he has only to hand in what he has
/// at hand, unless the device does not take it.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// See the module's text.
pub(crate) struct Writes {
    /// Whether anything was ever written: until then nobody has to look further.
    started: AtomicBool,
    /// Something was lost when it was closed.
    gave_up: AtomicBool,
    /// What is dirty was given up.
    abandoned: AtomicBool,
    pub(crate) losses: AtomicU64,
    state: Mutex<Dirty>,
    /// A write ended, or a flush, or a pause.
    progress: Condvar,
}

/// A flush of the device, for those who wait for it.
#[derive(Default)]
pub(crate) struct Flush(OnceLock<Result<(), DeviceError>>);

impl Flush {
    pub(crate) fn end(&self, result: Result<(), DeviceError>) {
        // It ends once.
        let _ = self.0.set(result);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.get().is_some()
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.0.get()?.clone().err()
    }
}

/// What is known under the lock.
pub(crate) struct Dirty {
    pub(crate) policy: WriteBack,
    /// Writes at the device, widened to blocks: first byte and the byte after the last.
    pub(crate) flying: BTreeMap<u64, u64>,
    /// Writes that the policy has handed out and that cannot go yet.
    pub(crate) postponed: Vec<Postponed>,
    /// Somebody sends write-out requests; who comes meanwhile leaves it to him.
    pub(crate) driving: bool,
    /// Somebody came meanwhile.
    pub(crate) again: bool,
    /// How many wait for a commit.
    pub(crate) committers: usize,
    /// Writes and flushes that have ended.
    pub(crate) ended: u64,
    /// What writes that were complete left to a flush.
    pub(crate) unflushed: Spans,
    /// Somebody flushes, and what of it.
    pub(crate) flushing: Option<Flushing>,
    flushes: u64,
    /// The flush after that.
    pub(crate) next_flush: Arc<Flush>,
    /// What was unflushed when a flush failed, and has not been written since.
    pub(crate) lost: Spans,
    /// What of that nobody has yet begun to make dirty again.
    pub(crate) unrecovered: Spans,
    /// So many make dirty again what a failed flush has lost.
    pub(crate) recovering: usize,
    /// Why the last flush that failed did.
    pub(crate) loss: Option<DeviceError>,
    /// How often the device said that it lost what was not flushed.
    pub(crate) replays: u64,
    /// Why the last write that failed did.
    pub(crate) failure: Option<DeviceError>,
    /// Nobody writes any more; what comes back from the device is nobody's.
    pub(crate) closed: bool,
    /// Pages keep their flag, though they are given up.
    pub(crate) stuck: bool,
    /// Tags of commits that gave up.
    abandoned: Vec<Tag>,
    /// What the gauges show of this device.
    shown: (i64, i64, i64),
    rewritten: u64,
}

impl Writes {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            started: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            state: Mutex::new(
                Rank::Dirty,
                Dirty {
                    policy: WriteBack::new(settings),
                    flying: BTreeMap::new(),
                    postponed: Vec::new(),
                    driving: false,
                    again: false,
                    committers: 0,
                    ended: 0,
                    unflushed: Spans::default(),
                    flushing: None,
                    flushes: 0,
                    replays: 0,
                    next_flush: Arc::default(),
                    lost: Spans::default(),
                    unrecovered: Spans::default(),
                    recovering: 0,
                    loss: None,
                    failure: None,
                    closed: false,
                    stuck: false,
                    abandoned: Vec::new(),
                    shown: (0, 0, 0),
                    rewritten: 0,
                },
            ),
            progress: Condvar::default(),
        }
    }

    pub(crate) fn lock(&self) -> Guard<'_, Dirty> {
        self.state.lock()
    }

    /// Whether anything was ever written.
    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Notes that something will be written; whether it is the first time.
    pub(crate) fn start(&self) -> bool {
        !self.has_started() && !self.started.swap(true, Ordering::AcqRel)
    }

    /// Waits for an end of anything, at most so long.
    pub(crate) fn wait<'a>(&self, dirty: Guard<'a, Dirty>, most: Duration) -> Guard<'a, Dirty> {
        self.progress.wait(dirty, most)
    }

    /// Something ended.
    pub(crate) fn notify(&self) {
        self.progress.notify_all();
    }
}

impl Dirty {
    /// Brings the gauges up to date, and what other devices may have.
    pub(crate) fn show(&mut self, object: &Object) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let bytes = number(self.policy.dirty_bytes() + self.policy.flight_bytes());
        let pages = number(self.policy.dirty_pages());
        CACHE_DIRTY_BYTES.add(bytes - self.shown.0);
        CACHE_DIRTY_PAGES.add(pages - self.shown.1);
        if pages != self.shown.1 {
            let bytes = self.policy.dirty_memory_bytes();
            object.core.shares.set(object.number, bytes);
        }
        let kept = number(self.policy.kept_bytes());
        CACHE_KEPT_BYTES.add(kept - self.shown.2);
        self.shown = (bytes, pages, kept);
    }

    /// Whether the flush on its way was answered, and nobody has looked.
    pub(crate) fn has_answer(&self) -> bool {
        self.flushing.as_ref().is_some_and(Flushing::has_answer)
    }

    /// The flush that covers what was written of a range until now.
    pub(crate) fn flush_needed(&self, extent: Extent) -> Option<Arc<Flush>> {
        if self.unflushed.overlaps(extent) {
            return Some(self.next_flush.clone());
        }
        let flushing = self.flushing.as_ref()?;
        let is_covered = flushing.spans.overlaps(extent);
        is_covered.then(|| flushing.flush.clone())
    }

    /// The next flush begins; its number.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        let flush = std::mem::take(&mut self.next_flush);
        let spans = std::mem::take(&mut self.unflushed);
        self.flushes += 1;
        self.policy.flush_begins();
        self.flushing = Some(Flushing::new(flush, spans, self.flushes));
        self.flushes
    }

    /// A tag nobody waits for any more.
    pub(crate) fn abandon(&mut self, tag: Tag) {
        if self.abandoned.len() < ABANDONED_MAX {
            self.abandoned.push(tag);
        }
    }

    /// Lets the policy forget abandoned tags that have ended.
    pub(crate) fn tidy(&mut self) {
        let policy = &mut self.policy;
        let is_pending = |tag: &Tag| policy.tag_state(*tag) == TagState::Pending;
        self.abandoned.retain(is_pending);
    }
}

impl Drop for Dirty {
    fn drop(&mut self) {
        CACHE_DIRTY_BYTES.add(-self.shown.0);
        CACHE_DIRTY_PAGES.add(-self.shown.1);
        CACHE_KEPT_BYTES.add(-self.shown.2);
    }
}

impl Object {
    /// Whether anything was lost when it was closed.
    pub(crate) fn has_given_up(&self) -> bool {
        self.writes.gave_up.load(Ordering::Acquire)
    }

    /// Whether the device was given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.writes.abandoned.load(Ordering::Acquire)
    }

    /// What those are told who still want something of it.
    pub(crate) fn abandoned(&self, offset: u64) -> Error {
        Error::Device(DeviceError::Abandoned { offset })
    }

    /// The policy's time.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// When the policy may have something again, if nothing else happens.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let next = self.writes.lock().policy.next_at(self.now())?;
        self.origin.checked_add(next)
    }

    /// Notes that bytes of a page have been changed in memory, and which blocks that they are a
    /// part of are there as a whole. The caller holds the page.
    pub(crate) fn note_written(
        &self,
        slot: SlotIndex,
        extent: Extent,
        blocks: [Option<Extent>; 2],
    ) -> Urgency {
        let mut dirty = self.writes.lock();
        if dirty.closed {
            // Given up while this write went on: nobody would ever write it.
            return Urgency::Later;
        }
        let urgency = dirty.policy.wrote(FILE, extent, self.now());
        dirty.lost.take(extent);
        for block in blocks.into_iter().flatten() {
            dirty.policy.join(FILE, block);
        }
        self.core.table.set(slot, DIRTY);
        let rewritten = dirty.policy.counts().rewritten_bytes;
        CACHE_REWRITTEN_BYTES.add(rewritten - dirty.rewritten);
        dirty.rewritten = rewritten;
        dirty.show(self);
        urgency
    }

    /// Takes the flag from pages of a range that have no dirty byte any more.
    pub(crate) fn mark_clean(&self, dirty: &Dirty, extent: Extent) {
        for page in extent.offset / PAGE..extent.end().div_ceil(PAGE) {
            let (offset, length) = (page * PAGE, PAGE);
            let whole = Extent { offset, length };
            if dirty.policy.is_dirty(FILE, whole) {
                continue;
            }
            // With the flag it stays where it is: it is detached under this lock only. It may be
            // without it, or gone: what was written was discarded meanwhile.
            self.core.table.clear_of(self.key(page), DIRTY);
        }
    }

    /// The dirty bytes, and those under write-out, of a part of a page, as places in the page.
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn dirty_inside(&self, page: u64, start: u64, length: u64) -> Vec<Range<usize>> {
        if !self.writes.has_started() {
            return Vec::new();
        }
        let base = page * PAGE;
        let offset = base + start;
        let extent = Extent { offset, length };
        let spans = self.writes.lock().policy.dirty_in(FILE, extent);
        spans
            .map(|span| (span.offset - base) as usize..(span.end() - base) as usize)
            .collect()
    }

    /// Drops everything that is dirty: it will not be written. Says how many bytes that were.
    ///
    /// Whoever drives may be about to copy a page that only its flag keeps in its place. He sees
    /// that the device is closed at his next write; if he does not come to it, the pages keep
    /// their flag, and their memory, until he lets go of the device.
    pub(crate) fn drop_dirty(&self) -> u64 {
        let mut dirty = self.writes.lock();
        self.writes.abandoned.store(true, Ordering::Release);
        dirty.closed = true;
        self.writes.notify();
        let since = Instant::now();
        while dirty.driving {
            let Some(left) = CLOSE_WAIT.checked_sub(since.elapsed()) else {
                break;
            };
            dirty = self.writes.wait(dirty, left);
        }
        let is_unsettled = !dirty.unflushed.is_empty() || dirty.flushing.is_some();
        let bytes = dirty.policy.forget(FILE);
        if bytes > 0 || is_unsettled {
            self.writes.gave_up.store(true, Ordering::Release);
        }
        let postponed = std::mem::take(&mut dirty.postponed);
        for one in &postponed {
            dirty.policy.finished(one.write.id, false, self.now());
        }
        dirty.unflushed = Spans::default();
        dirty.unrecovered = Spans::default();
        dirty.stuck = dirty.driving;
        if !dirty.stuck {
            self.core.clean_all(self.number);
        }
        dirty.show(self);
        drop(dirty);
        if bytes > 0 {
            CACHE_LOST_BYTES.add(bytes);
            self.writes.losses.fetch_add(1, Ordering::AcqRel);
        }
        bytes
    }
}

/// How the policy of a device is set.
pub(crate) fn settings(
    options: &OpenOptions,
    dirty_bytes_max: u64,
    cluster_bytes_max: u64,
) -> Settings {
    let mut settings = Settings::new(options.write_rule, dirty_bytes_max);
    settings.block_bytes = options.block_bytes;
    settings.page_bytes = PAGE;
    settings.device_time_max = options.dirty_time_max;
    settings.cluster_bytes_max = cluster_bytes_max;
    settings
}
