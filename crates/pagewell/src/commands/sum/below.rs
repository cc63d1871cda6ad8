//! Sums all files below a directory: several threads do, and the sums are told in the order of the
//! names.

use anyhow::anyhow;
use pagewell_fs::{Entry, FileType};
use pagewell_tree::Tree;
use pagewell_tree::pipeline::{Pipeline, Work};
use pagewell_tree::walk::Step;

use super::{Summer, digest};
use crate::commands::below::in_order;
use crate::escape;
use crate::failure;
use crate::location::Place;

/// Larger files are summed by the thread of the walk, which shows how far it has come.
const SMALL_BYTES: u64 = 16 << 20;

/// What is told in the order of the walk.
enum Item {
    /// A file to be summed.
    File(Vec<u8>, Entry),
    /// A sum and the number of bytes, or why there is none.
    Sum(Vec<u8>, pagewell_fs::Result<(String, u64)>),
    /// A failure of the walk.
    Failed(Vec<u8>, pagewell_fs::Error),
}

struct Summing<'a>(&'a Tree);

impl Work for Summing<'_> {
    type Item = Item;
    /// Room for what is read.
    type Tools = Vec<u8>;

    fn tools(&self) -> Vec<u8> {
        Vec::new()
    }

    fn work(&self, buffer: &mut Vec<u8>, item: &mut Item) {
        if let Item::File(path, entry) = item {
            let sum = digest(self.0, entry, buffer, &mut |_| {});
            *item = Item::Sum(std::mem::take(path), sum);
        }
    }
}

impl Summer {
    /// Sums all regular files below a directory.
    pub(super) fn below(&mut self, place: &Place, start: &Entry) -> anyhow::Result<()> {
        in_order(
            &Summing(&place.tree),
            (place, start),
            self,
            |summer, line, step| summer.step(line, place, step),
            |summer, item| summer.item(place, item),
        )
    }

    fn step(
        &mut self,
        line: &mut Pipeline<'_, '_, Summing<'_>>,
        place: &Place,
        step: Step<'_>,
    ) -> anyhow::Result<()> {
        match step {
            Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                if entry.attributes.size <= SMALL_BYTES {
                    line.give(Item::File(path.to_vec(), *entry));
                } else {
                    self.progress.begin(&escape::text(&place.label_of(path)));
                    let progress = &mut self.progress;
                    let count = &mut |bytes| progress.add(bytes);
                    let sum = digest(&place.tree, entry, &mut self.buffer, count);
                    line.give(Item::Sum(path.to_vec(), sum));
                }
            }
            Step::Failed(path, error) => line.give(Item::Failed(path.to_vec(), error)),
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, place: &Place, item: Item) -> anyhow::Result<()> {
        let (path, error) = match item {
            Item::Sum(path, Ok((sum, bytes))) => {
                let (name, label) = (self.name_of(place, &path), place.label_of(&path));
                if bytes <= SMALL_BYTES {
                    self.progress.add_of(bytes, &label);
                }
                return self.tell((&name, &label), &sum, bytes);
            }
            Item::Sum(path, Err(error)) | Item::Failed(path, error) => (path, error),
            // Each item was worked on.
            Item::File(..) => return Ok(()),
        };
        let shown = escape::text(&place.label_of(&path));
        self.fail(&failure::one_line(&anyhow!(error).context(shown)));
        Ok(())
    }
}
