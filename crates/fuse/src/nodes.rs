//! The objects that the kernel knows, by its node numbers.
//!
//! Problem: the kernel names an object by a number of 64 bits, which programs see as the inode
//! number; the source names it by a [`FileId`]. The number must lead back to the identifier for as
//! long as the kernel uses it, and stay the same for as long as any program may compare.
//!
//! Rule: the number is the source's own file number. While the kernel uses that number for another
//! object (a new file has the inode number of an open one), the object gets a number above 2^63.
//! Numbers of 32 bits are the source's folded into 31; two that become equal are such a case. The
//! table counts each answer that names an object, the kernel gives the counts back ("forget"), and
//! the entry goes at zero.
//!
//! [`crate::pruning`] asks the kernel to forget, above [`OBJECTS_MAX`] of sources that others
//! change, which have tables of their own, else above [`OBJECTS_UNCHANGED_MAX`].
//!
//! Weakness: an object with a made-up number gets another one after the kernel forgot it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::Generation;
use pagewell_base::shards::Shards;
use pagewell_base::sync::Mutex;
use pagewell_counters::names;
use pagewell_fs::identity::narrow_number;
use pagewell_fs::{Coherence, CompactId, Entry, Error, FileId, FileSystem, Result};

pub(crate) const ROOT: u64 = 1;
/// Numbers from here on are made up, as many as are below.
const MADE_UP: u64 = 1 << 63;
/// The same where numbers have 32 bits.
const MADE_UP_NARROW: u64 = 1 << 31;
/// Parts that the kernel is asked to forget in turn.
pub(crate) const PARTS: usize = 16;
/// Objects above which the kernel is asked to forget some: some 3 MiB.
const OBJECTS_MAX: usize = 50_000;
/// The same where only the mount itself changes anything: some 30 MiB.
const OBJECTS_UNCHANGED_MAX: usize = 400_000;

struct Node {
    id: CompactId,
    lookups: u64,
}

pub(crate) struct Nodes {
    files: Arc<dyn FileSystem>,
    root: FileId,
    made_up: u64,
    /// The source's own number of the root, from the first answer about it on.
    root_number: OnceLock<u64>,
    shards: Shards<HashMap<u64, Node>>,
    /// Objects ([`FileSystem::object_of`]) with made-up numbers.
    others: Mutex<HashMap<FileId, u64>>,
    others_made: AtomicU64,
    count: AtomicUsize,
    objects_max: usize,
    /// The count at which the kernel is asked next.
    crowded_at: AtomicUsize,
}

impl Nodes {
    pub(crate) fn new(files: &Arc<dyn FileSystem>, narrow: bool) -> Self {
        let objects_max = if files.limits().coherence == Coherence::UNCHANGED {
            OBJECTS_UNCHANGED_MAX
        } else {
            OBJECTS_MAX
        };
        Self {
            root: files.root(),
            files: Arc::clone(files),
            made_up: if narrow { MADE_UP_NARROW } else { MADE_UP },
            root_number: OnceLock::new(),
            shards: Shards::default(),
            others: Mutex::default(),
            others_made: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            objects_max,
            crowded_at: AtomicUsize::new(objects_max),
        }
    }

    /// The object of a number: of the table, or one that the source finds, as file handles outlive
    /// the kernel's memory.
    pub(crate) fn id(&self, number: u64) -> Result<FileId> {
        let id = self.known(number);
        let id = id.or_else(|| self.files.id_of_number(number));
        id.ok_or(Error::Stale)
    }

    pub(crate) fn known(&self, number: u64) -> Option<FileId> {
        if number == ROOT {
            return Some(self.root);
        }
        let shard = self.shards.lock(number);
        shard.get(&number).map(|node| node.id.whole())
    }

    /// The number of an object, for one more answer that names it.
    pub(crate) fn remember(&self, entry: &Entry) -> u64 {
        if entry.id == self.root {
            return ROOT;
        }
        let number = self.number_of(entry.attributes.file_id);
        let is_own = number > ROOT && number < self.made_up;
        // The object's own number may be free by now, but a made-up one stays while the kernel
        // knows it.
        let other = || {
            let object = self.files.object_of(&entry.id);
            self.others.lock().get(&object).copied()
        };
        let has_others = self.others_made.load(Ordering::Relaxed) > 0;
        if is_own && !(has_others && other().is_some()) && self.count(number, entry.id) {
            return number;
        }
        loop {
            let number = other().unwrap_or_else(|| self.make_up());
            if self.count(number, entry.id) {
                let object = self.files.object_of(&entry.id);
                self.others.lock().insert(object, number);
                return number;
            }
        }
    }

    fn number_of(&self, file_id: u64) -> u64 {
        if self.made_up == MADE_UP_NARROW {
            narrow_number(file_id)
        } else {
            file_id
        }
    }

    fn make_up(&self) -> u64 {
        let made = self.others_made.fetch_add(1, Ordering::Relaxed);
        self.made_up + made % self.made_up
    }

    /// Counts one more answer in which `number` means `id`; false when it means something else.
    fn count(&self, number: u64, id: FileId) -> bool {
        let mut shard = self.shards.lock(number);
        match shard.get_mut(&number) {
            Some(node) => {
                let known = node.id.whole();
                if known != id {
                    if self.files.object_of(&known) != self.files.object_of(&id) {
                        return false;
                    }
                    node.id = CompactId::new(&id); // its path hints may be newer
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

    /// The kernel gives `lookups` counts back. Returns whether it has forgotten the object.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> bool {
        let mut shard = self.shards.lock(number);
        let Some(node) = shard.get_mut(&number) else {
            return false;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return false;
        }
        if let Some(node) = shard.remove(&number)
            && number >= self.made_up
        {
            let object = self.files.object_of(&node.id.whole());
            let mut others = self.others.lock();
            if others.get(&object) == Some(&number) {
                others.remove(&object);
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        names::FUSE_NODES.add(-1);
        true
    }

    /// Tells objects with the same number, one after the other, apart for file handles. The kernel
    /// keeps 31 bits of it.
    pub(crate) fn generation(&self, number: u64, id: &FileId) -> Generation {
        if number == ROOT {
            return Generation(0); // as the kernel has it from the mount on
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(self.files.object_of(id).as_bytes());
        Generation(hasher.finish() >> 33)
    }

    pub(crate) fn note_number(&self, id: &FileId, file_id: u64) {
        if *id == self.root {
            let _ = self.root_number.set(file_id);
        }
    }

    /// The inode number that a listing shows: the root has the kernel's, as in its attributes.
    pub(crate) fn number_shown(&self, file_id: u64) -> u64 {
        match self.root_number.get() {
            Some(root) if *root == file_id => ROOT,
            _ => self.number_of(file_id),
        }
    }

    /// Whether the kernel is to be asked now to forget some: once for each step of new objects.
    pub(crate) fn is_crowded(&self) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let crowded_at = self.crowded_at.load(Ordering::Relaxed);
        if count < crowded_at {
            // The kernel has forgotten some, so the next time comes sooner.
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

    /// A table, and the attributes of an object.
    fn nodes() -> (Nodes, Attributes) {
        nodes_of(false)
    }

    fn nodes_of(narrow: bool) -> (Nodes, Attributes) {
        let files = RamFileSystem::new(1 << 20).unwrap();
        let credentials = Credentials::root();
        let call = Call::new(&credentials, true);
        let like = files.attributes(&call, &files.root()).unwrap();
        let files: Arc<dyn FileSystem> = Arc::new(files);
        let mut nodes = Nodes::new(&files, narrow);
        nodes.objects_max = OBJECTS_MAX;
        nodes.crowded_at = AtomicUsize::new(OBJECTS_MAX);
        (nodes, like)
    }

    #[test]
    fn a_number_means_one_object_for_as_long_as_the_kernel_uses_it() {
        let (nodes, like) = nodes();
        let root = Entry {
            id: nodes.root,
            attributes: like,
        };
        assert_eq!(nodes.remember(&root), ROOT);
        assert_eq!(nodes.known(ROOT), Some(root.id));

        let (old, new) = (entry(b'a', 7, &like), entry(b'b', 7, &like));
        assert_eq!(nodes.remember(&old), 7);
        assert_eq!(nodes.remember(&old), 7);
        let made_up = nodes.remember(&new);
        assert!(made_up >= MADE_UP);
        assert_eq!(nodes.remember(&new), made_up);
        assert_eq!(nodes.known(7), Some(old.id));
        assert_eq!(nodes.known(made_up), Some(new.id));

        assert!(!nodes.forget(7, 1));
        assert!(nodes.forget(7, 1));
        assert_eq!(nodes.known(7), None);
        assert!(!nodes.forget(7, 1), "what is not known cannot be forgotten");
        assert_eq!(nodes.remember(&new), made_up, "it is known by that");
        assert!(nodes.forget(made_up, u64::MAX));
        assert_eq!(nodes.remember(&new), 7);

        // Numbers that have another meaning are never given out.
        for taken in [0, ROOT, MADE_UP, u64::MAX] {
            let number = nodes.remember(&entry(b'c', taken, &like));
            assert!(number >= MADE_UP);
            assert!(nodes.forget(number, 1));
        }
    }

    #[test]
    fn narrow_numbers_have_32_bits_and_mean_one_object_too() {
        let (nodes, like) = nodes_of(true);
        let (far, farther) = (1 << 40, (1 << 40) + (1 << 62) + 1);
        let [small, first, second] =
            [(b'a', 7), (b'b', far), (b'c', farther)].map(|(name, id)| entry(name, id, &like));
        assert_eq!(narrow_number(far), narrow_number(farther));
        assert_eq!(nodes.remember(&small), 7);
        assert_eq!(nodes.number_shown(7), 7);
        let number = nodes.remember(&first);
        assert_eq!(number, narrow_number(far));
        assert_eq!(nodes.number_shown(far), number);
        let other = nodes.remember(&second);
        assert!((MADE_UP_NARROW..1 << 32).contains(&other), "{other}");
        assert_eq!(nodes.remember(&second), other);
        assert_eq!(nodes.known(other), Some(second.id));
        assert!(nodes.forget(other, 2) && nodes.forget(number, 1));
        assert_eq!(nodes.remember(&second), number, "it is free now");
        // The numbers that are made up begin again before they have more bits.
        nodes
            .others_made
            .store(MADE_UP_NARROW - 1, Ordering::Relaxed);
        assert_eq!([nodes.make_up(), nodes.make_up()], [(1 << 32) - 1, 1 << 31]);
    }

    #[test]
    fn the_kernel_is_asked_to_forget_as_many_as_come() {
        let (nodes, like) = nodes();
        let (mut asked, mut most) = (0, 0);
        let numbers = 2..3 * OBJECTS_MAX as u64;
        for number in numbers.clone() {
            let id = FileId::new(&number.to_ne_bytes()).unwrap();
            let attributes = Attributes {
                file_id: number,
                ..like
            };
            assert_eq!(nodes.remember(&Entry { id, attributes }), number);
            most = most.max(nodes.count.load(Ordering::Relaxed));
            if nodes.is_crowded() {
                assert!(!nodes.is_crowded(), "only one is asked");
                for number in nodes.part(asked) {
                    assert_eq!(
                        nodes.known(number).unwrap().as_bytes(),
                        number.to_ne_bytes()
                    );
                    assert!(nodes.forget(number, 1));
                }
                asked += 1;
            }
        }
        assert!(
            asked > PARTS && most <= OBJECTS_MAX + nodes.step(),
            "{asked} {most}"
        );
        for number in numbers {
            nodes.forget(number, 1);
        }
        assert_eq!(nodes.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_a_kernel_that_uses_all_it_is_not_asked_all_the_time() {
        let (nodes, _) = nodes();
        let mut asked = 0;
        for number in 2..2 * OBJECTS_MAX as u64 {
            let id = FileId::new(&number.to_ne_bytes()).unwrap();
            assert!(nodes.count(number, id));
            asked += usize::from(nodes.is_crowded());
        }
        assert!((PARTS - 1..=PARTS + 1).contains(&asked), "{asked}");
    }
}
