//! Refused writes of a file, until they are reported to the user that wrote.

use pagewell_fs::{Credentials, Error};

const FAILURES_MAX: usize = 8;

/// Of one file.
#[derive(Debug, Default)]
pub(super) struct Failures {
    unreported: Vec<(Credentials, Error)>,
    /// The first of users without room among those.
    of_others: Option<Error>,
    /// It may still be in the cache.
    is_cached: bool,
}

impl Failures {
    /// The first error of each user is kept.
    pub(super) fn note(&mut self, user: Credentials, error: Error) {
        self.is_cached = true;
        if self.unreported.iter().any(|(other, _)| *other == user) {
            return;
        }
        if self.unreported.len() < FAILURES_MAX {
            self.unreported.push((user, error));
        } else {
            self.of_others.get_or_insert(error);
        }
    }

    /// Whether refused data may be cached, or a failure is unreported to a user. The last user also
    /// gets other users' failures, and the first without one that of users that are not known any
    /// more.
    pub(super) fn concern(&self, user: &Credentials, is_last: bool) -> bool {
        self.is_cached
            || self.of_others.is_some()
            || self
                .unreported
                .iter()
                .any(|(other, _)| other == user || is_last)
    }

    /// Takes a user's failure.
    pub(super) fn take(&mut self, user: &Credentials, is_last: bool) -> Option<Error> {
        let own = self.unreported.iter().position(|(other, _)| other == user);
        let first = (is_last && !self.unreported.is_empty()).then_some(0);
        match own.or(first) {
            Some(at) => Some(self.unreported.remove(at).1),
            None => self.of_others.take(),
        }
    }

    /// Takes all failures; returns the first.
    pub(super) fn take_all(&mut self) -> Option<Error> {
        let of_others = self.of_others.take();
        let unreported = std::mem::take(&mut self.unreported);
        let first = unreported.into_iter().next();
        first.map(|(_, error)| error).or(of_others)
    }

    /// Whether refused data may be cached.
    pub(super) fn are_cached(&self) -> bool {
        self.is_cached
    }

    /// Refused data has left the cache. Whether it may have been there.
    pub(super) fn left_cache(&mut self) -> bool {
        std::mem::take(&mut self.is_cached)
    }

    pub(super) fn is_reported(&self) -> bool {
        self.unreported.is_empty() && self.of_others.is_none()
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
    }

    #[test]
    fn no_failure_of_many_users_is_forgotten() {
        let mut failures = Failures::default();
        let known = 0..FAILURES_MAX as u32;
        for uid in 0..100 {
            failures.note(user(uid), Error::NoSpace);
            assert!(failures.unreported.len() <= FAILURES_MAX);
        }
        assert!(failures.concern(&user(99), false));
        assert_eq!(failures.take(&user(99), false), Some(Error::NoSpace));
        assert_eq!(failures.take(&user(99), false), None);
        for uid in known {
            assert!(!failures.is_reported());
            assert_eq!(failures.take(&user(uid), false), Some(Error::NoSpace));
        }
        assert!(failures.is_reported());
    }
}
