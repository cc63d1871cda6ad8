//! What is believed of an object's attributes: for how long, whether a change of them was ours, and
//! how long a file is that was written here.
//!
//! # How long they are believed
//!
//! **Problem.** Nobody tells a client of NFSv3 that a file has changed. Asking each time costs a
//! round trip for each look; never asking shows what is long gone.
//!
//! **Rule.** What was not changed for long is not likely to change now. Attributes are believed for
//! a tenth of the time since the last change of the data, but no shorter than a minimum and no
//! longer than a maximum, one pair for files and one for directories (as in all clients, whose
//! options `acregmin`, `acregmax`, `acdirmin` and `acdirmax` are these). An open asks anyway.
//!
//! ```text
//!   believed
//!   max  |            ________
//!        |          /
//!   min  |________/
//!        +------------------------ time since the last change
//!        0      10 min    10 max
//! ```
//!
//! **Known weakness.** The time since the change is the difference of two clocks, the client's and
//! the server's. One that is ahead shortens or lengthens ages, within the two bounds.
//!
//! # Whether a change was ours: weak cache consistency (RFC 1813 section 2.6)
//!
//! **Problem.** What is cached of an object stands for one state of it, told apart by size and two
//! times. When these change, either a call of ours did it, and the cache is right, or another
//! client, and it is not. The server tells with each call of ours what the state was before and
//! after; but calls overlap, answers come in any order, and not every server tells.
//!
//! **Rule.** The calls that are on their way together are a *burst*. Each answer is an edge from
//! the state before to the state after. What can be reached from the known state by edges is ours:
//!
//! ```text
//!   known ──w1──> s1 ──w2──> s2 ──w3──> s3      all ours, in whatever order w1 w2 w3 answer
//!   known ──w1──> s1    x1 ──w2──> x2           x1 is nobody's: another wrote in between
//! ```
//!
//! When the last call of the burst has answered, an edge that hangs in the air means that another
//! client changed the object. So does a state that another call has seen meanwhile (`x1`, reported
//! by a READ) and that no edge has led to. The known state is then the newest of all.
//!
//! An edge without its beginning tells nothing of what was before it: another client may have been
//! there, or none. The same holds for an edge without its end; there, the next state that is
//! reported is one of any time later. Of both the verdict is that it is *unknown*. What that costs
//! is for what uses the object to say (`node.rs`): a directory is listed anew, since a name that
//! others made would never be seen; the data of a file is read anew when it is opened next.
//!
//! A call that changes another object's time of change besides (RENAME, LINK, REMOVE) tells nothing
//! of it: that object is *excused* for its next change of nothing but that time.
//!
//! A file that grows may be seen while a write is at work in it, with the times of after it and a
//! part of the length. Such a state is explained by the one that it became.
//!
//! **Known weaknesses.** Servers whose clock ticks slowly give two states the same times; a change
//! of another client within the same tick that keeps the size is not seen. States that a server
//! never reported, because it looks at the attributes after other calls have gone on, make an edge
//! hang in the air: data is then read again for nothing. A server that tells a state of before
//! which others may have changed until the call was done (RFC 1813 section 2.6 forbids it) hides
//! them.
//!
//! # How long a file is, and whether everything of it is safe at the server
//!
//! **Problem.** A server that crashes forgets what was written and not committed. Its file is
//! shorter then, until that is written once more. A program that is told that length appends in the
//! middle of what it has written before.
//!
//! **Rule.** There are two lengths: that of the server, which decides what must be asked for at
//! all, and the end of what was written here since everything was committed. What programs see is
//! the larger.
//!
//! ```text
//!   written here            ├──────── uncommitted_end
//!   WRITE is answered       ├──────── the server's, too        not dirty any more
//!   the server crashes      ├──       the server's, in doubt
//!   COMMIT, WRITE, COMMIT   ├──────── the server's alone
//! ```
//!
//! A server whose file is shorter than what it has taken has forgotten it, or another client has
//! cut the file off. A commit tells: what was forgotten is written again, and afterwards the
//! server's length is the truth in both cases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_fs::{Attributes, Timestamp, WccAttributes};

/// The part of the time since the last change: one in so many.
const PART: u32 = 10;

/// Bounds of ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Shortest for what is not a directory.
    pub file_min: Duration,
    /// Longest for what is not a directory.
    pub file_max: Duration,
    /// Shortest for directories.
    pub directory_min: Duration,
    /// Longest for directories.
    pub directory_max: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        Self {
            file_min: Duration::from_secs(3),
            file_max: Duration::from_secs(60),
            directory_min: Duration::from_secs(30),
            directory_max: Duration::from_secs(60),
        }
    }
}

impl Ages {
    /// Nothing is believed: each look asks.
    pub const NONE: Self = Self::all(Duration::ZERO);

    const fn all(time: Duration) -> Self {
        Self {
            file_min: time,
            file_max: time,
            directory_min: time,
            directory_max: time,
        }
    }

    /// Sets the bound that an option names; `actimeo` sets all four.
    pub(super) fn set(&mut self, key: &str, time: Duration) {
        match key {
            "acregmin" => self.file_min = time,
            "acregmax" => self.file_max = time,
            "acdirmin" => self.directory_min = time,
            "acdirmax" => self.directory_max = time,
            _ => *self = Self::all(time),
        }
    }

    /// How long these attributes are believed that were true at `now`, by the client's clock.
    #[must_use]
    pub fn lifetime(&self, attributes: &Attributes, now: Timestamp) -> Duration {
        let (least, most) = if attributes.file_type.is_directory() {
            (self.directory_min, self.directory_max)
        } else {
            (self.file_min, self.file_max)
        };
        let unchanged = since(attributes.modified, now) / PART;
        unchanged.min(most).max(least)
    }
}

/// Time from `then` to `now`; none when `then` is in the future.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    let nanoseconds =
        |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let difference = nanoseconds(now) - nanoseconds(then);
    Duration::from_nanos(u64::try_from(difference.max(0)).unwrap_or(u64::MAX))
}

/// A moment in the life of a mount: see `node.rs`. The default is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

/// The clock of moments.
#[derive(Debug, Default)]
pub(super) struct Moments(AtomicU64);

impl Moments {
    pub(super) fn now(&self) -> Moment {
        Moment(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Attributes that an answer has reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub attributes: Attributes,
    /// When the call was sent.
    pub sent: Moment,
    /// When it was answered.
    pub answered: Moment,
    /// Until when they are believed.
    pub until: Instant,
}

/// States kept of one burst.
const STATES_MAX: usize = 256;

/// Whether a change was ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody else has changed it, as far as can be told.
    Ours,
    /// Another client has.
    Theirs,
    /// It was not reported.
    Unknown,
}

/// An edge that hangs in the air: before and after.
type Edge = (WccAttributes, WccAttributes);

/// Tells whose a change was.
#[derive(Debug, Default)]
pub(super) struct Consistency {
    known: Option<WccAttributes>,
    in_flight: u32,
    /// States that calls of this burst have reached.
    reached: Vec<WccAttributes>,
    loose: Vec<Edge>,
    /// States that other calls have seen during this burst.
    seen: Vec<WccAttributes>,
    theirs: bool,
    /// A state before a call of this burst was not reported, or one after it.
    lacks_before: bool,
    lacks_after: bool,
    /// What was known is lost, and others may have changed it since.
    lost: bool,
    excused: bool,
}

impl Consistency {
    /// Whether calls of ours that change it are on their way.
    pub(super) fn is_changing(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether only the answers to the calls that are on their way will tell whose the state is
    /// that was reported last.
    pub(super) fn is_undecided(&self) -> bool {
        let is_reported = self.loose.is_empty() && !self.lacks_before && !self.lacks_after;
        self.is_changing() && !(is_reported && self.seen.iter().all(|seen| self.explains(seen)))
    }

    /// A call that changes it is sent.
    pub(super) fn begin(&mut self) {
        if self.in_flight == 0 {
            self.reached.extend(self.known);
        }
        self.in_flight += 1;
    }

    /// It was answered, with these states as far as they were reported. What is not `Ours` comes at
    /// most once in a burst, at its end.
    pub(super) fn end(
        &mut self,
        before: Option<WccAttributes>,
        after: Option<WccAttributes>,
    ) -> Verdict {
        self.in_flight = self.in_flight.saturating_sub(1);
        match (before, after) {
            (Some(before), Some(after)) => self.edge(before, after),
            (None, Some(after)) => {
                self.lacks_before = true;
                self.reach(after);
            }
            (_, None) => self.lacks_after = true,
        }
        if self.in_flight > 0 {
            return Verdict::Ours;
        }
        self.end_burst()
    }

    /// Attributes were reported by a call that changes nothing.
    pub(super) fn look(&mut self, now: WccAttributes) -> Verdict {
        if self.in_flight > 0 {
            self.see(now);
            return Verdict::Ours;
        }
        let excused = std::mem::take(&mut self.excused);
        let verdict = match self.known {
            Some(known) if known == now => {
                self.excused = excused;
                Verdict::Ours
            }
            Some(known) if excused && same_data(&known, &now) => Verdict::Ours,
            Some(_) => Verdict::Theirs,
            None if std::mem::take(&mut self.lost) => Verdict::Unknown,
            None => Verdict::Ours,
        };
        self.known = Some(now);
        verdict
    }

    /// A call of ours is known to change its time of change, and will not tell.
    pub(super) fn excuse(&mut self) {
        self.excused = true;
    }

    fn see(&mut self, now: WccAttributes) {
        if self.seen.contains(&now) || self.reached.contains(&now) {
            return;
        }
        if self.seen.len() < STATES_MAX {
            self.seen.push(now);
        } else {
            self.theirs = true;
        }
    }

    /// Whether a state that was seen is one that our calls have made of what was known.
    fn explains(&self, seen: &WccAttributes) -> bool {
        let is_on_its_way = |to: &WccAttributes| {
            (to.modified, to.changed) == (seen.modified, seen.changed) && seen.size <= to.size
        };
        self.reached
            .iter()
            .any(|to| is_on_its_way(to) || self.excused && same_data(to, seen))
    }

    fn edge(&mut self, before: WccAttributes, after: WccAttributes) {
        let excused = self.known.is_some_and(|known| same_data(&known, &before));
        if self.reached.contains(&before) || self.reached.is_empty() || self.excused && excused {
            self.reach(after);
        } else if self.loose.len() < STATES_MAX {
            self.loose.push((before, after));
        } else {
            self.theirs = true;
        }
    }

    /// Adds a state, and all that can be reached from it.
    fn reach(&mut self, state: WccAttributes) {
        let mut next = Some(state);
        while let Some(state) = next {
            if !self.reached.contains(&state) {
                if self.reached.len() == STATES_MAX {
                    self.reached.remove(0);
                }
                self.reached.push(state);
            }
            let reached = &self.reached;
            let found = self
                .loose
                .iter()
                .position(|(before, _)| reached.contains(before));
            next = found.map(|index| self.loose.swap_remove(index).1);
        }
    }

    fn end_burst(&mut self) -> Verdict {
        let lacks_before = std::mem::take(&mut self.lacks_before);
        let lacks_after = std::mem::take(&mut self.lacks_after);
        // Where states are missing, one that was seen may be one of these.
        let is_reported = !lacks_before && !lacks_after;
        let is_seen = is_reported && !self.seen.iter().all(|seen| self.explains(seen));
        let seen = std::mem::take(&mut self.seen);
        let loose = std::mem::take(&mut self.loose);
        let theirs = std::mem::take(&mut self.theirs) || is_seen || !loose.is_empty();
        let is_lost = !lacks_after && self.lost;
        self.lost = lacks_after;
        let states = std::mem::take(&mut self.reached);
        let all = states
            .into_iter()
            .chain(loose.into_iter().map(|(_, after)| after))
            .chain(seen);
        self.excused = false;
        // What was not reported may have been newer.
        self.known = if lacks_after {
            None
        } else {
            all.max_by_key(newness)
        };
        match (theirs, lacks_before || is_lost) {
            (true, _) => Verdict::Theirs,
            (false, true) => Verdict::Unknown,
            (false, false) => Verdict::Ours,
        }
    }
}

/// Orders states of one object by when they were.
pub(super) fn newness(state: &WccAttributes) -> (Timestamp, Timestamp, u64) {
    (state.changed, state.modified, state.size)
}

fn same_data(one: &WccAttributes, other: &WccAttributes) -> bool {
    (one.size, one.modified) == (other.size, other.modified)
}

/// Stays the same as long as nobody has changed a directory, and we have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// How often others have changed it.
    pub changes: u64,
    /// Changes of ours, begun or ended.
    pub own_changes: u64,
}

impl Stamp {
    /// What it is when a change of ours has begun, or ended, and nothing else has happened.
    pub(super) fn next(self) -> Self {
        Self {
            own_changes: self.own_changes + 1,
            ..self
        }
    }

    /// Whether nothing of ours has happened since `begun` but the end of what began then.
    pub(super) fn ends_alone(self, begun: Self) -> bool {
        self.own_changes == begun.next().own_changes
    }
}

/// The length of a file.
#[derive(Debug, Default)]
pub(super) struct Length {
    /// As the server knows it.
    server: u64,
    /// End of what was written here since everything was committed.
    uncommitted_end: u64,
    /// Local writes, and that number when everything was at the server.
    writes: u64,
    clean_at: u64,
}

impl Length {
    /// As programs see it.
    pub(super) fn get(&self) -> u64 {
        self.server.max(self.uncommitted_end)
    }

    /// As the server knows it.
    pub(super) fn at_server(&self) -> u64 {
        self.server
    }

    /// The server has reported it.
    pub(super) fn reported(&mut self, size: u64) {
        self.server = size;
    }

    /// The server has taken bytes up to here, and reported no attributes.
    pub(super) fn grew(&mut self, end: u64) {
        self.server = self.server.max(end);
    }

    /// Bytes up to here were written into the cache.
    pub(super) fn wrote(&mut self, end: u64) {
        self.writes += 1;
        self.uncommitted_end = self.uncommitted_end.max(end);
    }

    /// Whether something may not be at the server yet.
    pub(super) fn is_dirty(&self) -> bool {
        self.writes != self.clean_at
    }

    /// Whether something may not be safe at the server yet.
    pub(super) fn is_uncommitted(&self) -> bool {
        self.is_dirty() || self.uncommitted_end > 0
    }

    /// Whether the server's file is shorter than what it has taken.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.is_dirty() && self.server < self.uncommitted_end
    }

    /// To be given to [`Self::cleaned`] and [`Self::committed`] when what was written until now is
    /// there.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Everything of before is at the server.
    pub(super) fn cleaned(&mut self, writes: u64) {
        if self.writes == writes {
            self.clean_at = writes;
        }
    }

    /// Everything of before is safe at the server, or nobody's any more.
    pub(super) fn committed(&mut self, writes: u64) {
        self.cleaned(writes);
        if self.writes == writes {
            self.uncommitted_end = 0;
        }
    }

    /// It was set at the server. What is behind it does not come back.
    pub(super) fn cut(&mut self, size: u64) {
        self.server = size;
        self.uncommitted_end = self.uncommitted_end.min(size);
    }
}

#[cfg(test)]
mod tests;
