//! Tag-then-write: everything that is dirty *now*.
//!
//! A tag holds the bytes that were dirty when it was set, and the writes under way. A write that
//! takes tagged bytes along joins those. So each byte is waited for once, and a commit ends. A
//! failed write ends the wait: the tag reports it.

use std::collections::{BTreeMap, BTreeSet};

use pagewell_base::spans::{Span, Spans};

use super::dirty_map::DirtyMap;
use super::share::TAG_WRITES;
use super::{Counts, Tag, TagState, WriteId};

#[derive(Debug)]
struct Tagged {
    /// Not handed out; always dirty.
    todo: Spans,
    waits: BTreeSet<WriteId>,
    failed: bool,
}

impl Tagged {
    fn is_ended(&self) -> bool {
        self.todo.is_empty() && self.waits.is_empty()
    }

    fn next(&self, map: &DirtyMap) -> Option<Span> {
        let mut todo = self.todo.iter();
        todo.find_map(|(start, end)| map.candidate(start, end))
    }
}

#[derive(Debug, Default)]
pub(super) struct Tags {
    pending: BTreeMap<Tag, Tagged>,
    ended: BTreeMap<Tag, bool>,
    next: u64,
    last: Option<Tag>,
    /// For tags, since others had their turn.
    bytes_in_row: u64,
}

impl Tags {
    pub(super) fn set(
        &mut self,
        (todo, waits): (Spans, BTreeSet<WriteId>),
        counts: &mut Counts,
    ) -> Tag {
        let tag = Tag(self.next);
        self.next += 1;
        counts.tags += 1;
        let tagged = Tagged {
            todo,
            waits,
            failed: false,
        };
        if tagged.is_ended() {
            counts.tags_written += 1;
            self.ended.insert(tag, true);
        } else {
            self.pending.insert(tag, tagged);
        }
        tag
    }

    pub(super) fn remove(&mut self, tag: Tag) {
        self.pending.remove(&tag);
        self.ended.remove(&tag);
    }

    pub(super) fn left(&self, tag: Tag) -> (u64, usize) {
        let tagged = self.pending.get(&tag);
        tagged.map_or((0, 0), |tagged| (tagged.todo.bytes(), tagged.waits.len()))
    }

    pub(super) fn oldest_write(&self, tag: Tag) -> Option<WriteId> {
        // Names ascend with time.
        self.pending.get(&tag)?.waits.first().copied()
    }

    /// Forgets a tag whose end it reports.
    pub(super) fn state(&mut self, tag: Tag) -> TagState {
        if self.pending.contains_key(&tag) {
            return TagState::Pending;
        }
        match self.ended.remove(&tag) {
            Some(true) => TagState::Written,
            Some(false) | None => TagState::Failed,
        }
    }

    pub(super) fn has_next(&self, map: &DirtyMap) -> bool {
        let mut pending = self.pending.values();
        pending.any(|tagged| tagged.next(map).is_some())
    }

    /// What to write next for a tag; the tags take turns.
    pub(super) fn choose(&mut self, map: &DirtyMap, bytes_max: u64) -> Option<Span> {
        let pending = &self.pending;
        let after = self.last.map_or(0, |tag| tag.0.saturating_add(1));
        let (tag, (start, end)) = pending
            .range(Tag(after)..)
            .chain(pending.range(..Tag(after)))
            .find_map(|(&tag, tagged)| Some((tag, tagged.next(map)?)))?;
        self.last = Some(tag);
        let end = end.min(start.saturating_add(bytes_max));
        self.bytes_in_row = self.bytes_in_row.saturating_add(end - start);
        Some((start, end))
    }

    /// Whether bytes without a tag have their turn; says so once.
    pub(super) fn take_turn(&mut self, cluster_bytes: u64) -> bool {
        let is_turn = self.bytes_in_row >= cluster_bytes.saturating_mul(TAG_WRITES);
        if is_turn {
            self.bytes_in_row = 0;
        }
        is_turn
    }

    pub(super) fn begin(&mut self, id: WriteId, start: u64, end: u64) {
        for tagged in self.pending.values_mut() {
            if !tagged.todo.take(start, end).is_empty() {
                tagged.waits.insert(id);
            }
        }
    }

    pub(super) fn end(&mut self, id: WriteId, written: bool, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            if tagged.waits.remove(&id) {
                tagged.failed |= !written;
            }
        }
        self.settle(counts);
    }

    pub(super) fn forget(&mut self, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            tagged.todo.clear();
            tagged.waits.clear();
            tagged.failed = true;
        }
        self.settle(counts);
    }

    pub(super) fn discard(&mut self, start: u64, end: u64, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            tagged.todo.take(start, end);
        }
        self.settle(counts);
    }

    /// A write will not go; its `parts` are handed out again.
    pub(super) fn put_back(&mut self, id: WriteId, parts: &Spans, counts: &mut Counts) {
        for tagged in self.pending.values_mut() {
            if tagged.waits.remove(&id) {
                for (start, end) in parts.iter() {
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
