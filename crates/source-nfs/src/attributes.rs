//! What is believed of an object's attributes: for how long, whether a change was ours, and the
//! length of a file that was written here.
//!
//! # How long attributes are believed
//!
//! **Problem.** A server of NFSv3 reports no changes by itself. Asking costs a round trip for each
//! look; never asking shows old state.
//!
//! **Rule.** What has not changed for long is unlikely to change now. Attributes are believed for a
//! tenth of the time since the last change of the data, within bounds (the options `acregmin`,
//! `acregmax`, `acdirmin` and `acdirmax` of all clients). An open asks anyway.
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
//! **Known weakness.** The time since the change is the difference of the client's and the server's
//! clocks; a wrong one changes ages, within the bounds.
//!
//! # Whether a change was ours: weak cache consistency (RFC 1813 section 2.6)
//!
//! **Problem.** What is cached of an object belongs to one state of it, identified by size and two
//! times. When these change, either a call of ours did it, and the cache is right, or another
//! client. Each answer reports the states before and after its call; but calls overlap, answers
//! come in any order, and some servers report less.
//!
//! **Rule.** Calls that are on their way together are a *burst*. Each answer is an edge between two
//! states. What edges reach from the known state is ours:
//!
//! ```text
//!   known ──w1──> s1 ──w2──> s2 ──w3──> s3      all ours, in whatever order w1 w2 w3 answer
//!   known ──w1──> s1    x1 ──w2──> x2           x1 is not: another client wrote in between
//! ```
//!
//! An edge that is loose at the end of the burst means that another client changed the object. So
//! does a state that another call has seen (`x1`, by a READ) and no edge reaches. The known state
//! is then the newest of all.
//!
//! An edge without its beginning leaves open whether another client was there before it; one
//! without its end, for the next reported state. Both verdicts are *unknown*, and their cost
//! depends on the object (`node.rs`): a directory is listed again, as new names would never be
//! seen; a file's data is read again after its next open.
//!
//! RENAME, LINK and REMOVE change another object's time of change without a report: the object is
//! *excused* for its next change of that time alone.
//!
//! The state that follows explains one that was seen during a write, with the later times and a
//! part of the length.
//!
//! **Known weaknesses.** Another client's change within one tick of the server's clock that keeps
//! the size is not seen. A server that looks at attributes after later calls have gone on never
//! reports some states; an edge stays loose, and data is read again for nothing. A server that
//! reports a state before the call which others may have changed until the call (RFC 1813 section
//! 2.6 forbids it) hides their changes.
//!
//! # How long a file is, and whether all of it is safe at the server
//!
//! **Problem.** A server that crashes forgets what was not committed. Its file is then shorter,
//! until that is written again, and a program that learns that length appends in the middle of what
//! it has written.
//!
//! **Rule.** Of the server's length, which decides what must be asked for, and the end of what was
//! written here since everything was committed, programs see the larger.
//!
//! ```text
//!   written here            ├──────── uncommitted_end
//!   WRITE is answered       ├──────── the server's, too        not dirty any more
//!   the server crashes      ├──       the server's, in doubt
//!   COMMIT, WRITE, COMMIT   ├──────── the server's alone
//! ```
//!
//! A server whose file is shorter than what it has taken has forgotten data, or another client has
//! cut the file off. A commit writes again what was forgotten; then the server's length is right in
//! both cases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_fs::{Attributes, Timestamp, WccAttributes};

/// One in so many of the time since the last change.
const PART: u32 = 10;

/// Bounds of ages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// Shortest, for all but directories.
    pub file_min: Duration,
    /// Longest, for all but directories.
    pub file_max: Duration,
    /// Shortest, for directories.
    pub directory_min: Duration,
    /// Longest, for directories.
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
    /// Each look asks.
    pub const NONE: Self = Self::all(Duration::ZERO);

    const fn all(time: Duration) -> Self {
        Self {
            file_min: time,
            file_max: time,
            directory_min: time,
            directory_max: time,
        }
    }

    /// Sets an option's bound; `actimeo` sets all four.
    pub(super) fn set(&mut self, key: &str, time: Duration) {
        match key {
            "acregmin" => self.file_min = time,
            "acregmax" => self.file_max = time,
            "acdirmin" => self.directory_min = time,
            "acdirmax" => self.directory_max = time,
            _ => *self = Self::all(time),
        }
    }

    /// How long attributes of `now`, by the client's clock, are believed.
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

/// None when `then` is in the future.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    let nanoseconds =
        |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let difference = nanoseconds(now) - nanoseconds(then);
    Duration::from_nanos(u64::try_from(difference.max(0)).unwrap_or(u64::MAX))
}

/// A moment in the life of a mount: see `node.rs`. The default is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

#[derive(Debug, Default)]
pub(super) struct Moments(AtomicU64);

impl Moments {
    pub(super) fn now(&self) -> Moment {
        Moment(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub attributes: Attributes,
    /// Of the call.
    pub sent: Moment,
    /// Of its answer.
    pub answered: Moment,
    /// The end of belief.
    pub until: Instant,
}

/// Of one burst.
const STATES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As far as is known.
    Ours,
    /// Another client's.
    Theirs,
    /// Not reported.
    Unknown,
}

/// A loose edge: before and after.
type Edge = (WccAttributes, WccAttributes);

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
    /// A call of this burst did not report its state before, or after.
    lacks_before: bool,
    lacks_after: bool,
    /// The known state is lost, and others may have changed it since.
    lost: bool,
    excused: bool,
}

impl Consistency {
    /// Whether calls of ours that change it are on their way.
    pub(super) fn is_changing(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether it is open whose the last reported state is.
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

    /// A call was answered, with these states as far as reported. What is not `Ours` comes only at
    /// the end of a burst.
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

    /// A call that changes nothing has reported attributes.
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

    /// A call of ours changes its time of change, and will not report that.
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

    /// Whether our calls have made a seen state of the known one.
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

    /// Adds a state, and all that edges reach from it.
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
        // A missing state may be one that was seen.
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

/// Orders states of one object by age.
pub(super) fn newness(state: &WccAttributes) -> (Timestamp, Timestamp, u64) {
    (state.changed, state.modified, state.size)
}

fn same_data(one: &WccAttributes, other: &WccAttributes) -> bool {
    (one.size, one.modified) == (other.size, other.modified)
}

/// Stays the same while neither we nor others change a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Changes by others.
    pub changes: u64,
    /// Ours, begun or ended.
    pub own_changes: u64,
}

impl Stamp {
    /// The stamp after one begin or end of a change of ours.
    pub(super) fn next(self) -> Self {
        Self {
            own_changes: self.own_changes + 1,
            ..self
        }
    }

    /// Whether since `begun` only the change that began then has ended.
    pub(super) fn ends_alone(self, begun: Self) -> bool {
        self.own_changes == begun.next().own_changes
    }
}

/// The length of a file.
#[derive(Debug, Default)]
pub(super) struct Length {
    /// At the server.
    server: u64,
    /// End of what was written here since everything was committed.
    uncommitted_end: u64,
    /// Local writes, and their number when everything was at the server.
    writes: u64,
    clean_at: u64,
}

impl Length {
    /// As programs see it.
    pub(super) fn get(&self) -> u64 {
        self.server.max(self.uncommitted_end)
    }

    pub(super) fn at_server(&self) -> u64 {
        self.server
    }

    pub(super) fn reported(&mut self, size: u64) {
        self.server = size;
    }

    /// The server has taken bytes up to `end`, and reported no attributes.
    pub(super) fn grew(&mut self, end: u64) {
        self.server = self.server.max(end);
    }

    /// The cache has taken bytes up to `end`.
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

    /// For [`Self::cleaned`] and [`Self::committed`].
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Everything of before is at the server.
    pub(super) fn cleaned(&mut self, writes: u64) {
        if self.writes == writes {
            self.clean_at = writes;
        }
    }

    /// Everything of before is safe at the server, or dropped.
    pub(super) fn committed(&mut self, writes: u64) {
        self.cleaned(writes);
        if self.writes == writes {
            self.uncommitted_end = 0;
        }
    }

    /// The length was set at the server.
    pub(super) fn cut(&mut self, size: u64) {
        self.server = size;
        self.uncommitted_end = self.uncommitted_end.min(size);
    }
}

#[cfg(test)]
mod tests;
