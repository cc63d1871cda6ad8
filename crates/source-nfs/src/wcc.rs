//! Whether a change of an object was ours: weak cache consistency (RFC 1813 section 2.6).
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

use pagewell_fs::{Timestamp, WccAttributes};

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

/// See the module's text.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(number: u32) -> WccAttributes {
        let time = Timestamp {
            seconds: i64::from(number),
            nanoseconds: 0,
        };
        WccAttributes {
            size: u64::from(number),
            modified: time,
            changed: time,
        }
    }

    fn known(number: u32) -> Consistency {
        let mut consistency = Consistency::default();
        assert_eq!(consistency.look(state(number)), Verdict::Ours);
        consistency
    }

    #[test]
    fn one_call_at_a_time() {
        let mut file = known(1);
        file.begin();
        assert!(file.is_changing());
        assert_eq!(file.end(Some(state(1)), Some(state(2))), Verdict::Ours);
        assert!(!file.is_changing());
        assert_eq!(file.look(state(2)), Verdict::Ours);
        file.begin();
        assert_eq!(file.end(Some(state(3)), Some(state(4))), Verdict::Theirs);
        assert_eq!(file.look(state(4)), Verdict::Ours);
        assert_eq!(file.look(state(5)), Verdict::Theirs);
        assert_eq!(file.look(state(5)), Verdict::Ours);
    }

    #[test]
    fn what_is_not_reported_is_unknown() {
        let mut file = known(1);
        file.begin();
        assert_eq!(file.end(None, Some(state(7))), Verdict::Unknown);
        assert_eq!(file.look(state(7)), Verdict::Ours);
        file.begin();
        assert_eq!(file.end(Some(state(7)), None), Verdict::Ours, "not yet");
        assert_eq!(file.look(state(9)), Verdict::Unknown);
        assert_eq!(file.look(state(9)), Verdict::Ours);
        for _ in 0..2 {
            file.begin();
            assert_eq!(file.end(None, None), Verdict::Ours);
        }
        file.begin();
        let verdict = file.end(Some(state(10)), Some(state(11)));
        assert_eq!(
            verdict,
            Verdict::Unknown,
            "another may have been there before"
        );
        assert_eq!(file.look(state(11)), Verdict::Ours);
        // One that does not tell is no excuse for another that was seen to be another client's.
        file.begin();
        file.begin();
        assert_eq!(file.end(Some(state(20)), Some(state(21))), Verdict::Ours);
        assert_eq!(file.end(None, Some(state(12))), Verdict::Theirs);
    }

    #[test]
    fn a_look_in_the_middle_of_a_burst_is_kept_until_it_is_explained() {
        let mut file = known(1);
        file.begin();
        file.begin();
        assert_eq!(file.look(state(1)), Verdict::Ours);
        assert!(!file.is_undecided());
        assert_eq!(file.look(state(2)), Verdict::Ours);
        assert!(file.is_undecided());
        assert_eq!(file.end(Some(state(2)), Some(state(3))), Verdict::Ours);
        assert!(file.is_undecided());
        assert_eq!(file.end(Some(state(1)), Some(state(2))), Verdict::Ours);
        assert!(!file.is_undecided());
        assert_eq!(file.look(state(3)), Verdict::Ours);
        file.begin();
        file.begin();
        assert_eq!(file.look(state(4)), Verdict::Ours);
        assert_eq!(file.end(Some(state(3)), Some(state(5))), Verdict::Ours);
        assert!(file.is_undecided());
        assert_eq!(file.end(Some(state(5)), Some(state(6))), Verdict::Theirs);
        assert_eq!(file.look(state(6)), Verdict::Ours);
        // Behind all of ours.
        file.begin();
        file.begin();
        assert_eq!(file.end(Some(state(6)), Some(state(7))), Verdict::Ours);
        assert_eq!(file.look(state(8)), Verdict::Ours);
        assert_eq!(file.end(Some(state(7)), Some(state(7))), Verdict::Theirs);
        assert_eq!(file.look(state(8)), Verdict::Ours, "it is known now");
    }

    #[test]
    fn a_write_that_was_seen_at_work_is_ours() {
        let mut file = known(1);
        file.begin();
        let part = WccAttributes {
            size: 5,
            ..state(9)
        };
        assert_eq!(file.look(part), Verdict::Ours);
        assert_eq!(file.end(Some(state(1)), Some(state(9))), Verdict::Ours);
        assert_eq!(file.look(state(9)), Verdict::Ours);
    }

    #[test]
    fn an_excuse_holds_once_and_for_the_time_of_change_alone() {
        let later = |number, changed: u32| WccAttributes {
            changed: state(changed).changed,
            ..state(number)
        };
        let mut file = known(1);
        file.excuse();
        assert_eq!(file.look(state(1)), Verdict::Ours);
        assert_eq!(file.look(later(1, 5)), Verdict::Ours);
        assert_eq!(file.look(later(1, 6)), Verdict::Theirs);
        file.excuse();
        assert_eq!(file.look(state(7)), Verdict::Theirs);
        let mut file = known(1);
        file.excuse();
        file.begin();
        assert_eq!(file.end(Some(later(1, 3)), Some(state(4))), Verdict::Ours);
    }

    #[test]
    fn a_burst_is_bounded() {
        let mut file = known(0);
        for _ in 0..1000 {
            file.begin();
        }
        for number in 0..1000 {
            let before = state(10 + 2 * number);
            assert_eq!(file.look(state(5000 + number)), Verdict::Ours);
            let verdict = file.end(Some(before), Some(state(11 + 2 * number)));
            assert_eq!(verdict == Verdict::Theirs, number == 999);
            let longest = file.loose.len().max(file.reached.len());
            assert!(longest.max(file.seen.len()) <= STATES_MAX);
        }
    }

    proptest! {
        /// A chain of calls whose answers come in any order is ours; with one change of another
        /// client between two of them it is not.
        #[test]
        fn the_order_of_answers_does_not_matter(
            order in Just((0u32..40).collect::<Vec<_>>()).prop_shuffle(),
            intruder in proptest::option::of(0u32..40),
        ) {
            // Numbers of states: the intruder's change makes one more before its call.
            let shift = |call: u32| u32::from(intruder.is_some_and(|at| call >= at));
            let mut file = known(0);
            for _ in &order {
                file.begin();
            }
            let mut last = Verdict::Ours;
            for (index, call) in order.iter().enumerate() {
                let before = call + shift(*call);
                last = file.end(Some(state(before)), Some(state(call + 1 + shift(*call))));
                prop_assert!(index + 1 == order.len() || last == Verdict::Ours);
            }
            prop_assert_eq!(last == Verdict::Theirs, intruder.is_some());
            prop_assert_eq!(file.look(state(40 + shift(40))), Verdict::Ours);
        }
    }
}
