//! The folder: its lock, names, open files, and counts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pagewell_base::files;
use pagewell_base::sync::Mutex;
use pagewell_counters::names::{
    STAGING_BYTES, STAGING_JOURNALED_BYTES, STAGING_KEPT_FILES, STAGING_REFUSALS,
};
use rustix::fs::{FlockOperation, OFlags};

use crate::descriptors::Descriptors;
use crate::places::Home;
use crate::pool::Pool;
use crate::stored::{RECORD_BYTES_MAX, Stored};

/// What a file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of a staged file.
    Data(Home),
    /// What is to be uploaded.
    Record,
    /// Bytes for people.
    Kept,
    /// About those.
    KeptText,
    /// An upload begun.
    Upload,
    /// Was to replace another file.
    Temporary,
    /// A record or bytes set aside.
    Damaged,
}

const KINDS: [(&str, Kind); 6] = [
    ("data", Kind::Data(0)),
    ("other", Kind::Data(1)),
    ("record", Kind::Record),
    ("kept", Kind::Kept),
    ("kept.txt", Kind::KeptText),
    ("upload", Kind::Upload),
];

/// Number and kind; `None`: a file of others.
pub(crate) fn parse(name: &str) -> Option<(u64, Kind)> {
    let (digits, kind) = name.split_once('.')?;
    if digits.len() != 16 {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok()?;
    let known = |kind: &str| KINDS.iter().find(|(name, _)| *name == kind);
    if let Some((_, kind)) = known(kind) {
        return Some((number, *kind));
    }
    let (inner, last) = kind.rsplit_once('.')?;
    known(inner)?;
    match last {
        "new" => Some((number, Kind::Temporary)),
        "damaged" => Some((number, Kind::Damaged)),
        _ => None,
    }
}

/// Files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// See the module.
pub(crate) struct Folder {
    path: PathBuf,
    origin: String,
    bytes_max: u64,
    /// Has the lock.
    handle: File,
    next: AtomicU64,
    used: AtomicU64,
    has_refused: AtomicBool,
    journaled: Mutex<Count>,
    /// For people, with the bytes they were counted with.
    kept: Mutex<Vec<(PathBuf, u64)>>,
    descriptors: Descriptors,
    pool: Pool,
}

impl Folder {
    /// Of a locked folder, whose files have numbers below `next`.
    pub(crate) fn new(
        path: PathBuf,
        origin: &str,
        bytes_max: u64,
        handle: File,
        next: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            path,
            origin: origin.to_owned(),
            bytes_max,
            handle,
            next: AtomicU64::new(next),
            used: AtomicU64::new(0),
            has_refused: AtomicBool::new(false),
            journaled: Mutex::default(),
            kept: Mutex::default(),
            descriptors: Descriptors::default(),
            pool: Pool::default(),
        })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bucket.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A number that no file has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn file(&self, number: u64, kind: Kind) -> PathBuf {
        let found = KINDS.iter().find(|(_, other)| *other == kind);
        let ending = found.map_or("", |(ending, _)| ending);
        self.path.join(format!("{number:016x}.{ending}"))
    }

    /// Makes names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// Writes a record, durably, in place of an earlier one. After an error, the second says
    /// whether a power cut may leave either.
    pub(crate) fn write_record(&self, number: u64, text: &str) -> Result<(), (io::Error, bool)> {
        let path = self.file(number, Kind::Record);
        let temporary = files::temporary_of(&path);
        let renamed = write(&temporary, text).and_then(|()| std::fs::rename(&temporary, &path));
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&temporary);
            return Err((error, false));
        }
        self.sync().map_err(|error| (error, true))
    }

    /// Reads a record; `None`: damaged.
    pub(crate) fn read_record(&self, number: u64) -> io::Result<Option<Stored>> {
        let file = files::open(&self.file(number, Kind::Record))?;
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
        let stored = Stored::decode(&bytes);
        Ok(stored.filter(|stored| stored.number == number && stored.origin == self.origin))
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, number: u64, kind: Kind) -> io::Result<()> {
        match std::fs::remove_file(self.file(number, kind)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes room for bytes, if need be that of kept files which people have removed.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let reserved = self.reserve_once(bytes) || self.look_at_kept() && self.reserve_once(bytes);
        if !reserved {
            STAGING_REFUSALS.add(1);
            self.note_refusal();
        }
        reserved
    }

    /// Something found no room, here or in the file system.
    pub(crate) fn note_refusal(&self) {
        self.has_refused.store(true, Ordering::Relaxed);
    }

    /// Whether there was one.
    pub(crate) fn forget_refusal(&self) -> bool {
        self.has_refused.swap(false, Ordering::Relaxed)
    }

    fn reserve_once(&self, bytes: u64) -> bool {
        let room = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        let relaxed = Ordering::Relaxed;
        let reserved = bytes == 0 || self.used.fetch_update(relaxed, relaxed, room).is_ok();
        if reserved {
            STAGING_BYTES.add(bytes.cast_signed());
        }
        reserved
    }

    /// Counts bytes that are there, whatever the limit.
    pub(crate) fn take_over(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        STAGING_BYTES.add(bytes.cast_signed());
    }

    /// Gives room back.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        STAGING_BYTES.add(-bytes.cast_signed());
    }

    /// Bytes stored.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Most bytes to store.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether less than a quarter of the room is left, in the folder or in its file system, or
    /// there was not enough.
    pub(crate) fn is_nearly_full(&self) -> bool {
        if self.has_refused.load(Ordering::Relaxed) {
            return true;
        }
        if self.used_bytes() == 0 {
            // The system need not be asked.
            return false;
        }
        let free = files::free_bytes(&self.handle).unwrap_or(u64::MAX);
        is_nearly_full(self.used_bytes(), self.bytes_max, free)
    }

    /// A file's record has `now` bytes, the earlier one `before`.
    pub(crate) fn count_journaled(&self, before: Option<u64>, now: Option<u64>) {
        let mut count = self.journaled.lock();
        let files = |bytes: Option<u64>| u64::from(bytes.is_some());
        count.files = count.files + files(now) - files(before);
        count.bytes = count.bytes + now.unwrap_or(0) - before.unwrap_or(0);
        STAGING_JOURNALED_BYTES.add(now.unwrap_or(0).cast_signed());
        STAGING_JOURNALED_BYTES.add(-before.unwrap_or(0).cast_signed());
    }

    /// Files with a record.
    pub(crate) fn journaled(&self) -> Count {
        *self.journaled.lock()
    }

    /// Notes a file for people, whose bytes are counted.
    pub(crate) fn add_kept(&self, path: PathBuf, bytes: u64) {
        self.kept.lock().push((path, bytes));
        STAGING_KEPT_FILES.add(1);
    }

    /// Gives back the room of files that people have removed; whether there were any.
    fn look_at_kept(&self) -> bool {
        let mut kept = self.kept.lock();
        let is_gone = |(path, _): &mut (PathBuf, u64)| !path.exists();
        let gone: Vec<(PathBuf, u64)> = kept.extract_if(.., is_gone).collect();
        drop(kept);
        for (_, bytes) in &gone {
            self.release(*bytes);
            STAGING_KEPT_FILES.add(-1);
        }
        !gone.is_empty()
    }

    /// Files for people.
    pub(crate) fn kept(&self) -> Count {
        self.look_at_kept();
        let kept = self.kept.lock();
        Count {
            files: kept.len() as u64,
            bytes: kept.iter().map(|(_, bytes)| bytes).sum(),
        }
    }
}

fn is_nearly_full(used: u64, bytes_max: u64, free: u64) -> bool {
    used / 3 >= bytes_max.min(used.saturating_add(free)) / 4
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl Drop for Folder {
    fn drop(&mut self) {
        STAGING_BYTES.add(-self.used_bytes().cast_signed());
        STAGING_JOURNALED_BYTES.add(-self.journaled().bytes.cast_signed());
        let kept = self.kept.lock().len() as u64;
        STAGING_KEPT_FILES.add(-kept.cast_signed());
        // A child process that is just starting shares the descriptor: closing is not enough.
        let _ = rustix::fs::flock(&self.handle, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_full_when_its_file_system_is() {
        let plenty = 1 << 40;
        for (used, bytes_max, free, expected) in [
            (0, 100, plenty, false),
            (74, 100, plenty, false),
            (75, 100, plenty, true),
            (60, 1000, 40, false),
            (75, 1000, 25, true),
            (0, 1000, 0, true),
            (u64::MAX, u64::MAX, plenty, true),
        ] {
            let found = is_nearly_full(used, bytes_max, free);
            assert_eq!(found, expected, "{used} of {bytes_max}, {free} free");
        }
    }

    #[test]
    fn names_are_told_apart() {
        for (name, found) in [
            ("0000000000000017.data", Some((0x17, Kind::Data(0)))),
            ("ffffffffffffffff.other", Some((u64::MAX, Kind::Data(1)))),
            ("0000000000000017.record", Some((0x17, Kind::Record))),
            ("0000000000000017.record.new", Some((0x17, Kind::Temporary))),
            ("0000000000000017.kept.txt", Some((0x17, Kind::KeptText))),
            ("0000000000000017.data.damaged", Some((0x17, Kind::Damaged))),
            ("17.data", None),
            ("0000000000000017.doc", None),
            ("0000000000000017.doc.new", None),
            ("bucket", None),
        ] {
            assert_eq!(parse(name), found, "{name}");
        }
    }
}
