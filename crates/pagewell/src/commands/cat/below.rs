//! Writes all files below a directory.
//!
//! Where each file waits for the system or for a server, threads read the next ones ahead; they are
//! written in the order of the names. In an image the page cache does that by itself.

use pagewell_fs::{Entry, FileType, Payload, Result};
use pagewell_tree::pipeline::{Pipeline, Work};
use pagewell_tree::walk::Step;
use pagewell_tree::{Piece, Reader, Tree};

use super::Writer;
use crate::commands::below::in_order;
use crate::escape;
use crate::location::{Home, Place};

/// Of larger files nothing is read ahead. With it, what was read and not written fits into few MiB
/// of memory, which is none of the cache: what waits there would keep the next from being read.
const SMALL_BYTES: u32 = 64 << 10;

/// What is written or told in the order of the walk.
enum Item<'a> {
    /// A file.
    File(Vec<u8>, Entry),
    /// A file of which the first read was made.
    Begun(Vec<u8>, Reader<'a>, Result<Piece>),
    /// A failure of the walk.
    Failed(Vec<u8>, pagewell_fs::Error),
}

struct Reading<'a>(&'a Tree);

impl<'a> Work for Reading<'a> {
    type Item = Item<'a>;
    type Tools = ();

    fn tools(&self) {}

    fn work(&self, (): &mut (), item: &mut Item<'a>) {
        if let Item::File(path, entry) = item
            && entry.attributes.size <= SMALL_BYTES.into()
        {
            let reader = self.0.reader(entry);
            let read = read_small(&reader);
            *item = Item::Begun(std::mem::take(path), reader, read);
        }
    }
}

/// Reads a small file; what is in pages of the cache is copied out of it.
fn read_small(reader: &Reader<'_>) -> Result<Piece> {
    let mut piece = reader.read(0, SMALL_BYTES)?;
    if let Payload::Pages(_) = piece.payload {
        let mut bytes = vec![0; piece.payload.len()];
        let got = piece.payload.copy_to(&mut bytes, true)?;
        bytes.truncate(got);
        piece.payload = Payload::Bytes(bytes);
    }
    Ok(piece)
}

impl Writer {
    /// Writes all regular files below a directory.
    pub(super) fn below(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        in_order(
            &Reading(&place.tree),
            (place, start),
            self,
            |writer, line, step| writer.step(line, place, step),
            |writer, item| writer.item(place, item),
        )
    }

    fn step(
        &mut self,
        line: &mut Pipeline<'_, '_, Reading<'_>>,
        place: &Place,
        step: Step<'_>,
    ) -> anyhow::Result<()> {
        let item = match step {
            Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                Item::File(path.to_vec(), *entry)
            }
            Step::Failed(path, error) => Item::Failed(path.to_vec(), error),
            _ => return Ok(()),
        };
        if matches!(place.home, Home::Alone) {
            return self.item(place, item);
        }
        line.give(item);
        Ok(())
    }

    fn item(&mut self, place: &Place, item: Item<'_>) -> anyhow::Result<()> {
        let label = |path: &[u8]| place.label_of(path);
        let written = match item {
            Item::File(path, entry) => self.file(&place.tree, &|| label(&path), &entry),
            Item::Begun(path, reader, first) => {
                self.rest_of_file(&|| label(&path), &reader, Some(first))
            }
            Item::Failed(path, error) => {
                let shown = escape::text(&label(&path));
                Err(anyhow::anyhow!("{shown}: {error}"))
            }
        };
        self.settle(written)
    }
}
