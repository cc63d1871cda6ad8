//! How much of what read-ahead fetched was not read yet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that read-ahead fetched and that nobody has read.
#[derive(Default)]
pub(crate) struct Unread(AtomicU64);

impl Unread {
    pub(super) fn add(&self, pages: u64) {
        self.0.fetch_add(pages, Ordering::Relaxed);
    }

    /// They were read, or are gone.
    pub(crate) fn remove(&self, pages: u64) {
        let before = self.0.fetch_sub(pages, Ordering::Relaxed);
        // The budget of read-ahead is what is left.
        assert!(before >= pages, "{pages} of {before} unread pages");
    }

    pub(super) fn pages(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
