//! Which way do the bytes of a file take to a socket?
//!
//! # Problem
//!
//! The bytes of a cached file can be copied into a warm buffer and sent from there, be sent from a
//! mapping of the file, or be spliced by reference. Which is cheapest depends on the machine: on
//! its caches, on what a page fault and a system call cost, on how long the pieces are. On one
//! machine splicing costs half of copying, on another twice as much.
//!
//! # Rule
//!
//! Each class of sizes by itself remembers for each way the last few samples of what a byte cost in
//! processor time, and takes the mean of their middle half: a sample in which the thread was
//! interrupted does not count. At first all ways take turns until each has [`FIRST`] samples, and
//! the cheapest is the best. From then on the best way is used, and now and then another one is
//! tried. Another way becomes the best when it is cheaper by more than [`GAIN`]; the trials become
//! rarer for as long as nothing changes.
//!
//! ```text
//!   samples:  c m s c m s c m s ...   b b b b ~~~ m ~~~ b ~~~ s ~~~ b ~~~~~~ m
//!             first: all in turn      the best, and rarely: another, the best again
//! ```
//!
//! # Weaknesses
//!
//! It knows the processor time of the sender. A way that is cheap here and dear for the receiver
//! (cold bytes) is not seen as such. Of two ways whose costs differ by less than [`GAIN`] the one
//! that is used stays.

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
const FIRST: u32 = 12;

/// Samples that count.
const KEPT: usize = 24;

/// Of the cost of the best way: by how much another one must be cheaper, in percent.
const GAIN: u64 = 12;

/// The least and the most uses of the best way between two samples.
const INTERVAL_MIN: u32 = 4;
const INTERVAL_MAX: u32 = 512;

/// After so many samples without a change the interval is doubled.
const CALM: u32 = 16;

/// The last samples of one way, in picoseconds for each byte.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    kept: [u64; KEPT],
    /// All that ever came.
    count: u32,
}

impl Samples {
    fn add(&mut self, cost: u64) {
        if let Some(slot) = self.kept.get_mut(self.count as usize % KEPT) {
            *slot = cost;
        }
        // Far beyond the number of those kept nothing but the remainder matters.
        self.count = self.count.checked_add(1).unwrap_or(KEPT as u32);
    }

    /// The mean of the middle half.
    fn typical(&self) -> Option<u64> {
        let length = KEPT.min(self.count as usize);
        let mut kept = self.kept;
        let kept = kept.get_mut(..length)?;
        kept.sort_unstable();
        let middle = kept.get(length / 4..length - length / 4)?;
        let sum = middle
            .iter()
            .fold(0u64, |sum, cost| sum.saturating_add(*cost));
        sum.checked_div(middle.len() as u64)
    }
}

/// The choice for replies of one class of sizes.
#[derive(Clone, Debug)]
pub struct Sending {
    samples: [Samples; 3],
    best: Way,
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
            samples: Default::default(),
            best,
            is_best_next: false,
            tried: 0,
            interval: 1,
            calm: 0,
            switches: 0,
        }
    }

    /// The way for replies that are not sampled.
    #[must_use]
    pub fn best(&self) -> Way {
        self.best
    }

    /// Every so many uses one is to be sampled.
    #[must_use]
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// The way for the next sample.
    pub fn trial(&mut self) -> Way {
        if let Some(way) = self.unknown() {
            return way;
        }
        self.is_best_next = !self.is_best_next;
        if self.is_best_next {
            return self.best;
        }
        for _ in 0..Way::ALL.len() {
            self.tried = (self.tried + 1) % Way::ALL.len();
            let way = Way::ALL.get(self.tried).copied().unwrap_or(self.best);
            if way != self.best {
                return way;
            }
        }
        self.best
    }

    /// A sample: `bytes` went this way and took `nanoseconds` of processor time.
    pub fn sampled(&mut self, way: Way, bytes: usize, nanoseconds: u64) {
        let cost = nanoseconds.saturating_mul(1000) / (bytes as u64).max(1);
        if let Some(samples) = self.samples.get_mut(way as usize) {
            samples.add(cost);
        }
        if self.unknown().is_some() {
            return;
        }
        // At first nothing speaks for the way that it began with.
        let gain = if self.interval < INTERVAL_MIN {
            0
        } else {
            GAIN
        };
        self.interval = self.interval.max(INTERVAL_MIN);
        if self.choose(gain) {
            self.interval = (self.interval / 4).max(INTERVAL_MIN);
            self.calm = 0;
            return;
        }
        self.calm += 1;
        if self.calm >= CALM {
            self.calm = 0;
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
    }

    /// What a byte costs this way, in picoseconds; `None` before the first sample.
    #[must_use]
    pub fn cost(&self, way: Way) -> Option<u64> {
        self.samples.get(way as usize)?.typical()
    }

    /// How often the best way has changed.
    #[must_use]
    pub fn switches(&self) -> u64 {
        self.switches
    }

    /// The way with the fewest samples, while one has too few.
    fn unknown(&self) -> Option<Way> {
        let count = |way: &Way| self.samples.get(*way as usize).map_or(0, |all| all.count);
        Way::ALL
            .into_iter()
            .min_by_key(count)
            .filter(|way| count(way) < FIRST)
    }

    /// Takes the cheapest way if it is cheaper than the best by `gain` percent; returns whether it
    /// did.
    fn choose(&mut self, gain: u64) -> bool {
        let known = Way::ALL
            .into_iter()
            .filter_map(|way| Some((self.cost(way)?, way)));
        let Some((cost, way)) = known.min_by_key(|(cost, _)| *cost) else {
            return false;
        };
        let best = self.cost(self.best).unwrap_or(u64::MAX);
        let is_better = cost.saturating_mul(100) < best.saturating_mul(100 - gain);
        if way == self.best || !is_better {
            return false;
        }
        self.best = way;
        self.switches += 1;
        true
    }
}

#[cfg(test)]
mod tests;
