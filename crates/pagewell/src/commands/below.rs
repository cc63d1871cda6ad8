//! All regular files below a directory: several threads work on them ahead, and what came of it is
//! settled in the order of the names.

use pagewell_fs::{Entry, FileType, Result};
use pagewell_tree::pipeline::{self, Width, Worker};
use pagewell_tree::walk::{Next, Step, walk};

use crate::location::Place;

/// A file, or a failure of the walk.
struct Item<T> {
    path: Vec<u8>,
    found: Result<Entry>,
    ahead: Option<T>,
}

/// Walks below `start`. `ahead` works on a file, or leaves it alone, on any thread; `settle` gets
/// the path of each file with that in order, and what cannot be listed. The first error of it ends
/// the walk.
pub(super) fn each_file<T: Send>(
    (place, start): (&Place, &Entry),
    width: Width,
    ahead: &(dyn Fn(&Entry, &mut Vec<u8>) -> Option<T> + Sync),
    mut settle: impl FnMut(&[u8], Result<(Entry, Option<T>)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut settle = |item: Item<T>| {
        let found = item.found.map(|entry| (entry, item.ahead));
        settle(&item.path, found)
    };
    let worker = || -> Worker<'_, Item<T>> {
        // Memory for what is read.
        let mut buffer = Vec::new();
        Box::new(move |item| {
            let entry = item.found.as_ref().ok();
            item.ahead = entry.and_then(|entry| ahead(entry, &mut buffer));
        })
    };
    pipeline::run(&worker, width, |line| {
        walk::<anyhow::Error>(&place.tree, place.listers(), start, &mut |step| {
            let (path, found) = match step {
                Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                    (path, Ok(*entry))
                }
                Step::Failed(path, error) => (path, Err(error)),
                _ => return Ok(Next::Go),
            };
            line.give(Item {
                path: path.to_vec(),
                found,
                ahead: None,
            });
            while let Some(item) = line.take() {
                settle(item)?;
            }
            Ok(Next::Go)
        })?;
        while let Some(item) = line.finish() {
            settle(item)?;
        }
        Ok(())
    })
}
