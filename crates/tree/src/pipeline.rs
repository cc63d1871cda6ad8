//! Work on many small items that several threads do, and that is taken back in the order in which
//! it was given.
//!
//! **Problem.** A walk comes to one name after the other. What is done with each waits, for the
//! kernel or for a server; but what is printed, and every message, comes in the order of the walk.
//!
//! **Rule.** Items travel in batches, so that a thread is woken for many of them. A batch waits
//! until a thread takes it; the thread of the walk takes one itself when it would have to wait
//! otherwise. What is done is taken back batch by batch, the first that was given first.
//!
//! ```text
//!   give ──> open batch ──full──> waiting ──> threads ──> done ──oldest first──> take
//!                                    └──> the giver, when too much is on its way
//! ```
//!
//! Bounded: at most twice as many batches as threads are on their way ([`Width::window`]). A thread
//! is only started for a batch that no idle thread will take: a small tree needs none.
//!
//! **Known weakness.** One item that takes long holds back all that come after it, which wait in
//! memory, done; large items are better done by the giver.

use std::collections::{HashMap, VecDeque};
use std::thread::{Builder, Scope};

use pagewell_base::sync::{Condvar, Mutex};

/// What is done with an item.
pub trait Work: Sync {
    /// What is worked on; afterwards it holds what came of it.
    type Item: Send;
    /// What each thread has for itself.
    type Tools;

    /// The tools of one thread.
    fn tools(&self) -> Self::Tools;

    /// Works on one item.
    fn work(&self, tools: &mut Self::Tools, item: &mut Self::Item);
}

/// How much is done at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Threads besides that of the giver.
    pub threads: usize,
    /// Items of a batch.
    pub batch: usize,
}

impl Width {
    /// For work that a server waits for, not a processor. Servers answer so many calls at a time;
    /// more would wait there.
    pub const REMOTE: Self = Self {
        threads: 15,
        batch: 4,
    };

    /// For work that the processors of this machine do. Threads that change one directory wait for
    /// each other in the kernel: more than a few only make others wait.
    pub fn local() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: processors.clamp(1, 4) - 1,
            batch: 16,
        }
    }

    /// Batches that may be on their way.
    fn window(self) -> u64 {
        2 * (self.threads as u64 + 1)
    }
}

struct State<T> {
    waiting: VecDeque<(u64, Vec<T>)>,
    done: HashMap<u64, Vec<T>>,
    /// Threads that wait for a batch.
    idle: usize,
    giver_waits: bool,
    /// Nothing more comes.
    has_ended: bool,
    /// A thread panicked: its batch never comes back.
    is_broken: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    given: Condvar,
    returned: Condvar,
}

/// The giver's end.
pub struct Pipeline<'scope, 'env, W: Work> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'scope Shared<W::Item>,
    work: &'scope W,
    width: Width,
    threads: usize,
    /// The giver's own.
    tools: Option<W::Tools>,
    open: Vec<W::Item>,
    /// Batches that were sent, and those of them that were taken back.
    sent: u64,
    taken: u64,
    taking: std::vec::IntoIter<W::Item>,
}

/// Runs `body` with a pipeline. What `body` has not taken back when it ends is dropped.
pub fn run<W: Work, R>(
    work: &W,
    width: Width,
    body: impl FnOnce(&mut Pipeline<'_, '_, W>) -> R,
) -> R {
    let shared = Shared {
        state: Mutex::new(State {
            waiting: VecDeque::new(),
            done: HashMap::new(),
            idle: 0,
            giver_waits: false,
            has_ended: false,
            is_broken: false,
        }),
        given: Condvar::new(),
        returned: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let mut pipeline = Pipeline {
            scope,
            shared: &shared,
            work,
            width,
            threads: 0,
            tools: None,
            open: Vec::new(),
            sent: 0,
            taken: 0,
            taking: Vec::new().into_iter(),
        };
        body(&mut pipeline)
    })
}

impl<W: Work> Drop for Pipeline<'_, '_, W> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.has_ended = true;
        state.waiting.clear();
        drop(state);
        self.shared.given.notify_all();
    }
}

impl<W: Work> Pipeline<'_, '_, W> {
    /// Gives the next item. After it, [`Pipeline::take`] is called until it has nothing.
    pub fn give(&mut self, item: W::Item) {
        self.open.push(item);
        if self.open.len() >= self.width.batch {
            self.send();
            self.start_if_short();
        }
    }

    /// The next item in order, if it is done; when too many are on their way, it is waited for.
    pub fn take(&mut self) -> Option<W::Item> {
        if let Some(item) = self.taking.next() {
            return Some(item);
        }
        // Once for each batch is often enough to look.
        if !self.open.is_empty() {
            return None;
        }
        let is_full = self.sent - self.taken > self.width.window();
        self.taking = self.next_batch(is_full)?.into_iter();
        self.taking.next()
    }

    /// The next item in order, after the last was given: nothing when all were taken.
    pub fn finish(&mut self) -> Option<W::Item> {
        if let Some(item) = self.taking.next() {
            return Some(item);
        }
        if !self.open.is_empty() {
            self.send();
        }
        if self.taken == self.sent {
            return None;
        }
        self.taking = self.next_batch(true)?.into_iter();
        self.taking.next()
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.open, Vec::with_capacity(self.width.batch));
        let mut state = self.shared.state.lock();
        state.waiting.push_back((self.sent, batch));
        let has_idle = state.idle > 0;
        drop(state);
        self.sent += 1;
        if has_idle {
            self.shared.given.notify_one();
        }
    }

    /// Starts a thread when none of those that are there will take the last batch soon. When there
    /// can be no more, those that are there do the work.
    fn start_if_short(&mut self) {
        let (shared, work) = (self.shared, self.work);
        if self.threads >= self.width.threads {
            return;
        }
        let state = shared.state.lock();
        if state.waiting.len() <= state.idle {
            return;
        }
        drop(state);
        let started = Builder::new()
            .name("worker".to_owned())
            .spawn_scoped(self.scope, move || serve(shared, work));
        match started {
            Ok(_) => self.threads += 1,
            Err(_) => self.width.threads = self.threads,
        }
    }

    /// The oldest batch, if it is done; with `waits`, as soon as it is.
    fn next_batch(&mut self, waits: bool) -> Option<Vec<W::Item>> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(batch) = state.done.remove(&self.taken) {
                self.taken += 1;
                return Some(batch);
            }
            // What a thread has left behind when it panicked never comes; its panic goes on when
            // all threads have ended.
            if !waits || state.is_broken {
                return None;
            }
            if let Some((number, mut batch)) = state.waiting.pop_front() {
                drop(state);
                let tools = self.tools.get_or_insert_with(|| self.work.tools());
                for item in &mut batch {
                    self.work.work(tools, item);
                }
                state = self.shared.state.lock();
                state.done.insert(number, batch);
                continue;
            }
            state.giver_waits = true;
            state = self.shared.returned.wait(state);
            state.giver_waits = false;
        }
    }
}

/// Lets the giver go on when a thread panics.
struct Unbroken<'a, T>(&'a Shared<T>);

impl<T> Drop for Unbroken<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().is_broken = true;
            self.0.returned.notify_all();
        }
    }
}

/// What a thread does until nothing more comes.
fn serve<W: Work>(shared: &Shared<W::Item>, work: &W) {
    let _unbroken = Unbroken(shared);
    let mut tools = work.tools();
    let mut state = shared.state.lock();
    loop {
        if let Some((number, mut batch)) = state.waiting.pop_front() {
            drop(state);
            for item in &mut batch {
                work.work(&mut tools, item);
            }
            state = shared.state.lock();
            state.done.insert(number, batch);
            if state.giver_waits {
                shared.returned.notify_one();
            }
        } else if state.has_ended {
            return;
        } else {
            state.idle += 1;
            state = shared.given.wait(state);
            state.idle -= 1;
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

    impl Work for Double {
        type Item = usize;
        type Tools = ();

        fn tools(&self) {
            self.threads.fetch_add(1, Ordering::SeqCst);
        }

        fn work(&self, (): &mut (), item: &mut usize) {
            assert_ne!(*item, usize::MAX, "the item that nobody can work on");
            if item.is_multiple_of(37) {
                std::thread::yield_now();
            }
            *item *= 2;
            self.worked.fetch_add(1, Ordering::SeqCst);
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
                let bound = (width.window() as usize + 2) * width.batch;
                let taken = run(&double, width, |pipeline| {
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
        let taken = run(&double, width, |pipeline| {
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
            run(&double, width, |pipeline| {
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
            run(&Double::default(), width, |pipeline| {
                pipeline.give(usize::MAX);
                while pipeline.finish().is_some() {}
            });
        });
        assert!(outcome.is_err());
    }
}
