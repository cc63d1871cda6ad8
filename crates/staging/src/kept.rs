//! What is kept for people: one file of bytes, one of text.
//!
//! The record that says so is there first. The next process may repeat each step.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::folder::{Folder, Kind};
use crate::stored::Stored;

/// At a time.
const COPY_BYTES: u64 = 1 << 20;

/// Names the files. Returns the path of the bytes.
pub(crate) fn settle(folder: &Folder, stored: &Stored) -> io::Result<PathBuf> {
    let number = stored.number;
    let path = folder.file(number, Kind::Kept);
    if !path.exists() {
        let data = folder.file(number, Kind::Data(0));
        join(&data, &folder.file(number, Kind::Data(1)), stored)?;
        std::fs::rename(data, &path)?;
    }
    folder.remove(number, Kind::Data(1))?;
    let record = folder.file(number, Kind::Record);
    std::fs::rename(record, folder.file(number, Kind::KeptText))?;
    folder.sync()?;
    Ok(path)
}

/// Puts all bytes into one file, with holes between.
fn join(data: &Path, other: &Path, stored: &Stored) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = options.create(true).truncate(false).open(data)?;
    let mut elsewhere = stored.parts.iter().filter(|part| part.home == 1).peekable();
    if elsewhere.peek().is_some() {
        let other = File::open(other)?;
        for part in elsewhere {
            copy(&other, &file, part.span)?;
        }
    }
    // Holes make it readable; without them the text says what is in it.
    let mut at = 0;
    for part in &stored.parts {
        clear(&file, at, part.span.0);
        at = part.span.1;
    }
    let _ = file.set_len(at);
    let _ = file.set_len(stored.record.length_bytes);
    file.sync_all()
}

fn copy(from: &File, to: &File, (mut start, end): (u64, u64)) -> io::Result<()> {
    let mut bytes = Vec::new();
    while start < end {
        bytes.resize((end - start).min(COPY_BYTES) as usize, 0); // at most COPY_BYTES
        from.read_exact_at(&mut bytes, start)?;
        to.write_all_at(&bytes, start)?;
        start += bytes.len() as u64;
    }
    Ok(())
}

fn clear(file: &File, start: u64, end: u64) {
    if start < end {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(file, flags, start, end - start);
    }
}
