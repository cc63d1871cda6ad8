//! Work on many objects, several at a time, on this thread and those that the budget of uploads
//! spares.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pagewell_base::sync::Mutex;

use super::upload::Budget;

const PARALLEL_MAX: usize = 16;

/// Does `work` with each item, until one fails.
pub(super) fn side_by_side<T: Sync, E: Send>(
    budget: &Budget,
    items: &[T],
    work: &(dyn Fn(&T) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let is_stopped = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let go_on = || {
        while !is_stopped.load(Ordering::Acquire)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(failed) = work(item) {
                failure.lock().get_or_insert(failed);
                is_stopped.store(true, Ordering::Release);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(PARALLEL_MAX) {
            let Some(helper) = budget.helper() else {
                break;
            };
            let go_on = &go_on;
            let help = move || {
                go_on();
                drop(helper);
            };
            let thread = thread::Builder::new().name("pagewell-send".to_owned());
            // Without a thread the others do the work.
            let _ = thread.spawn_scoped(scope, help);
        }
        go_on();
    });
    failure.into_inner().map_or(Ok(()), Err)
}
