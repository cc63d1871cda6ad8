//! Which way the bytes of cached files leave: chosen by what each way has cost here.
//!
//! The rule is that of [`pagewell_policy::sending`], by classes of sizes. A sample is the processor
//! time of one block of replies: what each byte took to prepare, from the first READ on, and what
//! each byte took to send that the socket took at once. Of a long block a socket takes a part; were
//! such blocks no samples, nothing would be known of the ways in which they are sent. What is
//! chosen is read by all threads and seldom written, so that a reply shares no changing memory with
//! those of other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use pagewell_base::sync::Mutex;
use pagewell_counters::{Gauge, names};
use pagewell_policy::sending::{Sending, Way};
use rustix::time::{ClockId, clock_gettime};

/// READs up to these lengths are one class.
const CLASSES: [usize; CLASS_COUNT] = [64 << 10, 256 << 10, usize::MAX];
const CLASS_COUNT: usize = 3;

/// Of a block of which less than one part of so many has left nothing is known.
const PART: usize = 8;

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
    /// Processor time of the thread when the first READ began.
    began: Option<u64>,
    /// And when the last was ready.
    ready: u64,
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
                began: None,
                ready: 0,
                bytes: length,
                is_mixed: false,
            });
            return way;
        }
        known.best()
    }

    /// The first READ of a measurement has all that its file needs once, as the addresses of a
    /// mapping. That is no part of what a reply costs: counted, it would keep a way that is seldom
    /// used from ever looking cheap.
    pub fn begin(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.began.get_or_insert_with(processor_nanoseconds);
        }
    }

    /// The measurement that is under way.
    pub fn take_trial(&mut self) -> Option<Trial> {
        self.trial.take()
    }
}

impl Trial {
    /// All replies of the block are ready.
    pub fn ready(&mut self) {
        self.ready = processor_nanoseconds();
    }

    /// The socket has taken `sent` bytes of the block at once, of `length`.
    pub fn end(self, sent: usize, length: usize) {
        let Some(class) = self.ways.classes.get(self.class) else {
            return;
        };
        let Some(began) = self.began else { return };
        if self.is_mixed || sent == 0 || sent < length / PART {
            return;
        }
        let sending = processor_nanoseconds().saturating_sub(self.ready);
        let preparing = self.ready.saturating_sub(began);
        // As if all had been sent at the cost of the part that was.
        let whole = u128::from(sending) * length as u128 / sent as u128;
        let took = preparing.saturating_add(u64::try_from(whole).unwrap_or(u64::MAX));
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

    fn sent(meter: &mut Meter, sent: usize) {
        meter.begin();
        if let Some(mut trial) = meter.take_trial() {
            trial.ready();
            trial.end(sent, 100_000);
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
    fn all_ways_are_tried_and_only_blocks_of_one_class_count() {
        let ways = Ways::new(None);
        let mut meter = Meter::default();
        let cost = |way| ways.classes[1].policy.lock().cost(way);
        meter.choose(&ways, 100_000, true);
        sent(&mut meter, 0);
        meter.choose(&ways, 100_000, true);
        sent(&mut meter, 10_000);
        meter.choose(&ways, 100_000, true);
        meter.choose(&ways, 1_000_000, false);
        sent(&mut meter, 100_000);
        meter.choose(&ways, 100_000, false);
        sent(&mut meter, 100_000);
        assert!(Way::ALL.into_iter().all(|way| cost(way).is_none()));
        for _ in 0..100 {
            let way = meter.choose(&ways, 100_000, true);
            assert_eq!(meter.choose(&ways, 200_000, false), way, "one for a block");
            sent(&mut meter, 20_000);
        }
        assert!(Way::ALL.into_iter().all(|way| cost(way).is_some()));
    }

    #[test]
    fn a_part_of_a_block_that_has_left_tells_what_all_of_it_costs() {
        let ways = Ways::new(None);
        let trial = |way, began, ready| Trial {
            ways: ways.clone(),
            class: 1,
            way,
            began: Some(began),
            ready,
            bytes: 100_000,
            is_mixed: false,
        };
        let now = processor_nanoseconds();
        trial(Way::Copy, now, now).end(100_000, 100_000);
        trial(Way::Map, now.saturating_sub(1_000_000), now).end(25_000, 100_000);
        let cost = |way| ways.classes[1].policy.lock().cost(way).unwrap();
        assert!(cost(Way::Map) > cost(Way::Copy), "what was prepared counts");
    }
}
