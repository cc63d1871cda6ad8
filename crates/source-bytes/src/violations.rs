//! Departures from a format that a reader survived, for a check of an image.
//!
//! Pieces leave memory and are parsed again; the same finding is kept once. Behind
//! [`VIOLATIONS_MAX`] they are only counted, each time.
//!
//! ```text
//! record ──┐
//! tag ─────┼─ note(offset, clause, text) ──> by offset ──> check: one line each
//! extent ──┘
//! ```

use std::collections::BTreeSet;
use std::fmt::Display;

use pagewell_base::line::one_line;
use pagewell_base::sync::Mutex;

/// More than a person reads, in some 100 KB.
pub const VIOLATIONS_MAX: usize = 1000;

/// One departure, in the order of the image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// First byte of the structure.
    pub offset: u64,
    /// Document and clause, such as `ECMA-119 9.1.1`.
    pub clause: &'static str,
    /// One line: what is there, and what it was taken for.
    pub text: String,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Violations {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    kept: BTreeSet<Violation>,
    others: u64,
}

impl Violations {
    /// Notes a departure; escapes control characters.
    pub fn note(&self, offset: u64, clause: &'static str, text: impl Display) {
        let text = one_line(&text.to_string());
        let violation = Violation {
            offset,
            clause,
            text,
        };
        let mut found = self.found.lock();
        if found.kept.len() < VIOLATIONS_MAX {
            found.kept.insert(violation);
        } else if !found.kept.contains(&violation) {
            found.others += 1;
        }
    }

    /// Those kept, by offset, and how often others were found.
    #[must_use]
    pub fn list(&self) -> (Vec<Violation>, u64) {
        let found = self.found.lock();
        (found.kept.iter().cloned().collect(), found.others)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.lock().kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_once_and_in_the_order_of_the_image() {
        let violations = Violations::default();
        assert!(violations.is_empty());
        for _ in 0..3 {
            violations.note(4096, "ECMA-119 9.1.1", "a record of 33 bytes");
            violations.note(2048, "SUSP 5.1", format_args!("an area\nof {}", 7));
        }
        assert!(!violations.is_empty());
        let (kept, others) = violations.list();
        let shown: Vec<_> = kept
            .iter()
            .map(|found| (found.offset, found.clause, found.text.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (2048, "SUSP 5.1", "an area\\nof 7"),
                (4096, "ECMA-119 9.1.1", "a record of 33 bytes"),
            ]
        );
        assert_eq!(others, 0);
    }

    #[test]
    fn their_number_is_bounded() {
        let violations = Violations::default();
        let note = |offset| violations.note(offset, "clause", "text");
        (0..VIOLATIONS_MAX as u64 + 5).for_each(note);
        note(0);
        let (kept, others) = violations.list();
        assert_eq!((kept.len(), others), (VIOLATIONS_MAX, 5));
    }
}
