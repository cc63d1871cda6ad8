//! All regular files below a directory: threads work ahead, and results are settled in the order of
//! the names.

use pagewell_fs::{Entry, FileType, Result};
use pagewell_tree::pipeline::{self, Width, Worker};
use pagewell_tree::walk::{Next, Step, walk};

use crate::location::Place;

struct Item<T> {
    path: Vec<u8>,
    found: Result<Entry>,
    ahead: Option<T>,
}

impl<T> Item<T> {
    fn settle(
        self,
        settle: &mut impl FnMut(&[u8], Result<(Entry, Option<T>)>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let found = self.found.map(|entry| (entry, self.ahead));
        settle(&self.path, found)
    }
}

/// Walks below `start`. With a width, threads call `ahead` for each file, which may leave it alone.
/// `settle` gets paths in order with that, and what cannot be listed; its first error ends the
/// walk.
pub(super) fn each_file<T: Send>(
    (place, start): (&Place, &Entry),
    width: Option<Width>,
    ahead: &(dyn Fn(&Entry, &mut Vec<u8>) -> Option<T> + Sync),
    mut settle: impl FnMut(&[u8], Result<(Entry, Option<T>)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let worker = || -> Worker<'_, Item<T>> {
        let mut buffer = Vec::new();
        Box::new(move |items| {
            for item in items {
                let entry = item.found.as_ref().ok();
                item.ahead = entry.and_then(|entry| ahead(entry, &mut buffer));
            }
        })
    };
    pipeline::run(&worker, width.unwrap_or(Width::NONE), |line| {
        walk::<anyhow::Error>(&place.tree, place.preparation(), start, &mut |step| {
            let (path, found) = match step {
                Step::Object(path, entry) if entry.attributes.file_type == FileType::Regular => {
                    (path, Ok(*entry))
                }
                Step::Failed(path, error) => (path, Err(error)),
                _ => return Ok(Next::Go),
            };
            if width.is_none() {
                settle(path, found.map(|entry| (entry, None)))?;
                return Ok(Next::Go);
            }
            line.give(Item {
                path: path.to_vec(),
                found,
                ahead: None,
            });
            while let Some(item) = line.take() {
                item.settle(&mut settle)?;
            }
            Ok(Next::Go)
        })?;
        while let Some(item) = line.finish() {
            item.settle(&mut settle)?;
        }
        Ok(())
    })
}
