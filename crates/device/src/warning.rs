//! What has to be said once and must not be lost.

use std::sync::Once;

/// Writes `text` to the log, the first time.
pub(crate) fn warn_once(once: &Once, text: &str) {
    once.call_once(|| tracing::warn!("{text}"));
}
