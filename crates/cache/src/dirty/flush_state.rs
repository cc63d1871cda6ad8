//! A flush of a device, as those see it that wait for it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pagewell_base::spans::Spans;
use pagewell_device::Error as DeviceError;

/// How a flush ended, for all that wait for it.
#[derive(Default)]
pub(crate) struct Flush(OnceLock<Result<(), DeviceError>>);

impl Flush {
    pub(crate) fn end(&self, result: Result<(), DeviceError>) {
        let is_first = self.0.set(result).is_ok();
        // To those that it covers it may have been reported already.
        assert!(is_first, "a flush ended twice");
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.get().is_some()
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<DeviceError> {
        self.0.get()?.clone().err()
    }
}

/// A flush at the device.
pub(crate) struct Flushing {
    pub(crate) flush: Arc<Flush>,
    /// What it covers.
    pub(crate) spans: Spans,
    pub(crate) number: u64,
    pub(crate) since: Instant,
    pub(crate) answer: Option<Result<(), DeviceError>>,
}

impl Flushing {
    pub(crate) fn new(flush: Arc<Flush>, spans: Spans, number: u64) -> Self {
        Self {
            flush,
            spans,
            number,
            since: Instant::now(),
            answer: None,
        }
    }
}
