//! What is known of a changed object beside its bytes.

use std::time::SystemTime;

use pagewell_base::spans::{Span, Spans};

/// The version that a change is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The entity tag as the server gave it.
    pub etag: Option<String>,
    /// When the server says it was changed.
    pub last_modified: Option<SystemTime>,
    /// How many bytes it has.
    pub length_bytes: u64,
}

/// How an object is to be made from what is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key of the object.
    pub key: String,
    /// The version that the object must still have; without one it must not exist.
    pub base: Option<Base>,
    /// The first bytes of the base, as many, are part of the object where they are not dirty;
    /// other bytes that are not dirty are zeros.
    pub base_bytes: u64,
    /// How many bytes the object gets.
    pub length_bytes: u64,
    /// The bytes that are staged, ascending, without overlap.
    pub dirty: Vec<Span>,
    /// The metadata that the object gets: names and values.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// Is written into the metadata of the object, so that its maker knows it again.
    pub token: String,
    /// When the bytes were made durable.
    pub journaled_at: SystemTime,
}

impl Record {
    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let base_length = self.base.as_ref().map_or(0, |base| base.length_bytes);
        if self.base_bytes > base_length {
            return Some("takes more bytes of its base than that has");
        }
        let mut end = 0;
        for &(from, to) in &self.dirty {
            if from < end || from >= to {
                return Some("has dirty bytes that are not in order");
            }
            end = to;
        }
        (end > self.length_bytes).then_some("has dirty bytes behind its end")
    }

    /// The dirty bytes.
    pub(crate) fn dirty_spans(&self) -> Spans {
        let mut spans = Spans::default();
        for &(start, end) in &self.dirty {
            spans.insert(start, end);
        }
        spans
    }
}
