//! The distance of a stream: what lets it grow, and what makes it shrink.
//!
//! The rules are those of the module above and of [`super::super::bandwidth_delay`], and one more.
//!
//! # Does a longer distance pay?
//!
//! A stream whose device is slower than its reader is late each time, however far ahead it is. If
//! it grows by an eighth for each of them it ends at the most there is, and nobody reads faster:
//! all that is on its way stands in a queue. That takes memory, and a server's buffers, which were
//! in its processor's cache, no longer are: nfs-ganesha took 1.8 times the processor time for the
//! same bytes with 20 MiB on their way instead of 4.
//!
//! ```text
//!   late      . . . . | . . . . | . . . . |          . . . .
//!   best         r0   |    r1   |    r2   |
//!   distance    stays |  grows  |  grows  | back to what it was before the last round, as
//!                         r1 > 9/8 r0      r2 < 9/8 r1; for sixteen rounds
//! ```
//!
//! Each time that the stream is late, what came since the last time tells the rate. A round is
//! four of them, and the best of a round counts, as others may have held it up but nobody makes it
//! faster. In the first the distance stays: where it is right already, growing costs, and it must
//! not cost twice. In a round that grows the distance becomes half as much again and more. If the
//! rate is not an eighth better for that, the distance goes back, and stays for [`ROUNDS_KEPT`]
//! rounds or until the rate has fallen to less than half: then it is tried again.
//!
//! A device of which no latency is known is not judged. Nor is a disk, but only a server, where
//! windows go by blocks: at a disk of 3 GB/s what eighths bring one by one was 8 % of the rate, and
//! more on its way takes nothing from anybody.
//!
//! # Weaknesses
//!
//! What pays less than an eighth for half as much again is not found.

use super::super::bandwidth_delay::Learnt;
use super::super::settings::{
    FAR_TIMES, LATE_GROWTH_DIVISOR, LEARNT_TIMES, START_REQUESTS, Settings, up,
};
use super::super::{Counts, Feedback};
use super::{Stream, Touch};

/// Times late that make a round.
const ROUND_TIMES: u8 = 4;
/// The rate has to grow by one part in this many.
const GAIN_DIVISOR: u64 = 8;
/// Rounds after which a longer distance is tried again.
const ROUNDS_KEPT: u8 = 16;

/// What is to be done with the distance of a stream that was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It may grow.
    On,
    /// It stays.
    Stop,
    /// It goes back to this.
    Back(u64),
}

/// What growing has brought. See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gain {
    /// Times late in this round.
    times: u8,
    /// The best rate of this round, in bytes for each second, and of the one to compare it with.
    best: u64,
    before: u64,
    /// The distance in the round to compare with.
    distance: u64,
    /// Rounds to go until a longer distance is tried again; 0 while one is tried.
    kept: u8,
}

impl Gain {
    /// The stream is late at this distance, and so many bytes came each second since the last time.
    fn late(&mut self, rate: u64, distance: u64) -> Growth {
        self.best = self.best.max(rate);
        self.times += 1;
        if self.times < ROUND_TIMES {
            return self.so_far();
        }
        let best = std::mem::take(&mut self.best);
        self.times = 0;
        if self.kept > 0 {
            self.kept = match best < self.before / 2 {
                true => 0,
                false => self.kept - 1,
            };
            if self.kept == 0 {
                (self.before, self.distance) = (best, distance);
            }
            return self.so_far();
        }
        if best > self.before.saturating_add(self.before / GAIN_DIVISOR) {
            (self.before, self.distance) = (best, distance);
            return Growth::On;
        }
        self.kept = ROUNDS_KEPT;
        Growth::Back(self.distance)
    }

    fn so_far(self) -> Growth {
        if self.kept > 0 || self.before == 0 {
            Growth::Stop
        } else {
            Growth::On
        }
    }
}

/// The first distance on a device that may need one of `far`; 0 when that is not long.
pub(super) fn first_far(request: u64, far: u64, settings: &Settings) -> u64 {
    let far = far.min(settings.distance_bytes_max);
    if far > settings.distance_bytes_grown() {
        request.saturating_mul(FAR_TIMES).min(far)
    } else {
        0
    }
}

impl Stream {
    /// Takes the parts of the first read for one request, where the device is far.
    pub(super) fn begin_far(&mut self, touch: &Touch, settings: &Settings) {
        let first = first_far(self.ordered, touch.far(), settings);
        self.distance = self.distance.max(up(first, settings.page_bytes));
    }

    /// Grows the distance because read-ahead was late.
    pub(super) fn grow(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        if self.distance >= grown {
            if settings.block_bytes.is_some() && !self.growth_pays(touch, grown, counts) {
                return;
            }
            let longer = self.distance + self.distance / LATE_GROWTH_DIVISOR;
            self.distance = longer.min(settings.distance_bytes_max);
        } else if !self.doubling {
            self.distance = self.distance.saturating_mul(2).min(grown);
        } else {
            return;
        }
        counts.grown += 1;
    }

    /// Whether growing has paid until now, if that can be told. If not, takes back what did not.
    fn growth_pays(&mut self, touch: &Touch, grown: u64, counts: &mut Counts) -> bool {
        let timed = self.pace.zip(touch.latency);
        let rate = timed.and_then(|(pace, latency)| pace.rate(touch.offset, touch.now, latency));
        let Some(rate) = rate else {
            return true;
        };
        match self.gain.late(rate, self.distance) {
            Growth::On => true,
            Growth::Stop => false,
            Growth::Back(distance) => {
                counts.unpaid += 1;
                self.distance = self.distance.min(distance.max(grown));
                false
            }
        }
    }

    /// Grows the distance to what the latency of the device asks for, and lets others learn it. At
    /// no other time: neither is the latency of later ones that of this, nor is to be learnt again
    /// what waste or refused memory has halved.
    pub(super) fn grow_far(
        &mut self,
        touch: &Touch,
        settings: &Settings,
        counts: &mut Counts,
        learnt: &mut Learnt,
    ) {
        let Some((pace, latency)) = self.pace.zip(touch.latency).filter(|_| !self.squeezed) else {
            return;
        };
        let needed = pace.needed(touch.offset, touch.now, latency);
        if needed.is_some_and(|needed| self.widen(needed, FAR_TIMES, settings)) {
            counts.far += 1;
            learnt.learn(self.distance, latency);
        }
    }

    /// Takes the distance to what a far device needs, as far as the stream is proven.
    fn widen(&mut self, needed: u64, times: u64, settings: &Settings) -> bool {
        let allowed = needed.min(self.ordered.saturating_mul(times));
        let distance = up(allowed, settings.page_bytes).min(settings.distance_bytes_max);
        let is_longer = distance > self.distance;
        self.distance = self.distance.max(distance);
        is_longer
    }

    /// The distance of a stream that has not come to what is usual, or to what others have learnt.
    pub(super) fn double(&mut self, learnt: u64, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        let longer = if settings.block_bytes.is_some() {
            // There are many steps to a distance.
            up(
                self.ordered.saturating_mul(START_REQUESTS),
                settings.page_bytes,
            )
        } else {
            self.distance.saturating_mul(2)
        };
        self.distance = self.distance.max(longer.min(grown));
        let learnt = learnt.min(settings.distance_bytes_max);
        if learnt > grown {
            counts.far += u64::from(self.widen(learnt, LEARNT_TIMES, settings));
        }
        self.doubling = self.distance < grown.max(learnt);
    }

    /// What became of bytes that it asked for. True if the distance shrank because of waste.
    pub(in super::super) fn feedback(&mut self, feedback: Feedback, settings: &Settings) -> bool {
        let recent = self.distance.saturating_mul(2);
        match feedback {
            Feedback::Useful { length, .. } => {
                self.judged.useful(length, recent);
                false
            }
            Feedback::Wasted { length, .. } => {
                self.pressed = true;
                let is_too_much = self.judged.wasted(length, self.distance / 2, recent);
                if is_too_much {
                    self.shrink(settings);
                }
                is_too_much
            }
            Feedback::Refused { offset } => {
                self.window_end = self.window_end.min(offset.max(self.position));
                self.marker = self.marker.filter(|marker| *marker < self.window_end);
                self.pressed = true;
                self.shrink(settings);
                false
            }
        }
    }

    pub(super) fn shrink(&mut self, settings: &Settings) {
        self.distance = up(self.distance / 2, settings.page_bytes);
        self.doubling = false;
        self.squeezed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance after so many times late, where a distance brings a rate.
    fn grown(gain: &mut Gain, mut distance: u64, times: u32, rate: impl Fn(u64) -> u64) -> u64 {
        for _ in 0..times {
            match gain.late(rate(distance), distance) {
                Growth::On => distance += distance / 8,
                Growth::Stop => {}
                Growth::Back(before) => distance = before,
            }
        }
        distance
    }

    #[test]
    fn a_distance_grows_as_long_as_the_rate_grows_with_it() {
        let mut gain = Gain::default();
        assert!(grown(&mut gain, 4 << 20, 40, |distance| distance * 20) > 256 << 20);
    }

    #[test]
    fn it_stays_until_it_is_known_what_to_compare_with() {
        let mut gain = Gain::default();
        assert_eq!(grown(&mut gain, 4 << 20, 3, |_| 1 << 30), 4 << 20);
        assert_eq!(gain.late(1 << 30, 4 << 20), Growth::On);
    }

    #[test]
    fn where_it_brings_nothing_it_goes_back_and_is_tried_again_later() {
        let mut gain = Gain::default();
        let most = grown(&mut gain, 4 << 20, 7, |_| 1 << 30);
        assert!((6 << 20..7 << 20).contains(&most), "{most}");
        let once = grown(&mut gain, most, 1, |_| 1 << 30);
        assert_eq!(once, 4 << 20);
        assert_eq!(grown(&mut gain, once, 63, |_| 1 << 30), once);
        let later = grown(&mut gain, once, 1000, |_| 1 << 30);
        assert!((once..7 << 20).contains(&later), "{later}");
        // The rate is limited to what comes of 16 MiB.
        let limited = |distance: u64| (20 * distance).min(20 * (16 << 20));
        let longer = grown(&mut gain, once, 400, limited);
        assert!((14 << 20..40 << 20).contains(&longer), "{longer}");
    }

    #[test]
    fn one_time_that_was_slow_is_no_change_and_four_are() {
        let mut gain = Gain::default();
        let distance = grown(&mut gain, 4 << 20, 8, |_| 1 << 30);
        assert_eq!(gain.late(1, distance), Growth::Stop);
        assert_eq!(grown(&mut gain, distance, 3, |_| 1 << 30), distance);
        assert_eq!(grown(&mut gain, distance, 3, |_| 1 << 20), distance);
        assert_eq!(gain.late(1 << 20, distance), Growth::On);
    }
}
