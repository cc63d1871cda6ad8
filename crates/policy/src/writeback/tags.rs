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

use super::{Extent, FileNumber, Tag, TagState, WriteBack, WriteId};

/// What one tag waits for.
#[derive(Debug)]
pub(super) struct Tagged {
    pub(super) file: FileNumber,
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
    /// Those with bytes that were not handed out yet.
    pub(super) waiting: BTreeSet<Tag>,
    ended: BTreeMap<Tag, bool>,
    next: u64,
    /// Whose turn it was.
    pub(super) last: Option<Tag>,
    /// And whose bytes it was about.
    pub(super) last_file: Option<FileNumber>,
    /// Bytes handed out for tags since others had their turn.
    pub(super) bytes_in_row: u64,
}

impl Tags {
    /// A write begins; it takes tagged bytes along.
    pub(super) fn begin(&mut self, id: WriteId, file: FileNumber, start: u64, end: u64) {
        let mut done = Vec::new();
        for &tag in &self.waiting {
            let Some(tagged) = self.pending.get_mut(&tag) else {
                continue;
            };
            if tagged.file == file && !tagged.todo.take(start, end).is_empty() {
                tagged.waits.insert(id);
                if tagged.todo.is_empty() {
                    done.push(tag);
                }
            }
        }
        for tag in done {
            self.waiting.remove(&tag);
        }
    }

    /// A write ended. Says how many tags ended with it, written and failed.
    pub(super) fn end(&mut self, id: WriteId, written: bool) -> (u64, u64) {
        for tagged in self.pending.values_mut() {
            if tagged.waits.remove(&id) {
                tagged.failed |= !written;
            }
        }
        self.settle()
    }

    /// The file is gone.
    pub(super) fn forget(&mut self, file: FileNumber) -> (u64, u64) {
        for (tag, tagged) in &mut self.pending {
            if tagged.file == file {
                tagged.todo.clear();
                tagged.waits.clear();
                tagged.failed = true;
                self.waiting.remove(tag);
            }
        }
        self.settle()
    }

    /// Bytes are not wanted any more.
    pub(super) fn discard(&mut self, file: FileNumber, start: u64, end: u64) -> (u64, u64) {
        for (tag, tagged) in &mut self.pending {
            if tagged.file == file {
                tagged.todo.take(start, end);
                if tagged.todo.is_empty() {
                    self.waiting.remove(tag);
                }
            }
        }
        self.settle()
    }

    /// A write will not go; these bytes of it are to be handed out again.
    pub(super) fn put_back(&mut self, id: WriteId, parts: &[Span]) -> (u64, u64) {
        for (tag, tagged) in &mut self.pending {
            if tagged.waits.remove(&id) {
                for &(start, end) in parts {
                    tagged.todo.insert(start, end);
                    self.waiting.insert(*tag);
                }
            }
        }
        self.settle()
    }

    fn settle(&mut self) -> (u64, u64) {
        let (mut written, mut failed) = (0, 0);
        let ended = &mut self.ended;
        self.pending.retain(|tag, tagged| {
            let over = tagged.is_ended();
            if over {
                ended.insert(*tag, !tagged.failed);
                written += u64::from(!tagged.failed);
                failed += u64::from(tagged.failed);
            }
            !over
        });
        (written, failed)
    }
}

impl WriteBack {
    /// Asks for everything of a range that is dirty or under write-out now; what comes later does
    /// not count. The bytes are handed out by [`WriteBack::next`] before all others, without
    /// waiting for the end of a pause after a failure.
    ///
    /// [`WriteBack::tag_state`] has to be asked until the tag ended, or it is kept for ever.
    pub fn tag(&mut self, file: FileNumber, extent: Extent, now: Duration) -> Tag {
        self.advance(now);
        let (start, end) = (extent.offset, extent.end());
        let tag = Tag(self.tags.next);
        self.tags.next += 1;
        self.counts.tags += 1;
        let mut tagged = Tagged {
            file,
            todo: Spans::default(),
            waits: BTreeSet::new(),
            failed: false,
        };
        if let Some(file) = self.files.get(&file) {
            for (from, to) in file.dirty.within(start, end) {
                tagged.todo.insert(from, to);
            }
            let flying = file.flying(start, end);
            let kept = flying.filter(|(_, flight)| !flight.forgotten);
            tagged.waits = kept.map(|(_, flight)| flight.id).collect();
        }
        if tagged.is_ended() {
            self.counts.tags_empty += 1;
            self.counts.tags_written += 1;
            self.tags.ended.insert(tag, true);
            return tag;
        }
        if !tagged.todo.is_empty() {
            self.tags.waiting.insert(tag);
        }
        self.tags.pending.insert(tag, tagged);
        tag
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
        self.flying.get(oldest).map(|flying| flying.began)
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
