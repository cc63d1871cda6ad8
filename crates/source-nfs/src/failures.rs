//! What the server has refused of a file, until the user whose bytes they were is told.

use pagewell_fs::{Credentials, Error};

/// Users of one file whose errors are kept.
pub(super) const FAILURES_MAX: usize = 8;

/// What the server has refused of a file.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Errors that were not told.
    untold: Vec<(Credentials, Error)>,
    /// It may still be in the cache.
    is_cached: bool,
}

impl Failures {
    /// Notes an error of a write on behalf of a user. The first of each is kept.
    pub(super) fn note(&mut self, user: Credentials, error: Error) {
        self.is_cached = true;
        if self.untold.iter().any(|(other, _)| *other == user) {
            return;
        }
        if self.untold.len() == FAILURES_MAX {
            self.untold.remove(0);
        }
        self.untold.push((user, error));
    }

    /// Whether anything is left to be done for a user: what was refused may still be in the cache,
    /// or there is a failure that was not told. The last user is told those of others, too.
    pub(super) fn concern(&self, user: &Credentials, is_last: bool) -> bool {
        self.is_cached
            || self
                .untold
                .iter()
                .any(|(other, _)| other == user || is_last)
    }

    /// Takes what a user is to be told.
    pub(super) fn take(&mut self, user: &Credentials, is_last: bool) -> Option<Error> {
        let own = self.untold.iter().position(|(other, _)| other == user);
        let first = (is_last && !self.untold.is_empty()).then_some(0);
        own.or(first).map(|at| self.untold.remove(at).1)
    }

    /// Takes all that was not told; the first of it.
    pub(super) fn take_all(&mut self) -> Option<Error> {
        let untold = std::mem::take(&mut self.untold);
        untold.into_iter().next().map(|(_, error)| error)
    }

    /// Whether what was refused may still be in the cache.
    pub(super) fn is_cached(&self) -> bool {
        self.is_cached
    }

    /// Whether what was refused may still be in the cache; from now on it is not.
    pub(super) fn take_cached(&mut self) -> bool {
        std::mem::take(&mut self.is_cached)
    }

    /// Whether every error was told.
    pub(super) fn is_told(&self) -> bool {
        self.untold.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Credentials {
        Credentials::new(uid, uid, &[])
    }

    #[test]
    fn each_user_is_told_of_his_own_once() {
        let mut failures = Failures::default();
        failures.note(user(1), Error::NoSpace);
        failures.note(user(2), Error::QuotaExceeded);
        failures.note(user(1), Error::Stale);
        assert_eq!(failures.take(&user(3), false), None);
        assert_eq!(failures.take(&user(2), false), Some(Error::QuotaExceeded));
        assert_eq!(failures.take(&user(2), false), None);
        assert_eq!(failures.take(&user(3), true), Some(Error::NoSpace));
        assert_eq!(failures.take(&user(1), true), None);
        for uid in 0..100 {
            failures.note(user(uid), Error::NoSpace);
            assert!(failures.untold.len() <= FAILURES_MAX);
        }
        assert_eq!(failures.take(&user(99), false), Some(Error::NoSpace));
    }
}
