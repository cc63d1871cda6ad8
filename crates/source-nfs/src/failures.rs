//! What the server has refused of a file, until it is reported to the user whose bytes they were.

use pagewell_fs::{Credentials, Error};

/// Users of one file whose errors are kept.
const FAILURES_MAX: usize = 8;

/// What the server has refused of a file.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Errors that were not reported.
    unreported: Vec<(Credentials, Error)>,
    /// It may still be in the cache.
    pub(super) is_cached: bool,
}

impl Failures {
    /// Notes an error of a write on behalf of a user. The first of each is kept.
    pub(super) fn note(&mut self, user: Credentials, error: Error) {
        self.is_cached = true;
        if self.unreported.iter().any(|(other, _)| *other == user) {
            return;
        }
        if self.unreported.len() == FAILURES_MAX {
            self.unreported.remove(0);
        }
        self.unreported.push((user, error));
    }

    /// Whether anything is left to be done for a user: what was refused may still be in the cache,
    /// or there is a failure that was not reported. The last user gets those of others, too.
    pub(super) fn concern(&self, user: &Credentials, is_last: bool) -> bool {
        self.is_cached
            || self
                .unreported
                .iter()
                .any(|(other, _)| other == user || is_last)
    }

    /// Takes what is to be reported to a user.
    pub(super) fn take(&mut self, user: &Credentials, is_last: bool) -> Option<Error> {
        let own = self.unreported.iter().position(|(other, _)| other == user);
        let first = (is_last && !self.unreported.is_empty()).then_some(0);
        own.or(first).map(|at| self.unreported.remove(at).1)
    }

    /// Takes all that was not reported; the first of it.
    pub(super) fn take_all(&mut self) -> Option<Error> {
        let unreported = std::mem::take(&mut self.unreported);
        unreported.into_iter().next().map(|(_, error)| error)
    }

    /// Whether every error was reported.
    pub(super) fn is_reported(&self) -> bool {
        self.unreported.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Credentials {
        Credentials::new(uid, uid, &[])
    }

    #[test]
    fn each_user_gets_its_own_failure_once() {
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
            assert!(failures.unreported.len() <= FAILURES_MAX);
        }
        assert_eq!(failures.take(&user(99), false), Some(Error::NoSpace));
    }
}
