//! Reads a file from beginning to end, in the cheapest way of its tree.

use pagewell_fs::{Entry, FileId, OpenFile, Payload, Result};

use super::{READ_BYTES, Take, Tree, pieces};

/// A file just found or listed.
pub struct Reader<'a> {
    tree: &'a Tree,
    id: FileId,
    size: u64,
    /// Of a file of this machine; enough to read it.
    opened: Option<OpenFile>,
}

/// The result of one read.
pub struct Piece {
    /// Where its bytes are.
    pub payload: Payload,
    /// Whether the file ends here; `None`: the count of bytes shows that.
    ends: Option<bool>,
}

impl Piece {
    /// Whether it is the last, if it brought `got` bytes.
    pub fn is_last(&self, got: u64) -> bool {
        let is_short = got < self.payload.len() as u64;
        got == 0 || self.ends.map_or(is_short, |ends| ends && !is_short)
    }
}

impl Tree {
    /// For a file just found or listed.
    pub fn reader(&self, entry: &Entry) -> Reader<'_> {
        // A read reports why it failed.
        let opened = self
            .local()
            .and_then(|local| local.open_listed(&self.call(), &entry.id).ok());
        Reader {
            tree: self,
            id: entry.id,
            size: entry.attributes.size,
            opened: opened.flatten(),
        }
    }
}

impl Reader<'_> {
    /// At most `count` bytes from `offset`.
    pub fn read(&self, offset: u64, count: u32) -> Result<Piece> {
        if let Some(file) = &self.opened {
            // One byte more shows growth.
            let left = self
                .size
                .checked_sub(offset)
                .map_or(u64::MAX, |left| left + 1);
            return Ok(Piece {
                payload: Payload::File {
                    file: file.clone(),
                    offset,
                    length: u32::try_from(left).unwrap_or(count).min(count),
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

    /// Gives every byte to `take`, up to the end of the file, even if that moved. `buffer` is
    /// reused.
    pub fn stream(&self, buffer: &mut Vec<u8>, take: &mut Take<'_>) -> Result<u64> {
        let mut offset = 0;
        loop {
            let piece = self.read(offset, READ_BYTES)?;
            let got = pieces(
                &piece.payload,
                buffer,
                |error| error,
                |_, slices| slices.iter().try_for_each(|slice| take(slice)),
            )?;
            offset += got;
            if piece.is_last(got) {
                return Ok(offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pagewell_source_dir::{Directory, Options};

    use super::*;

    #[test]
    fn a_file_that_changed_since_it_was_listed_is_read_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("f");
        let bytes: Vec<u8> = (0..5 << 20).map(|at| (at % 251) as u8).collect();
        for force_trails in [false, true] {
            let options = Options {
                force_trails,
                ..Options::default()
            };
            let tree = Tree::new(Arc::new(Directory::open(place.path(), options).unwrap()));
            let root = tree.root().unwrap().id;
            let lengths = [0, 1, 4096, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20];
            for (listed, read) in lengths
                .iter()
                .flat_map(|listed| lengths.iter().map(move |read| (*listed, *read)))
            {
                std::fs::write(&path, &bytes[..listed]).unwrap();
                let names = tree.list(&root, false).unwrap().listed;
                let entry = names[0].entry.clone().unwrap();
                std::fs::write(&path, &bytes[..read]).unwrap();
                let (mut found, mut buffer) = (Vec::new(), Vec::new());
                let streamed = tree.reader(&entry).stream(&mut buffer, &mut |piece| {
                    found.extend_from_slice(piece);
                    Ok(())
                });
                assert_eq!(streamed, Ok(read as u64), "{listed}");
                assert!(found == bytes[..read], "{listed} {read}");
            }
        }
    }
}
