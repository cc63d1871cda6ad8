//! Warnings that are logged once.

use std::sync::Once;

/// Logs `text`, the first time.
pub(crate) fn warn_once(once: &Once, text: &str) {
    once.call_once(|| tracing::warn!("{text}"));
}
