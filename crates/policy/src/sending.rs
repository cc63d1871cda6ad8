//! Which way do the bytes of a file take to a socket?
//!
//! # Problem
//!
//! The bytes of a cached file can be copied into a warm buffer and sent from there, be sent from a
//! mapping of the file, or be spliced by reference. Which is cheapest depends on the machine: on
//! its caches, on what a page fault and a system call cost, on how long the pieces are. On one
//! machine splicing costs half of copying, on another twice as much.
//!
//! And the sender is half of it. Bytes that were copied into the socket lie in the caches of the
//! processor when a receiver on the same machine takes them; spliced ones it fetches from memory.
//! What saves the sender a fifth has been seen to cost the receiver four times as much.
//!
//! # Rule
//!
//! Replies of one class (of sizes, to this machine or to others) remember for each way the last few
//! samples of two things: what a byte cost the sender in processor time, and how long it took to
//! deliver in a stretch of replies that all went this way. Of each the mean of the middle half
//! counts: a sample in which the thread was interrupted, or the client paused, does not.
//!
//! A way is *slower* than the fastest when three quarters of its samples took longer than three
//! quarters of the other's. What other connections and programs do makes the samples of all ways
//! spread, and a difference that may come from that is none. Few samples lie apart by chance: with
//! `n` of them the distance must be more than one part in `n`, too. Of the ways that are not slower
//! the one that costs the sender least is the best. A network, or a client that asks for little,
//! makes all ways equally fast; then the sender alone decides.
//!
//! At first each way has [`FIRST`] replies in turn, so that there is a best one soon; then
//! [`TIMED`] stretches. From then on the best way is used, and now and then another one is tried
//! for a stretch. Another way becomes the best when it is cheaper by more than [`GAIN`], or when
//! the best is slower; the trials become rarer for as long as nothing changes.
//!
//! ```text
//!   replies  c m s c m s ...     stretches  c m s c m s   b b b ~~ m ~~ b ~~ s ~~ b ~~~~
//!            first: all in turn  then       all in turn   the best, and rarely another
//! ```
//!
//! # Weaknesses
//!
//! A stretch is timed from one reply to a later one, with all that the client and other programs
//! do meanwhile: only many of them say something. Connections that end before they have sent a
//! stretch are never timed. Of two ways between which neither bound decides the one that is used
//! stays.

/// A way for bytes of a file to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Read into a buffer that is used again and again, and sent from there.
    Copy,
    /// Sent from a mapping of the file.
    Map,
    /// Moved by reference, through a pipe.
    Splice,
}

impl Way {
    /// All, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Copy, Self::Map, Self::Splice];
}

/// Samples of each way before one is chosen.
const FIRST: usize = 12;

/// Stretches of each way before they are compared.
const TIMED: usize = 2;

/// Stretches of each way, timed on other connections, that count for a new one: with fewer, ways
/// that differ by a sixth would not be told apart while connections are short.
const TIMED_KNOWN: usize = 8;

/// Stretches that are begun for that at the most: connections may be too short for them.
const TIMED_TRIALS_MAX: u32 = 32;

/// Samples that count.
const KEPT: usize = 24;

/// Of the cost of the best way: by how much another one must be cheaper, in percent.
const GAIN: u64 = 12;

/// The least and the most uses of the best way between two samples.
const INTERVAL_MIN: u32 = 4;
const INTERVAL_MAX: u32 = 128;

/// After so many trials without a change the interval is doubled.
const CALM: u32 = 16;

/// The last samples of one way, in picoseconds for each byte.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    kept: [u64; KEPT],
    count: usize,
    /// Where the next one goes.
    next: usize,
}

impl Samples {
    fn add(&mut self, bytes: usize, nanoseconds: u64) {
        let cost = nanoseconds.saturating_mul(1000) / (bytes as u64).max(1);
        self.kept[self.next] = cost;
        self.count = self.count.max(self.next + 1);
        self.next = (self.next + 1) % KEPT;
    }

    /// The last `most` of them, which the next ones replace, the oldest first.
    fn latest(&self, most: usize) -> Self {
        let count = self.count.min(most);
        let mut latest = Self {
            count,
            next: if count < most { count } else { 0 },
            ..Self::default()
        };
        let oldest = self.next + self.count - count;
        for (index, slot) in latest.kept.iter_mut().take(count).enumerate() {
            *slot = self.kept[(oldest + index) % self.count];
        }
        latest
    }

    /// The middle half, in order.
    fn middle(&self) -> ([u64; KEPT], std::ops::Range<usize>) {
        let mut kept = self.kept;
        kept[..self.count].sort_unstable();
        let quarter = self.count / 4;
        (kept, quarter..self.count - quarter)
    }

    /// The mean of the middle half.
    fn typical(&self) -> Option<u64> {
        let (kept, middle) = self.middle();
        let middle = &kept[middle];
        let sum = middle
            .iter()
            .fold(0u64, |sum, cost| sum.saturating_add(*cost));
        sum.checked_div(middle.len() as u64)
    }

    /// Between which the middle half lies.
    fn quartiles(&self) -> Option<(u64, u64)> {
        let (kept, middle) = self.middle();
        let middle = &kept[middle];
        Some((*middle.first()?, *middle.last()?))
    }
}

/// The choice for replies of one class.
#[derive(Clone, Debug)]
pub struct Sending {
    processor: [Samples; 3],
    elapsed: [Samples; 3],
    best: Way,
    timed_trials: u32,
    /// The next sample is of the best way, to compare with the same moment.
    is_best_next: bool,
    /// Which of the others was tried last.
    tried: usize,
    interval: u32,
    calm: u32,
    switches: u64,
}

impl Sending {
    /// Begins with `best` until samples tell more.
    #[must_use]
    pub fn new(best: Way) -> Self {
        Self {
            processor: Default::default(),
            elapsed: Default::default(),
            best,
            timed_trials: 0,
            is_best_next: false,
            tried: 0,
            interval: INTERVAL_MIN,
            calm: 0,
            switches: 0,
        }
    }

    /// The same for another connection, which may differ: what was found gives way to samples of
    /// its own, which it takes as seldom as the last one did.
    #[must_use]
    pub fn for_another(&self) -> Self {
        let mut another = self.clone();
        another.processor = another.processor.map(|samples| samples.latest(FIRST));
        another.elapsed = another.elapsed.map(|samples| samples.latest(TIMED_KNOWN));
        another
    }

    /// The way for replies that are not sampled.
    #[must_use]
    pub fn best(&self) -> Way {
        self.best
    }

    /// Whether the next sample is a stretch of replies, to be timed, and not a single one.
    #[must_use]
    pub fn is_timing(&self) -> bool {
        scarce(&self.processor, FIRST).is_none()
    }

    /// Of so many replies, or stretches of them, one is to be sampled.
    #[must_use]
    pub fn interval(&self) -> u32 {
        if self.unknown().is_some() {
            1
        } else {
            self.interval
        }
    }

    /// The way for the next sample.
    pub fn trial(&mut self) -> Way {
        if let Some(way) = self.unknown() {
            self.timed_trials += u32::from(self.is_timing());
            return way;
        }
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
        self.is_best_next = !self.is_best_next;
        if self.is_best_next {
            return self.best;
        }
        loop {
            self.tried = (self.tried + 1) % Way::ALL.len();
            let way = Way::ALL[self.tried];
            if way != self.best {
                return way;
            }
        }
    }

    /// A sample: `bytes` went this way and took `nanoseconds` of the sender's processor time.
    pub fn sampled(&mut self, way: Way, bytes: usize, nanoseconds: u64) {
        self.processor[way as usize].add(bytes, nanoseconds);
        self.choose();
    }

    /// A stretch of `bytes` went this way, and after `nanoseconds` the next one could follow.
    pub fn delivered(&mut self, way: Way, bytes: usize, nanoseconds: u64) {
        self.elapsed[way as usize].add(bytes, nanoseconds);
        self.choose();
    }

    /// What a byte costs the sender this way, in picoseconds; `None` before the first sample.
    #[must_use]
    pub fn cost(&self, way: Way) -> Option<u64> {
        self.processor[way as usize].typical()
    }

    /// How long a byte takes this way, in picoseconds; `None` before the first stretch.
    #[must_use]
    pub fn time(&self, way: Way) -> Option<u64> {
        self.elapsed[way as usize].typical()
    }

    /// How often the best way has changed.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// Whether a way is slower than the fastest, as far as samples can tell.
    fn is_slower(&self, way: Way) -> bool {
        if scarce(&self.elapsed, TIMED).is_some() {
            return false;
        }
        let own = &self.elapsed[way as usize];
        let fastest = self.elapsed.iter().min_by_key(|samples| samples.typical());
        let (Some(fastest), Some((low, _))) = (fastest, own.quartiles()) else {
            return false;
        };
        let count = own.count.min(fastest.count) as u64;
        let beyond =
            |(_, high): (u64, u64)| low.saturating_mul(count) > high.saturating_mul(count + 1);
        fastest.quartiles().is_some_and(beyond)
    }

    /// The way of which too little is known, while there is one.
    fn unknown(&self) -> Option<Way> {
        let timed =
            || scarce(&self.elapsed, TIMED).filter(|_| self.timed_trials < TIMED_TRIALS_MAX);
        scarce(&self.processor, FIRST).or_else(timed)
    }

    /// Takes another way if it is better.
    fn choose(&mut self) {
        if scarce(&self.processor, FIRST).is_some() {
            return;
        }
        let keeps_up = |way: &Way| !self.is_slower(*way);
        let best_keeps_up = keeps_up(&self.best);
        let cost = |way: &Way| self.cost(*way).unwrap_or(u64::MAX);
        let ways = Way::ALL.into_iter().filter(keeps_up);
        let Some(way) = ways.min_by_key(cost).filter(|way| *way != self.best) else {
            return;
        };
        // At first nothing speaks for the way that it began with.
        let gain = if self.unknown().is_some() { 0 } else { GAIN };
        let is_cheaper =
            cost(&way).saturating_mul(100) < cost(&self.best).saturating_mul(100 - gain);
        if is_cheaper || !best_keeps_up {
            self.best = way;
            self.switches += 1;
            self.interval = (self.interval / 4).max(INTERVAL_MIN);
            self.calm = 0;
        }
    }
}

/// The way with the fewest samples, while one has less than `least`.
fn scarce(all: &[Samples; 3], least: usize) -> Option<Way> {
    let count = |way: &Way| all[*way as usize].count;
    let fewest = Way::ALL.into_iter().min_by_key(count);
    fewest.filter(|way| count(way) < least)
}

#[cfg(test)]
mod tests;
