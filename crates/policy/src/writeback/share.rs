//! What the objects of a store share: memory of their pages, bytes under write-out, and bandwidth.
//!
//! Commits, flushes and purges are of an object; memory and bandwidth are the store's. So *how
//! much* is decided here, *which bytes* by object. A free place under write-out goes to an object
//! with a commit; after four of their longest writes to another. Once there is place for an object
//! without one, or with a refused writer, the caller looks at all
//! ([`super::WriteBack::take_waiting`]).
//!
//! # Pacing
//!
//! Dirty memory is limited in *time*: what the device writes in two seconds, at most a share of the
//! arena. Above three quarters of that writers pause before each new page, so that together they
//! dirty memory as fast as the device cleans it:
//!
//! ```text
//!   ratio 2 |.
//!           | '.
//!         1 |    '-...._____....-.          rate = bandwidth x ratio
//!           |                     '.
//!         0 |                       '.
//!           +-----------+-------------+
//!        free run    setpoint       hard    dirty memory
//! ```
//!
//! The cubic is flat at the setpoint, where noise changes nothing. A new page moves a clock on by
//! its cost; its writer pauses until then. Short pauses are saved up; of long ones all above 200
//! ms, at most a second, stays on the clock.
//!
//! Bandwidth is measured while the device is busy, in steps of 200 ms, averaged over about 3 s, in
//! *memory that became clean*. First steps are shorter. A step with too little to do only raises
//! the estimate; there was enough when no more could be handed out, more was to be written, or more
//! than the background limit was under write-out. The hard limit rises at once, and falls by 1/32 a
//! step, never below what is dirty. While more is dirty than that, writers go at a quarter of the
//! bandwidth, refused while the clock is more than a pause ahead.
//!
//! Weaknesses: a page with gaps of one object may precede a whole one of another. Writers that ask
//! more often get more; where a call costs less than the shortest pause, those that sleep get less.
//! A device that is fast and slow in turn is taken for one of average speed.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_base::sync::{Mutex, MutexGuard};

use super::Counts;
use super::settings::{
    FLIGHT_BYTES_MIN, FLIGHT_SECOND_DIVISOR, HARD_PAGES_MIN, PAUSE_MAX, Settings,
};

/// Of the longest tagged writes, before others have one.
pub(super) const TAG_WRITES: u64 = 4;
/// A measurement of bandwidth.
const STEP: Duration = Duration::from_millis(200);
/// The first one.
const STEP_FIRST: Duration = Duration::from_millis(25);
/// What the bandwidth is averaged over.
const AVERAGE: Duration = Duration::from_secs(3);
/// How the hard limit falls in a step.
const FALL_DIVISOR: u64 = 32;
/// Pages with gaps are written when less is left.
const THIN_DIVISOR: u64 = 8;
/// Shorter pauses are saved up.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Least part of the bandwidth for writers.
const RATIO_MIN: f64 = 0.25;
/// Most that the clock is ahead.
const DEBT_MAX: Duration = Duration::from_secs(1);
/// In bytes per second.
const BANDWIDTH_MIN: f64 = 4096.0;

/// See the module; clones share it.
#[derive(Clone, Debug)]
pub struct StoreShare(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    totals: [AtomicU64; Amount::COUNT],
    gate: Mutex<Gate>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    /// Pages with a byte that is dirty, under write-out or kept.
    HeldPages,
    /// Those with a dirty byte.
    UnwrittenPages,
    /// Those that are only kept.
    OnlyKeptPages,
    /// Bytes under write-out.
    FlightBytes,
    /// Writes under way.
    Flights,
}

impl Amount {
    const COUNT: usize = Self::Flights as usize + 1;
}

/// The amounts of one object, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Amounts {
    store: StoreShare,
    own: [u64; Amount::COUNT],
}

impl Amounts {
    pub(super) fn new(store: &StoreShare) -> Self {
        Self {
            store: store.clone(),
            own: [0; Amount::COUNT],
        }
    }

    pub(super) fn own(&self, of: Amount) -> u64 {
        self.own[of as usize]
    }

    pub(super) fn count(&mut self, of: Amount, more: bool) {
        if more {
            self.add(of, 1);
        } else {
            self.remove(of, 1);
        }
    }

    pub(super) fn add(&mut self, of: Amount, amount: u64) {
        self.own[of as usize] += amount;
        self.store.0.totals[of as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn remove(&mut self, of: Amount, amount: u64) {
        self.own[of as usize] -= amount;
        self.store.0.totals[of as usize].fetch_sub(amount, Ordering::Relaxed);
    }
}

impl Drop for Amounts {
    fn drop(&mut self) {
        for (total, own) in self.store.0.totals.iter().zip(self.own) {
            total.fetch_sub(own, Ordering::Relaxed);
        }
    }
}

/// What the device had to do when a write ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Memory held, see [`Amount::HeldPages`].
    pub dirty_bytes: u64,
    pub is_flying: bool,
    /// The device can take no more, or more waits.
    pub is_pressed: bool,
}

#[derive(Debug)]
struct Gate {
    pacing: Pacing,
    /// Enough is under write-out, until 2/3 of it are.
    flight_stopped: bool,
    /// Pages with gaps are written for want of room.
    thinning: bool,
    next_object: u64,
    /// With tagged bytes, but without a place.
    unplaced: BTreeSet<u64>,
    /// Handed out since others had their turn.
    tag_bytes: u64,
    /// An object had no place, or its writer no room.
    is_waiting: bool,
}

impl StoreShare {
    /// Nothing is dirty.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let gate = Gate {
            pacing: Pacing::new(&settings.normalised()),
            flight_stopped: false,
            thinning: false,
            next_object: 0,
            unplaced: BTreeSet::new(),
            tag_bytes: 0,
            is_waiting: false,
        };
        Self(Arc::new(Shared {
            totals: Default::default(),
            gate: Mutex::new(gate),
        }))
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.0.gate.lock()
    }

    pub(super) fn total(&self, of: Amount) -> u64 {
        self.0.totals[of as usize].load(Ordering::Relaxed)
    }

    pub(super) fn add_object(&self) -> u64 {
        let mut gate = self.gate();
        gate.next_object += 1;
        gate.next_object
    }

    pub(super) fn limits(&self) -> Limits {
        self.gate().pacing.limits()
    }

    pub(super) fn set_dirty_bytes_max(&self, bytes: u64) {
        self.gate().pacing.set_dirty_bytes_max(bytes);
    }

    /// A pause before new pages; `None`: refused.
    pub(super) fn pause(
        &self,
        new_bytes: u64,
        dirty_bytes: u64,
        may_pause: bool,
        now: Duration,
    ) -> Option<Duration> {
        let mut gate = self.gate();
        let pause = gate.pacing.pause(new_bytes, dirty_bytes, may_pause, now);
        gate.is_waiting |= pause.is_none();
        pause
    }

    pub(super) fn refuse(&self) {
        self.gate().is_waiting = true;
    }

    pub(super) fn is_thinning(&self, unwritten_bytes: u64) -> bool {
        self.gate().thins(unwritten_bytes)
    }

    pub(super) fn thin(&self, unwritten_bytes: u64) {
        let mut gate = self.gate();
        gate.thinning = gate.thins(unwritten_bytes);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.gate().flight_stopped
    }

    /// Whether no write of `cluster_bytes` fits under write-out.
    pub(super) fn is_full(&self, cluster_bytes: u64, counts: &mut Counts) -> bool {
        let mut gate = self.gate();
        let most = gate.pacing.limits().flight_bytes_max;
        let flight_bytes = self.total(Amount::FlightBytes);
        let full = flight_bytes > 0 && flight_bytes + cluster_bytes > most;
        if gate.flight_stopped {
            gate.flight_stopped = full || flight_bytes > most / 3 * 2;
        } else if full {
            gate.flight_stopped = true;
            counts.flight_stops += 1;
            gate.pacing.pressed();
        }
        gate.flight_stopped
    }

    /// Whether an object lets those with commits go first.
    pub(super) fn yields(&self, object: u64, has_tagged: bool, cluster_bytes: u64) -> bool {
        let mut gate = self.gate();
        if !has_tagged {
            gate.unplaced.remove(&object);
        }
        if has_tagged || gate.unplaced.is_empty() {
            return false;
        }
        gate.tag_bytes < cluster_bytes.saturating_mul(TAG_WRITES)
    }

    pub(super) fn wait(&self, object: u64, has_tagged: bool) {
        let mut gate = self.gate();
        gate.is_waiting = true;
        if has_tagged {
            gate.unplaced.insert(object);
        }
    }

    /// An object's bytes are handed out, or none is left; `takes_turn`: without a commit, before
    /// others with one.
    pub(super) fn serve(&self, object: u64, tag_bytes: u64, takes_turn: bool) {
        let mut gate = self.gate();
        gate.unplaced.remove(&object);
        gate.tag_bytes = gate.tag_bytes.saturating_add(tag_bytes);
        if takes_turn && !gate.unplaced.is_empty() {
            gate.tag_bytes = 0;
        }
    }

    pub(super) fn leave(&self, object: u64) {
        self.gate().unplaced.remove(&object);
    }

    /// Whether an object that waits has place again; says so once.
    pub(super) fn take_waiting(&self) -> bool {
        let mut gate = self.gate();
        let is_free = !gate.flight_stopped && gate.unplaced.is_empty();
        is_free && std::mem::take(&mut gate.is_waiting)
    }

    pub(super) fn write_began(&self, now: Duration) {
        self.gate().pacing.began(now);
    }

    pub(super) fn write_ended(
        &self,
        clean_bytes: Option<u64>,
        load: Load,
        now: Duration,
        counts: &mut Counts,
    ) {
        let pacing = &mut self.gate().pacing;
        match clean_bytes {
            Some(bytes) => pacing.cleaned(bytes, load, now, counts),
            None => pacing.failed(load.is_flying, now),
        }
    }
}

impl Gate {
    fn thins(&self, unwritten_bytes: u64) -> bool {
        let limits = self.pacing.limits();
        let most_bytes = match self.thinning {
            true => limits.background_bytes.midpoint(limits.thin_bytes),
            false => limits.thin_bytes,
        };
        unwritten_bytes > most_bytes
    }
}

/// The limits of dirty memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Above it whole pages are written.
    pub background_bytes: u64,
    /// Below it writers are never slowed.
    pub free_run_bytes: u64,
    /// Above it pages with gaps are written, too.
    pub thin_bytes: u64,
    /// Where writers are as fast as the device.
    pub setpoint_bytes: u64,
    /// Never exceeded.
    pub hard_bytes: u64,
    /// Most bytes under write-out.
    pub flight_bytes_max: u64,
    /// Bytes per second, as measured.
    pub bandwidth: u64,
}

#[derive(Debug)]
struct Pacing {
    settings: Settings,
    bandwidth: f64,
    hard_bytes: u64,
    busy_since: Option<Duration>,
    step_busy: Duration,
    step_bytes: u64,
    step_pressed: bool,
    /// What the average is about.
    measured: Duration,
    /// When the next page may become dirty.
    clock: Duration,
}

impl Pacing {
    fn new(settings: &Settings) -> Self {
        let mut pacing = Self {
            settings: *settings,
            bandwidth: settings.bandwidth_initial as f64,
            hard_bytes: 0,
            busy_since: None,
            step_busy: Duration::ZERO,
            step_bytes: 0,
            step_pressed: false,
            measured: STEP_FIRST,
            clock: Duration::ZERO,
        };
        pacing.hard_bytes = pacing.target();
        pacing
    }

    fn set_dirty_bytes_max(&mut self, bytes: u64) {
        let bytes = bytes.max(self.settings.page_bytes);
        if bytes == self.settings.dirty_bytes_max {
            return;
        }
        let grows = bytes > self.settings.dirty_bytes_max;
        self.settings.dirty_bytes_max = bytes;
        // Others need the memory at once.
        self.hard_bytes = if grows {
            self.hard_bytes.max(self.target())
        } else {
            self.hard_bytes.min(bytes)
        };
    }

    fn target(&self) -> u64 {
        // A float beyond the range becomes the largest number.
        let bytes = (self.bandwidth * self.settings.device_time_max.as_secs_f64()) as u64;
        let least = self.settings.page_bytes.saturating_mul(HARD_PAGES_MIN);
        bytes.max(least).min(self.settings.dirty_bytes_max)
    }

    fn limits(&self) -> Limits {
        let hard_bytes = self.hard_bytes;
        let wanted_bytes = self.target().min(hard_bytes);
        let half_bytes = wanted_bytes / 2;
        let free_run_bytes = half_bytes.midpoint(wanted_bytes);
        // A page less than there is room for: a refused writer must find a write.
        let whole_bytes = wanted_bytes - wanted_bytes % self.settings.page_bytes;
        let left_bytes = (whole_bytes / THIN_DIVISOR).max(self.settings.page_bytes);
        let thin_bytes = whole_bytes.saturating_sub(left_bytes);
        let background_bytes = match self.settings.writes_early {
            true => half_bytes,
            false => free_run_bytes.min(thin_bytes),
        };
        let bandwidth = self.bandwidth as u64;
        let least = FLIGHT_BYTES_MIN.min(self.settings.flight_bytes_max);
        Limits {
            background_bytes,
            free_run_bytes,
            thin_bytes,
            setpoint_bytes: free_run_bytes.midpoint(wanted_bytes),
            hard_bytes,
            flight_bytes_max: (bandwidth / FLIGHT_SECOND_DIVISOR)
                .clamp(least, self.settings.flight_bytes_max),
            bandwidth,
        }
    }

    /// The rate of all writers, as a part of the bandwidth: 2 to [`RATIO_MIN`].
    fn ratio(&self, dirty_bytes: u64) -> f64 {
        let limits = self.limits();
        let room = (limits.setpoint_bytes - limits.free_run_bytes).max(1) as f64;
        let distance = (limits.setpoint_bytes as f64 - dirty_bytes as f64) / room;
        (1.0 + distance.clamp(-1.0, 1.0).powi(3)).max(RATIO_MIN)
    }

    fn pause(
        &mut self,
        new_bytes: u64,
        dirty_bytes: u64,
        may_pause: bool,
        now: Duration,
    ) -> Option<Duration> {
        let after = dirty_bytes.saturating_add(new_bytes);
        if after <= self.limits().free_run_bytes {
            self.clock = now;
            return Some(Duration::ZERO);
        }
        let before = self.clock.max(now);
        if dirty_bytes > self.target() && before > now.saturating_add(PAUSE_MAX) {
            return None;
        }
        let rate = (self.bandwidth * self.ratio(dirty_bytes)).max(1.0);
        let cost = (new_bytes as f64 / rate).min(DEBT_MAX.as_secs_f64());
        let time = before.saturating_add(Duration::from_secs_f64(cost));
        let time = time.min(now.saturating_add(DEBT_MAX));
        let due = time.saturating_sub(now);
        let length = if due < PAUSE_MIN { Duration::ZERO } else { due };
        if may_pause || length.is_zero() {
            self.clock = time;
        }
        Some(length)
    }

    fn began(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
    }

    fn pressed(&mut self) {
        self.step_pressed = true;
    }

    /// A write failed: its time says nothing.
    fn failed(&mut self, flying: bool, now: Duration) {
        self.busy_since = flying.then_some(now);
    }

    fn cleaned(&mut self, bytes: u64, load: Load, now: Duration, counts: &mut Counts) {
        let busy = now.saturating_sub(self.busy_since.unwrap_or(now));
        self.busy_since = load.is_flying.then_some(now);
        self.step_busy = self.step_busy.saturating_add(busy);
        self.step_bytes = self.step_bytes.saturating_add(bytes);
        self.step_pressed |= load.is_pressed;
        if self.step_busy < STEP.min(self.measured) {
            return;
        }
        counts.bandwidth_steps += 1;
        let sample = self.step_bytes as f64 / self.step_busy.as_secs_f64();
        if sample >= self.bandwidth || self.step_pressed {
            self.measured = self.measured.saturating_add(self.step_busy).min(AVERAGE);
            let weight = self.step_busy.as_secs_f64() / self.measured.as_secs_f64();
            let weight = weight.min(1.0);
            self.bandwidth += (sample - self.bandwidth) * weight;
            self.bandwidth = self.bandwidth.max(BANDWIDTH_MIN);
        } else {
            counts.bandwidth_steps_idle += 1;
        }
        self.step_busy = Duration::ZERO;
        self.step_bytes = 0;
        self.step_pressed = false;
        self.follow(load.dirty_bytes);
    }

    fn follow(&mut self, dirty_bytes: u64) {
        let target = self.target();
        if target > self.hard_bytes {
            self.hard_bytes = target;
            return;
        }
        let target = target.max(dirty_bytes);
        if target < self.hard_bytes {
            self.hard_bytes -= (self.hard_bytes - target).div_ceil(FALL_DIVISOR);
        }
    }
}
