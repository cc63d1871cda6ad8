//! What is done with all that is below a directory by several threads, and told in the order of the
//! names.

use pagewell_fs::Entry;
use pagewell_tree::pipeline::{self, Pipeline, Work};
use pagewell_tree::walk::{Next, Step, walk};

use crate::location::Place;

/// Walks below `start`: `step` gives items to the pipeline, and `settle` gets them back, worked on,
/// in the order in which they were given. Both act on `state`. The first error ends the walk.
pub(super) fn in_order<W: Work, S>(
    work: &W,
    (place, start): (&Place, &Entry),
    state: &mut S,
    step: impl Fn(&mut S, &mut Pipeline<'_, '_, W>, Step<'_>) -> anyhow::Result<()>,
    settle: impl Fn(&mut S, W::Item) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    pipeline::run(work, place.width(), |line| {
        walk(
            &place.tree,
            place.listers(),
            start,
            &mut |found| -> anyhow::Result<Next> {
                step(state, line, found)?;
                while let Some(item) = line.take() {
                    settle(state, item)?;
                }
                Ok(Next::Go)
            },
        )?;
        while let Some(item) = line.finish() {
            settle(state, item)?;
        }
        Ok(())
    })
}
