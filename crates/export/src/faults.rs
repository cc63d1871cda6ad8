//! What went wrong with an export while it was served: for those that look at a page, not at a log.
//!
//! Kept as long as the export is, over changes of its settings. Reading it never waits for storage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use pagewell_base::sync::Mutex;

/// The longest text of a fault that is kept, in characters.
const TEXT_CHARACTERS_MAX: usize = 300;

/// For how long after a call that storage held it is said that storage does not answer: as long as
/// a client takes to send such a call again.
const HELD_FOR: Duration = Duration::from_secs(60);

/// The last thing that storage failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was, if that is known, and what.
    pub text: String,
    /// When.
    pub at: SystemTime,
}

/// Those of one export.
#[derive(Debug, Default)]
pub struct Faults {
    errors: AtomicU64,
    last: Mutex<Option<Fault>>,
    held: Mutex<Option<Instant>>,
}

impl Faults {
    /// Storage failed a call.
    pub fn note(&self, text: &str, at: SystemTime) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let text = text.chars().take(TEXT_CHARACTERS_MAX).collect();
        *self.last.lock() = Some(Fault { text, at });
    }

    /// Storage has held a call for too long.
    pub fn note_held(&self, now: Instant) {
        *self.held.lock() = Some(now);
    }

    /// How many calls storage has failed, and the last of them.
    pub fn errors(&self) -> Option<(u64, Fault)> {
        let last = self.last.lock().clone()?;
        Some((self.errors.load(Ordering::Relaxed), last))
    }

    /// Whether storage has held a call lately.
    pub fn is_held(&self, now: Instant) -> bool {
        let held = *self.held.lock();
        held.is_some_and(|held| now.saturating_duration_since(held) < HELD_FOR)
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
        assert!(!faults.is_held(now));
        faults.note_held(now);
        assert!(faults.is_held(now) && faults.is_held(now + HELD_FOR / 2));
        assert!(!faults.is_held(now + HELD_FOR));
    }
}
