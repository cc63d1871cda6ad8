//! On which processor a reader runs: where the packets of its connections arrive.
//!
//! # Problem
//!
//! The kernel leaves a thread on the processor where it was last, for minutes, as long as that one
//! has no more to do than others. When all have work, a reader whose calls arrive on another
//! processor is woken across processors for each call, and what a client of this machine reads
//! lies in the wrong caches: four connections that read 64 KiB at a time had a sixth less.
//!
//! # Rule
//!
//! Once in a while a reader asks the kernel where the last packet of the connection arrived that
//! it has just served. When that is the same other processor twice, the reader moves there and is
//! free again at once: the kernel may move it as before. If it has done so by the next time, that
//! processor had too much to do, and the reader asks half as often from then on.
//!
//! Only while more readers are at work than half the processors. With fewer, client and server
//! do better on two processors.
//!
//! # Weakness
//!
//! A reader has one processor, and its connections may arrive on several: then it stays where it
//! is, or moves to one of them.

use std::os::fd::AsFd;

use rustix::net::sockopt::socket_incoming_cpu;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Waits from one look to the next, at the least and at the most: some milliseconds, some minutes.
const WAITS_MIN: u32 = 64;
const WAITS_MAX: u32 = 1 << 20;

/// What one reader knows of where it ran.
#[derive(Debug)]
pub(super) struct Following {
    waits: u32,
    interval: u32,
    /// Where packets arrived at the last look, if not here.
    wanted: Option<usize>,
    /// Where it has moved at the last look.
    moved_to: Option<usize>,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            waits: 0,
            interval: WAITS_MIN,
            wanted: None,
            moved_to: None,
        }
    }
}

impl Following {
    /// The reader has waited, while many were at work; `connection` was served last.
    pub(super) fn waited(&mut self, connection: impl AsFd) {
        self.waits += 1;
        if self.waits < self.interval {
            return;
        }
        self.waits = 0;
        let Ok(arrives) = socket_incoming_cpu(connection) else {
            return;
        };
        if let Some(processor) = self.choose(arrives as usize, sched_getcpu()) {
            // Where it may not run it stays.
            let _ = move_to(processor);
        }
    }

    /// Where to move, when packets arrive on one processor and the reader runs on another.
    fn choose(&mut self, arrives: usize, runs: usize) -> Option<usize> {
        if let Some(moved_to) = self.moved_to.take() {
            self.interval = match moved_to == runs {
                true => WAITS_MIN,
                false => (2 * self.interval).min(WAITS_MAX),
            };
        }
        let wanted = (arrives != runs).then_some(arrives);
        let before = std::mem::replace(&mut self.wanted, wanted);
        self.moved_to = wanted.filter(|_| before == wanted);
        self.moved_to
    }
}

/// Moves this thread. False: it may not run there.
fn move_to(processor: usize) -> bool {
    let Ok(before) = sched_getaffinity(None) else {
        return false;
    };
    if processor >= CpuSet::MAX_CPU || !before.is_set(processor) {
        return false;
    }
    let (mut one, mut all) = (CpuSet::new(), CpuSet::new());
    one.set(processor);
    (0..CpuSet::MAX_CPU).for_each(|processor| all.set(processor));
    if sched_setaffinity(None, &one).is_err() {
        return false;
    }
    // What a thread asks for limits it for ever, also when its group may have more processors
    // later. So it asks for all, unless that is more than it had: then it was started with fewer.
    let is_free = sched_setaffinity(None, &all).is_ok() && sched_getaffinity(None) == Ok(before);
    is_free || sched_setaffinity(None, &before).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_moves_when_packets_arrive_elsewhere_twice() {
        let mut following = Following::default();
        assert_eq!(following.choose(1, 1), None);
        assert_eq!(following.choose(2, 1), None, "once is chance");
        assert_eq!(following.choose(3, 1), None, "another one");
        assert_eq!(following.choose(3, 1), Some(3));
        assert_eq!(following.choose(3, 3), None, "it is there");
        assert_eq!(following.interval, WAITS_MIN);
    }

    #[test]
    fn a_reader_that_the_kernel_moves_away_follows_less_and_less() {
        let mut following = Following::default();
        let mut moves = 0;
        let mut waits = 0u64;
        while waits < 1 << 24 {
            waits += u64::from(following.interval);
            moves += u32::from(following.choose(0, 1).is_some());
        }
        assert!((10..40).contains(&moves), "{moves}");
        assert_eq!(following.interval, WAITS_MAX);
    }

    #[test]
    fn a_thread_moves_and_is_free_again() {
        let thread = std::thread::spawn(|| {
            let all = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|index| all.is_set(*index));
            assert!(move_to(last.unwrap()));
            assert_eq!(sched_getaffinity(None).unwrap(), all);
            assert!(!move_to(CpuSet::MAX_CPU));
        });
        thread.join().unwrap();
    }
}
