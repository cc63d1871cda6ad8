//! Reads a file from its beginning to its end, in the cheapest way that its tree has.

use pagewell_fs::{FileId, OpenFile, Payload, Result};

use super::{READ_BYTES, Take, Tree, pieces};

/// A file that was just found or listed.
pub(crate) struct Reader<'a> {
    tree: &'a Tree,
    id: FileId,
    /// Of a file of this machine: reading it needs nothing but its descriptor.
    opened: Option<OpenFile>,
}

/// What one read has found.
pub(crate) struct Piece {
    /// Where its bytes are.
    pub(crate) payload: Payload,
    /// Whether the file ends with it; nothing when that shows in how many bytes come.
    ends: Option<bool>,
}

impl Piece {
    /// Whether nothing comes after it, when so many of its bytes came.
    pub(crate) fn is_last(&self, got: u64) -> bool {
        let is_short = got < self.payload.len() as u64;
        got == 0 || self.ends.map_or(is_short, |ends| ends && !is_short)
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(tree: &'a Tree, id: &FileId) -> Self {
        let local = tree.local.as_ref();
        // What is the matter with one that cannot be opened so, a read tells.
        let opened = local.and_then(|local| local.open_listed(&tree.call(), id).ok());
        Self {
            tree,
            id: *id,
            opened: opened.flatten(),
        }
    }

    /// Where at most `count` bytes from `offset` are.
    pub(crate) fn read(&self, offset: u64, count: u32) -> Result<Piece> {
        if let Some(file) = &self.opened {
            return Ok(Piece {
                payload: Payload::File {
                    file: file.clone(),
                    offset,
                    length: count,
                },
                ends: None,
            });
        }
        let (filesystem, call) = (&self.tree.filesystem, self.tree.call());
        let reply = filesystem.read(&call, &self.id, offset, count)?;
        Ok(Piece {
            payload: reply.payload,
            ends: Some(reply.end_of_file),
        })
    }

    /// Gives every byte to `take`, in order, each piece with its offset. Stops when the file ends,
    /// also when it got shorter meanwhile. `buffer` is reused between files.
    pub(crate) fn stream(&self, buffer: &mut Vec<u8>, take: &mut Take<'_>) -> Result<u64> {
        let mut offset = 0;
        loop {
            let piece = self.read(offset, READ_BYTES)?;
            let got = pieces(&piece.payload, buffer, offset, take)?;
            offset += got;
            if piece.is_last(got) {
                return Ok(offset);
            }
        }
    }
}
