//! Which way the bytes of cached files leave: chosen by what each way has cost here.
//!
//! The rule is that of [`pagewell_policy::sending`], for each connection and class of sizes: what a
//! way costs depends on whether the client is on this machine, and on how many calls it has in
//! flight. A sample is the processor time of one block of replies: what each byte took to prepare,
//! from the first READ on, and what each byte took to send that the socket took at once. Of a long
//! block a socket takes a part; were such blocks no samples, nothing would be known of the ways in
//! which they are sent. A stretch is timed by the clock, from the block behind its first quarter to
//! the block behind its end: what was on its way before it began has then arrived.
//!
//! A connection begins with what others of its kind, here or elsewhere, have found, and finds out
//! itself whether that is so for it. It also goes on with the bytes that the last one has sent
//! since its last trial: else connections that are short would try all the time, or never. That is
//! all that connections share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_counters::{Gauge, names};
use pagewell_policy::sending::{Sending, Way};
use rustix::time::{ClockId, clock_gettime};

/// READs up to these lengths are one class.
const SIZES: [usize; SIZE_COUNT] = [64 << 10, 256 << 10, usize::MAX];
const SIZE_COUNT: usize = 3;

/// Bytes of a stretch of each class: several times what sockets and a client with many calls in
/// flight hold.
const STRETCHES: [usize; SIZE_COUNT] = [4 << 20, 8 << 20, 32 << 20];

/// A stretch that takes longer has a pause of the client in it.
const STRETCH_TIME_MAX: Duration = Duration::from_secs(1);

/// Of a block of which less than one part of so many has left nothing is known.
const PART: usize = 8;

/// What connections have found lately, by class: with clients here, and with those elsewhere.
pub struct Ways {
    fixed: Option<Way>,
    found: [[Mutex<Class>; SIZE_COUNT]; 2],
}

/// What is measured on one connection. The default measures nothing.
#[derive(Default)]
pub struct Meter {
    stays_here: bool,
    known: Option<Box<Known>>,
    trial: Option<Trial>,
}

struct Known {
    ways: Arc<Ways>,
    stays_here: bool,
    classes: [Class; SIZE_COUNT],
}

/// What is known of READs of one class.
struct Class {
    policy: Sending,
    /// Bytes since the last trial.
    since: usize,
}

/// Replies whose cost is taken: one block of them, or a stretch of blocks.
struct Trial {
    class: usize,
    way: Way,
    /// A stretch is to have so many bytes; a single block has none.
    stretch_bytes: usize,
    /// Bytes until now.
    bytes: usize,
    /// When the stretch was timed from, and its bytes then.
    timed_from: Option<(Instant, usize)>,
    /// Processor time of those bytes whose cost is known.
    known_bytes: usize,
    known_nanoseconds: u64,
    block: Block,
}

/// The block of a trial that is being made.
#[derive(Default)]
struct Block {
    bytes: usize,
    /// Processor time of the thread when the first READ began.
    began: Option<u64>,
    /// And when the last was ready.
    ready: u64,
    /// Something else is in the block, too.
    is_mixed: bool,
}

impl Ways {
    /// `fixed`: always this way.
    pub fn new(fixed: Option<Way>) -> Arc<Self> {
        // Where nothing is known small replies are copied, and large ones go by reference.
        let start = [Way::Copy, Way::Splice, Way::Splice];
        let found = || start.map(|way| Mutex::new(Class::new(Sending::new(way))));
        Arc::new(Self {
            fixed,
            found: [found(), found()],
        })
    }

    fn found(&self, stays_here: bool, class: usize) -> &Mutex<Class> {
        &self.found[usize::from(stays_here)][class]
    }
}

impl Meter {
    /// Of a connection whose other end is on this machine, or elsewhere.
    pub fn new(ways: &Arc<Ways>, stays_here: bool) -> Self {
        let class = |class| ways.found(stays_here, class).lock().for_another();
        let known = Known {
            ways: ways.clone(),
            stays_here,
            classes: std::array::from_fn(class),
        };
        Self {
            known: Some(Box::new(known)),
            ..Self::unmeasured(stays_here)
        }
    }

    /// Takes what was found on such connections, and measures nothing itself.
    pub fn unmeasured(stays_here: bool) -> Self {
        Self {
            stays_here,
            ..Self::default()
        }
    }

    /// The way for `length` bytes. `is_first`: the block of replies begins with them.
    pub fn choose(&mut self, ways: &Ways, length: usize, is_first: bool) -> Way {
        if let Some(way) = ways.fixed {
            return way;
        }
        let class = SIZES.iter().position(|most| length <= *most).unwrap_or(0);
        if is_first {
            self.end_stretch(Instant::now);
        }
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.class == class) {
            trial.block.bytes += length;
            return trial.way;
        }
        // In the middle of a block the trial ends with it.
        self.trial.take_if(|trial| {
            trial.block.is_mixed = true;
            trial.block.bytes == 0
        });
        let Some(known) = self.known.as_deref_mut() else {
            return ways.found(self.stays_here, class).lock().policy.best();
        };
        let known = &mut known.classes[class];
        known.since = known.since.saturating_add(length);
        if self.trial.is_some() || !is_first || !known.is_due(class) {
            return known.policy.best();
        }
        known.since = 0;
        let is_timing = known.policy.is_timing();
        let stretch = if is_timing { STRETCHES[class] } else { 0 };
        let way = known.policy.trial();
        self.trial = Some(Trial::new(class, way, stretch, length));
        way
    }

    /// A READ of `length` bytes, for which a way was chosen, is not answered after all.
    pub fn take_back(&mut self, length: usize) {
        self.trial.take_if(|trial| {
            trial.block.bytes = trial.block.bytes.saturating_sub(length);
            if trial.block.bytes == 0 {
                trial.block = Block::default();
            }
            trial.bytes == 0 && trial.block.bytes == 0
        });
    }

    /// The first READ of a block has all that its file needs once, as the addresses of a mapping.
    /// That is no part of what a reply costs: counted, it would keep a way that is seldom used from
    /// ever looking cheap.
    pub fn begin(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.block.began.get_or_insert_with(processor_nanoseconds);
        }
    }

    /// Whether the block that is about to be sent is measured.
    pub fn is_measuring(&self) -> bool {
        let block = self.trial.as_ref().map(|trial| &trial.block);
        block.is_some_and(|block| block.bytes > 0)
    }

    /// All replies of the block are ready.
    pub fn ready(&mut self) {
        if let Some(trial) = &mut self.trial {
            trial.block.ready = processor_nanoseconds();
        }
    }

    /// The socket has taken `sent` bytes of the block at once, of `length`.
    pub fn sent(&mut self, sent: usize, length: usize) {
        let is_over = self.trial.take_if(|trial| trial.sent(sent, length));
        if let Some(trial) = is_over {
            self.report(&trial, None);
        }
    }

    /// Another block is about to begin: the stretch that is under way may be over.
    fn end_stretch(&mut self, now: impl Fn() -> Instant) {
        let is_stretch = |trial: &&mut Trial| trial.stretch_bytes > 0;
        let Some(trial) = self.trial.as_mut().filter(is_stretch) else {
            return;
        };
        match trial.timed_from {
            None if trial.bytes >= trial.stretch_bytes / 4 => {
                trial.timed_from = Some((now(), trial.bytes));
            }
            Some((from, before)) if trial.bytes >= trial.stretch_bytes => {
                let stretch = (trial.bytes - before, now().saturating_duration_since(from));
                if let Some(trial) = self.trial.take() {
                    self.report(&trial, Some(stretch));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, trial: &Trial, stretch: Option<(usize, Duration)>) {
        let Some(known) = self.known.as_deref_mut() else {
            return;
        };
        let policy = &mut known.classes[trial.class].policy;
        if trial.known_bytes > 0 {
            policy.sampled(trial.way, trial.known_bytes, trial.known_nanoseconds);
        }
        if let Some((bytes, took)) = stretch
            && took < STRETCH_TIME_MAX
        {
            let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            policy.delivered(trial.way, bytes, nanoseconds);
        }
        let found = known.ways.found(self.stays_here, trial.class);
        found.lock().policy.clone_from(policy);
        let [cost, time] = gauges(trial.way);
        cost.set(policy.cost(trial.way).map_or(0, to_gauge));
        time.set(policy.time(trial.way).map_or(0, to_gauge));
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        for (index, class) in self.classes.iter().enumerate() {
            let mut found = self.ways.found(self.stays_here, index).lock();
            found.since = found.since.saturating_add(class.since);
        }
    }
}

impl Class {
    fn new(policy: Sending) -> Self {
        Self { policy, since: 0 }
    }

    /// What another connection begins with.
    fn for_another(&mut self) -> Self {
        Self {
            policy: self.policy.for_another(),
            since: std::mem::take(&mut self.since),
        }
    }

    /// Whether a sample is to be taken.
    fn is_due(&self, class: usize) -> bool {
        let interval = self.policy.interval() as usize;
        interval == 1 || self.since / STRETCHES[class] >= interval
    }
}

impl Trial {
    fn new(class: usize, way: Way, stretch_bytes: usize, length: usize) -> Self {
        Self {
            class,
            way,
            stretch_bytes,
            bytes: 0,
            timed_from: None,
            known_bytes: 0,
            known_nanoseconds: 0,
            block: Block {
                bytes: length,
                ..Block::default()
            },
        }
    }

    /// A block of it was sent. Returns whether the trial is over.
    fn sent(&mut self, sent: usize, length: usize) -> bool {
        let block = std::mem::take(&mut self.block);
        self.bytes = self.bytes.saturating_add(block.bytes);
        let is_over = block.is_mixed || self.stretch_bytes == 0;
        let Some(began) = block.began else {
            return is_over;
        };
        if block.is_mixed || sent == 0 || sent < length / PART {
            return is_over;
        }
        let sending = processor_nanoseconds().saturating_sub(block.ready);
        let preparing = block.ready.saturating_sub(began);
        // As if all had been sent at the cost of the part that was.
        let whole = u128::from(sending) * length as u128 / sent as u128;
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        self.known_bytes += block.bytes;
        let known = self.known_nanoseconds.saturating_add(preparing);
        self.known_nanoseconds = known.saturating_add(whole);
        is_over
    }
}

fn gauges(way: Way) -> [&'static Gauge; 2] {
    match way {
        Way::Copy => [&names::SEND_COPY_COST, &names::SEND_COPY_TIME],
        Way::Map => [&names::SEND_MAP_COST, &names::SEND_MAP_TIME],
        Way::Splice => [&names::SEND_SPLICE_COST, &names::SEND_SPLICE_TIME],
    }
}

fn to_gauge(picoseconds: u64) -> i64 {
    i64::try_from(picoseconds).unwrap_or(i64::MAX)
}

/// The processor time of this thread.
fn processor_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests;
