//! What write-back knows.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pagewell_base::spans::{Span, Spans};

use super::file::File;
use super::index::Index;
use super::pacing::Pacing;
use super::stream::Habits;
use super::tags::Tags;
use super::{Counts, Extent, FileNumber, Limits, Rule, Settings, WriteId};

/// A write that was handed out.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) file: FileNumber,
    pub(super) start: u64,
    pub(super) end: u64,
    /// What of it was dirty.
    pub(super) parts: Vec<Span>,
    /// When the oldest of its pages became dirty.
    pub(super) since: Duration,
    /// When it was handed out.
    pub(super) began: Duration,
    /// Bytes of it were discarded since.
    pub(super) cut: bool,
    /// A flush failed meanwhile: a part that was at the device before it may be lost.
    pub(super) doubtful: bool,
}

/// Which file has its turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) file: Option<FileNumber>,
    pub(super) bytes_left: u64,
}

/// What is known of flushes.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Bytes that no flush covers yet are kept since then.
    pub(super) since: Option<Duration>,
    /// One is on its way.
    pub(super) running: bool,
    pub(super) retry_at: Duration,
    pub(super) retry_delay: Duration,
}

/// Write-back of one device.
#[derive(Debug)]
pub struct WriteBack {
    pub(super) settings: Settings,
    pub(super) now: Duration,
    pub(super) files: BTreeMap<FileNumber, File>,
    pub(super) index: Index,
    pub(super) flying: BTreeMap<WriteId, Flying>,
    pub(super) next_id: u64,
    pub(super) flight_bytes: u64,
    /// Enough is under write-out; until it is 2/3 of that.
    pub(super) flight_stopped: bool,
    /// Pages with gaps are written, as there was no room.
    pub(super) thinning: bool,
    pub(super) due_blocks: VecDeque<(FileNumber, u64)>,
    pub(super) tags: Tags,
    pub(super) turn: Turn,
    pub(super) pacing: Pacing,
    pub(super) habits: Habits,
    pub(super) flushes: Flushes,
    pub(super) counts: Counts,
}

impl WriteBack {
    /// Nothing is dirty.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let settings = settings.normalised();
        let block_bytes = settings.rule.by_block().then_some(settings.block_bytes);
        Self {
            settings,
            now: Duration::ZERO,
            files: BTreeMap::new(),
            index: Index::new(settings.page_bytes, block_bytes),
            flying: BTreeMap::new(),
            next_id: 0,
            flight_bytes: 0,
            flight_stopped: false,
            thinning: false,
            due_blocks: VecDeque::new(),
            tags: Tags::default(),
            turn: Turn::default(),
            pacing: Pacing::new(&settings),
            habits: Habits::default(),
            flushes: Flushes::default(),
            counts: Counts::default(),
        }
    }

    /// The rule it goes by.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.settings.rule
    }

    /// What of a range is dirty, under write-out or kept, ascending, not touching: what memory
    /// alone has for certain.
    pub fn dirty_in(
        &self,
        file: FileNumber,
        extent: Extent,
    ) -> impl Iterator<Item = Extent> + use<> {
        let (start, end) = (extent.offset, extent.end());
        let mut spans = Spans::default();
        if let Some(file) = self.files.get(&file) {
            spans = file.held(start, end);
            let flights = file.flying(start, end).map(|(_, flight)| flight);
            let flights = flights.filter(|flight| !flight.forgotten);
            // A write of a block may have clean bytes between its dirty ones.
            let parts = flights.filter_map(|flight| self.flying.get(&flight.id));
            for &(from, to) in parts.flat_map(|flying| &flying.parts) {
                spans.insert(from.max(start), to.min(end));
            }
        }
        let spans: Vec<Span> = spans.iter().collect();
        spans.into_iter().map(Extent::of)
    }

    /// Whether any byte of a range is dirty, under write-out or kept.
    #[must_use]
    pub fn is_dirty(&self, file: FileNumber, extent: Extent) -> bool {
        let (start, end) = (extent.offset, extent.end());
        let is_kept = |file: &File| file.is_kept(start, end);
        self.is_unwritten(file, extent) || self.files.get(&file).is_some_and(is_kept)
    }

    /// Whether any byte of a range is dirty or under write-out.
    #[must_use]
    pub fn is_unwritten(&self, file: FileNumber, extent: Extent) -> bool {
        let (start, end) = (extent.offset, extent.end());
        self.files.get(&file).is_some_and(|file| {
            file.dirty.overlaps(start, end)
                || file.flying(start, end).any(|(_, flight)| !flight.forgotten)
        })
    }

    /// Files with a dirty byte or a byte under write-out, ascending.
    pub fn files(&self) -> impl Iterator<Item = FileNumber> {
        self.files
            .iter()
            .filter(|(_, file)| !file.pages.is_empty())
            .map(|(number, _)| *number)
    }

    /// Drops what is dirty in a file: it will not be written, unless it is under write-out
    /// already. Pending tags of the file fail. Says how many bytes were dirty, under write-out or
    /// kept.
    pub fn forget(&mut self, number: FileNumber) -> u64 {
        let Some(file) = self.files.get_mut(&number) else {
            return 0;
        };
        let mut unclean = file.held(0, u64::MAX);
        for (start, flight) in &mut file.flights {
            if !std::mem::replace(&mut flight.forgotten, true) {
                unclean.insert(*start, flight.end);
            }
        }
        let bytes = unclean.bytes();
        file.dirty.clear();
        file.kept.clear();
        file.covered.clear();
        file.due_blocks.clear();
        for page in file.pages.values_mut() {
            page.flights = 0;
        }
        self.refresh(number, 0, u64::MAX);
        self.due_blocks.retain(|(file, _)| *file != number);
        let ended = self.tags.forget(number);
        self.count_tags(ended);
        self.counts.forgotten_bytes += bytes;
        bytes
    }

    /// Bytes that are dirty, without those that are only under write-out.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.files.values().map(|file| file.dirty.bytes()).sum()
    }

    /// Bytes under write-out.
    #[must_use]
    pub fn flight_bytes(&self) -> u64 {
        self.flight_bytes
    }

    /// Pages with a byte that is dirty, under write-out or kept: what the limits are about.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.index.held_pages
    }

    /// The memory of those pages, in bytes.
    #[must_use]
    pub fn dirty_memory_bytes(&self) -> u64 {
        self.index
            .held_pages
            .saturating_mul(self.settings.page_bytes)
    }

    /// The limits of dirty memory now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.pacing.limits()
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            recent_overflows: self.habits.overflows,
            ..self.counts
        }
    }

    /// From now on there is another share of the arena for dirty memory, in bytes. When it is less
    /// than what is dirty, writers of new pages are refused until it is not.
    pub fn set_dirty_bytes_max(&mut self, bytes: u64) {
        self.pacing.set_dirty_bytes_max(bytes);
    }

    /// Brings the pages of a range up to date, and lets go of a file that has nothing any more.
    pub(super) fn refresh(&mut self, number: FileNumber, start: u64, end: u64) {
        let Some(file) = self.files.get_mut(&number) else {
            return;
        };
        let mut pages = self.index.pages(start, end);
        // Those that there are: the range may be all numbers.
        while let Some((&page, _)) = file.pages.range(pages.clone()).next() {
            self.index.refresh(number, file, page);
            pages.start = page + 1;
        }
        if file.is_gone() {
            self.files.remove(&number);
        }
    }

    /// Counts tags that ended, written and failed.
    pub(super) fn count_tags(&mut self, (written, failed): (u64, u64)) {
        self.counts.tags_written += written;
        self.counts.tags_failed += failed;
    }

    /// Time never goes back.
    pub(super) fn advance(&mut self, now: Duration) -> Duration {
        self.now = self.now.max(now);
        self.now
    }
}
