//! How fast may writers go?
//!
//! Dirty memory is limited in *time*: what the device writes in two seconds, at most the share of
//! the arena. A writer that finds less than three quarters of that dirty is never slowed. Above, it
//! pauses before each new page, so that all writers together dirty memory as fast as the device
//! cleans it:
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
//! The cubic is flat at the setpoint, so that noise there changes nothing, and steep at the ends.
//! An error in the measured bandwidth only shifts the place where it settles.
//!
//! There is a clock, which a new page moves on by what it costs; a writer pauses until its time.
//! Short pauses are saved up, long ones are cut at 200 ms, and the rest stays on the clock (at most
//! a second).
//!
//! The bandwidth is measured while the device is busy, in steps of 200 ms, averaged over about 3 s,
//! in *memory that became clean*: one small range frees a page. At first steps are shorter, 25 ms
//! and then as long as all before, and the average is that of all, the guess counting as one: a
//! fast device is known for one before much was written that would better have waited. A step in
//! which the device had too little to do may raise the estimate, but not lower it: it had enough
//! when no more could be given to it, or more was to be written, or more than the background limit
//! was under write-out. How much is dirty says nothing, as pages with gaps stay while there is
//! room. The hard limit rises at once, and falls by 1/32 per step, never below what is dirty:
//! nobody is stopped because the device became slow. All other limits follow at once. While more is
//! dirty than the hard limit should be, writers go at a quarter of the bandwidth, and are refused
//! while the clock is more than a pause ahead, so that what is too much is gone after some seconds.
//!
//! Known weaknesses: of writers of which one asks more often than another it gets more. Where a
//! call costs less than the shortest pause, those that are awake take what is saved up, and those
//! that sleep get one call for each pause: of four writers of 512 KiB to a device of 3 GB/s two get
//! half of what the others do. A device that alternates between fast and slow within seconds is
//! taken for one of the average speed.

use std::time::Duration;

use super::Counts;
use super::settings::{
    FLIGHT_BYTES_MIN, FLIGHT_SECOND_DIVISOR, HARD_PAGES_MIN, PAUSE_MAX, Settings,
};

/// Length of a measurement.
const STEP: Duration = Duration::from_millis(200);
/// Length of the first.
const STEP_FIRST: Duration = Duration::from_millis(25);
/// Time over which the bandwidth is averaged.
const AVERAGE: Duration = Duration::from_secs(3);
/// The limit falls by one part in this many per step.
const FALL_DIVISOR: u64 = 32;
/// Pages with gaps are written when less than one part in this many is left.
const THIN_DIVISOR: u64 = 8;
/// Shorter pauses are saved up.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Writers are never slowed to less than this part of the bandwidth.
const RATIO_MIN: f64 = 0.25;
/// The clock is never further ahead.
const DEBT_MAX: Duration = Duration::from_secs(1);
/// A device is never taken for slower, in bytes per second.
const BANDWIDTH_MIN: f64 = 4096.0;

/// The limits of dirty memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Above it the flusher writes pages that are dirty from end to end, in bytes.
    pub background_bytes: u64,
    /// Below it writers are never slowed, in bytes.
    pub free_run_bytes: u64,
    /// Above it the flusher writes pages with gaps too, in bytes.
    pub thin_bytes: u64,
    /// Where writers go as fast as the device, in bytes.
    pub setpoint_bytes: u64,
    /// Never exceeded, in bytes.
    pub hard_bytes: u64,
    /// Most bytes under write-out.
    pub flight_bytes_max: u64,
    /// What the device is taken for, in bytes per second.
    pub bandwidth: u64,
}

/// The state of the pacing.
#[derive(Debug)]
pub(super) struct Pacing {
    settings: Settings,
    bandwidth: f64,
    hard_bytes: u64,
    busy_since: Option<Duration>,
    step_busy: Duration,
    step_bytes: u64,
    step_pressed: bool,
    /// Time that the average is about.
    measured: Duration,
    /// When the next page may become dirty.
    clock: Duration,
}

impl Pacing {
    pub(super) fn new(settings: &Settings) -> Self {
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

    /// Another share of the arena.
    pub(super) fn set_dirty_bytes_max(&mut self, bytes: u64) {
        let bytes = bytes.max(self.settings.page_bytes);
        if bytes == self.settings.dirty_bytes_max {
            return;
        }
        let grows = bytes > self.settings.dirty_bytes_max;
        self.settings.dirty_bytes_max = bytes;
        // Others need the memory: at once.
        self.hard_bytes = if grows {
            self.hard_bytes.max(self.target())
        } else {
            self.hard_bytes.min(bytes)
        };
    }

    /// Where the hard limit belongs.
    fn target(&self) -> u64 {
        // A float beyond the range becomes the last number there is.
        let bytes = (self.bandwidth * self.settings.device_time_max.as_secs_f64()) as u64;
        let least = self.settings.page_bytes.saturating_mul(HARD_PAGES_MIN);
        bytes.max(least).min(self.settings.dirty_bytes_max)
    }

    pub(super) fn limits(&self) -> Limits {
        let hard_bytes = self.hard_bytes;
        let wanted_bytes = self.target().min(hard_bytes);
        let background_bytes = wanted_bytes / 2;
        let free_run_bytes = background_bytes.midpoint(wanted_bytes);
        // A page less than there is room for, at least: a writer that is refused must find that
        // something is written.
        let whole_bytes = wanted_bytes - wanted_bytes % self.settings.page_bytes;
        let left_bytes = (whole_bytes / THIN_DIVISOR).max(self.settings.page_bytes);
        let thin_bytes = whole_bytes.saturating_sub(left_bytes);
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

    /// The rate of all writers together, as a part of the bandwidth: 2 to 0.
    fn ratio(&self, dirty_bytes: u64) -> f64 {
        let limits = self.limits();
        let room = (limits.setpoint_bytes - limits.free_run_bytes).max(1) as f64;
        let distance = (limits.setpoint_bytes as f64 - dirty_bytes as f64) / room;
        (1.0 + distance.clamp(-1.0, 1.0).powi(3)).max(RATIO_MIN)
    }

    /// How long a writer of new pages would have to pause; `None`: so much is dirty that it may not
    /// go on after the longest pause there is. One that may not pause is not charged for it.
    pub(super) fn pause(
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

    /// The device has something to do.
    pub(super) fn began(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
    }

    /// It has as much to do as it can.
    pub(super) fn pressed(&mut self) {
        self.step_pressed = true;
    }

    /// A write failed: the time it took says nothing.
    pub(super) fn failed(&mut self, flying: bool, now: Duration) {
        self.busy_since = flying.then_some(now);
    }

    /// A write made memory clean; `flying` says whether the device has still something to do, and
    /// `pressed` whether it had as much as it can.
    pub(super) fn cleaned(
        &mut self,
        bytes: u64,
        dirty_bytes: u64,
        (flying, pressed): (bool, bool),
        now: Duration,
        counts: &mut Counts,
    ) {
        let busy = now.saturating_sub(self.busy_since.unwrap_or(now));
        self.busy_since = flying.then_some(now);
        self.step_busy = self.step_busy.saturating_add(busy);
        self.step_bytes = self.step_bytes.saturating_add(bytes);
        self.step_pressed |= pressed;
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
        self.follow(dirty_bytes);
    }

    /// Moves the hard limit towards where it belongs.
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
