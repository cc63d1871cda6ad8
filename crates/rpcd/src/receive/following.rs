//! Moves a reader to the processor where the packets of its connections arrive.
//!
//! Under even load the kernel leaves a thread where it last ran, for minutes. Then each call wakes
//! a reader on another processor, without the data in its caches: four connections with READs of 64
//! KiB lost a sixth.
//!
//! Now and then a reader asks where the last packet of its last connection arrived. Twice the same
//! other processor: it moves there, unbound. If the kernel has moved it back by the next look, the
//! interval doubles. With fewer active readers than half the processors, client and server do
//! better apart, and no reader moves.
//!
//! Weakness: connections of one reader may arrive on several processors.

use std::os::fd::AsFd;

use rustix::net::sockopt::socket_incoming_cpu;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Waits between looks: some milliseconds to some minutes.
const WAITS_MIN: u32 = 64;
const WAITS_MAX: u32 = 1 << 20;

#[derive(Debug)]
pub(super) struct Following {
    waits: u32,
    interval: u32,
    /// Where packets arrived at the last look, if elsewhere.
    wanted: Option<usize>,
    /// The target of a move at the last look.
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
    /// The reader has waited, with many active; it served `connection` last.
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
            // If it may not run there, it stays.
            let _ = move_to(processor);
        }
    }

    /// The target of a move, from where packets arrive and the reader runs.
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

/// False: this thread may not run there.
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
    // A set affinity stays when the control group gets more processors later. So it is set to all,
    // unless the thread started with fewer.
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
