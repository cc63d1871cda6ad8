//! What write-back must do, written down byte by byte.
//!
//! The model is told what is written, handed out, finished, tagged and forgotten. It knows for each
//! byte the version in memory and the version at the device, and checks every answer.

use std::ops::Range;
use std::time::Duration;

use pagewell_policy::writeback::settings::PAUSE_MAX;
use pagewell_policy::writeback::{Admission, Extent, Settings, Tag, TagState, Write, WriteBack};

pub(crate) const FILES: usize = 3;
pub(crate) const BYTES: usize = 1024;
/// Files lie apart on their device.
const FILE_DISTANCE: u64 = 1 << 20;

/// Bytes of a file, as bytes of the device.
fn placed(file: usize, start: u64, length: u64) -> Extent {
    Extent {
        offset: file as u64 * FILE_DISTANCE + start,
        length,
    }
}

/// Which file a write is about, and which bytes of it.
fn found(write: &Write) -> (usize, Range<usize>) {
    let (offset, length) = (write.extent.offset, write.extent.length);
    let start = (offset % FILE_DISTANCE) as usize;
    let file = (offset / FILE_DISTANCE) as usize;
    (file, start..start + length as usize)
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Write {
        file: usize,
        start: u64,
        length: u64,
    },
    Next,
    Finish {
        which: usize,
        written: bool,
    },
    Tag {
        file: usize,
        start: u64,
        length: u64,
    },
    Wait(Duration),
    Forget,
}

#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    memory: u64,
    device: u64,
    dirty: bool,
    /// Under write-out with this version.
    flying: Option<u64>,
    /// It was dirty when it was sent; clean ones go along in the middle of a block.
    carried: bool,
    /// The bytes under write-out do not count any more.
    forgotten: bool,
}

impl Byte {
    fn is_unclean(&self) -> bool {
        self.dirty || self.flying.is_some() && !self.forgotten
    }

    /// Newer in memory than on the device, as far as is known.
    fn is_newer(&self) -> bool {
        self.dirty || self.is_unclean() && self.carried
    }
}

#[derive(Debug)]
struct Watched {
    tag: Tag,
    file: usize,
    /// Versions that have to reach the device, by offset.
    wanted: Vec<(usize, u64)>,
    /// A write of its bytes failed, or the file was forgotten.
    may_fail: bool,
    ended: Option<TagState>,
}

pub(crate) struct Model {
    pub(crate) policy: WriteBack,
    settings: Settings,
    files: Vec<Vec<Byte>>,
    version: u64,
    now: Duration,
    under_way: Vec<(Write, Vec<usize>)>,
    watched: Vec<Watched>,
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            policy: WriteBack::new(settings),
            settings,
            files: vec![vec![Byte::default(); BYTES]; FILES],
            version: 0,
            now: Duration::ZERO,
            under_way: Vec::new(),
            watched: Vec::new(),
        }
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Write {
                file,
                start,
                length,
            } => self.write(file, start, length),
            Action::Next => {
                self.next();
            }
            Action::Finish { which, written } => self.finish(which, written),
            Action::Tag {
                file,
                start,
                length,
            } => self.tag(file, start, length),
            Action::Wait(time) => self.now += time,
            Action::Forget => self.forget(),
        }
        self.check();
    }

    fn write(&mut self, file: usize, start: u64, length: u64) {
        let extent = placed(file, start, length);
        let hard = self.policy.limits().hard_bytes;
        let pages =
            start / self.settings.page_bytes..=(start + length - 1) / self.settings.page_bytes;
        let most = pages.count() as u64 * self.settings.page_bytes;
        let before = self.policy.dirty_memory_bytes();
        match self.policy.admit(extent, true, self.now) {
            Admission::Granted => (),
            Admission::Paused(pause) => {
                assert!(pause <= PAUSE_MAX && !pause.is_zero());
            }
            Admission::Refused => {
                // Only when it would not fit, or too much is dirty already.
                let memory = self.policy.dirty_memory_bytes();
                assert!(memory + most > hard || memory > self.policy.limits().setpoint_bytes);
                return;
            }
        }
        self.version += 1;
        for byte in &mut self.files[file][start as usize..(start + length) as usize] {
            byte.memory = self.version;
            byte.dirty = true;
        }
        self.policy.wrote(extent, self.now);
        // One call alone is let in, however long it is.
        let memory = self.policy.dirty_memory_bytes();
        assert!(memory <= self.policy.limits().hard_bytes.max(most).max(before));
    }

    fn next(&mut self) -> bool {
        let Some(write) = self.policy.next(self.now) else {
            let at = self.policy.next_at(self.now);
            assert!(at.is_none_or(|at| at > self.now), "nothing, and at once");
            return false;
        };
        let (file, range) = found(&write);
        let start = range.start;
        assert!(!range.is_empty());
        let bytes = &mut self.files[file][range];
        assert!(bytes[0].dirty && bytes[bytes.len() - 1].dirty);
        assert!(bytes.iter().all(|byte| byte.flying.is_none()), "twice");
        let mut carried = Vec::new();
        for (place, byte) in bytes.iter_mut().enumerate() {
            assert!(byte.dirty, "a clean byte");
            byte.flying = Some(byte.memory);
            byte.forgotten = false;
            byte.carried = byte.dirty;
            if byte.dirty {
                carried.push(start + place);
            }
            byte.dirty = false;
        }
        assert!(write.extent.length <= self.settings.cluster_bytes_max);
        self.under_way.push((write, carried));
        let flying: u64 = self
            .under_way
            .iter()
            .map(|(write, _)| write.extent.length)
            .sum();
        assert_eq!(flying, self.policy.flight_bytes());
        assert!(self.under_way.len() == 1 || flying <= self.settings.flight_bytes_max);
        true
    }

    fn finish(&mut self, which: usize, written: bool) {
        if self.under_way.is_empty() {
            return;
        }
        let (write, carried) = self.under_way.swap_remove(which % self.under_way.len());
        let (file, range) = found(&write);
        for place in range.clone() {
            let byte = &mut self.files[file][place];
            let version = byte.flying.take().unwrap();
            let forgotten = std::mem::take(&mut byte.forgotten);
            if written {
                byte.device = version;
            } else if forgotten {
                if !byte.dirty {
                    // Given up with its file.
                    byte.memory = byte.device;
                }
            } else if carried.contains(&place) {
                byte.dirty = true;
            }
        }
        if !written {
            for watched in self
                .watched
                .iter_mut()
                .filter(|watched| watched.file == file)
            {
                watched.may_fail |= watched.wanted.iter().any(|(at, _)| range.contains(at));
            }
        }
        self.policy.finished(write.id, written, self.now);
    }

    fn tag(&mut self, file: usize, start: u64, length: u64) {
        let tag = self.policy.tag(placed(file, start, length), self.now);
        let range = start as usize..(start + length) as usize;
        let wanted = range
            .filter(|place| self.files[file][*place].is_unclean())
            .map(|place| (place, self.files[file][place].memory))
            .collect();
        self.watched.push(Watched {
            tag,
            file,
            wanted,
            may_fail: false,
            ended: None,
        });
    }

    fn forget(&mut self) {
        let bytes = self.files.iter().flatten();
        let unclean = bytes.filter(|byte| byte.is_unclean()).count();
        assert_eq!(self.policy.forget(), unclean as u64);
        for byte in self.files.iter_mut().flatten() {
            byte.dirty = false;
            byte.forgotten = byte.flying.is_some();
            // What is in memory and not at the device is given up.
            byte.memory = byte.flying.unwrap_or(byte.device);
        }
        for watched in &mut self.watched {
            watched.may_fail |= !watched.wanted.is_empty();
        }
    }

    fn check(&mut self) {
        self.check_tags();
        let page_bytes = self.settings.page_bytes as usize;
        let mut pages = 0;
        for (number, bytes) in self.files.iter().enumerate() {
            let whole = placed(number, 0, FILE_DISTANCE);
            let mut seen = [false; BYTES];
            let mut last = None;
            for extent in self.policy.dirty_in(whole) {
                assert!(last.is_none_or(|last| last < extent.offset), "they touch");
                last = Some(extent.end());
                let start = (extent.offset - whole.offset) as usize;
                seen[start..start + extent.length as usize].fill(true);
            }
            for (place, byte) in bytes.iter().enumerate() {
                assert_eq!(byte.is_newer(), seen[place], "{place} of {number}");
            }
            let of_pages = bytes.chunks(page_bytes);
            pages += of_pages
                .filter(|page| page.iter().any(Byte::is_unclean))
                .count();
        }
        assert_eq!(pages as u64, self.policy.dirty_pages());
    }

    fn check_tags(&mut self) {
        let files = &self.files;
        for watched in &mut self.watched {
            let state = self.policy.tag_state(watched.tag);
            match state {
                TagState::Pending => continue,
                TagState::Written => {
                    for &(place, version) in &watched.wanted {
                        let device = files[watched.file][place].device;
                        assert!(device >= version, "a tag ended too early");
                    }
                }
                TagState::Failed => assert!(watched.may_fail, "nothing failed"),
            }
            watched.ended = Some(state);
        }
        self.watched.retain(|watched| watched.ended.is_none());
    }

    /// Writes everything; in the end nothing is dirty and every byte is at the device.
    pub(crate) fn drain(&mut self) {
        for file in 0..FILES {
            self.tag(file, 0, BYTES as u64);
        }
        self.check();
        let mut steps = 0;
        while !self.watched.is_empty() {
            while self.next() {}
            assert!(!self.under_way.is_empty(), "a tag that cannot end");
            self.finish(0, true);
            self.check();
            steps += 1;
            assert!(steps <= 4 * FILES * BYTES, "tags without end");
        }
        // Nothing may be left to the tags' own time.
        while self.next() {}
        while !self.under_way.is_empty() {
            self.finish(0, true);
        }
        self.check();
        assert_eq!(
            (self.policy.dirty_pages(), self.policy.dirty_bytes()),
            (0, 0)
        );
        assert_eq!(
            (self.policy.flight_bytes(), self.policy.next_at(self.now)),
            (0, None)
        );
        for byte in self.files.iter().flatten() {
            assert_eq!(byte.memory, byte.device, "lost");
        }
    }
}
