//! Calling completions from threads that others depend on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pagewell_counters::names::DEVICE_COMPLETION_PANICS;

use crate::{Outcome, Request};

/// Completes the request. A completion that panics must not end a thread which carries the
/// requests of others: the panic is reported by its hook, counted, and goes no further.
pub(crate) fn complete(request: Request, outcome: Outcome) {
    // The request is gone afterwards; nothing that could be half changed is left here.
    if catch_unwind(AssertUnwindSafe(|| request.complete(outcome))).is_err() {
        DEVICE_COMPLETION_PANICS.add(1);
    }
}
