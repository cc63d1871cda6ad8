//! Moves the bytes of a file.
//!
//! Into a directory of this machine they go through the file's descriptor, between two such
//! directories within the kernel (copy_file_range(2)), which may share the blocks. Other targets
//! are written with [`pagewell_fs::FileSystem::write`].

use std::os::fd::AsFd;

use pagewell_fs::{Error, FileId, OpenFile, Payload, Stability};
use pagewell_tree::holes::data_of;
use pagewell_tree::{READ_BYTES, Tree, pieces, write_slices};
use rustix::io::Errno;

use super::hand::Hand;
use super::object::{Original, Trouble};

/// Bytes in one request to the kernel.
const RANGE_BYTES: u32 = 16 << 20;

pub(super) enum Sink<'a> {
    /// A file of this machine.
    File(OpenFile),
    /// A file of any other tree.
    Tree(&'a Tree, FileId),
}

#[derive(Default)]
pub(super) struct Moved {
    pub(super) size: u64,
    /// The end of the last written bytes; less than the size when a hole is at the end.
    pub(super) end: u64,
}

fn total(pieces: &[&[u8]]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// Has the kernel copy a range; `None` when it cannot or fails.
fn copy_range(from: &OpenFile, start: u64, to: &OpenFile, at: u64, length: u32) -> Option<u64> {
    let (mut source, mut target) = (start, at);
    let end = start + u64::from(length);
    while source < end {
        let left = usize::try_from(end - source).ok()?;
        match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), left) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    // Nothing copied: the kernel does not know the length of such a file.
    (source > start || length == 0).then_some(source - start)
}

impl Sink<'_> {
    /// Copies all bytes of a file, or all but holes; `moved` is right after a failure, too.
    pub(super) fn fill(
        &self,
        hand: &mut Hand,
        original: &Original<'_>,
        skips_holes: bool,
        moved: &mut Moved,
    ) -> Result<(), Trouble> {
        let from = &original.place.tree;
        let reader = from.reader(original.entry);
        let failed = |error: Error| Trouble::Source(error.into());
        let mut in_kernel = from.is_local() && !skips_holes && matches!(self, Sink::File(_));
        loop {
            let bytes = if in_kernel { RANGE_BYTES } else { READ_BYTES };
            let offset = moved.size;
            let piece = reader.read(offset, bytes).map_err(failed)?;
            let in_range = match (&piece.payload, self) {
                (
                    Payload::File {
                        file,
                        offset: at,
                        length,
                    },
                    Sink::File(out),
                ) if in_kernel => copy_range(file, *at, out, offset, *length),
                _ => None,
            };
            let got = match in_range {
                Some(copied) => {
                    moved.end = offset + copied;
                    copied
                }
                // Reading and writing tells which side is at fault.
                None if std::mem::take(&mut in_kernel) => continue,
                None => pieces(&piece.payload, &mut hand.buffer, failed, |at, pieces| {
                    let at = offset + at;
                    if !skips_holes {
                        self.write(at, pieces)?;
                        moved.end = at + total(pieces);
                        return Ok(());
                    }
                    let mut start = at;
                    for piece in pieces {
                        for (within, data) in data_of(piece) {
                            self.write(start + within, &[data])?;
                            moved.end = start + within + data.len() as u64;
                        }
                        start += piece.len() as u64;
                    }
                    Ok(())
                })?,
            };
            hand.progress.add(got);
            moved.size += got;
            if piece.is_last(got) {
                return Ok(());
            }
        }
    }

    fn write(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), Error> {
        match self {
            Self::File(file) => {
                let written = write_slices(pieces.iter().copied(), |written, slices| {
                    rustix::io::pwritev(file.as_fd(), slices, offset + written)
                });
                Ok(written?)
            }
            Self::Tree(tree, id) => {
                let mut offset = offset;
                for piece in pieces {
                    write_all(tree, id, offset, piece)?;
                    offset += piece.len() as u64;
                }
                Ok(())
            }
        }
    }
}

fn write_all(tree: &Tree, id: &FileId, offset: u64, data: &[u8]) -> Result<(), Error> {
    let (mut offset, mut data) = (offset, data);
    while !data.is_empty() {
        let call = tree.call();
        let written = tree
            .filesystem
            .write(&call, id, offset, data, Stability::Unstable)?;
        let rest = data.get(written.count as usize..);
        match rest {
            Some(rest) if written.count > 0 => data = rest,
            _ => return Err(Error::Io("a write made no progress".to_owned())),
        }
        offset += u64::from(written.count);
    }
    Ok(())
}
