//! What has to be said once and must not be lost.

use std::sync::Once;

use pagewell_base::line::say;

/// Writes `pagewell: warning: TEXT` to standard error, as one line, the first time.
pub(crate) fn warn_once(once: &Once, text: &str) {
    once.call_once(|| say(&format!("warning: {text}")));
}
