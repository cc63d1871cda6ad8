//! Does a longer distance pay?
//!
//! # Problem
//!
//! A stream whose device is slower than its reader is late each time, however far ahead it is. If
//! it grows by an eighth for each of them it ends at the most there is, and nobody reads faster:
//! all that is on its way stands in a queue. That takes memory, and a server's buffers, which were
//! in its processor's cache, no longer are: nfs-ganesha took 1.8 times the processor time for the
//! same bytes with 20 MiB on their way instead of 4.
//!
//! # Rule
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

/// Times late that make a round.
const ROUND_TIMES: u8 = 4;
/// The rate has to grow by one part in this many.
const GAIN_DIVISOR: u64 = 8;
/// Rounds after which a longer distance is tried again.
const ROUNDS_KEPT: u8 = 16;

/// What is to be done with the distance of a stream that was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
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
    pub(super) fn late(&mut self, rate: u64, distance: u64) -> Growth {
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
