//! Failures of an export's storage, for status pages. They outlive a change of settings; reading
//! them never waits for storage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pagewell_base::sync::Mutex;

const TEXT_CHARACTERS_MAX: usize = 300;

/// A stalled call counts for this long: clients send it again within.
const STALLED_FOR: Duration = Duration::from_secs(60);

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place, if known, and the error.
    pub text: String,
    /// Its time.
    pub at: SystemTime,
}

/// Of one export.
#[derive(Debug, Default)]
pub struct Faults {
    errors: AtomicU64,
    last: Mutex<Option<Fault>>,
    stalled: Mutex<Option<Instant>>,
}

impl Faults {
    /// Counts a failed call.
    pub fn note(&self, text: &str, at: SystemTime) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let text = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        *self.last.lock() = Some(Fault { text, at });
    }

    /// Notes a stalled call.
    pub fn note_stalled(&self, now: Instant) {
        *self.stalled.lock() = Some(now);
    }

    /// The number of failed calls and the last of them.
    pub fn errors(&self) -> Option<(u64, Fault)> {
        let last = self.last.lock().clone()?;
        Some((self.errors.load(Ordering::Relaxed), last))
    }

    /// Whether a call stalled lately.
    pub fn is_stalled(&self, now: Instant) -> bool {
        let stalled = *self.stalled.lock();
        stalled.is_some_and(|stalled| now.saturating_duration_since(stalled) < STALLED_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_and_the_last_one_is_kept() {
        let faults = Faults::default();
        assert_eq!(faults.errors(), None);
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        faults.note("/a: Input/output error", at(1));
        faults.note(&"b".repeat(1000), at(2));
        let (count, last) = faults.errors().unwrap();
        assert_eq!((count, last.at), (2, at(2)));
        assert_eq!(last.text, "b".repeat(TEXT_CHARACTERS_MAX));
    }

    #[test]
    fn storage_that_held_a_call_is_said_to_for_a_while() {
        let (faults, now) = (Faults::default(), Instant::now());
        assert!(!faults.is_stalled(now));
        faults.note_stalled(now);
        assert!(faults.is_stalled(now) && faults.is_stalled(now + STALLED_FOR / 2));
        assert!(!faults.is_stalled(now + STALLED_FOR));
    }
}
