//! Sending a request's work elsewhere without giving the request away.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use super::{Operation, Outcome, Request};

impl Request {
    /// A request for the same bytes and memory. When it is complete, `then` gets this one back
    /// together with the outcome, and completes it or sends it elsewhere.
    #[must_use]
    pub fn relay(self, then: impl FnOnce(Self, Outcome) + Send + 'static) -> Self {
        let (operation, offset, issuer) = (self.operation, self.offset, self.issuer);
        let (segments, durable) = (self.segments.clone(), self.durable);
        // SAFETY: the memory is ours until `self` is completed. `self` is kept by the new
        // request's completion, which nobody can reach before it is called.
        let mut copy = unsafe {
            Self::new(operation, offset, segments, issuer, move |outcome| {
                then(self, outcome);
            })
        };
        copy.durable = durable;
        copy
    }

    /// `count` requests that write the same memory to the same place, or as many flushes. When
    /// all are complete, `then` gets this one back and the outcomes in order.
    ///
    /// # Panics
    /// When it is a read: several devices may not fill the same memory.
    pub(crate) fn fan_out(
        self,
        count: usize,
        then: impl FnOnce(Self, Vec<Outcome>) + Send + 'static,
    ) -> Vec<Self> {
        assert_ne!(self.operation, Operation::Read, "operation");
        let (operation, offset, issuer) = (self.operation, self.offset, self.issuer);
        let durable = self.durable;
        let segments = self.segments.clone();
        let gathering = Arc::new(Mutex::new(Some(Gathering {
            outcomes: vec![None; count],
            missing: count,
            whole: self,
            then: Box::new(then),
        })));
        let one = |index| {
            let gathering = gathering.clone();
            // SAFETY: the memory is valid and unchanged until `self` is completed. `self` is kept
            // until the last of these requests is complete. A write is only read (`slices`), so
            // several may be on their way.
            let mut copy = unsafe {
                Self::new(
                    operation,
                    offset,
                    segments.clone(),
                    issuer,
                    move |outcome| Gathering::arrive(&gathering, index, outcome),
                )
            };
            copy.durable = durable;
            copy
        };
        (0..count).map(one).collect()
    }
}

type Then = Box<dyn FnOnce(Request, Vec<Outcome>) + Send>;

/// Where the outcomes of the copies meet.
struct Gathering {
    outcomes: Vec<Option<Outcome>>,
    missing: usize,
    whole: Request,
    then: Then,
}

impl Gathering {
    fn arrive(this: &Mutex<Option<Self>>, index: usize, outcome: Outcome) {
        let mut guard = this.lock();
        let Some(gathering) = guard.as_mut() else {
            return;
        };
        if let Some(slot) = gathering.outcomes.get_mut(index) {
            *slot = Some(outcome);
        }
        gathering.missing -= 1;
        if gathering.missing > 0 {
            return;
        }
        let complete = guard.take();
        drop(guard);
        if let Some(complete) = complete {
            let outcomes = complete.outcomes.into_iter().flatten().collect();
            (complete.then)(complete.whole, outcomes);
        }
    }
}
