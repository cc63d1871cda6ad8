//! Transfers by threads that wait: where there is no ring, and for comparison.
//!
//! A thread starts when a transfer comes and none is idle, up to the limit, and ends when the
//! device is dropped, after all transfers. Transfers run in order. The server's pool (turns by
//! client) and a mount's workers (bounds by memory) have other rules, so nothing is shared.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::thread::JoinHandle;

use pagewell_base::sync::{Condvar, Mutex};
use rustix::io::{Errno, ReadWriteFlags};

use super::transfer::{Call, Progress, Target, Transfer};
use crate::Segment;
use crate::request::{complete, join_others};

pub(super) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    target: Arc<Target>,
    threads_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Transfer>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for work, or were notified and are about to take it.
    idle: usize,
    closing: bool,
}

impl Workers {
    pub(super) fn new(target: &Arc<Target>, threads_max: u32) -> Self {
        Self {
            shared: Arc::new(Shared {
                target: target.clone(),
                threads_max: threads_max as usize,
                state: Mutex::default(),
                work: Condvar::new(),
            }),
        }
    }

    pub(super) fn submit(&self, transfers: Vec<Transfer>) {
        let mut state = self.shared.state.lock();
        for transfer in transfers {
            state.queue.push_back(transfer);
            self.shared.work.notify_one();
            let too_few = state.queue.len() > state.idle;
            if too_few && state.threads.len() < self.shared.threads_max {
                start_one(&self.shared, &mut state);
            }
        }
        if !state.threads.is_empty() {
            return;
        }
        // The system gives no thread at all: the caller does the work.
        let orphans = std::mem::take(&mut state.queue);
        drop(state);
        for transfer in orphans {
            run(&self.shared.target, transfer);
        }
    }
}

fn start_one(shared: &Arc<Shared>, state: &mut State) {
    let own = shared.clone();
    let builder = std::thread::Builder::new().name("pagewell-io".to_owned());
    // On failure the running threads go on alone.
    state.threads.extend(builder.spawn(move || own.work()));
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(transfer) = state.queue.pop_front() {
                drop(state);
                run(&self.target, transfer);
                state = self.state.lock();
                continue;
            }
            if state.closing {
                return;
            }
            state.idle += 1;
            state = self.work.wait(state);
            state.idle -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closing = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.work.notify_all();
        join_others(threads);
    }
}

fn run(target: &Target, mut transfer: Transfer) {
    loop {
        let (offset, segments) = transfer.attempt(target);
        let answer = call(target, &transfer, offset, &segments);
        match transfer.advance(target, answer) {
            Progress::Again(again) => transfer = again,
            Progress::Finished(request, outcome) => return complete(request, outcome),
        }
    }
}

fn call(
    target: &Target,
    transfer: &Transfer,
    offset: u64,
    segments: &[Segment],
) -> Result<usize, Errno> {
    let file = transfer.descriptor(target);
    match transfer.call {
        Call::Flush => rustix::fs::fdatasync(file).map(|()| 0),
        Call::Read => {
            let slices = segments.iter().map(|segment| {
                // SAFETY: disjoint parts of the request's memory, which is exclusive until the
                // completion; `transfer` owns it and lives longer.
                let slice = unsafe {
                    std::slice::from_raw_parts_mut(segment.start().as_ptr(), segment.len())
                };
                IoSliceMut::new(slice)
            });
            rustix::io::preadv(file, &mut slices.collect::<Vec<_>>(), offset)
        }
        call @ (Call::Write | Call::DurableWrite) => {
            let slices = segments.iter().map(|segment| {
                // SAFETY: as above; the memory of a write has no writer.
                let slice =
                    unsafe { std::slice::from_raw_parts(segment.start().as_ptr(), segment.len()) };
                IoSlice::new(slice)
            });
            let slices: Vec<_> = slices.collect();
            if call == Call::Write {
                return rustix::io::pwritev(file, &slices, offset);
            }
            rustix::io::pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC)
        }
    }
}
