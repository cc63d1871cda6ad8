//! Calls that wait without a thread.
//!
//! A call for an object that storage holds must neither take a thread, which would be held too,
//! nor be answered "ask again" at once: clients do ask again, hundreds of thousands of times. It
//! waits here until the object is free again, in the order in which calls came, or until it has
//! waited for long enough. What waits is bounded by what each connection may have under way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;

use crate::held::slow::{Kind, Subject};

/// Calls that wait.
pub struct Deferred<J> {
    delay: Duration,
    calls: Mutex<VecDeque<Entry<J>>>,
}

struct Entry<J> {
    job: J,
    subject: Subject,
    kind: Kind,
    until: Instant,
}

impl<J> Deferred<J> {
    /// Calls wait for `delay` at most.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self {
            delay,
            calls: Mutex::default(),
        }
    }

    /// Whether a call that has waited since `since` has waited for long enough.
    #[must_use]
    pub fn is_over(&self, since: Option<Instant>, now: Instant) -> bool {
        since.is_some_and(|since| now.saturating_duration_since(since) >= self.delay)
    }

    /// Has a call wait that began to wait at `since`.
    pub fn defer(&self, job: J, (subject, kind): (Subject, Kind), since: Instant) {
        let until = since + self.delay;
        self.calls.lock().push_back(Entry {
            job,
            subject,
            kind,
            until,
        });
    }

    /// Takes out the calls that have waited for long enough or whose object is free.
    pub fn due(&self, now: Instant, is_held: impl Fn(Subject, Kind) -> bool) -> Vec<J> {
        let mut due = Vec::new();
        let mut stay = VecDeque::new();
        let mut entries = self.calls.lock();
        for call in entries.drain(..) {
            if call.until <= now || !is_held(call.subject, call.kind) {
                due.push(call.job);
            } else {
                stay.push_back(call);
            }
        }
        *entries = stay;
        due
    }

    /// Takes out all.
    pub fn all(&self) -> Vec<J> {
        self.calls.lock().drain(..).map(|call| call.job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_leave_in_order_when_free_or_when_they_have_waited() {
        let deferred = Deferred::new(Duration::from_secs(2));
        let start = Instant::now();
        let second = start + Duration::from_secs(1);
        for (job, object, since) in [
            (1, 10, start),
            (2, 20, start),
            (3, 20, second),
            (4, 10, second),
        ] {
            let subject = Subject { object, export: 0 };
            deferred.defer(job, (subject, Kind::Read), since);
        }
        let is_held = |subject: Subject, _| subject.object == 10;
        assert_eq!(deferred.due(second, is_held), [2, 3]);
        assert!(deferred.due(second, is_held).is_empty());
        let over = start + Duration::from_secs(2);
        assert_eq!(deferred.due(over, is_held), [1]);
        assert!(deferred.is_over(Some(start), over) && !deferred.is_over(Some(second), over));
        assert!(!deferred.is_over(None, over));
        assert_eq!(deferred.all(), [4]);
    }
}
