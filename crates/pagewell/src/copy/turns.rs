//! One creator at a time in a file system of this machine.
//!
//! **Problem.** The kernel lets one thread at a time change a directory; the others spin. Where a
//! file takes long to make, that burns processors: ext4 without a journal passes over all inodes
//! deleted within the last minutes, and two threads find the same free one, in different
//! directories, too.
//!
//! **Rule.** A thread that makes or removes a name has a turn, and the others sleep. It makes up to
//! [`FILES_OF_A_TURN`] files in a turn and fills them afterwards: each turn wakes a thread, and
//! moves a directory's cache lines (50,000 files into memory 0.37 s, with one file in a turn 0.57
//! s).
//!
//! ```text
//!   one:    make make make make | fill fill fill fill |   sleep   | make ...
//!   other:          sleep       | make make make make | fill ...
//! ```
//!
//! A server answers many requests at a time: there are no turns.

use pagewell_base::sync::Mutex;

/// More save little; a signal can leave as many empty files of each thread.
pub(super) const FILES_OF_A_TURN: usize = 8;

#[derive(Default)]
pub(super) struct Turns {
    lock: Option<Mutex<()>>,
}

impl Turns {
    /// Turns in directories of this machine, none on a server.
    pub(super) fn new(is_remote: bool) -> Self {
        Self {
            lock: (!is_remote).then(Mutex::default),
        }
    }

    pub(super) fn are_taken(&self) -> bool {
        self.lock.is_some()
    }

    /// Makes or removes names, while no other thread does.
    pub(super) fn take<R>(&self, work: impl FnOnce() -> R) -> R {
        let _turn = self.lock.as_ref().map(Mutex::lock);
        work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use pagewell_base::sync::Condvar;
    use pagewell_fs::{
        Call, Change, CreateMode, Created, FileId, FileSystem, RenameMode, Result, SetAttributes,
        forward,
    };
    use pagewell_source_ram::RamFileSystem;
    use pagewell_tree::Tree;

    use super::*;
    use crate::copy::Copier;
    use crate::copy::rules::Rules;
    use crate::copy::terms::place;

    /// Memory of one directory, which counts the threads that change it at the same time.
    struct Counting {
        memory: RamFileSystem,
        /// Those now, and the most.
        at_work: Mutex<(usize, usize)>,
        came: Condvar,
        /// How long a change lasts, unless two were made at the same time before.
        patience: Duration,
    }

    impl Counting {
        fn change<R>(&self, change: impl FnOnce(&RamFileSystem) -> R) -> R {
            let mut at_work = self.at_work.lock();
            at_work.0 += 1;
            at_work.1 = at_work.1.max(at_work.0);
            self.came.notify_all();
            let alone = |at_work: &mut (usize, usize)| at_work.1 < 2;
            drop(self.came.wait_timeout_while(at_work, self.patience, alone));
            let changed = change(&self.memory);
            self.at_work.lock().0 -= 1;
            changed
        }
    }

    impl FileSystem for Counting {
        forward! { self => self.memory;
            describe, root, limits, lookup, attributes, set_attributes, access, read_link, read,
            read_directory, statistics, write, commit,
        }

        fn create(
            &self,
            call: &Call<'_>,
            directory: &FileId,
            name: &[u8],
            mode: &CreateMode,
        ) -> Result<Created> {
            self.change(|memory| memory.create(call, directory, name, mode))
        }

        fn make_symlink(
            &self,
            call: &Call<'_>,
            directory: &FileId,
            name: &[u8],
            target: &[u8],
            attributes: &SetAttributes,
        ) -> Result<Created> {
            self.change(|memory| memory.make_symlink(call, directory, name, target, attributes))
        }

        fn remove(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Change> {
            self.change(|memory| memory.remove(call, directory, name))
        }

        fn rename(
            &self,
            call: &Call<'_>,
            from: (&FileId, &[u8]),
            to: (&FileId, &[u8]),
            mode: RenameMode,
        ) -> Result<(Change, Change)> {
            self.change(|memory| memory.rename(call, from, to, mode))
        }
    }

    /// A directory of files and links.
    fn many() -> Tree {
        let memory = RamFileSystem::new(16 << 20).unwrap();
        let tree = Tree::new(Arc::new(memory));
        let (filesystem, call, root) = (&tree.filesystem, tree.call(), tree.filesystem.root());
        let none = SetAttributes::default();
        for number in 0..200 {
            let name = format!("{number:03}").into_bytes();
            if number % 3 == 0 {
                let made = filesystem.make_symlink(&call, &root, &name, b"target", &none);
                made.unwrap();
            } else {
                let mode = CreateMode::Guarded(none);
                filesystem.create(&call, &root, &name, &mode).unwrap();
            }
        }
        tree
    }

    /// The most threads that changed the target at the same time, when it is copied to and, so
    /// that links take the place of others, copied to again.
    fn most_at_work(is_remote: bool, patience: Duration) -> usize {
        let counting = Arc::new(Counting {
            memory: RamFileSystem::new(16 << 20).unwrap(),
            at_work: Mutex::default(),
            came: Condvar::default(),
            patience,
        });
        let source = place(&many());
        let mut target = place(&Tree::new(counting.clone()));
        target.is_remote = is_remote;
        for _ in 0..2 {
            let mut copier = Copier::new(&target, Rules::default());
            let (from, into) = (source.tree.root().unwrap(), target.tree.root().unwrap());
            copier
                .directory_contents(&source, &from, (&into, b""))
                .unwrap();
            copier.finish().unwrap();
        }
        let copied = target.tree.list(&target.directory, false).unwrap();
        assert_eq!(copied.listed.len(), 200);
        counting.at_work.lock().1
    }

    #[test]
    fn one_thread_at_a_time_changes_a_directory_of_this_machine() {
        assert_eq!(most_at_work(false, Duration::from_millis(1)), 1);
    }

    #[test]
    fn a_server_is_asked_for_several_changes_at_a_time() {
        assert!(most_at_work(true, Duration::from_secs(60)) > 1);
    }
}
