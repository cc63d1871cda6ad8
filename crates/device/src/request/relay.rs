//! Sending a request's work elsewhere without giving the request away.

use super::gather::gather;
use super::{Operation, Outcome, Request};

impl Request {
    /// A request for the same bytes and memory, without a completion. The caller gives it one that
    /// keeps `self`: the memory is ours until `self` is completed.
    fn copy(&self) -> Self {
        Self {
            operation: self.operation,
            offset: self.offset,
            issuer: self.issuer,
            segments: self.segments.clone(),
            length: self.length,
            durable: self.durable,
            completion: None,
        }
    }

    /// A request for the same bytes and memory. When it is complete, `then` gets this one back
    /// together with the outcome, and completes it or sends it elsewhere.
    #[must_use]
    pub fn relay(self, then: impl FnOnce(Self, Outcome) + Send + 'static) -> Self {
        let mut copy = self.copy();
        // Nobody can reach `self` before this is called.
        copy.completion = Some(Box::new(move |outcome| then(self, outcome)));
        copy
    }

    /// `count` requests that write the same memory to the same place, or as many flushes; at least
    /// one. When all are complete, `then` gets this one back and the outcomes in order.
    ///
    /// # Panics
    /// When it is a read: several devices may not fill the same memory.
    pub(crate) fn fan_out(
        self,
        count: usize,
        then: impl FnOnce(Self, Vec<Outcome>) + Send + 'static,
    ) -> Vec<Self> {
        assert_ne!(self.operation, Operation::Read, "operation");
        let mut copies: Vec<_> = (0..count).map(|_| self.copy()).collect();
        // `self` is kept until the last of them is complete. A write is only read (`slices`), so
        // several may be on their way.
        let completions = gather(count, move |outcomes| then(self, outcomes));
        for (copy, completion) in copies.iter_mut().zip(completions) {
            copy.completion = Some(completion);
        }
        copies
    }
}
