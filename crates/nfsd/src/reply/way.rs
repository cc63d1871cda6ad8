//! Which way the bytes of cached files leave: chosen by what each way has cost here.
//!
//! The rule is that of [`pagewell_policy::sending`], by classes of sizes. A sample is the processor
//! time of one block of replies, from its first READ until all of it has left; a block that the
//! socket did not take at once is none. What is chosen is read by all threads and seldom written,
//! so that a reply shares no changing memory with those of other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_counters::{Gauge, names};
use pagewell_policy::sending::{Sending, Way};
use rustix::time::{ClockId, clock_gettime};

/// READs up to these lengths are one class.
const CLASSES: [usize; CLASS_COUNT] = [64 << 10, 256 << 10, usize::MAX];
const CLASS_COUNT: usize = 3;

/// What all threads know.
pub struct Ways {
    fixed: Option<Way>,
    classes: [Class; CLASS_COUNT],
}

struct Class {
    best: AtomicU8,
    interval: AtomicU32,
    policy: Mutex<Sending>,
}

/// What the replies of one thread know.
#[derive(Default)]
pub struct Meter {
    uses: [u32; CLASS_COUNT],
    trial: Option<Trial>,
}

/// A block of replies whose processor time is taken.
pub struct Trial {
    ways: Arc<Ways>,
    class: usize,
    way: Way,
    began: u64,
    bytes: usize,
    /// Something else is in the block, too.
    is_mixed: bool,
}

impl Ways {
    /// `fixed`: always this way.
    #[must_use]
    pub fn new(fixed: Option<Way>) -> Arc<Self> {
        // Where nothing is known small replies are copied, and large ones go by reference.
        let start = [Way::Copy, Way::Splice, Way::Splice];
        Arc::new(Self {
            fixed,
            classes: start.map(|way| Class {
                best: AtomicU8::new(way as u8),
                interval: AtomicU32::new(1),
                policy: Mutex::new(Sending::new(way)),
            }),
        })
    }
}

impl Meter {
    /// The way for `length` bytes. `is_first`: the block of replies begins with them.
    pub fn choose(&mut self, ways: &Arc<Ways>, length: usize, is_first: bool) -> Way {
        if let Some(way) = ways.fixed {
            return way;
        }
        let class = CLASSES.iter().position(|most| length <= *most).unwrap_or(0);
        let (Some(known), Some(uses)) = (ways.classes.get(class), self.uses.get_mut(class)) else {
            return Way::Copy;
        };
        if let Some(trial) = &mut self.trial {
            if trial.class == class {
                trial.bytes += length;
                return trial.way;
            }
            trial.is_mixed = true;
        }
        *uses = uses.saturating_add(1);
        if is_first && *uses >= known.interval.load(Ordering::Relaxed) {
            *uses = 0;
            let way = known.policy.lock().trial();
            self.trial = Some(Trial {
                ways: ways.clone(),
                class,
                way,
                began: processor_nanoseconds(),
                bytes: length,
                is_mixed: false,
            });
            return way;
        }
        known.best()
    }

    /// The measurement that has begun.
    pub fn take_trial(&mut self) -> Option<Trial> {
        self.trial.take()
    }
}

impl Trial {
    /// The block has been sent; `has_left`: all of it.
    pub fn end(self, has_left: bool) {
        let Some(class) = self.ways.classes.get(self.class) else {
            return;
        };
        if !has_left || self.is_mixed {
            return;
        }
        let took = processor_nanoseconds().saturating_sub(self.began);
        let mut policy = class.policy.lock();
        policy.sampled(self.way, self.bytes, took);
        class.best.store(policy.best() as u8, Ordering::Relaxed);
        class.interval.store(policy.interval(), Ordering::Relaxed);
        if let Some(cost) = policy.cost(self.way) {
            gauge(self.way).set(i64::try_from(cost).unwrap_or(i64::MAX));
        }
    }
}

impl Class {
    fn best(&self) -> Way {
        let best = self.best.load(Ordering::Relaxed);
        let known = Way::ALL.into_iter().find(|way| *way as u8 == best);
        known.unwrap_or(Way::Copy)
    }
}

fn gauge(way: Way) -> &'static Gauge {
    match way {
        Way::Copy => &names::SEND_COPY_COST,
        Way::Map => &names::SEND_MAP_COST,
        Way::Splice => &names::SEND_SPLICE_COST,
    }
}

/// The processor time of this thread.
fn processor_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(meter: &mut Meter, has_left: bool) {
        if let Some(trial) = meter.take_trial() {
            trial.end(has_left);
        }
    }

    #[test]
    fn a_fixed_way_is_never_left() {
        let ways = Ways::new(Some(Way::Map));
        let mut meter = Meter::default();
        for _ in 0..100 {
            assert_eq!(meter.choose(&ways, 100_000, true), Way::Map);
            assert!(meter.take_trial().is_none());
        }
    }

    #[test]
    fn all_ways_are_tried_and_only_whole_blocks_of_one_class_count() {
        let ways = Ways::new(None);
        let mut meter = Meter::default();
        let cost = |way| ways.classes[1].policy.lock().cost(way);
        meter.choose(&ways, 100_000, true);
        sent(&mut meter, false);
        meter.choose(&ways, 100_000, true);
        meter.choose(&ways, 1_000_000, false);
        sent(&mut meter, true);
        meter.choose(&ways, 100_000, false);
        sent(&mut meter, true);
        assert!(Way::ALL.into_iter().all(|way| cost(way).is_none()));
        for _ in 0..100 {
            let way = meter.choose(&ways, 100_000, true);
            assert_eq!(meter.choose(&ways, 200_000, false), way, "one for a block");
            sent(&mut meter, true);
        }
        assert!(Way::ALL.into_iter().all(|way| cost(way).is_some()));
    }
}
