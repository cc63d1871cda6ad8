//! What is known of a changed object beside its bytes.

use std::time::SystemTime;

use pagewell_base::spans::{Span, Spans};

/// The version that a change is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Entity tag, as the server gave it.
    pub etag: Option<String>,
    /// Last change, as the server says.
    pub last_modified: Option<SystemTime>,
    /// Bytes.
    pub length_bytes: u64,
}

/// How to make an object from what is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the object.
    pub key: String,
    /// The version that the object must still have; `None`: it must not exist.
    pub base: Option<Base>,
    /// So many first bytes of the base stay where nothing is dirty; the rest is zeros.
    pub base_bytes: u64,
    /// Of the object.
    pub length_bytes: u64,
    /// Staged bytes, ascending, without overlap.
    pub dirty: Vec<Span>,
    /// Names and values.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// For the object's metadata, so that its maker knows it again.
    pub token: String,
    /// When the bytes became durable.
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
