//! Transfers by threads that wait, in order: where there is no ring, and for comparison.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags};

use super::transfer::{Call, Progress, Target, Transfer};
use crate::request::complete;
use crate::{Segment, Workers};

/// Dropping it waits for all transfers.
pub(super) struct FileWorkers {
    target: Arc<Target>,
    workers: Workers,
}

impl FileWorkers {
    pub(super) fn new(target: &Arc<Target>, threads_max: u32) -> Self {
        Self {
            target: target.clone(),
            workers: Workers::new("pagewell-io", threads_max as usize),
        }
    }

    pub(super) fn submit(&self, transfers: Vec<Transfer>) {
        for transfer in transfers {
            let target = self.target.clone();
            if let Err(work) = self.workers.run(move || run(&target, transfer)) {
                // Without a thread the caller does it.
                work();
            }
        }
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
