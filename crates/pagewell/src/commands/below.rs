//! All regular files below a directory: several threads work on them ahead, and what came of it is
//! settled in the order of the names.

use pagewell_fs::{Entry, FileType, Result};
use pagewell_tree::pipeline::{self, Width, Work};
use pagewell_tree::walk::{Next, Step, walk};

use crate::location::Place;

/// A file, or a failure of the walk.
struct Item<T> {
    path: Vec<u8>,
    found: Result<Entry>,
    ahead: Option<T>,
}

struct Ahead<F>(F);

impl<T: Send, F: Fn(&Entry, &mut Vec<u8>) -> Option<T> + Sync> Work for Ahead<F> {
    type Item = Item<T>;
    /// Memory for what is read.
    type Tools = Vec<u8>;

    fn tools(&self) -> Vec<u8> {
        Vec::new()
    }

    fn work(&self, buffer: &mut Vec<u8>, item: &mut Item<T>) {
        let entry = item.found.as_ref().ok();
        item.ahead = entry.and_then(|entry| (self.0)(entry, buffer));
    }
}

/// Has `visit` see the path of each file below `start`, and what cannot be listed.
fn files_below(
    place: &Place,
    start: &Entry,
    mut visit: impl FnMut(&[u8], Result<Entry>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    walk(&place.tree, place.listers(), start, &mut |step| {
        match step {
            Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                visit(path, Ok(*entry))?;
            }
            Step::Failed(path, error) => visit(path, Err(error))?,
            _ => {}
        }
        Ok(Next::Go)
    })
}

/// Walks below `start`. `ahead` works on a file, or leaves it alone, on any thread, or nothing does
/// without a width; `settle` gets the path of each file with that in order. The first error of it
/// ends the walk.
pub(super) fn each_file<T: Send>(
    (place, start): (&Place, &Entry),
    width: Option<Width>,
    ahead: impl Fn(&Entry, &mut Vec<u8>) -> Option<T> + Sync,
    mut settle: impl FnMut(&[u8], Result<(Entry, Option<T>)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(width) = width else {
        return files_below(place, start, |path, found| {
            settle(path, found.map(|entry| (entry, None)))
        });
    };
    let mut settle = |item: Item<T>| {
        let found = item.found.map(|entry| (entry, item.ahead));
        settle(&item.path, found)
    };
    pipeline::run(&Ahead(ahead), width, |line| {
        files_below(place, start, |path, found| {
            line.give(Item {
                path: path.to_vec(),
                found,
                ahead: None,
            });
            while let Some(item) = line.take() {
                settle(item)?;
            }
            Ok(())
        })?;
        while let Some(item) = line.finish() {
            settle(item)?;
        }
        Ok(())
    })
}
