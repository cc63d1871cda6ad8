//! The two files, and the pages that go in and out.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pagewell_base::files;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_device::{
    Buffer, Device, FileDevice, FileOptions, Issuer, Operation, Outcome, Request,
};
use pagewell_fs::source::OpenError;

use super::index::{BLOCK_BYTES, BLOCK_RECORDS, Index};
use super::record::{PAGE_BYTES, PageName, Record};

/// Pages on their way to the disk.
pub const WRITING_PAGES_MAX: usize = 512;
/// What the first block of the index begins with.
const HEAD: &[u8] = b"pagewell disk tier 1\n";
/// The least size that makes sense.
const SLOTS_MIN: u64 = 64;
const ALIGNMENT: usize = 4096;

/// See the crate's text.
pub struct Tier {
    pages: FileDevice,
    records: FileDevice,
    index: Mutex<Index>,
    writing: AtomicUsize,
    /// The disk has refused a page, and this was said.
    is_failing: AtomicBool,
}

impl Tier {
    /// Opens or makes the folder, with room for pages of `size_bytes`.
    ///
    /// # Errors
    /// It has something else, or another process has it.
    pub fn open(folder: &Path, size_bytes: u64) -> Result<Arc<Self>, OpenError> {
        let shown = folder.display().to_string();
        let refused = |reason: &str| OpenError::new(&shown, reason);
        let failed = |error: std::io::Error| refused(&error.to_string());
        let slots = size_bytes / PAGE_BYTES as u64;
        if slots < SLOTS_MIN {
            return Err(refused("a disk tier has at least 4 MiB"));
        }
        let slots = usize::try_from(slots)
            .ok()
            .filter(|slots| u32::try_from(*slots).is_ok());
        let slots = slots.ok_or_else(|| refused("a disk tier has less than 256 TiB"))?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).map_err(failed)?;
        // Pages that another user has put there would be read as those of the server.
        let metadata = folder.metadata().map_err(failed)?;
        if let Some(distrust) = files::distrust(&metadata, files::ALL_WRITE) {
            return Err(refused(&format!(
                "{distrust}, so pages are not kept there: name a new folder in it"
            )));
        }
        let path = folder.join("index");
        let is_new = !path.exists();
        if is_new && std::fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(refused(
                "is not empty and no disk tier: give a folder of its own",
            ));
        }
        // Before anything is changed.
        if !is_new && !has_head(&path).map_err(failed)? {
            return Err(refused("its index is not one of a disk tier"));
        }
        let open = |name: &str| {
            let options = FileOptions {
                writable: true,
                ..FileOptions::default()
            };
            FileDevice::open_with(&folder.join(name), options)
                .map_err(|error| refused(&error.to_string()))
        };
        if !is_new {
            // Another process that has it keeps the size.
            drop(open("index")?);
        }
        let blocks = slots.div_ceil(BLOCK_RECORDS);
        let index_bytes = (1 + blocks) * BLOCK_BYTES;
        let file = made(&path, index_bytes as u64).map_err(failed)?;
        made(&folder.join("pages"), (slots * PAGE_BYTES) as u64).map_err(failed)?;
        // The first claims the folder: its last owner has written all records by then.
        let (records, pages) = (open("index")?, open("pages")?);
        let mut index = Index::new(slots);
        load(&file, &mut index, blocks).map_err(failed)?;
        file.write_all_at(HEAD, 0).map_err(failed)?;
        Ok(Arc::new(Self {
            pages,
            records,
            index: Mutex::new(index),
            writing: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
        }))
    }

    /// Pages that are kept, or on their way.
    #[must_use]
    pub fn kept_pages(&self) -> usize {
        self.index.lock().pages()
    }

    /// Whether a page is kept; it may be damaged.
    #[must_use]
    pub fn has(&self, name: &PageName) -> bool {
        self.index.lock().has(name)
    }

    /// Reads a page, and gives `done` its bytes, or `None` if they are not as written.
    pub fn read(
        self: &Arc<Self>,
        name: PageName,
        done: impl FnOnce(Option<&[u8]>) + Send + 'static,
    ) {
        let Some((slot, record)) = self.index.lock().find(&name) else {
            names::TIER_MISSES.add(1);
            return done(None);
        };
        let buffer = Buffer::new(PAGE_BYTES, ALIGNMENT);
        let tier = self.clone();
        let finish = move |outcome: Outcome, buffer: Buffer| {
            let bytes = buffer.get(..record.length as usize).unwrap_or_default();
            if outcome.result.is_ok() && name.checksum(bytes) == record.checksum {
                names::TIER_HITS.add(1);
                return done(Some(bytes));
            }
            // Another page may have been written over it.
            tier.index.lock().free(slot, &name);
            names::TIER_DAMAGED.add(1);
            names::TIER_MISSES.add(1);
            done(None);
        };
        self.pages.submit(Request::owned(
            Operation::Read,
            position(slot),
            buffer,
            Issuer::Reader,
            finish,
        ));
    }

    /// Keeps a page, if it is not there and the disk has time; at most [`PAGE_BYTES`], and less
    /// only at the end of its object.
    pub fn write(self: &Arc<Self>, name: PageName, bytes: &[u8]) {
        if bytes.is_empty() || bytes.len() > PAGE_BYTES {
            return;
        }
        if self.writing.fetch_add(1, Ordering::Relaxed) >= WRITING_PAGES_MAX {
            self.writing.fetch_sub(1, Ordering::Relaxed);
            names::TIER_SKIPPED.add(1);
            return;
        }
        let taken = self.index.lock().take(name);
        let Some((slot, had_page)) = taken else {
            self.writing.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        names::TIER_EVICTIONS.add(u64::from(had_page));
        let record = Record::of(name, bytes);
        let mut buffer = Buffer::new(PAGE_BYTES, ALIGNMENT);
        if let Some(target) = buffer.get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        let tier = self.clone();
        let finish = move |outcome: Outcome, _| tier.written(slot, record, &outcome);
        self.pages.submit(Request::owned(
            Operation::Write,
            position(slot),
            buffer,
            Issuer::Flusher,
            finish,
        ));
    }

    /// A page has reached its slot, or not; its record follows.
    fn written(self: &Arc<Self>, slot: u32, record: Record, outcome: &Outcome) {
        self.writing.fetch_sub(1, Ordering::Relaxed);
        let mut index = self.index.lock();
        if let Err(error) = &outcome.result {
            index.free(slot, &record.name);
            drop(index);
            names::TIER_SKIPPED.add(1);
            if !self.is_failing.swap(true, Ordering::Relaxed) {
                tracing::warn!("the disk tier takes no pages: {error}");
            }
            return;
        }
        self.is_failing.store(false, Ordering::Relaxed);
        index.keep(slot, record);
        let (block, bytes) = index.block_of(slot);
        drop(index);
        names::TIER_WRITES.add(1);
        let mut buffer = Buffer::new(BLOCK_BYTES, ALIGNMENT);
        buffer.copy_from_slice(&bytes);
        let position = ((1 + block) * BLOCK_BYTES) as u64;
        // Without its record the page is only not found after a restart.
        self.records.submit(Request::owned(
            Operation::Write,
            position,
            buffer,
            Issuer::Flusher,
            |_, _| (),
        ));
    }
}

fn position(slot: u32) -> u64 {
    u64::from(slot) * PAGE_BYTES as u64
}

/// A file of this length, with what it had.
fn made(path: &Path, length_bytes: u64) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let file = options.open(path)?;
    if file.metadata()?.len() != length_bytes {
        file.set_len(length_bytes)?;
    }
    Ok(file)
}

/// Whether a file begins as an index, or as one that a crash left: with nothing, or zeros beside
/// pages.
fn has_head(path: &Path) -> std::io::Result<bool> {
    let mut head = [0; HEAD.len()];
    let read = File::open(path)?.read_at(&mut head, 0)?;
    let is_left = || read == 0 || head == [0; HEAD.len()] && path.with_file_name("pages").exists();
    Ok(head == *HEAD || is_left())
}

/// Takes the records of a file over.
fn load(file: &File, index: &mut Index, blocks: usize) -> std::io::Result<()> {
    let mut block = [0; BLOCK_BYTES];
    for number in 0..blocks {
        file.read_exact_at(&mut block, ((1 + number) * BLOCK_BYTES) as u64)?;
        index.load(number, &block);
    }
    Ok(())
}
