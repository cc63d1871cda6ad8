//! Calls that storage stalls: clients repeat them, so that clients wait and not threads.
//!
//! Stalled storage blocks a thread for each call, and with repetitions soon all. A watcher checks
//! the running calls. A *stalled* read gets "try later" ([`crate::program::Program::later`]); its
//! thread is free when storage responds, and drops the result. Further calls for the object wait
//! without a thread ([`crate::dispatch`]), then get the same reply. Running changes never get it,
//! as they may still happen.
//!
//! A call is **stalled** when it ran longer than the limit and its export's storage has not moved:
//! no call that had waited for a while ended there for as long. Slow storage that moves (a DVD with
//! many readers) gets [`PATIENCE`] times the limit. A long COMMIT stalls only other COMMITs.
//!
//! Storage counts as dead when an export has twice as many stalled calls as a lane has threads (one
//! file can stall one lane): then every call for it waits and gets that reply.
//!
//! Weakness: until the limit, calls for a dead object do take threads.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_fs::FileId;

/// The limit's factor while storage moves: with five seconds, half the time after which clients
/// repeat a call.
const PATIENCE: u32 = 6;

/// The limit's part after which the end of a call shows movement.
const WAITED_PART: u32 = 4;

/// Of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// If any.
    pub object: Option<FileId>,
    /// The export.
    pub export: u32,
}

/// None, one, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    first: Option<Subject>,
    others: Vec<Subject>,
}

impl From<Subject> for Subjects {
    fn from(subject: Subject) -> Self {
        Self {
            first: Some(subject),
            others: Vec::new(),
        }
    }
}

impl FromIterator<Subject> for Subjects {
    fn from_iter<T: IntoIterator<Item = Subject>>(subjects: T) -> Self {
        let mut subjects = subjects.into_iter();
        Self {
            first: subjects.next(),
            others: subjects.collect(),
        }
    }
}

impl Subjects {
    /// Each subject.
    pub fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.first.iter().chain(&self.others)
    }

    /// Of the first; 0 if there is none.
    pub fn export(&self) -> u32 {
        self.first.map_or(0, |first| first.export)
    }
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// May get "try later" while it runs.
    Read,
    /// Changes something.
    #[default]
    Change,
    /// Brings written data to the device.
    Commit,
}

/// A running call.
pub struct Running<C> {
    /// What answers the call.
    pub context: C,
    subjects: Subjects,
    kind: Kind,
    since: Instant,
    answered: AtomicBool,
}

impl<C> Running<C> {
    /// Its number.
    pub fn export(&self) -> u32 {
        self.subjects.export()
    }

    /// Takes the right to answer; true exactly once.
    #[must_use]
    pub fn claim(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }
}

/// A running call, until drop.
pub struct Watched<'a, C> {
    calls: &'a SlowCalls<C>,
    number: u64,
    /// The call.
    pub running: Arc<Running<C>>,
}

impl<C> Watched<'_, C> {
    fn end(&self, now: Instant) {
        let mut state = self.calls.state.lock();
        state.running.remove(&self.number);
        let took = now.saturating_duration_since(self.running.since);
        if took >= self.calls.limit / WAITED_PART {
            state.moved_at.insert(self.running.export(), now);
        }
    }
}

impl<C> Drop for Watched<'_, C> {
    fn drop(&mut self) {
        self.end(Instant::now());
    }
}

/// Of a check.
pub struct Found<C> {
    /// To answer now; [`Running::claim`] each first.
    pub due: Vec<Arc<Running<C>>>,
    /// Calls over the limit, by export.
    pub long: HashMap<u32, usize>,
}

/// Of a server.
pub struct SlowCalls<C> {
    /// Of a call.
    pub limit: Duration,
    stalled_per_export_max: usize,
    state: Mutex<State<C>>,
}

#[derive(Default)]
struct Stalled {
    objects: HashSet<Subject>,
    exports: HashMap<u32, usize>,
}

struct State<C> {
    next: u64,
    running: HashMap<u64, Arc<Running<C>>>,
    stalled: Stalled,
    stalled_commits: Stalled,
    /// The last end of a call that had waited, by export.
    moved_at: HashMap<u32, Instant>,
}

impl Stalled {
    fn of_export(&self, subject: Subject) -> usize {
        self.exports.get(&subject.export).copied().unwrap_or(0)
    }

    fn add(&mut self, subject: Subject) {
        self.objects.insert(subject);
        *self.exports.entry(subject.export).or_default() += 1;
    }
}

impl<C> State<C> {
    fn moves(&self, export: u32, now: Instant, limit: Duration) -> bool {
        let moved = self.moved_at.get(&export);
        moved.is_some_and(|at| now.saturating_duration_since(*at) <= limit)
    }
}

impl<C> SlowCalls<C> {
    /// Calls may take `limit`; storage with `stalled_per_export_max` stalled calls counts as dead.
    pub fn new(limit: Duration, stalled_per_export_max: usize) -> Self {
        let state = State {
            next: 0,
            running: HashMap::new(),
            stalled: Stalled::default(),
            stalled_commits: Stalled::default(),
            moved_at: HashMap::new(),
        };
        Self {
            limit,
            stalled_per_export_max: stalled_per_export_max.max(1),
            state: Mutex::new(state),
        }
    }

    /// Whether one of these objects is stalled, or all of its export.
    pub fn is_stalled(&self, subjects: &Subjects, kind: Kind) -> bool {
        let state = self.state.lock();
        let (stalled, commits) = (&state.stalled, &state.stalled_commits);
        let also_commits = usize::from(kind == Kind::Commit);
        subjects.iter().any(|subject| {
            let of_export =
                stalled.of_export(*subject) + also_commits * commits.of_export(*subject);
            of_export >= self.stalled_per_export_max
                || stalled.objects.contains(subject)
                || (kind == Kind::Commit && commits.objects.contains(subject))
        })
    }

    /// Whether an export has a stalled call.
    pub fn has_stalled(&self, export: u32) -> bool {
        self.state.lock().stalled.exports.contains_key(&export)
    }

    /// Registers a running call until the result drops.
    pub fn begin(
        &self,
        subjects: Subjects,
        kind: Kind,
        context: C,
        now: Instant,
    ) -> Watched<'_, C> {
        let answered = AtomicBool::new(false);
        let running = Arc::new(Running {
            context,
            subjects,
            kind,
            since: now,
            answered,
        });
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.running.insert(number, running.clone());
        Watched {
            calls: self,
            number,
            running,
        }
    }

    /// Finds stalled calls.
    pub fn watch(&self, now: Instant) -> Found<C> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut found = Found {
            due: Vec::new(),
            long: HashMap::new(),
        };
        (state.stalled, state.stalled_commits) = (Stalled::default(), Stalled::default());
        let running: Vec<_> = state.running.values().cloned().collect();
        for running in running {
            let took = now.saturating_duration_since(running.since);
            if took <= self.limit {
                continue;
            }
            let (export, kind) = (running.export(), running.kind);
            *found.long.entry(export).or_default() += 1;
            if took <= self.limit * PATIENCE && state.moves(export, now, self.limit) {
                continue;
            }
            for subject in running.subjects.iter() {
                match kind {
                    Kind::Commit => state.stalled_commits.add(*subject),
                    Kind::Read | Kind::Change => state.stalled.add(*subject),
                }
            }
            if kind == Kind::Read {
                found.due.push(running);
            }
        }
        let limit = self.limit;
        state
            .moved_at
            .retain(|_, at| now.saturating_duration_since(*at) <= limit);
        found
    }

    /// Whether no call runs.
    pub fn is_idle(&self) -> bool {
        self.state.lock().running.is_empty()
    }

    /// Between calls of [`SlowCalls::watch`].
    pub fn period(&self) -> Duration {
        (self.limit / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn subject(object: u64, export: u32) -> Subjects {
        Subjects::from(Subject {
            object: Some(FileId::of(&object.to_be_bytes())),
            export,
        })
    }

    /// Ends a call at a time of the test.
    fn end<C>(watched: Watched<'_, C>, now: Instant) {
        watched.end(now);
        std::mem::forget(watched);
    }

    #[test]
    fn stalled_calls_are_found_and_answered_once() {
        let slow = SlowCalls::new(LIMIT, 4);
        let start = Instant::now();
        let read = slow.begin(subject(1, 0), Kind::Read, "read", start);
        let _write = slow.begin(subject(2, 0), Kind::Change, "write", start);
        let fresh_at = start + Duration::from_secs(4);
        let fresh = slow.begin(subject(1, 0), Kind::Read, "fresh", fresh_at);
        assert_eq!(slow.watch(start + LIMIT).due.len(), 0);
        let late = start + Duration::from_secs(6);
        let found = slow.watch(late);
        assert_eq!(found.long, HashMap::from([(0, 2)]));
        assert_eq!(found.due.len(), 1);
        assert_eq!(found.due[0].context, "read");
        assert!(found.due[0].claim() && !found.due[0].claim());
        let is_stalled = |object| slow.is_stalled(&subject(object, 0), Kind::Read);
        assert!(is_stalled(1) && is_stalled(2) && !is_stalled(3));
        assert!(fresh.running.claim());
        end(read, fresh_at);
        slow.watch(late + LIMIT);
        assert!(is_stalled(1), "the fresh one has become old");
        end(fresh, start);
        slow.watch(late + LIMIT);
        assert!(!is_stalled(1));
    }

    #[test]
    fn a_call_for_several_objects_is_held_with_each_of_them() {
        let slow = SlowCalls::new(LIMIT, 4);
        let start = Instant::now();
        let both: Subjects = [subject(1, 0), subject(2, 3)]
            .iter()
            .flat_map(Subjects::iter)
            .copied()
            .collect();
        let _read = slow.begin(both.clone(), Kind::Read, (), start);
        slow.watch(start + LIMIT * 2);
        for stalled in [both, subject(1, 0), subject(2, 3)] {
            assert!(slow.is_stalled(&stalled, Kind::Read));
        }
        assert!(!slow.is_stalled(&subject(1, 3), Kind::Read));
        assert!(!slow.is_stalled(&Subjects::default(), Kind::Read));
    }

    #[test]
    fn an_export_with_many_held_calls_is_dead_as_a_whole() {
        let slow = SlowCalls::new(LIMIT, 2);
        let start = Instant::now();
        let late = start + Duration::from_secs(6);
        let is_stalled = |export| slow.is_stalled(&subject(3, export), Kind::Change);
        let _first = slow.begin(subject(1, 7), Kind::Read, (), start);
        slow.watch(late);
        assert!(!is_stalled(7));
        let second = slow.begin(subject(2, 7), Kind::Change, (), start);
        slow.watch(late);
        assert!(is_stalled(7) && !is_stalled(8));
        end(second, start);
        slow.watch(late);
        assert!(!is_stalled(7));
    }

    #[test]
    fn storage_that_moves_is_waited_for_but_not_for_ever() {
        let slow = SlowCalls::new(LIMIT, 2);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let _waits = slow.begin(subject(1, 7), Kind::Read, (), start);
        let _elsewhere = slow.begin(subject(1, 8), Kind::Read, (), start);
        for seconds in 0..30 {
            // One after the other ends, each after two seconds.
            end(
                slow.begin(subject(2, 7), Kind::Read, (), at(seconds)),
                at(seconds + 2),
            );
            let due = slow.watch(at(seconds + 2)).due;
            let of_this = due.iter().filter(|call| call.export() == 7).count();
            assert_eq!(of_this, usize::from(seconds + 2 > 30), "at {seconds}");
            let of_other = due.len() - of_this;
            assert_eq!(of_other, usize::from(seconds + 2 > 5), "at {seconds}");
        }
        let _stuck = slow.begin(subject(1, 9), Kind::Read, (), start);
        // What ends at once shows nothing: it was a hit.
        end(slow.begin(subject(2, 9), Kind::Read, (), at(5)), at(6));
        let due = slow.watch(at(6)).due;
        assert!(due.iter().any(|call| call.export() == 9));
    }

    #[test]
    fn a_commit_that_takes_long_holds_up_commits_only() {
        let slow = SlowCalls::new(LIMIT, 2);
        let start = Instant::now();
        let _first = slow.begin(subject(1, 7), Kind::Commit, (), start);
        let _second = slow.begin(subject(2, 7), Kind::Commit, (), start);
        let found = slow.watch(start + LIMIT * 2);
        assert_eq!((found.due.len(), found.long[&7]), (0, 2));
        for kind in [Kind::Read, Kind::Change] {
            assert!(!slow.is_stalled(&subject(1, 7), kind));
        }
        assert!(slow.is_stalled(&subject(1, 7), Kind::Commit));
        assert!(
            slow.is_stalled(&subject(3, 7), Kind::Commit),
            "enough of them"
        );
    }
}
