//! Keeps clients from filling the log.
//!
//! For each call site [`LINES_MAX`] lines are written in a [`PERIOD`], at most
//! [`LINES_OF_SUBJECT_MAX`] about one subject; the next line says how many were hidden. Only
//! subjects with a written line are kept.
//!
//! Weakness: more than [`LINES_MAX`] subjects in a period hide later ones, which only counters
//! show.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Lines of a call site in a period.
pub const LINES_MAX: usize = 30;
/// Lines about one subject.
pub const LINES_OF_SUBJECT_MAX: u32 = 10;
/// Begins with the first line.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Subjects are addresses and export names; longer ones are cut.
const SUBJECT_BYTES_MAX: usize = 256;

/// The lines of a call site.
struct Period {
    began: Instant,
    lines: usize,
    /// Hidden lines since the last written one.
    hidden: u64,
    by_subject: HashMap<String, u32>,
}

/// The lines of all call sites, by key.
pub struct Limiter<K>(HashMap<K, Period>);

impl<K> Default for Limiter<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Limiter<K> {
    /// Whether to write a line about `subject`: the number of hidden lines before it, or `None`.
    pub fn admit(&mut self, kind: K, subject: &str, now: Instant) -> Option<u64> {
        let period = self.0.entry(kind).or_insert_with(|| Period {
            began: now,
            lines: 0,
            hidden: 0,
            by_subject: HashMap::new(),
        });
        if now.saturating_duration_since(period.began) >= PERIOD {
            period.began = now;
            period.lines = 0;
            period.by_subject = HashMap::new();
        }
        let end = subject.floor_char_boundary(SUBJECT_BYTES_MAX);
        let subject = &subject[..end];
        let of_subject = period.by_subject.get(subject).copied().unwrap_or(0);
        if period.lines >= LINES_MAX || of_subject >= LINES_OF_SUBJECT_MAX {
            period.hidden += 1;
            return None;
        }
        period.lines += 1;
        period.by_subject.insert(subject.to_owned(), of_subject + 1);
        Some(std::mem::take(&mut period.hidden))
    }

    #[cfg(test)]
    fn subjects(&self) -> usize {
        self.0.values().map(|period| period.by_subject.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_subject_does_not_fill_the_log() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let mut admit = |subject: &str, now| limiter.admit("refused", subject, now);
        let shown = (0..1000).filter(|_| admit("a", start).is_some()).count();
        assert_eq!(shown, LINES_OF_SUBJECT_MAX as usize);
        assert_eq!(admit("b", start), Some(990), "another one has lines left");
        assert_eq!(admit("b", start), Some(0));
        assert_eq!(admit("a", start), None);
        assert_eq!(admit("a", start + PERIOD), Some(1));
    }

    #[test]
    fn a_million_clients_take_no_memory() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let shown = (0..1_000_000_u32)
            .filter(|client| {
                limiter
                    .admit("refused", &client.to_string(), start)
                    .is_some()
            })
            .count();
        assert_eq!(shown, LINES_MAX);
        assert_eq!(limiter.subjects(), LINES_MAX);
        assert_eq!(
            limiter.admit("storage", "/srv", start),
            Some(0),
            "another kind"
        );
        let later = start + PERIOD;
        let hidden = 1_000_000 - LINES_MAX as u64;
        assert_eq!(limiter.admit("refused", "late", later), Some(hidden));
        assert_eq!(limiter.subjects(), 2);
    }

    #[test]
    fn long_subjects_are_cut() {
        let mut limiter = Limiter::default();
        let long = "ä".repeat(10_000);
        limiter.admit("refused", &long, Instant::now());
        let kept = limiter.0["refused"].by_subject.keys().next().unwrap();
        assert!(kept.len() <= SUBJECT_BYTES_MAX && kept.len() > SUBJECT_BYTES_MAX - 2);
    }
}
