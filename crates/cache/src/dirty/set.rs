//! What of one object is dirty: what its writers, its write-back and its commits share.
//!
//! One lock holds the policy ([`pagewell_policy::writeback`]), which knows every dirty byte, and
//! what it does not know ([`Dirty`]). The flag [`DIRTY`] of a page says the same as the policy, in
//! one bit, to threads that look for a page that may go; it is set and cleared under this lock
//! only.
//!
//! What is known of an object under that lock: which bytes are dirty, which writes are at the
//! device, which have to wait for something, what is written but not durable, and what was lost.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use pagewell_base::spans::Spans;
use pagewell_base::waits;
use pagewell_counters::names::{CACHE_DIRTY_BYTES, CACHE_KEPT_BYTES, CACHE_LOST_BYTES};
use pagewell_device::Error as DeviceError;
use pagewell_policy::elevator::Extent;
use pagewell_policy::writeback::{Admission, Urgency, Write, WriteBack};

use crate::Error;
use crate::dirty::written::{Active, WrittenStore};
use crate::page::{PAGE, Part, parts};
use crate::residency::in_flight::{Fetch, Fetches};
use crate::residency::pins::OwnPages;
use crate::sync::{Condvar, Guard, Mutex, Rank};
use crate::table::{DIRTY, SlotIndex};

/// How often a thread that waits for the device looks by itself: it may have been given up, the
/// wait after a failure may be over, or the flusher be busy with another device.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A thread that closes a device waits so long for the submit loop, which has only to hand in what
/// it has at hand, unless the device does not take it.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A number that should change, and since when it has not.
pub(crate) struct Still<T> {
    number: T,
    since: Instant,
}

impl<T: PartialEq> Still<T> {
    pub(crate) fn new(number: T) -> Self {
        let since = Instant::now();
        Self { number, since }
    }

    /// For how long it has been what it is now.
    pub(crate) fn time(&mut self, number: T) -> Duration {
        if number != self.number {
            *self = Self::new(number);
        }
        self.since.elapsed()
    }
}

/// See the module.
pub(crate) struct DirtySet {
    own: Arc<OwnPages>,
    store: Arc<WrittenStore>,
    /// Which writes what is dirty here.
    writer: OnceLock<Weak<dyn Active>>,
    /// Whether the object is among the active ones of its store. When not, nothing is dirty, and no
    /// lock is taken. Changed under the lock.
    started: AtomicBool,
    /// Something was lost when it was given up, or written too late.
    gave_up: AtomicBool,
    /// What is dirty was given up, under the lock: nothing is written any more, and what comes back
    /// from the device is not looked at.
    abandoned: AtomicBool,
    losses: AtomicU64,
    state: Mutex<LazyDirty>,
    /// A write ended, or a flush, or a pause.
    progress: Condvar,
}

impl DirtySet {
    pub(crate) fn new(own: Arc<OwnPages>, store: Arc<WrittenStore>) -> Self {
        Self {
            own,
            writer: OnceLock::new(),
            started: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            state: Mutex::new(Rank::Dirty, nothing(&store)),
            progress: Condvar::default(),
            store,
        }
    }

    /// The pages.
    pub(crate) fn own(&self) -> &Arc<OwnPages> {
        &self.own
    }

    /// Says which writer writes what is dirty here.
    pub(crate) fn belong_to(&self, writer: Weak<dyn Active>) {
        // The thread that makes both sets it, once.
        let _ = self.writer.set(writer);
    }

    /// What it has in common with the other objects of its store.
    pub(crate) fn store(&self) -> &Arc<WrittenStore> {
        &self.store
    }

    /// How often something that was written may have been lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> Guard<'_, LazyDirty> {
        self.state.lock()
    }

    /// Whether anything may be dirty, or not durable.
    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Makes the object one of the active ones of its store. The caller has the lock.
    pub(crate) fn start(&self) {
        if let Some(writer) = self.writer.get()
            && !self.started.swap(true, Ordering::AcqRel)
        {
            let number = self.own.layout().number();
            self.store.activate(number, writer);
        }
    }

    /// Takes it from them when there is nothing in it that is not durable.
    pub(crate) fn retire(&self) {
        let mut dirty = self.lock();
        if dirty.is_idle() && self.started.swap(false, Ordering::AcqRel) {
            if self.own.layout().is_file() {
                // A device keeps what its policy has learnt, and its counts.
                *dirty = nothing(&self.store);
            }
            self.store.retire(self.own.layout().number());
        }
    }

    /// Something that was written may be lost.
    pub(crate) fn lose(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
        self.store.lose();
    }

    /// Bytes that are not at the device yet, those on their way included.
    pub(crate) fn bytes(&self) -> u64 {
        let dirty = self.lock();
        dirty.policy.dirty_bytes() + dirty.policy.flight_bytes()
    }

    /// Waits for an end of anything, at most so long.
    pub(crate) fn wait<'a>(
        &self,
        dirty: Guard<'a, LazyDirty>,
        most: Duration,
    ) -> Guard<'a, LazyDirty> {
        self.progress.wait(dirty, most)
    }

    /// Lets so much time pass, whatever ends meanwhile, unless the device is given up.
    pub(crate) fn rest(&self, pause: Duration) {
        let began = Instant::now();
        let mut dirty = self.lock();
        while !self.is_abandoned() {
            let Some(left) = pause.checked_sub(began.elapsed()) else {
                return;
            };
            dirty = waits::timed(|| self.wait(dirty, left));
        }
    }

    /// Has all objects of the store looked at, if one of them waits for what has ended in this one.
    pub(crate) fn let_others_go_on(&self, mut dirty: Guard<'_, LazyDirty>) {
        let is_waited_for = dirty.policy.take_waiting();
        drop(dirty);
        if is_waited_for {
            self.store.go_on();
        }
    }

    /// Something ended.
    pub(crate) fn notify(&self) {
        self.progress.notify_all();
    }

    /// Whether anything was lost when it was given up, or was written too late.
    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Acquire)
    }

    /// Whether the device was given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire) || self.store.is_abandoned()
    }

    /// Waits for a fetch; `None` when it has not ended by then, or the device was given up.
    pub(crate) fn wait_for(
        &self,
        fetch: &Fetch,
        deadline: Instant,
    ) -> Option<Result<(), DeviceError>> {
        loop {
            let now = Instant::now();
            if let Some(outcome) = fetch.wait(deadline.min(now + TICK)) {
                return Some(outcome);
            }
            if now >= deadline || self.is_abandoned() {
                return None;
            }
        }
    }

    /// The time of the policies of this store.
    pub(crate) fn now(&self) -> Duration {
        self.store.now()
    }

    /// When the policy may have something again, if nothing else happens.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let next = self.lock().policy.next_at(self.now())?;
        self.store.instant(next)
    }

    /// Whether a writer may go on, as far as the quota of this store is concerned.
    pub(crate) fn admit(&self, extent: Extent, may_block: bool) -> Admission {
        let allowance = self.store.allowance();
        let mut dirty = self.lock();
        dirty.policy.set_dirty_bytes_max(allowance);
        dirty.policy.admit(extent, may_block, self.now())
    }

    /// Brings the gauges up to date, and what other devices may have.
    pub(crate) fn show(&self, dirty: &mut Dirty) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let bytes = number(dirty.policy.dirty_bytes() + dirty.policy.flight_bytes());
        let pages = number(dirty.policy.dirty_pages());
        CACHE_DIRTY_BYTES.add(bytes - dirty.shown.bytes);
        if pages != dirty.shown.pages {
            let bytes = dirty.policy.store_memory_bytes();
            self.store.note_memory(bytes);
        }
        let kept = number(dirty.policy.kept_bytes());
        CACHE_KEPT_BYTES.add(kept - dirty.shown.kept);
        (dirty.shown.bytes, dirty.shown.pages, dirty.shown.kept) = (bytes, pages, kept);
    }

    /// Notes that bytes of a page have been changed in memory, and which blocks that they are a
    /// part of are there as a whole. The caller has pinned the page.
    pub(crate) fn note_written(
        &self,
        slot: SlotIndex,
        extent: Extent,
        blocks: [Option<Extent>; 2],
    ) -> Urgency {
        let mut dirty = self.lock();
        // First: a thread that gives up the store sees the object, or this one sees that.
        self.start();
        if self.is_abandoned() {
            // Given up while this write went on: it will never be written, and its writer learns
            // that at a commit.
            self.gave_up.store(true, Ordering::Release);
            self.lose();
            return Urgency::Later;
        }
        let urgency = dirty.policy.wrote(extent, self.now());
        dirty.unflushed.rewritten(extent);
        for block in blocks.into_iter().flatten() {
            dirty.policy.join(block);
        }
        self.own.pages().table().set(slot, DIRTY);
        self.show(&mut dirty);
        urgency
    }

    /// Takes the flag from pages of a range that have no byte any more that is dirty, on its way to
    /// the device, or kept until a flush.
    pub(crate) fn mark_clean(&self, dirty: &Dirty, extent: Extent) {
        for part in parts(extent.offset..extent.end()) {
            if dirty.policy.is_dirty(Part::whole(part.page).extent()) {
                continue;
            }
            // With the flag it stays where it is: it is detached under this lock only. It may be
            // without it, or gone: what was written was purged meanwhile.
            let key = self.own.layout().key(part.page);
            self.own.pages().table().clear_of(key, DIRTY);
        }
    }

    /// The dirty bytes, and those under write-back, of a part of a page, as bytes of the page.
    #[allow(clippy::cast_possible_truncation)] // inside a page
    pub(crate) fn in_page(&self, part: &Part) -> Vec<Range<usize>> {
        if !self.has_started() {
            return Vec::new();
        }
        let base = part.page * PAGE;
        let spans = self.lock().policy.dirty_in(part.extent());
        spans
            .map(|span| (span.offset - base) as usize..(span.end() - base) as usize)
            .collect()
    }

    /// Bytes are about to be fetched: memory has nothing any more of what a failed flush has lost
    /// of them, and what the device says may be older.
    pub(crate) fn note_fetch(&self, extent: Extent) {
        if self.losses() > 0 {
            self.lock().unflushed.forget_unrecovered(extent);
        }
    }

    /// Forgets what is dirty of a range: it will not be written. The lock, still taken.
    pub(crate) fn forget(&self, extent: Extent) -> Guard<'_, LazyDirty> {
        let mut dirty = self.lock();
        dirty.policy.discard(extent);
        dirty
    }

    /// Ends a write that will not go to the device.
    pub(crate) fn refuse(&self, dirty: &mut Dirty, write: Write) {
        dirty.policy.finished(write.id, false, self.now());
        if !self.is_abandoned() {
            self.mark_clean(dirty, write.extent);
        }
        self.show(dirty);
    }

    /// A part of a write was purged before it was sent: what is left is chosen anew.
    pub(crate) fn put_back(&self, dirty: &mut Dirty, write: Write) {
        dirty.policy.put_back(write.id, self.now());
        self.mark_clean(dirty, write.extent);
        dirty.sends.ask_again();
        self.show(dirty);
        self.notify();
    }

    /// A fetch has ended that a write may have waited for.
    pub(crate) fn fetch_ended(&self) {
        let dirty = self.lock();
        let is_due = dirty.sends.has_postponed();
        self.go_on(dirty, is_due);
    }

    /// Tells threads that wait, and wakes the flusher if there may be something to send.
    pub(crate) fn go_on(&self, mut dirty: Guard<'_, LazyDirty>, is_due: bool) {
        let is_submitting = dirty.sends.is_submitting();
        if is_submitting {
            // That thread may be just behind the point where it would have seen it.
            dirty.sends.ask_again();
        }
        self.let_others_go_on(dirty);
        self.notify();
        if is_due && !is_submitting {
            self.store.flusher().wake();
        }
    }

    /// Drops everything that is dirty, or was lost and is to be dirty again: it will not be
    /// written. Says how many bytes that were.
    ///
    /// The submit loop may be about to copy a page that only its flag keeps in its frame. It sees
    /// that the device is closed at its next write; if it does not come to it, the pages keep
    /// their flag, and their memory, until it lets go of the device.
    pub(crate) fn abandon(&self) -> u64 {
        let mut dirty = self.lock();
        self.abandoned.store(true, Ordering::Release);
        self.notify();
        let since = Instant::now();
        while dirty.sends.is_submitting() {
            let Some(left) = CLOSE_WAIT.checked_sub(since.elapsed()) else {
                break;
            };
            dirty = self.wait(dirty, left);
        }
        let is_unsettled = !dirty.unflushed.is_settled();
        // Memory may have it, and it is not dirty yet: no thread will make it so now.
        let mut unrecovered = std::mem::take(&mut dirty.unflushed.unrecovered);
        for (start, end) in unrecovered.clone().iter() {
            for counted in dirty.policy.dirty_in(Extent::of((start, end))) {
                unrecovered.take(counted.offset, counted.end());
            }
        }
        let bytes = dirty.policy.forget() + unrecovered.bytes();
        if bytes > 0 || is_unsettled {
            self.gave_up.store(true, Ordering::Release);
        }
        let postponed = dirty.sends.take_postponed();
        for one in &postponed {
            dirty.policy.finished(one.write.id, false, self.now());
        }
        dirty.unflushed.take_written();
        if !dirty.sends.is_submitting() {
            self.own.pages().clean_all(self.own.layout().number());
        }
        self.show(&mut dirty);
        self.let_others_go_on(dirty);
        if bytes > 0 {
            CACHE_LOST_BYTES.add(bytes);
            self.lose();
        }
        bytes
    }
}

impl Drop for DirtySet {
    fn drop(&mut self) {
        let number = self.own.layout().number();
        // A page with the flag would not go.
        if self.has_started() {
            self.own.pages().clean_all(number);
            self.store.retire(number);
        }
    }
}

/// Nothing is known yet of an object of a store.
fn nothing(store: &Arc<WrittenStore>) -> LazyDirty {
    let store = store.clone();
    let make = move || Box::new(Dirty::new(store.write_back()));
    LazyDirty::new(Box::new(make))
}

/// What those get that still want something of a device that was given up.
pub(crate) fn abandoned(offset: u64) -> Error {
    Error::Device(DeviceError::Abandoned { offset })
}

/// More spans than this of what is not durable, or was lost, become one. Then bytes between them
/// are lost with them that were never written: when half of it is reached, a flush is due.
pub(crate) const SPANS_MAX: usize = 65_536;

/// A write that cannot go yet.
pub(crate) struct Postponed {
    pub write: Write,
    /// What has to end first.
    pub fetches: Fetches,
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
    pub flush: Arc<Flush>,
    /// What it covers.
    pub spans: Spans,
    pub since: Instant,
    pub answer: Option<Result<(), DeviceError>>,
}

/// Writes of an object on their way to the device.
#[derive(Default)]
pub(crate) struct Sends {
    /// At the device, widened to blocks: first byte and the byte after the last.
    at_device: BTreeMap<u64, u64>,
    /// Handed out by the policy, and not to go yet.
    postponed: Vec<Postponed>,
    /// A thread is in the submit loop; those that come meanwhile leave it to that one.
    is_submitting: bool,
    /// One came meanwhile.
    again: bool,
    /// Why the last write that failed did.
    failure: Option<DeviceError>,
}

impl Sends {
    fn is_idle(&self) -> bool {
        self.is_empty() && !self.is_submitting
    }

    /// Whether nothing is at the device or waits for something.
    pub(crate) fn is_empty(&self) -> bool {
        self.at_device.is_empty() && self.postponed.is_empty()
    }

    /// A thread enters the submit loop; false when another is there, which goes round again.
    pub(crate) fn enter(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.is_submitting, true);
        self.again |= !is_first;
        is_first
    }

    /// The thread in the submit loop leaves it.
    pub(crate) fn leave(&mut self) {
        self.is_submitting = false;
    }

    pub(crate) fn is_submitting(&self) -> bool {
        self.is_submitting
    }

    /// The submit loop goes round once more.
    pub(crate) fn ask_again(&mut self) {
        self.again = true;
    }

    /// Whether it was to go round once more.
    pub(crate) fn take_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }

    pub(crate) fn postpone(&mut self, postponed: Postponed) {
        self.postponed.push(postponed);
    }

    pub(crate) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    pub(crate) fn take_postponed(&mut self) -> Vec<Postponed> {
        std::mem::take(&mut self.postponed)
    }

    /// Whether a write of one of these blocks is at the device.
    pub(crate) fn is_at_device(&self, blocks: Extent) -> bool {
        let before = self.at_device.range(..blocks.end()).next_back();
        before.is_some_and(|(_, end)| *end > blocks.offset)
    }

    /// A write of these blocks goes to the device.
    pub(crate) fn begin(&mut self, blocks: Extent) {
        let other = self.at_device.insert(blocks.offset, blocks.end());
        // The elevator may bring either last.
        assert!(
            other.is_none(),
            "two writes of a block at {}",
            blocks.offset
        );
    }

    /// It has ended.
    pub(crate) fn end(&mut self, blocks: Extent) {
        self.at_device.remove(&blocks.offset);
    }

    /// A write has failed.
    pub(crate) fn fail(&mut self, error: DeviceError) {
        self.failure = Some(error);
    }

    /// Why the last write that failed did.
    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.failure.clone()
    }
}

/// What of an object is written and not durable, and what was lost.
#[derive(Default)]
pub(crate) struct Unflushed {
    /// What writes that were complete left to a flush.
    spans: Spans,
    /// The flush at the device.
    flushing: Option<Flushing>,
    /// The flush after that.
    next: Arc<Flush>,
    /// What was not durable when a flush failed, and has not been written since.
    lost: Spans,
    /// What of that memory may still have, and is to be made dirty again when there is room.
    unrecovered: Spans,
    /// Why the last flush that failed did.
    loss: Option<DeviceError>,
    /// How often the device said that it lost what was not flushed.
    replays: u64,
}

impl Unflushed {
    fn is_idle(&self) -> bool {
        self.is_settled() && self.lost.is_empty() && self.unrecovered.is_empty()
    }

    /// Whether no flush is needed and none is at the device.
    pub(crate) fn is_settled(&self) -> bool {
        self.spans.is_empty() && self.flushing.is_none()
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    /// Whether there is so much to remember that a flush is due.
    pub(crate) fn is_much(&self) -> bool {
        self.spans.count() > SPANS_MAX / 2
    }

    /// Whether the flush at the device was answered, and no thread has looked.
    pub(crate) fn has_answer(&self) -> bool {
        let flushing = self.flushing.as_ref();
        flushing.is_some_and(|flushing| flushing.answer.is_some())
    }

    /// Whether there is a flush at the device, for so long already.
    pub(crate) fn is_flushing_for(&self, time: Duration) -> bool {
        let flushing = self.flushing.as_ref();
        flushing.is_some_and(|flushing| flushing.since.elapsed() >= time)
    }

    /// The flush that covers what was written of a range until now.
    pub(crate) fn needed(&self, extent: Extent) -> Option<Arc<Flush>> {
        if self.spans.overlaps(extent.offset, extent.end()) {
            return Some(self.next.clone());
        }
        let flushing = self.flushing.as_ref()?;
        let is_covered = flushing.spans.overlaps(extent.offset, extent.end());
        is_covered.then(|| flushing.flush.clone())
    }

    /// The next flush begins.
    fn begin(&mut self) -> Arc<Flush> {
        assert!(self.flushing.is_none(), "one flush at a time");
        let flush = std::mem::take(&mut self.next);
        self.flushing = Some(Flushing {
            flush: flush.clone(),
            spans: std::mem::take(&mut self.spans),
            since: Instant::now(),
            answer: None,
        });
        flush
    }

    /// The device has answered a flush; false when it is not the one at the device any more.
    pub(crate) fn answered(
        &mut self,
        flush: &Arc<Flush>,
        answer: &Result<(), DeviceError>,
    ) -> bool {
        let flushing = self.flushing.as_mut();
        let Some(flushing) = flushing.filter(|one| Arc::ptr_eq(&one.flush, flush)) else {
            return false;
        };
        flushing.answer = Some(answer.clone());
        true
    }

    /// The flush at the device, if it was answered or has had so much time.
    pub(crate) fn take_ended(&mut self, time: Duration) -> Option<Flushing> {
        let is_over = self.has_answer() || self.is_flushing_for(time);
        self.flushing.take_if(|_| is_over)
    }

    /// Bytes were written, and a flush is to make them durable.
    pub(crate) fn written(&mut self, extent: Extent) {
        self.spans.insert(extent.offset, extent.end());
        self.spans.melt(SPANS_MAX);
    }

    /// What was left to the next flush.
    pub(crate) fn take_written(&mut self) -> Spans {
        std::mem::take(&mut self.spans)
    }

    /// What the flush at the device covers.
    pub(crate) fn covered(&self) -> Spans {
        let flushing = self.flushing.as_ref();
        flushing
            .map(|flushing| flushing.spans.clone())
            .unwrap_or_default()
    }

    /// A flush of these has failed.
    pub(crate) fn lose(&mut self, spans: Spans) {
        self.lost.extend(spans.clone());
        self.lost.melt(SPANS_MAX);
        self.unrecovered.extend(spans);
        self.unrecovered.melt(SPANS_MAX);
    }

    /// Why the last flush that failed did.
    pub(crate) fn loss(&self) -> Option<DeviceError> {
        self.loss.clone()
    }

    pub(crate) fn set_loss(&mut self, error: DeviceError) {
        self.loss = Some(error);
    }

    /// Whether something of a range was lost, and not written since.
    pub(crate) fn has_lost(&self, extent: Extent) -> bool {
        self.lost.overlaps(extent.offset, extent.end())
    }

    /// How often the device said that it lost what was not flushed.
    pub(crate) fn replays(&self) -> u64 {
        self.replays
    }

    pub(crate) fn replay(&mut self) {
        self.replays += 1;
    }

    /// What was lost and memory may still have.
    pub(crate) fn unrecovered(&self) -> &Spans {
        &self.unrecovered
    }

    /// Memory has nothing more of what was lost of a range.
    pub(crate) fn forget_unrecovered(&mut self, extent: Extent) {
        self.unrecovered.take(extent.offset, extent.end());
    }

    /// Memory has other bytes of a range than those that were lost.
    fn rewritten(&mut self, extent: Extent) {
        self.lost.take(extent.offset, extent.end());
        self.unrecovered.take(extent.offset, extent.end());
    }

    /// A range is none of the object's any more.
    pub(crate) fn purged(&mut self, extent: Extent) {
        self.spans.take(extent.offset, extent.end());
        self.rewritten(extent);
    }
}

/// Threads that wait in an object.
#[derive(Default)]
pub(crate) struct Waiting {
    /// For a commit.
    pub commits: usize,
    /// For a tag, or for room.
    pub others: usize,
}

/// What the gauges show of an object.
#[derive(Default)]
pub(crate) struct Shown {
    bytes: i64,
    pages: i64,
    kept: i64,
}

/// What is known of an object, once something is: most objects of a store are only read, and many
/// more are known than are written at a time.
pub(crate) type LazyDirty = LazyCell<Box<Dirty>, Box<dyn FnOnce() -> Box<Dirty> + Send>>;

/// See the module.
pub(crate) struct Dirty {
    pub policy: WriteBack,
    pub sends: Sends,
    pub unflushed: Unflushed,
    pub waiting: Waiting,
    pub shown: Shown,
}

impl Dirty {
    fn new(policy: WriteBack) -> Self {
        Self {
            policy,
            sends: Sends::default(),
            unflushed: Unflushed::default(),
            waiting: Waiting::default(),
            shown: Shown::default(),
        }
    }

    /// Whether nothing is dirty or on its way, nothing waits to become durable, was lost or is
    /// waited for.
    fn is_idle(&self) -> bool {
        let is_clean = self.policy.dirty_pages() == 0 && self.policy.flight_bytes() == 0;
        let is_alone = self.waiting.commits == 0 && self.waiting.others == 0;
        is_clean && is_alone && self.sends.is_idle() && self.unflushed.is_idle()
    }

    /// The next flush begins.
    pub(crate) fn begin_flush(&mut self) -> Arc<Flush> {
        let flush = self.unflushed.begin();
        self.policy.flush_begins();
        flush
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        CACHE_DIRTY_BYTES.add(-self.bytes);
        CACHE_KEPT_BYTES.add(-self.kept);
    }
}
