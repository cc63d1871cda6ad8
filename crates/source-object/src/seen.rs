//! The version of a file that the remote had when it was asked last.

use std::sync::Arc;
use std::time::Instant;

use pagewell_object_client::{Metadata, Version};

use super::shown::Known;

pub(super) struct Seen {
    pub version: Version,
    pub at: Instant,
    /// What its metadata says, if that was asked for.
    pub known: Option<Arc<Known>>,
}

impl Seen {
    pub(super) fn now(version: &Version, metadata: Option<Metadata>) -> Self {
        Self {
            version: version.clone(),
            at: Instant::now(),
            known: metadata.map(Known::new),
        }
    }

    /// What is known once this version was there at `at`, with this metadata if it was asked for.
    pub(super) fn after(
        before: Option<Self>,
        version: &Version,
        metadata: Option<Metadata>,
        at: Instant,
    ) -> Self {
        let before = before.filter(|before| before.version.is_same(version));
        let known = metadata.map(Known::new).or_else(|| {
            // Metadata changes without the tag, but not without the time, which is unknown of what
            // was made here.
            let before = before.as_ref()?;
            let time = before.version.last_modified;
            let is_as_old = time.is_none() || time == version.last_modified;
            before.known.clone().filter(|_| is_as_old)
        });
        // A listing may know less of the same version.
        let before = before.filter(|_| version.is_weak());
        Self {
            version: before.map_or_else(|| version.clone(), |before| before.version),
            at,
            known,
        }
    }

    pub(super) fn learn(&mut self, version: &Version, metadata: &Metadata) {
        if self.version.is_same(version) {
            self.known = Some(Known::new(metadata.clone()));
        }
    }
}
