//! Warnings, logged once.

use std::sync::Once;

pub(crate) fn warn_once(once: &Once, text: &str) {
    once.call_once(|| tracing::warn!("{text}"));
}
