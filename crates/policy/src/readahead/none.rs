//! No read-ahead: the baseline that every other policy is measured against.

use super::{Access, AccessKind, Counts, Feedback, Plan, ReadAhead};

/// Never asks for anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReadAhead {
    counts: Counts,
}

impl NoReadAhead {
    /// A new one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl ReadAhead for NoReadAhead {
    fn access(&mut self, access: &Access) -> Plan {
        self.counts.random += 1;
        self.counts.late += u64::from(access.kind == AccessKind::Late);
        Plan::default()
    }

    fn feedback(&mut self, feedback: Feedback) {
        self.counts.feedback(feedback);
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn nothing_is_ever_asked_for() {
        let mut none = NoReadAhead::new();
        for step in 0..100 {
            let access = Access {
                offset: step * 8192,
                length: 8192,
                kind: AccessKind::Miss,
                budget_bytes: u64::MAX,
                now: Duration::from_millis(step),
                bounds: None,
                latency: None,
            };
            assert_eq!(none.access(&access), Plan::default());
        }
        assert_eq!((none.counts().random, none.counts().plans), (100, 0));
    }
}
