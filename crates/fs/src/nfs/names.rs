//! What names mean: found, missing, and listed ones.
//!
//! **Problem.** A path of five names costs five round trips, each time, when nothing is remembered;
//! and programs look for what is not there more often than for what is.
//!
//! **Rule.** A name is remembered with the *epoch* of its directory. As long as nobody else changed
//! the directory, which its attributes tell ([`super::wcc`]), the epoch stays and all its names are
//! right, found and missing ones; changes of our own are entered. When somebody else has changed
//! it, the epoch moves on, and with it all names of the directory are forgotten at once. How long
//! attributes are believed ([`super::age`]) is how long names are.
//!
//! Listings with attributes fill it: the names of a page are those that will be asked for next.
//!
//! **Known weakness.** A directory that others change all the time has no remembered names.

use super::generations::Generations;
use crate::FileId;

/// Names of one mount.
pub(super) const NAMES_MAX: usize = 1_000_000;

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// This object.
    Object(FileId),
    /// Nothing.
    Nothing,
}

/// A directory as it is now: its number, and how often others have changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) directory: u64,
    pub(super) changes: u64,
}

#[derive(Debug)]
struct Remembered {
    changes: u64,
    meaning: Meaning,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Names {
    /// By directory and name, in one string of bytes.
    names: Generations<Box<[u8]>, Remembered>,
}

impl Names {
    pub(super) fn new(names_max: usize) -> Self {
        Self {
            names: Generations::new(names_max),
        }
    }

    /// What is remembered of a name; nothing is, once its directory has moved on.
    pub(super) fn find(&mut self, epoch: Epoch, name: &[u8]) -> Option<Meaning> {
        let found = self.names.get(&key(epoch, name)[..])?;
        (found.changes == epoch.changes).then_some(found.meaning)
    }

    /// Remembers what a name means.
    pub(super) fn put(&mut self, epoch: Epoch, name: &[u8], meaning: Meaning) {
        let remembered = Remembered {
            changes: epoch.changes,
            meaning,
        };
        self.names.put(key(epoch, name), remembered, |_| true);
    }

    /// Forgets a name.
    pub(super) fn forget(&mut self, epoch: Epoch, name: &[u8]) {
        self.names.remove(&key(epoch, name)[..]);
    }
}

fn key(epoch: Epoch, name: &[u8]) -> Box<[u8]> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&epoch.directory.to_ne_bytes());
    key.extend_from_slice(name);
    key.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: u8) -> Meaning {
        Meaning::Object(FileId::new(&[number]).unwrap())
    }

    #[test]
    fn names_live_as_long_as_the_epoch_of_their_directory() {
        let mut names = Names::new(100);
        let now = Epoch {
            directory: 1,
            changes: 7,
        };
        let other = Epoch {
            directory: 2,
            ..now
        };
        names.put(now, b"a", object(1));
        names.put(now, b"b", Meaning::Nothing);
        names.put(other, b"a", object(2));
        assert_eq!(names.find(now, b"a"), Some(object(1)));
        assert_eq!(names.find(now, b"b"), Some(Meaning::Nothing));
        assert_eq!(names.find(other, b"a"), Some(object(2)));
        assert_eq!(names.find(other, b"b"), None);
        names.forget(now, b"b");
        assert_eq!(names.find(now, b"b"), None);
        let later = Epoch { changes: 8, ..now };
        assert_eq!(names.find(later, b"a"), None);
        names.put(later, b"a", Meaning::Nothing);
        assert_eq!(names.find(later, b"a"), Some(Meaning::Nothing));
        assert_eq!(names.find(now, b"a"), None);
    }

    #[test]
    fn they_are_bounded() {
        let mut names = Names::new(100);
        let epoch = Epoch {
            directory: 1,
            changes: 0,
        };
        for number in 0..10_000u32 {
            names.put(epoch, &number.to_ne_bytes(), Meaning::Nothing);
        }
        assert!(names.names.len() <= 100);
        assert!(names.find(epoch, &9_999u32.to_ne_bytes()).is_some());
    }
}
