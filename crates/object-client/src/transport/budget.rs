//! How long a call tries again: one budget of time for all tries, and pauses with full jitter.
//!
//! The pause before try n is drawn from 0 to 100 ms times 2^n, at most 8 s; a `Retry-After` of the
//! server comes first. A pause past the budget's end ends the call at once. Progress renews the
//! budget.

use std::time::Duration;

use pagewell_base::mix::Random;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Budget {
    limit: Duration,
    deadline: Instant,
    tries: u32,
    random: Random,
}

impl Budget {
    pub(crate) fn new(limit: Duration, seed: u64, now: Instant) -> Self {
        Self {
            limit,
            deadline: now + limit,
            tries: 0,
            random: Random(seed),
        }
    }

    pub(crate) fn renew(&mut self, now: Instant) {
        self.deadline = now + self.limit;
        self.tries = 0;
    }

    pub(crate) fn used(&self, now: Instant) -> Duration {
        self.limit - self.deadline.saturating_duration_since(now).min(self.limit)
    }

    /// The pause before the next try; `None`: there is no other.
    pub(crate) fn pause(
        &mut self,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let range = FIRST.saturating_mul(1 << self.tries.min(16)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        let milliseconds = u64::try_from(range.as_millis()).unwrap_or(u64::MAX);
        let drawn = Duration::from_millis(self.random.below(milliseconds + 1));
        let pause = match retry_after {
            // Clients that wait for the same end come back apart.
            Some(wanted) => wanted.checked_add(drawn / 4)?,
            None => drawn,
        };
        (now.checked_add(pause)? <= self.deadline).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end_with_the_budget() {
        let mut now = Instant::now();
        let mut budget = Budget::new(Duration::from_secs(60), 7, now);
        let end = now + Duration::from_secs(60);
        let mut pauses = Vec::new();
        while let Some(pause) = budget.pause(None, now) {
            assert!(pause <= LONGEST);
            pauses.push(pause);
            now += pause;
            assert!(pauses.len() < 10_000);
        }
        assert!(now <= end && end - now < LONGEST);
        assert!(pauses.len() > 8, "{pauses:?}");
        assert!(pauses[0] <= FIRST);
        assert!(pauses.iter().any(|pause| *pause > Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_says_when() {
        let now = Instant::now();
        let mut budget = Budget::new(Duration::from_secs(10), 7, now);
        let pause = budget
            .pause(Some(Duration::from_secs(5)), now)
            .expect("time");
        assert!(pause >= Duration::from_secs(5) && pause < Duration::from_secs(6));
        assert_eq!(budget.pause(Some(Duration::from_secs(11)), now), None);
        assert_eq!(budget.pause(Some(Duration::MAX), now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_renews() {
        let now = Instant::now();
        let mut budget = Budget::new(Duration::from_secs(1), 7, now);
        let late = now + Duration::from_secs(2);
        assert_eq!(budget.pause(None, late), None);
        assert_eq!(budget.used(late), Duration::from_secs(1));
        budget.renew(late);
        assert_eq!(budget.used(late), Duration::ZERO);
        assert!(budget.pause(None, late).is_some());
    }
}
