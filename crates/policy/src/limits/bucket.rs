//! What one client may have: a token bucket, as the generic cell rate algorithm (ITU-T I.371).
//!
//! A payment moves the time at which everything is paid on by its cost at the rate. What is ahead
//! of now is debt; [`BURST`] of it is allowed.

use std::num::NonZeroU64;
use std::time::Duration;

use super::{BURST, duration, nanoseconds};

const SECOND: u128 = 1_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Bucket {
    paid_at: Duration,
    /// Part of a nanosecond, times the rate, for the next payment.
    rest: u128,
}

impl Bucket {
    /// Pays `amount` at `rate` a second. Returns when the next payment may begin.
    pub fn charge(&mut self, now: Duration, rate: NonZeroU64, amount: u64) -> Duration {
        if self.paid_at < now {
            (self.paid_at, self.rest) = (now, 0);
        }
        let rate = u128::from(rate.get());
        let owed = u128::from(amount) * SECOND + self.rest.min(rate);
        self.paid_at = self.paid_at.saturating_add(duration(owed / rate));
        self.rest = owed % rate;
        self.next_at()
    }

    /// When the next payment may begin.
    #[must_use]
    pub fn next_at(&self) -> Duration {
        self.paid_at.saturating_sub(BURST)
    }

    /// Gives `amount` back. Returns its time.
    pub fn refund(&mut self, now: Duration, rate: NonZeroU64, amount: u64) -> Duration {
        let back = duration(u128::from(amount) * SECOND / u128::from(rate.get()));
        let before = self.paid_at;
        self.paid_at = before.saturating_sub(back).max(now.min(before));
        back
    }

    /// Whether something is not paid.
    #[must_use]
    pub fn is_in_debt(&self, now: Duration) -> bool {
        nanoseconds(self.paid_at) > nanoseconds(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(number: u64) -> NonZeroU64 {
        NonZeroU64::new(number).unwrap()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let (mut bucket, start) = (Bucket::default(), Duration::from_secs(1));
        let mut ends = (0..12).map(|_| bucket.charge(start, rate(100), 1));
        let at_once = ends.by_ref().take(10).filter(|end| *end <= start);
        assert_eq!(at_once.count(), 10, "a tenth of a second's worth");
        let tenth = Duration::from_millis(10);
        assert_eq!(ends.next(), Some(start + tenth));
        assert_eq!(ends.next(), Some(start + 2 * tenth));
    }

    #[test]
    fn what_is_no_whole_nanosecond_is_not_lost() {
        let (mut bucket, mut end) = (Bucket::default(), Duration::ZERO);
        for _ in 0..700_000_000_u64 / 100 {
            end = bucket.charge(Duration::ZERO, rate(7_000_000_000), 100);
        }
        assert_eq!(end + BURST, BURST.max(Duration::from_millis(100)));
    }

    #[test]
    fn a_refund_is_what_was_paid_and_never_credit() {
        let (mut bucket, start) = (Bucket::default(), Duration::from_secs(5));
        bucket.charge(start, rate(1000), 3000);
        bucket.refund(start, rate(1000), 1000);
        let end = bucket.charge(start, rate(1000), 0);
        assert_eq!(end + BURST, start + Duration::from_secs(2));
        bucket.refund(start, rate(1000), u64::MAX);
        assert!(!bucket.is_in_debt(start));
        assert_eq!(bucket.charge(start, rate(1000), 100), start, "no credit");
        bucket.refund(start + BURST * 2, rate(1000), 1);
        assert!(!bucket.is_in_debt(start + BURST));
    }
}
