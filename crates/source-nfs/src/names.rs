//! What names mean: found, missing, and listed ones.
//!
//! **Problem.** A path of five names costs five round trips when nothing is remembered; and
//! programs look for missing names more often than for others.
//!
//! **Rule.** A name is remembered with the number of changes that others have made to its
//! directory, as attributes ([`super::attributes`]) report them. A change raises the number, which
//! forgets all names of the directory at once; changes of our own are entered. Names are believed
//! as long as attributes.
//!
//! Answers are of the past. A name in an answer is remembered when nothing has happened in the
//! directory since the call was sent, other than the call's own change. The order of changes that
//! are on their way together is unknown, so the name is forgotten.
//!
//! Listings with attributes fill this memory: programs ask for the names of a page next.
//!
//! **Known weakness.** A directory that others change all the time has no remembered names.

use pagewell_base::sync::Mutex;
use pagewell_fs::{CompactId, FileId};

use super::attributes::Stamp;
use super::node::Node;
use super::objects::Generations;

/// Of one mount: see [`super::objects::NODES_MAX`]. Half of them fill a map well (7/8 of 2^15).
pub(super) const NAMES_MAX: usize = 57_000;

/// An object, or nothing.
pub(super) type Meaning = Option<FileId>;

#[derive(Debug)]
pub(super) struct Remembered {
    /// Changes by others in the directory, then.
    changes: u64,
    /// Or nothing.
    object: Option<CompactId>,
}

/// Names by directory and name, in one string of bytes.
#[derive(Debug)]
pub(super) struct Names(Mutex<Generations<Box<[u8]>, Remembered>>);

impl Names {
    pub(super) fn new(names_max: usize) -> Self {
        Self(Mutex::new(Generations::new(names_max)))
    }

    /// What is remembered of a name, unless others have changed its directory since.
    pub(super) fn find(&self, directory: &Node, name: &[u8]) -> Option<Meaning> {
        let mut names = self.0.lock();
        let found = names.get(&key(directory, name)[..])?;
        let meaning = || found.object.as_ref().map(CompactId::whole);
        (found.changes == directory.stamp().changes).then(meaning)
    }

    /// Remembers what a name meant at a stamp of its directory, if that is still the stamp.
    pub(super) fn learn(&self, directory: &Node, name: &[u8], meaning: Meaning, then: Stamp) {
        let mut names = self.0.lock();
        if directory.stamp() == then {
            let remembered = Remembered {
                changes: then.changes,
                object: meaning.as_ref().map(CompactId::new),
            };
            names.put(key(directory, name), remembered, |_| true);
        }
    }

    /// Remembers what a change of ours has made of a name, if nothing has happened since `since`;
    /// else forgets it.
    pub(super) fn enter(
        &self,
        directory: &Node,
        name: &[u8],
        meaning: Meaning,
        since: Option<Stamp>,
    ) {
        self.forget(directory, name);
        if let Some(since) = since {
            self.learn(directory, name, meaning, since);
        }
    }

    pub(super) fn forget(&self, directory: &Node, name: &[u8]) {
        self.0.lock().remove(&key(directory, name)[..]);
    }
}

fn key(directory: &Node, name: &[u8]) -> Box<[u8]> {
    [&directory.number().to_ne_bytes()[..], name]
        .concat()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Moments;

    fn object(number: u8) -> Meaning {
        Some(FileId::new(&[number]).unwrap())
    }

    fn directory(number: u64) -> Node {
        Node::new(FileId::new(b"directory").unwrap(), number)
    }

    #[test]
    fn names_live_as_long_as_nobody_else_changes_their_directory() {
        let names = Names::new(100);
        let (here, other) = (directory(1), directory(2));
        let then = here.stamp();
        names.learn(&here, b"a", object(1), then);
        names.learn(&here, b"b", None, then);
        names.learn(&other, b"a", object(2), other.stamp());
        assert_eq!(names.find(&here, b"a"), Some(object(1)));
        assert_eq!(names.find(&here, b"b"), Some(None));
        assert_eq!(names.find(&other, b"a"), Some(object(2)));
        assert_eq!(names.find(&other, b"b"), None);
        names.forget(&here, b"b");
        assert_eq!(names.find(&here, b"b"), None);
        here.lock().changed_by_others();
        assert_eq!(names.find(&here, b"a"), None);
        names.learn(&here, b"a", object(1), then);
        assert_eq!(names.find(&here, b"a"), None, "it was so before");
        names.learn(&here, b"a", None, here.stamp());
        assert_eq!(names.find(&here, b"a"), Some(None));
        assert_eq!(names.find(&other, b"a"), Some(object(2)));
    }

    #[test]
    fn what_was_overtaken_is_not_remembered() {
        let directory = directory(1);
        let (names, now) = (Names::new(100), Moments::default().now());
        let then = directory.stamp();
        names.learn(&directory, b"a", object(1), then);
        assert_eq!(names.find(&directory, b"a"), Some(object(1)));
        let begun = directory.begin_change();
        names.learn(&directory, b"b", None, then);
        assert_eq!(names.find(&directory, b"b"), None, "it may be there");
        names.learn(&directory, b"b", None, begun);
        let (_, ended) = directory.end_change(None, None, now);
        assert!(ended.ends_alone(begun));
        names.learn(&directory, b"b", None, begun);
        names.enter(&directory, b"b", object(2), Some(ended));
        assert_eq!(names.find(&directory, b"b"), Some(object(2)));
    }

    #[test]
    fn of_changes_that_were_on_their_way_together_none_is_remembered_as_the_last() {
        let directory = directory(1);
        let (names, now) = (Names::new(100), Moments::default().now());
        let remove = directory.begin_change();
        let create = directory.begin_change();
        let (_, created) = directory.end_change(None, None, now);
        // As far as this one knows.
        let since = created.ends_alone(create).then_some(created);
        names.enter(&directory, b"a", object(1), since);
        let (_, removed) = directory.end_change(None, None, now);
        let since = removed.ends_alone(remove).then_some(removed);
        names.enter(&directory, b"a", None, since);
        assert_eq!(names.find(&directory, b"a"), None);
        // Another one begins before it was entered.
        let begun = directory.begin_change();
        let (_, ended) = directory.end_change(None, None, now);
        let other = directory.begin_change();
        names.enter(&directory, b"a", object(1), Some(ended));
        assert!(ended.ends_alone(begun) && !ended.ends_alone(other));
        assert_eq!(names.find(&directory, b"a"), None);
    }

    #[test]
    fn they_are_bounded() {
        let names = Names::new(100);
        let directory = directory(1);
        let now = directory.stamp();
        for number in 0..10_000u32 {
            names.learn(&directory, &number.to_ne_bytes(), None, now);
        }
        assert!(names.0.lock().len() <= 100);
        assert!(names.find(&directory, &9_999u32.to_ne_bytes()).is_some());
    }
}
