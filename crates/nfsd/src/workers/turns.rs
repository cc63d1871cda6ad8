//! Turns at the threads of a pool: lines of jobs behind forks whose branches take turns.

use std::collections::{HashMap, VecDeque};

/// A line of jobs, or a fork with lines behind it. A path of keys leads from the root to a line.
/// All paths are of one length, and so are the limits that are given along: how many jobs of each
/// branch may be under way at once, the branches of the root first.
pub(super) struct Turns<J> {
    /// Of a line.
    jobs: VecDeque<J>,
    /// Of a fork.
    branches: HashMap<u128, Turns<J>>,
    /// The branches with jobs that may be begun, and no others.
    ring: VecDeque<u128>,
    running: usize,
    /// Jobs in line, as far as the limits of the branches let them be begun.
    waiting: usize,
}

impl<J> Default for Turns<J> {
    fn default() -> Self {
        Self {
            jobs: VecDeque::new(),
            branches: HashMap::new(),
            ring: VecDeque::new(),
            running: 0,
            waiting: 0,
        }
    }
}

impl<J> Turns<J> {
    /// How many jobs may be begun if `limit` may be under way.
    pub(super) fn ready(&self, limit: usize) -> usize {
        self.waiting.min(limit.saturating_sub(self.running))
    }

    /// Whether no job is in line or under way.
    pub(super) fn is_empty(&self) -> bool {
        self.running == 0 && self.jobs.is_empty() && self.branches.is_empty()
    }

    /// Puts a job at the end of a line.
    pub(super) fn put(&mut self, path: &[u128], limits: &[usize], job: J) {
        if let (Some((key, path)), Some((limit, limits))) =
            (path.split_first(), limits.split_first())
        {
            self.change(*key, *limit, |branch| branch.put(path, limits, job));
        } else {
            self.jobs.push_back(job);
            self.waiting = self.jobs.len();
        }
    }

    /// Takes the job whose turn it is; it is under way until [`Turns::end`].
    pub(super) fn take(&mut self, limits: &[usize]) -> Option<J> {
        let job = if let Some((limit, limits)) = limits.split_first() {
            let key = self.ring.pop_front()?;
            let job = self.change(key, *limit, |branch| branch.take(limits))?;
            let has_more = |branch: &Self| branch.ready(*limit) > 0;
            if self.branches.get(&key).is_some_and(has_more) {
                self.ring.push_back(key);
            }
            job
        } else {
            let job = self.jobs.pop_front()?;
            self.waiting = self.jobs.len();
            job
        };
        self.running += 1;
        Some(job)
    }

    /// A job of a line has come to its end.
    pub(super) fn end(&mut self, path: &[u128], limits: &[usize]) {
        assert!(self.running > 0, "a job has ended that was not begun");
        self.running -= 1;
        if let (Some((key, path)), Some((limit, limits))) =
            (path.split_first(), limits.split_first())
        {
            self.change(*key, *limit, |branch| branch.end(path, limits));
        }
    }

    /// Other limits hold from now on.
    pub(super) fn set_limits(&mut self, limits: &[usize]) {
        let Some((limit, limits)) = limits.split_first() else {
            return;
        };
        self.waiting = 0;
        self.ring.clear();
        for (key, branch) in &mut self.branches {
            branch.set_limits(limits);
            let ready = branch.ready(*limit);
            self.waiting += ready;
            if ready > 0 {
                self.ring.push_back(*key);
            }
        }
    }

    /// Changes a branch and keeps count of it.
    fn change<T>(&mut self, key: u128, limit: usize, change: impl FnOnce(&mut Self) -> T) -> T {
        let branch = self.branches.entry(key).or_default();
        let before = branch.ready(limit);
        let result = change(branch);
        let ready = branch.ready(limit);
        self.waiting = self.waiting + ready - before;
        if before == 0 && ready > 0 {
            self.ring.push_back(key);
        }
        if branch.is_empty() {
            self.branches.remove(&key);
        }
        result
    }
}
