//! What the kernel's node numbers mean.
//!
//! Problem: the kernel names an object by a number of 64 bits, which programs see as the inode
//! number; the source names it by a [`FileId`]. The number must lead back to the identifier for
//! as long as the kernel uses it, and must be the same for the same object for as long as any
//! program may compare.
//!
//! Rule: the number is the source's own file number, so it is the same after the kernel forgot
//! the object, and in another mount. Only when the kernel still uses that number for another
//! object (an inode number that was given to a new file while the old one is open) is a number
//! above 2^63 made up, for as long as the kernel knows the object. Each answer that names an
//! object is counted; the kernel gives the counts back ("forget"), and at zero the entry goes.
//!
//! The kernel forgets when memory is short, which may be never; so it is asked to
//! ([`crate::pruning`]) when the table has too many: [`OBJECTS_MAX`], as sources that others change
//! have tables of their own and the kernel asks for most of it again anyway, or
//! [`OBJECTS_UNCHANGED_MAX`] where it never has to.
//!
//! Weakness: an object that got a made-up number gets another one when it is looked up after the
//! kernel forgot it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pagewell_base::shards::Shards;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::{CompactId, Entry, FileId, FileSystem};

/// The kernel's number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers from here on are made up.
const MADE_UP: u64 = 1 << 63;
/// Parts that the kernel is asked to forget one after the other.
pub(crate) const PARTS: usize = 16;
/// Objects from which on the kernel is asked to forget some: some 3 MiB.
pub(crate) const OBJECTS_MAX: usize = 50_000;
/// The same where only the mount itself changes anything: some 30 MiB.
pub(crate) const OBJECTS_UNCHANGED_MAX: usize = 400_000;

struct Node {
    id: CompactId,
    lookups: u64,
}

/// The table.
pub(crate) struct Nodes {
    root: FileId,
    shards: Shards<HashMap<u64, Node>>,
    /// Objects ([`FileSystem::object_of`]) with made-up numbers.
    others: Mutex<HashMap<FileId, u64>>,
    next: AtomicU64,
    /// Objects, how many there may be, and how many there have to be until the kernel is asked to
    /// forget some.
    count: AtomicUsize,
    objects_max: usize,
    crowded_at: AtomicUsize,
}

impl Nodes {
    pub(crate) fn new(root: FileId, objects_max: usize) -> Self {
        Self {
            root,
            shards: Shards::default(),
            others: Mutex::default(),
            next: AtomicU64::new(MADE_UP),
            count: AtomicUsize::new(0),
            objects_max,
            crowded_at: AtomicUsize::new(objects_max),
        }
    }

    /// The object that a number means.
    pub(crate) fn id(&self, number: u64) -> Option<FileId> {
        if number == ROOT {
            return Some(self.root);
        }
        self.shards
            .lock(number)
            .get(&number)
            .map(|node| node.id.whole())
    }

    /// The number of an object that the kernel is about to be told of once more.
    pub(crate) fn remember(&self, filesystem: &dyn FileSystem, entry: &Entry) -> u64 {
        if entry.id == self.root {
            return ROOT;
        }
        let number = entry.attributes.file_id;
        let is_own = number > ROOT && number < MADE_UP;
        // Its own number may be free by now: one that was made up stays while the kernel knows it.
        let other = || {
            self.others
                .lock()
                .get(&filesystem.object_of(&entry.id))
                .copied()
        };
        let has_others = self.next.load(Ordering::Relaxed) > MADE_UP;
        if is_own && !(has_others && other().is_some()) && self.count(filesystem, number, entry.id)
        {
            return number;
        }
        loop {
            let number = other().unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
            if self.count(filesystem, number, entry.id) {
                let object = filesystem.object_of(&entry.id);
                self.others.lock().insert(object, number);
                return number;
            }
        }
    }

    /// Counts once more that the kernel was told that `number` means `id`; false when it means
    /// something else.
    fn count(&self, filesystem: &dyn FileSystem, number: u64, id: FileId) -> bool {
        let mut shard = self.shards.lock(number);
        match shard.get_mut(&number) {
            Some(node) => {
                let known = node.id.whole();
                if known != id {
                    if filesystem.object_of(&known) != filesystem.object_of(&id) {
                        return false;
                    }
                    node.id = CompactId::new(&id); // which may tell better where the object is
                }
                node.lookups += 1;
                true
            }
            None => {
                let id = CompactId::new(&id);
                shard.insert(number, Node { id, lookups: 1 });
                self.count.fetch_add(1, Ordering::Relaxed);
                names::FUSE_NODES.add(1);
                true
            }
        }
    }

    /// The kernel gives `lookups` counts back. Returns whether it does not know the object now.
    pub(crate) fn forget(&self, filesystem: &dyn FileSystem, number: u64, lookups: u64) -> bool {
        let mut shard = self.shards.lock(number);
        let Some(node) = shard.get_mut(&number) else {
            return false;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return false;
        }
        if let Some(node) = shard.remove(&number)
            && number >= MADE_UP
        {
            let object = filesystem.object_of(&node.id.whole());
            let mut others = self.others.lock();
            if others.get(&object) == Some(&number) {
                others.remove(&object);
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        names::FUSE_NODES.add(-1);
        true
    }

    /// Whether the kernel is to be asked now to forget some: once for each step that come.
    pub(crate) fn is_crowded(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let crowded_at = self.crowded_at.load(Ordering::Relaxed);
        if count < crowded_at {
            // Once it has forgotten some, the next time comes sooner.
            let lowest = self.objects_max.max(count + self.step());
            if lowest < crowded_at {
                self.crowded_at.fetch_min(lowest, Ordering::Relaxed);
            }
            return false;
        }
        let relaxed = Ordering::Relaxed;
        self.crowded_at
            .compare_exchange(crowded_at, count + self.step(), relaxed, relaxed)
            .is_ok()
    }

    /// Objects that come between two times that the kernel is asked.
    fn step(&self) -> usize {
        self.objects_max / PARTS
    }

    /// The numbers of one of [`PARTS`] parts of the objects.
    pub(crate) fn part(&self, part: usize) -> Vec<u64> {
        let shards = self.shards.each().skip(part % PARTS).step_by(PARTS);
        shards
            .flat_map(|shard| shard.keys().copied().collect::<Vec<u64>>())
            .collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The kernel forgets all at once when it is unmounted.
        let left: usize = self.shards.each().map(|shard| shard.len()).sum();
        names::FUSE_NODES.add(-i64::try_from(left).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::{Attributes, Call, Credentials};
    use pagewell_source_ram::RamFileSystem;

    fn entry(name: u8, file_id: u64, like: &Attributes) -> Entry {
        Entry {
            id: FileId::new(&[name]).unwrap(),
            attributes: Attributes { file_id, ..*like },
        }
    }

    /// Some files, and the attributes of one.
    fn files() -> (RamFileSystem, Attributes) {
        let files = RamFileSystem::new(1 << 20).unwrap();
        let credentials = Credentials::root();
        let call = Call::new(&credentials, true);
        let like = files.attributes(&call, &files.root()).unwrap();
        (files, like)
    }

    #[test]
    fn a_number_means_one_object_for_as_long_as_the_kernel_uses_it() {
        let (files, like) = files();
        let root = entry(b'r', 5, &like);
        let nodes = Nodes::new(root.id, OBJECTS_MAX);
        assert_eq!(nodes.remember(&files, &root), ROOT);
        assert_eq!(nodes.id(ROOT), Some(root.id));

        let (old, new) = (entry(b'a', 7, &like), entry(b'b', 7, &like));
        assert_eq!(nodes.remember(&files, &old), 7);
        assert_eq!(nodes.remember(&files, &old), 7);
        let made_up = nodes.remember(&files, &new);
        assert!(made_up >= MADE_UP);
        assert_eq!(nodes.remember(&files, &new), made_up);
        assert_eq!(nodes.id(7), Some(old.id));
        assert_eq!(nodes.id(made_up), Some(new.id));

        assert!(!nodes.forget(&files, 7, 1));
        assert!(nodes.forget(&files, 7, 1));
        assert_eq!(nodes.id(7), None);
        assert!(
            !nodes.forget(&files, 7, 1),
            "what is not known cannot be forgotten"
        );
        assert_eq!(nodes.remember(&files, &new), made_up, "it is known by that");
        assert!(nodes.forget(&files, made_up, u64::MAX));
        assert_eq!(nodes.remember(&files, &new), 7);

        // Numbers that have another meaning are never given out.
        for taken in [0, ROOT, MADE_UP, u64::MAX] {
            let number = nodes.remember(&files, &entry(b'c', taken, &like));
            assert!(number >= MADE_UP);
            assert!(nodes.forget(&files, number, 1));
        }
    }

    #[test]
    fn the_kernel_is_asked_to_forget_as_many_as_come() {
        let (files, like) = files();
        let nodes = Nodes::new(files.root(), OBJECTS_MAX);
        let (mut asked, mut most) = (0, 0);
        let numbers = 2..3 * OBJECTS_MAX as u64;
        for number in numbers.clone() {
            let id = FileId::new(&number.to_ne_bytes()).unwrap();
            let attributes = Attributes {
                file_id: number,
                ..like
            };
            assert_eq!(nodes.remember(&files, &Entry { id, attributes }), number);
            most = most.max(nodes.count.load(Ordering::Relaxed));
            if nodes.is_crowded() {
                assert!(!nodes.is_crowded(), "only one is told");
                for number in nodes.part(asked) {
                    assert_eq!(nodes.id(number).unwrap().as_bytes(), number.to_ne_bytes());
                    assert!(nodes.forget(&files, number, 1));
                }
                asked += 1;
            }
        }
        assert!(
            asked > PARTS && most <= OBJECTS_MAX + nodes.step(),
            "{asked} {most}"
        );
        for number in numbers {
            nodes.forget(&files, number, 1);
        }
        assert_eq!(nodes.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_a_kernel_that_uses_all_it_is_not_asked_all_the_time() {
        let files = RamFileSystem::new(1 << 20).unwrap();
        let nodes = Nodes::new(files.root(), OBJECTS_MAX);
        let mut asked = 0;
        for number in 2..2 * OBJECTS_MAX as u64 {
            let id = FileId::new(&number.to_ne_bytes()).unwrap();
            assert!(nodes.count(&files, number, id));
            asked += usize::from(nodes.is_crowded());
        }
        assert!((PARTS - 1..=PARTS + 1).contains(&asked), "{asked}");
    }
}
