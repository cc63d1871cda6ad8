//! Where the outcomes of several requests meet that were made of one.

use std::sync::Arc;

use pagewell_base::sync::Mutex;

use super::{Completion, Outcome};

struct Gathering<T> {
    outcomes: Vec<Outcome>,
    missing: usize,
    then: Option<T>,
}

/// Completions for `count` requests. When all of them have been called, `then` gets the outcomes,
/// in the order of the requests.
pub(super) fn gather<T>(count: usize, then: T) -> impl Iterator<Item = Completion>
where
    T: FnOnce(Vec<Outcome>) + Send + 'static,
{
    let missing = Outcome {
        transferred_bytes: 0,
        result: Ok(()),
    };
    let gathering = Arc::new(Mutex::new(Gathering {
        outcomes: vec![missing; count],
        missing: count,
        then: Some(then),
    }));
    (0..count).map(move |index| -> Completion {
        let gathering = gathering.clone();
        Box::new(move |outcome| arrive(&gathering, index, outcome))
    })
}

fn arrive<T: FnOnce(Vec<Outcome>)>(to: &Mutex<Gathering<T>>, index: usize, outcome: Outcome) {
    let mut gathering = to.lock();
    if let Some(slot) = gathering.outcomes.get_mut(index) {
        *slot = outcome;
    }
    gathering.missing -= 1;
    if gathering.missing > 0 {
        return;
    }
    let outcomes = std::mem::take(&mut gathering.outcomes);
    let then = gathering.then.take();
    drop(gathering);
    if let Some(then) = then {
        then(outcomes);
    }
}
