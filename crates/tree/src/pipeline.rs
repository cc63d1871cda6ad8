//! Work on many small items by several threads, with results in the order of the items.
//!
//! The work for each name of a walk waits, for the kernel or a server; but messages come in the
//! order of the walk. Items travel in batches, so that waking a thread serves many. The thread of
//! the walk takes a batch instead of waiting. Results are taken batch by batch, the oldest first.
//!
//! ```text
//!   give ──> open batch ──full──> waiting ──> threads ──> done ──oldest first──> take
//!                                    └──> the giver, when too much is in flight
//! ```
//!
//! At most twice as many batches as threads are in flight ([`Width::window`]). Each full batch
//! starts a thread up to the limit: a small tree needs none.
//!
//! Weakness: a slow item holds back the results of later ones, in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use pagewell_base::sync::Mutex;

use crate::helpers::Helpers;

/// Makes the worker of a thread.
pub type Workers<'work, Item> = dyn Fn() -> Worker<'work, Item> + Sync + 'work;

/// Works on a batch, whose items then hold the results.
pub type Worker<'work, Item> = Box<dyn FnMut(&mut [Item]) + 'work>;

/// The parallelism of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Beside that of the giver.
    pub threads: usize,
    /// Of a batch.
    pub batch: usize,
}

impl Width {
    /// The giver works item by item.
    pub const NONE: Self = Self {
        threads: 0,
        batch: 1,
    };

    /// For work that waits for a server, which answers only so many calls at a time.
    pub const REMOTE: Self = Self {
        threads: 15,
        batch: 4,
    };

    /// For work of this machine's processors. Threads that change one directory wait for each
    /// other, so a few suffice.
    pub fn local() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: processors.clamp(1, 4) - 1,
            batch: 16,
        }
    }

    /// Most batches in flight.
    fn window(self) -> usize {
        2 * (self.threads + 1)
    }
}

/// Items that travel together; the thread that works on them has the lock.
struct Batch<T> {
    items: Vec<T>,
    is_done: bool,
}

impl<Item> Batch<Item> {
    fn work(&mut self, worker: &mut Worker<'_, Item>) {
        // Taken out: after a panic nothing is repeated.
        let mut items = std::mem::take(&mut self.items);
        worker(&mut items);
        self.items = items;
        self.is_done = true;
    }
}

/// The giver's end.
pub struct Pipeline<'scope, 'env, 'work, Item> {
    /// Weak: helpers cannot reach what was taken back or dropped.
    helpers: Helpers<'scope, 'env, Weak<Mutex<Batch<Item>>>>,
    workers: &'scope Workers<'work, Item>,
    width: Width,
    /// The giver's own.
    worker: Option<Worker<'work, Item>>,
    open: Vec<Item>,
    /// In flight, the oldest first.
    sent: VecDeque<Arc<Mutex<Batch<Item>>>>,
    taking: std::vec::IntoIter<Item>,
}

/// Runs `body` with a pipeline; drops results that `body` did not take.
pub fn run<'work, Item: Send, R>(
    workers: &Workers<'work, Item>,
    width: Width,
    body: impl FnOnce(&mut Pipeline<'_, '_, 'work, Item>) -> R,
) -> R {
    std::thread::scope(|scope| {
        let mut pipeline = Pipeline {
            helpers: Helpers::new(scope, "worker", width.threads),
            workers,
            width,
            worker: None,
            open: Vec::new(),
            sent: VecDeque::new(),
            taking: Vec::new().into_iter(),
        };
        body(&mut pipeline)
    })
}

impl<Item: Send> Pipeline<'_, '_, '_, Item> {
    /// Adds an item. Then call [`Pipeline::take`] until it returns nothing.
    pub fn give(&mut self, item: Item) {
        self.open.push(item);
        if self.open.len() >= self.width.batch {
            let batch = Arc::downgrade(self.send());
            let workers = self.workers;
            self.helpers.give(batch, move |batches| {
                let mut worker = workers();
                for batch in batches.filter_map(|batch| batch.upgrade()) {
                    // What has the lock, or is done, is the giver's.
                    if let Some(mut batch) = batch.try_lock().filter(|batch| !batch.is_done) {
                        batch.work(&mut worker);
                    }
                }
            });
        }
    }

    /// The next item in order, if done; waits when too many are in flight.
    pub fn take(&mut self) -> Option<Item> {
        // Once a batch is enough.
        if self.taking.as_slice().is_empty() && !self.open.is_empty() {
            return None;
        }
        self.next(self.sent.len() > self.width.window())
    }

    /// The next item in order, after the last was given.
    pub fn finish(&mut self) -> Option<Item> {
        if !self.open.is_empty() {
            self.send();
        }
        self.next(true)
    }

    fn next(&mut self, waits: bool) -> Option<Item> {
        if self.taking.as_slice().is_empty() {
            self.taking = self.next_batch(waits)?.into_iter();
        }
        self.taking.next()
    }

    fn send(&mut self) -> &Arc<Mutex<Batch<Item>>> {
        let items = std::mem::replace(&mut self.open, Vec::with_capacity(self.width.batch));
        self.sent.push_back_mut(Arc::new(Mutex::new(Batch {
            items,
            is_done: false,
        })))
    }

    /// The oldest batch, if done; `waits`: once it is, the giver working meanwhile.
    fn next_batch(&mut self, waits: bool) -> Option<Vec<Item>> {
        loop {
            let oldest = self.sent.front()?;
            let done = oldest.try_lock().filter(|batch| batch.is_done);
            if let Some(items) = done.map(|mut batch| std::mem::take(&mut batch.items)) {
                self.sent.pop_front();
                return Some(items);
            }
            if !waits {
                return None;
            }
            let mut locked = self.sent.iter().filter_map(|batch| batch.try_lock());
            match locked.find(|batch| !batch.is_done) {
                Some(mut batch) => {
                    batch.work(self.worker.get_or_insert_with(self.workers));
                }
                None => drop(oldest.lock()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Doubles numbers, and counts how many it has been given and not done.
    #[derive(Default)]
    struct Double {
        worked: AtomicUsize,
        threads: AtomicUsize,
    }

    impl Double {
        fn worker(&self) -> Worker<'_, usize> {
            self.threads.fetch_add(1, Ordering::SeqCst);
            Box::new(|items| {
                for item in items {
                    assert_ne!(*item, usize::MAX, "the item that nobody can work on");
                    if item.is_multiple_of(37) {
                        std::thread::yield_now();
                    }
                    *item *= 2;
                    self.worked.fetch_add(1, Ordering::SeqCst);
                }
            })
        }
    }

    const WIDTHS: [Width; 4] = [
        Width::REMOTE,
        Width {
            threads: 0,
            batch: 3,
        },
        Width {
            threads: 1,
            batch: 1,
        },
        Width {
            threads: 3,
            batch: 16,
        },
    ];

    #[test]
    fn items_come_back_in_order_and_few_are_on_their_way() {
        for width in WIDTHS {
            for count in [0, 1, 5, 1000] {
                let double = Double::default();
                let bound = (width.window() + 2) * width.batch;
                let taken = run(&|| double.worker(), width, |pipeline| {
                    let mut taken = Vec::new();
                    for item in 0..count {
                        pipeline.give(item);
                        while let Some(done) = pipeline.take() {
                            taken.push(done);
                        }
                        assert!(item + 1 - taken.len() <= bound, "{width:?}");
                    }
                    while let Some(done) = pipeline.finish() {
                        taken.push(done);
                    }
                    taken
                });
                let expected: Vec<usize> = (0..count).map(|item| item * 2).collect();
                assert_eq!(taken, expected, "{width:?}");
                let threads = double.threads.load(Ordering::SeqCst);
                assert!(threads <= width.threads + 1, "{threads} of {width:?}");
            }
        }
    }

    #[test]
    fn a_batch_that_is_not_full_starts_no_thread() {
        let double = Double::default();
        let width = Width {
            threads: 3,
            batch: 16,
        };
        let taken = run(&|| double.worker(), width, |pipeline| {
            (0..3).for_each(|item| pipeline.give(item));
            assert_eq!(pipeline.take(), None);
            std::iter::from_fn(|| pipeline.finish()).collect::<Vec<_>>()
        });
        assert_eq!(taken, [0, 2, 4]);
        assert_eq!(double.threads.load(Ordering::SeqCst), 1, "the giver's own");
    }

    #[test]
    fn what_is_not_taken_back_is_dropped_and_holds_nobody_up() {
        for width in WIDTHS {
            let double = Double::default();
            run(&|| double.worker(), width, |pipeline| {
                (0..50).for_each(|item| pipeline.give(item));
            });
            assert!(double.worked.load(Ordering::SeqCst) <= 50);
        }
    }

    #[test]
    fn a_panic_of_a_thread_reaches_the_giver() {
        let width = Width {
            threads: 1,
            batch: 1,
        };
        let outcome = std::panic::catch_unwind(|| {
            let double = Double::default();
            run(&|| double.worker(), width, |pipeline| {
                pipeline.give(usize::MAX);
                while pipeline.finish().is_some() {}
            });
        });
        assert!(outcome.is_err());
    }
}
