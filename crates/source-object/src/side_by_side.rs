//! Work on many files, several at a time, on this thread and those that the budget of uploads
//! spares.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::upload::Budget;

/// Files at a time.
const FILES_MAX: usize = 16;

/// Does `work` with each item.
pub(super) fn side_by_side<T: Sync>(budget: &Budget, items: &[T], work: &(dyn Fn(&T) + Sync)) {
    let next = AtomicUsize::new(0);
    let go_on = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(FILES_MAX) {
            let Some(helper) = budget.helper() else {
                break;
            };
            let go_on = &go_on;
            let help = move || {
                go_on();
                drop(helper);
            };
            let thread = thread::Builder::new().name("pagewell-send".to_owned());
            // Where there is no thread, the others do it.
            let _ = thread.spawn_scoped(scope, help);
        }
        go_on();
    });
}
