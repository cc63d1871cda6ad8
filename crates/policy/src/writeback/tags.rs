//! Tag-then-write: everything that is dirty *now*.
//!
//! A tag holds the bytes that were dirty when it was set, and the writes that were under way. A
//! write that takes tagged bytes along joins the writes that are waited for. So every byte is
//! waited for once, whatever its writer does meanwhile, and a commit ends. A byte that was both
//! dirty and under write-out is waited for twice: its newer content needs a write of its own.
//!
//! A failure does not keep a tag waiting: the bytes were tried, the tag will say that they failed,
//! and they are tried again for their own sake.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pagewell_base::spans::{Span, Spans};

use super::{Counts, Extent, Tag, TagState, WriteBack, WriteId};

/// What one tag waits for.
#[derive(Debug)]
pub(super) struct Tagged {
    /// Not handed out yet; always dirty.
    pub(super) todo: Spans,
    waits: BTreeSet<WriteId>,
    failed: bool,
}

impl Tagged {
    fn is_ended(&self) -> bool {
        self.todo.is_empty() && self.waits.is_empty()
    }
}

/// All tags.
#[derive(Debug, Default)]
pub(super) struct Tags {
    pub(super) pending: BTreeMap<Tag, Tagged>,
    ended: BTreeMap<Tag, bool>,
    next: u64,
    /// Whose turn it was.
    pub(super) last: Option<Tag>,
    /// Bytes handed out for tags since others had their turn.
    pub(super) bytes_in_row: u64,
}

impl Tags {
    /// A write begins; it takes tagged bytes along.
    pub(super) fn begin(&mut self, id: WriteId, start: u64, end: u64) {
        for tagged in self.pending.values_mut() {
            if !tagged.todo.take(start, end).is_empty() {
                tagged.waits.insert(id);
            }
        }
    }

    /// A write ended.
    pub(super) fn end(&mut self, id: WriteId, written: bool, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            if tagged.waits.remove(&id) {
                tagged.failed |= !written;
            }
        }
        self.settle(counts);
    }

    /// Nothing is wanted any more.
    pub(super) fn forget(&mut self, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            tagged.todo.clear();
            tagged.waits.clear();
            tagged.failed = true;
        }
        self.settle(counts);
    }

    /// Bytes are not wanted any more.
    pub(super) fn discard(&mut self, start: u64, end: u64, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            tagged.todo.take(start, end);
        }
        self.settle(counts);
    }

    /// A write will not go; these bytes of it are to be handed out again.
    pub(super) fn put_back(&mut self, id: WriteId, parts: &[Span], counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            if tagged.waits.remove(&id) {
                for &(start, end) in parts {
                    tagged.todo.insert(start, end);
                }
            }
        }
        self.settle(counts);
    }

    fn settle(&mut self, counts: &mut Counts) {
        let ended = self.pending.extract_if(.., |_, tagged| tagged.is_ended());
        for (tag, tagged) in ended {
            self.ended.insert(tag, !tagged.failed);
            counts.tags_written += u64::from(!tagged.failed);
            counts.tags_failed += u64::from(tagged.failed);
        }
    }
}

impl WriteBack {
    /// Asks for everything of a range that is dirty or under write-out now; what comes later does
    /// not count. The bytes are handed out by [`WriteBack::next`] before all others, without
    /// waiting for the end of a pause after a failure.
    ///
    /// It is kept until [`WriteBack::tag_state`] told its end, or [`WriteBack::untag`].
    pub fn tag(&mut self, extent: Extent, now: Duration) -> Tag {
        self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        let tag = Tag(self.tags.next);
        self.tags.next += 1;
        self.counts.tags += 1;
        let mut tagged = Tagged {
            todo: Spans::default(),
            waits: BTreeSet::new(),
            failed: false,
        };
        for (from, to) in self.bytes.dirty.within(start, end) {
            tagged.todo.insert(from, to);
        }
        let flying = self.bytes.wanted(start, end);
        tagged.waits = flying.map(|(_, flight)| flight.id).collect();
        if tagged.is_ended() {
            self.counts.tags_written += 1;
            self.tags.ended.insert(tag, true);
            return tag;
        }
        self.tags.pending.insert(tag, tagged);
        tag
    }

    /// Forgets a tag that no commit waits for any more. Its bytes are written in their own time.
    pub fn untag(&mut self, tag: Tag) {
        self.tags.pending.remove(&tag);
        self.tags.ended.remove(&tag);
        self.leave_place();
    }

    /// Bytes of a tag that were not handed out yet, and writes that it waits for.
    #[must_use]
    pub fn tag_left(&self, tag: Tag) -> (u64, usize) {
        let tagged = self.tags.pending.get(&tag);
        tagged.map_or((0, 0), |tagged| (tagged.todo.bytes(), tagged.waits.len()))
    }

    /// When the oldest of the writes that a tag waits for was handed out.
    #[must_use]
    pub fn tag_waits_since(&self, tag: Tag) -> Option<Duration> {
        // Names ascend with time.
        let oldest = self.tags.pending.get(&tag)?.waits.first()?;
        self.flight(*oldest).map(|flight| flight.began)
    }

    /// How far a tag is. A tag whose end was told is forgotten.
    pub fn tag_state(&mut self, tag: Tag) -> TagState {
        if self.tags.pending.contains_key(&tag) {
            return TagState::Pending;
        }
        match self.tags.ended.remove(&tag) {
            Some(true) => TagState::Written,
            Some(false) | None => TagState::Failed,
        }
    }
}
