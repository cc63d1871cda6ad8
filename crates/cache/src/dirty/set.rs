//! What of one object is dirty.
//!
//! One lock guards the policy ([`pagewell_policy::writeback`]), which knows every dirty byte, and
//! what that does not know ([`Dirty`]). The flag [`DIRTY`] of a page says the same to eviction; it
//! changes under this lock only.

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

/// How often a thread that waits for the device looks.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// How long a close waits for submit loops, which only hand in what they have.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Until when one waits that begins now.
pub(crate) fn close_wait() -> Instant {
    Instant::now() + CLOSE_WAIT
}

pub(crate) struct Still<T> {
    number: T,
    since: Instant,
}

impl<T: PartialEq> Still<T> {
    pub(crate) fn new(number: T) -> Self {
        let since = Instant::now();
        Self { number, since }
    }

    pub(crate) fn time(&mut self, number: T) -> Duration {
        if number != self.number {
            *self = Self::new(number);
        }
        self.since.elapsed()
    }
}

pub(crate) struct DirtySet {
    own: Arc<OwnPages>,
    store: Arc<WrittenStore>,
    writer: OnceLock<Weak<dyn Active>>,
    /// The object is active in its store. If not, nothing is dirty, and no lock is taken.
    started: AtomicBool,
    /// Something was given up, or written too late.
    gave_up: AtomicBool,
    /// Changes under the lock.
    abandoned: AtomicBool,
    losses: AtomicU64,
    state: Mutex<LazyDirty>,
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

    pub(crate) fn own(&self) -> &Arc<OwnPages> {
        &self.own
    }

    pub(crate) fn belong_to(&self, writer: Weak<dyn Active>) {
        // Set once, by their maker.
        let _ = self.writer.set(writer);
    }

    pub(crate) fn store(&self) -> &Arc<WrittenStore> {
        &self.store
    }

    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> Guard<'_, LazyDirty> {
        self.state.lock()
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// The caller has the lock.
    pub(crate) fn start(&self) {
        if let Some(writer) = self.writer.get()
            && !self.started.swap(true, Ordering::AcqRel)
        {
            let number = self.own.layout().number();
            self.store.activate(number, writer);
        }
    }

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

    pub(crate) fn lose(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
        self.store.lose();
    }

    pub(crate) fn bytes(&self) -> u64 {
        let dirty = self.lock();
        dirty.policy.dirty_bytes() + dirty.policy.flight_bytes()
    }

    pub(crate) fn wait<'a>(
        &self,
        dirty: Guard<'a, LazyDirty>,
        most: Duration,
    ) -> Guard<'a, LazyDirty> {
        self.progress.wait(dirty, most)
    }

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

    /// Wakes the other objects of the store, if one waits for what ended here.
    pub(crate) fn let_others_go_on(&self, mut dirty: Guard<'_, LazyDirty>) {
        let is_waited_for = dirty.policy.take_waiting();
        drop(dirty);
        if is_waited_for {
            self.store.go_on();
        }
    }

    pub(crate) fn notify(&self) {
        self.progress.notify_all();
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.gave_up.load(Ordering::Acquire)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire) || self.store.is_abandoned()
    }

    /// Waits for a fetch; `None`: too long, or given up.
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

    pub(crate) fn now(&self) -> Duration {
        self.store.now()
    }

    pub(crate) fn due_at(&self) -> Option<Instant> {
        let next = self.lock().policy.next_at(self.now())?;
        self.store.instant(next)
    }

    pub(crate) fn admit(&self, extent: Extent, may_block: bool) -> Admission {
        let allowance = self.store.allowance();
        let mut dirty = self.lock();
        dirty.policy.set_dirty_bytes_max(allowance);
        dirty.policy.admit(extent, may_block, self.now())
    }

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

    /// Bytes of a pinned page were changed, and these blocks around them are whole in memory.
    pub(crate) fn note_written(
        &self,
        slot: SlotIndex,
        extent: Extent,
        blocks: [Option<Extent>; 2],
    ) -> Urgency {
        let mut dirty = self.lock();
        // First: giving up the store sees the object, or this thread sees that.
        self.start();
        if self.is_abandoned() {
            // It will never be written; its writer sees that at a commit.
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

    /// Takes the flag from pages with nothing dirty, on its way or kept.
    pub(crate) fn mark_clean(&self, dirty: &Dirty, extent: Extent) {
        for part in parts(extent.offset..extent.end()) {
            if dirty.policy.is_dirty(Part::whole(part.page).extent()) {
                continue;
            }
            // With the flag it stays; without it, it was purged meanwhile.
            let key = self.own.layout().key(part.page);
            self.own.pages().table().clear_of(key, DIRTY);
        }
    }

    /// Bytes of the page that are dirty, under write-back or kept.
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

    /// Bytes are about to be fetched: what was lost of them is not in memory.
    pub(crate) fn note_fetch(&self, extent: Extent) {
        if self.losses() > 0 {
            self.lock().unflushed.forget_unrecovered(extent);
        }
    }

    pub(crate) fn forget(&self, extent: Extent) -> Guard<'_, LazyDirty> {
        let mut dirty = self.lock();
        dirty.policy.discard(extent);
        dirty
    }

    pub(crate) fn refuse(&self, dirty: &mut Dirty, write: Write) {
        dirty.policy.finished(write.id, false, self.now());
        if !self.is_abandoned() {
            self.mark_clean(dirty, write.extent);
        }
        self.show(dirty);
    }

    /// A part of a write was purged before it was sent: the rest is chosen anew.
    pub(crate) fn put_back(&self, dirty: &mut Dirty, write: Write) {
        dirty.policy.put_back(write.id, self.now());
        self.mark_clean(dirty, write.extent);
        dirty.sends.ask_again();
        self.show(dirty);
        self.notify();
    }

    pub(crate) fn fetch_ended(&self) {
        let dirty = self.lock();
        let is_due = dirty.sends.has_postponed();
        self.go_on(dirty, is_due);
    }

    /// Wakes threads that wait, and the flusher if there may be something to send.
    pub(crate) fn go_on(&self, mut dirty: Guard<'_, LazyDirty>, is_due: bool) {
        let is_submitting = dirty.sends.is_submitting();
        if is_submitting {
            // That thread may be past the point where it would have seen it.
            dirty.sends.ask_again();
        }
        self.let_others_go_on(dirty);
        self.notify();
        if is_due && !is_submitting {
            self.store.flusher().wake();
        }
    }

    /// Gives up what is dirty or was lost; how many bytes. The submit loop may be about to copy a
    /// page that only its flag keeps: if it does not end by `until`, pages stay until the object
    /// goes.
    pub(crate) fn abandon(&self, until: Instant) -> u64 {
        let mut dirty = self.lock();
        self.abandoned.store(true, Ordering::Release);
        self.notify();
        while dirty.sends.is_submitting() {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                break;
            };
            dirty = self.wait(dirty, left);
        }
        let is_unsettled = !dirty.unflushed.is_settled();
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

fn nothing(store: &Arc<WrittenStore>) -> LazyDirty {
    let store = store.clone();
    let make = move || Box::new(Dirty::new(store.write_back()));
    LazyDirty::new(Box::new(make))
}

pub(crate) fn abandoned(offset: u64) -> Error {
    Error::Device(DeviceError::Abandoned { offset })
}

/// More spans than this become one, with the bytes between them: at half of it a flush is due.
pub(crate) const SPANS_MAX: usize = 65_536;

pub(crate) struct Postponed {
    pub write: Write,
    pub fetches: Fetches,
}

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

    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.0.get()?.clone().err()
    }
}

pub(crate) struct Flushing {
    pub flush: Arc<Flush>,
    pub spans: Spans,
    pub since: Instant,
    pub answer: Option<Result<(), DeviceError>>,
}

#[derive(Default)]
pub(crate) struct Sends {
    /// At the device, in whole blocks: first byte and the byte after the last.
    at_device: BTreeMap<u64, u64>,
    postponed: Vec<Postponed>,
    is_submitting: bool,
    again: bool,
    failure: Option<DeviceError>,
}

impl Sends {
    fn is_idle(&self) -> bool {
        self.is_empty() && !self.is_submitting
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at_device.is_empty() && self.postponed.is_empty()
    }

    /// False: a thread is there, and goes round again.
    pub(crate) fn enter(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.is_submitting, true);
        self.again |= !is_first;
        is_first
    }

    pub(crate) fn leave(&mut self) {
        self.is_submitting = false;
    }

    pub(crate) fn is_submitting(&self) -> bool {
        self.is_submitting
    }

    pub(crate) fn ask_again(&mut self) {
        self.again = true;
    }

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

    pub(crate) fn is_at_device(&self, blocks: Extent) -> bool {
        let before = self.at_device.range(..blocks.end()).next_back();
        before.is_some_and(|(_, end)| *end > blocks.offset)
    }

    pub(crate) fn begin(&mut self, blocks: Extent) {
        let other = self.at_device.insert(blocks.offset, blocks.end());
        // The elevator may bring either last.
        assert!(
            other.is_none(),
            "two writes of a block at {}",
            blocks.offset
        );
    }

    pub(crate) fn end(&mut self, blocks: Extent) {
        self.at_device.remove(&blocks.offset);
    }

    pub(crate) fn fail(&mut self, error: DeviceError) {
        self.failure = Some(error);
    }

    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.failure.clone()
    }
}

#[derive(Default)]
pub(crate) struct Unflushed {
    spans: Spans,
    flushing: Option<Flushing>,
    next: Arc<Flush>,
    /// Not durable when a flush failed, and not written since.
    lost: Spans,
    /// What memory may have of that, to be dirty again when there is room.
    unrecovered: Spans,
    loss: Option<DeviceError>,
    replays: u64,
}

impl Unflushed {
    fn is_idle(&self) -> bool {
        self.is_settled() && self.lost.is_empty() && self.unrecovered.is_empty()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.spans.is_empty() && self.flushing.is_none()
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    pub(crate) fn is_much(&self) -> bool {
        self.spans.count() > SPANS_MAX / 2
    }

    pub(crate) fn has_answer(&self) -> bool {
        let flushing = self.flushing.as_ref();
        flushing.is_some_and(|flushing| flushing.answer.is_some())
    }

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

    /// False when another flush is at the device.
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

    pub(crate) fn take_ended(&mut self, time: Duration) -> Option<Flushing> {
        let is_over = self.has_answer() || self.is_flushing_for(time);
        self.flushing.take_if(|_| is_over)
    }

    pub(crate) fn written(&mut self, extent: Extent) {
        self.spans.insert(extent.offset, extent.end());
        self.spans.melt(SPANS_MAX);
    }

    pub(crate) fn take_written(&mut self) -> Spans {
        std::mem::take(&mut self.spans)
    }

    pub(crate) fn covered(&self) -> Spans {
        let flushing = self.flushing.as_ref();
        flushing
            .map(|flushing| flushing.spans.clone())
            .unwrap_or_default()
    }

    pub(crate) fn lose(&mut self, spans: Spans) {
        self.lost.extend(spans.clone());
        self.lost.melt(SPANS_MAX);
        self.unrecovered.extend(spans);
        self.unrecovered.melt(SPANS_MAX);
    }

    pub(crate) fn loss(&self) -> Option<DeviceError> {
        self.loss.clone()
    }

    pub(crate) fn set_loss(&mut self, error: DeviceError) {
        self.loss = Some(error);
    }

    pub(crate) fn has_lost(&self, extent: Extent) -> bool {
        self.lost.overlaps(extent.offset, extent.end())
    }

    pub(crate) fn replays(&self) -> u64 {
        self.replays
    }

    pub(crate) fn replay(&mut self) {
        self.replays += 1;
    }

    pub(crate) fn unrecovered(&self) -> &Spans {
        &self.unrecovered
    }

    pub(crate) fn forget_unrecovered(&mut self, extent: Extent) {
        self.unrecovered.take(extent.offset, extent.end());
    }

    fn rewritten(&mut self, extent: Extent) {
        self.lost.take(extent.offset, extent.end());
        self.unrecovered.take(extent.offset, extent.end());
    }

    pub(crate) fn purged(&mut self, extent: Extent) {
        self.spans.take(extent.offset, extent.end());
        self.rewritten(extent);
    }
}

#[derive(Default)]
pub(crate) struct Waiting {
    pub commits: usize,
    /// For a tag, or for room.
    pub others: usize,
}

#[derive(Default)]
pub(crate) struct Shown {
    bytes: i64,
    pages: i64,
    kept: i64,
}

/// Made at the first write: most objects of a store are only read.
pub(crate) type LazyDirty = LazyCell<Box<Dirty>, Box<dyn FnOnce() -> Box<Dirty> + Send>>;

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

    fn is_idle(&self) -> bool {
        let is_clean = self.policy.dirty_pages() == 0 && self.policy.flight_bytes() == 0;
        let is_alone = self.waiting.commits == 0 && self.waiting.others == 0;
        is_clean && is_alone && self.sends.is_idle() && self.unflushed.is_idle()
    }

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
