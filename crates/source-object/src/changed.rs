//! The files that have changes which the store has not. They stay in memory until it has; when
//! there are [`FILES_MAX`] and the store takes none, no other file can be changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;

use super::identifier::{Hash, Turn};
use super::node::Node;

/// Such files, beyond which the one that was left alone longest is sent before another changes.
pub(super) const FILES_MAX: usize = 16_384;

#[derive(Default)]
pub(super) struct Changed(Mutex<HashMap<(Hash, Turn), Entry>>);

struct Entry {
    node: Arc<Node>,
    changed_at: Instant,
    /// When its changes became durable on this machine, on which a caller relies.
    journaled_at: Option<Instant>,
    /// After a failure of the store.
    retry_at: Option<Instant>,
}

impl Entry {
    fn is_paused(&self, now: Instant) -> bool {
        self.retry_at.is_some_and(|at| at > now)
    }
}

fn object(node: &Node) -> (Hash, Turn) {
    (node.hash(), node.turn())
}

impl Changed {
    /// Notes a change of a file that was noted before, or is durable here already.
    pub(super) fn note(&self, node: &Arc<Node>) {
        let _ = self.note_up_to(node, usize::MAX);
    }

    /// Notes that a file is about to have changes. Where there is no room it is not noted: returns
    /// one that must be sent before.
    pub(super) fn note_new(&self, node: &Arc<Node>) -> Option<Arc<Node>> {
        self.note_up_to(node, FILES_MAX)
    }

    fn note_up_to(&self, node: &Arc<Node>, files_max: usize) -> Option<Arc<Node>> {
        let mut files = self.0.lock();
        let now = Instant::now();
        if let Some(entry) = files.get_mut(&object(node)) {
            entry.changed_at = now;
            // The file that had this key has moved, and another was made.
            let before = std::mem::replace(&mut entry.node, node.clone());
            drop(files);
            drop(before);
            return None;
        }
        if files.len() >= files_max {
            // One that the store refuses does not stop the others.
            let order = |entry: &&Entry| (entry.is_paused(now), entry.changed_at);
            let first = files.values().min_by_key(order);
            return first.map(|entry| entry.node.clone());
        }
        let entry = Entry {
            node: node.clone(),
            changed_at: now,
            journaled_at: None,
            retry_at: None,
        };
        files.insert(object(node), entry);
        None
    }

    pub(super) fn note_journaled(&self, node: &Node) {
        if let Some(entry) = self.0.lock().get_mut(&object(node)) {
            entry.journaled_at.get_or_insert_with(Instant::now);
        }
    }

    pub(super) fn note_failed(&self, node: &Node, pause: Duration) {
        if let Some(entry) = self.0.lock().get_mut(&object(node)) {
            entry.retry_at = Some(Instant::now() + pause);
        }
    }

    /// Forgets a file that has no changes any more.
    pub(super) fn settle(&self, node: &Node) {
        let mut files = self.0.lock();
        if node
            .file()
            .is_none_or(|file| !file.is_changed() || file.is_removed())
        {
            let entry = files.remove(&object(node));
            drop(files);
            drop(entry);
        } else if let Some(entry) = files.get_mut(&object(node)) {
            entry.journaled_at = None;
        }
    }

    /// All of them, in the order of their keys.
    pub(super) fn all(&self) -> Vec<Arc<Node>> {
        let files = self.0.lock();
        let mut all: Vec<_> = files.values().map(|entry| entry.node.clone()).collect();
        drop(files);
        all.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        all
    }

    /// Those to be sent now: durable here for `journaled`, or left alone for `quiet`.
    pub(super) fn due(&self, journaled: Duration, quiet: Duration) -> Vec<Arc<Node>> {
        let files = self.0.lock();
        let is_due = |entry: &&Entry| {
            let is_over = |at: Instant| at.elapsed() >= journaled;
            !entry.is_paused(Instant::now())
                && (entry.journaled_at.is_some_and(is_over) || entry.changed_at.elapsed() >= quiet)
        };
        let due = files.values().filter(is_due);
        due.map(|entry| entry.node.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::identifier::{KeyHasher, Kind};
    use super::*;

    #[test]
    fn no_new_file_is_noted_too_many() {
        let (changed, hasher) = (Changed::default(), KeyHasher::new("bucket"));
        let file = |number: usize| {
            let key = number.to_string();
            let hash = (hasher.of(&key), Turn::default());
            Arc::new(Node::new(Kind::File, hash, &key, None))
        };
        let [first, second] = [file(0), file(1)];
        assert!(changed.note_new(&first).is_none() && changed.note_new(&second).is_none());
        assert!((2..FILES_MAX).all(|number| changed.note_new(&file(number)).is_none()));
        let last = file(FILES_MAX);
        let to_send = || changed.note_new(&last).expect("a file to be sent");
        assert!(Arc::ptr_eq(&to_send(), &first) && Arc::ptr_eq(&to_send(), &first));
        changed.note_failed(&first, Duration::from_secs(3600));
        assert!(Arc::ptr_eq(&to_send(), &second));
        assert!(changed.note_new(&first).is_none(), "it is one of them");
        assert_eq!(changed.all().len(), FILES_MAX);
        changed.note(&last);
        assert!(changed.note_new(&last).is_none());
        assert_eq!(changed.all().len(), FILES_MAX + 1);
    }
}
