use super::*;
use crate::handles::OpenFile;
use crate::pruning::Pruning;
use pagewell_fs::{CreateMode, Credentials, Entry, SetAttributes, Written, forward};
use pagewell_source_dir::durability::{KernelSync, SyncCalls};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Mounted {
    files: Arc<dyn FileSystem>,
    nodes: Arc<Nodes>,
    writing: Arc<Writing>,
    user: Credentials,
}

impl Mounted {
    /// A directory whose identifiers have path hints.
    fn new(place: &std::path::Path) -> Self {
        Self::syncing(place, Arc::new(KernelSync))
    }

    fn syncing(place: &std::path::Path, sync_calls: Arc<dyn SyncCalls>) -> Self {
        let options = Options {
            force_trails: true,
            sync_calls,
            ..Options::default()
        };
        let user = Credentials::new(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
            &[],
        );
        Self::of(Arc::new(Directory::open(place, options).unwrap()), user)
    }

    fn of(files: Arc<dyn FileSystem>, user: Credentials) -> Self {
        let nodes = Arc::new(Nodes::new(&files, false));
        let privileges = Arc::new(Privileges::new(&files, &Arc::default(), false));
        let writing = Writing::new(&files, &nodes, &privileges, false);
        Self {
            files,
            nodes,
            writing: Arc::new(writing),
            user,
        }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.user, true)
    }

    /// A file in the root that the kernel knows.
    fn create(&self, name: &[u8]) -> u64 {
        let attributes = SetAttributes {
            mode: Some(0o644),
            ..SetAttributes::default()
        };
        let mode = CreateMode::Guarded(attributes);
        let root = self.files.root();
        let created = self.files.create(&self.call(), &root, name, &mode);
        self.nodes.remember(&created.unwrap().entry)
    }

    /// The kernel looks the file up again, and the source does not remember how it called it
    /// before: the same object has another identifier.
    fn look_up_anew(&self, name: &[u8]) -> u64 {
        let (files, call) = (&self.files, self.call());
        let found = files.lookup(&call, &files.root(), name).unwrap();
        let id = FileId::new(&[found.id.as_bytes(), &[7]].concat()).unwrap();
        self.nodes.remember(&Entry { id, ..found })
    }

    fn write(&self, node: u64) {
        let flags = OpenFlags(libc::O_WRONLY);
        let place = Place::new(Target::new(node, None), 0, flags, WriteFlags::empty());
        let written = self.writing.write(&place, true, b"bytes").unwrap();
        assert_eq!(written, (5, false));
    }

    fn commit(&self, node: u64) -> Result<()> {
        self.commit_through(&Target::new(node, None))
    }

    fn commit_through(&self, target: &Target) -> Result<()> {
        let id = self.nodes.id(target.node()).unwrap();
        self.writing.commit(target, true, &id, true)
    }

    fn open(&self, node: u64) -> Target {
        let id = self.nodes.id(node).unwrap();
        let verifier = self.writing.verifier_since(node, &id);
        let allowed = (self.user.clone(), Access::MODIFY);
        let file = OpenFile::new((id, verifier), allowed, None, None);
        Target::new(node, Some(Arc::new(file)))
    }

    /// As if the source had lost all that was written.
    fn lose(&self, node: u64) {
        let mut written = self.writing.uncommitted.lock(node);
        written.values_mut().for_each(|one| one.verifier[0] ^= 1);
    }
}

/// A first sync that lasts from one passage of the barrier to the next.
struct Gated(Barrier, AtomicBool);

impl SyncCalls for Gated {
    fn sync_data(&self, file: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
        let Self(gate, is_open) = self;
        if !is_open.swap(true, Ordering::SeqCst) {
            gate.wait();
            gate.wait();
        }
        KernelSync.sync_data(file)
    }
}

#[test]
fn what_is_written_while_a_commit_is_at_work_is_not_forgotten() {
    let place = tempfile::tempdir().unwrap();
    let calls = Arc::new(Gated(Barrier::new(2), AtomicBool::new(false)));
    let mounted = Mounted::syncing(place.path(), calls.clone());
    let node = mounted.create(b"file");
    mounted.write(node);
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| mounted.commit(node));
        calls.0.wait();
        mounted.write(node);
        calls.0.wait();
        commit.join().unwrap().unwrap();
    });
    mounted.lose(node);
    assert!(mounted.commit(node).is_err(), "the second write was lost");
    mounted.commit(node).unwrap();
}

/// The first sync fails.
#[derive(Default)]
struct FailsOnce(AtomicBool);

impl SyncCalls for FailsOnce {
    fn sync_data(&self, file: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
        if self.0.swap(true, Ordering::SeqCst) {
            KernelSync.sync_data(file)
        } else {
            Err(Errno::NOSPC)
        }
    }
}

#[test]
fn an_error_of_the_source_itself_is_reported_once() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::syncing(place.path(), Arc::new(FailsOnce::default()));
    let node = mounted.create(b"file");
    mounted.write(node);
    assert_eq!(mounted.commit(node), Err(Error::NoSpace));
    assert_eq!(mounted.commit(node), Ok(()));
}

#[test]
fn each_open_file_reports_a_loss_once() {
    let place = tempfile::tempdir().unwrap();
    for is_written_here in [true, false] {
        let mounted = Mounted::syncing(place.path(), Arc::new(FailsOnce::default()));
        let node = mounted.create(format!("{is_written_here}").as_bytes());
        let (one, other) = (mounted.open(node), mounted.open(node));
        if is_written_here {
            mounted.write(node);
        }
        let late = mounted.open(node);
        assert_eq!(mounted.commit_through(&one), Err(Error::NoSpace));
        let later = mounted.open(node);
        assert_eq!(mounted.commit_through(&one), Ok(()));
        for other in [other, late] {
            let lost = mounted.commit_through(&other);
            assert!(matches!(lost, Err(Error::Io(_))), "{lost:?}");
            assert_eq!(mounted.commit_through(&other), Ok(()));
        }
        assert_eq!(mounted.commit_through(&later), Ok(()));
    }
}

#[test]
fn a_file_reports_the_loss_of_writes_from_before_its_open() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::syncing(place.path(), Arc::new(FailsOnce::default()));
    let node = mounted.create(b"file");
    mounted.write(node);
    // Another call than a commit of the mount gets the error.
    let id = mounted.nodes.id(node).unwrap();
    let lost = mounted.files.commit(&mounted.call(), &id, 0, 0);
    assert_eq!(lost.map(drop), Err(Error::NoSpace));
    let target = mounted.open(node);
    assert!(mounted.commit_through(&target).is_err());
    assert_eq!(mounted.commit_through(&target), Ok(()));
}

#[test]
fn a_loss_in_one_file_is_no_error_of_another() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::syncing(place.path(), Arc::new(FailsOnce::default()));
    let (one, other) = (mounted.create(b"one"), mounted.create(b"other"));
    mounted.write(one);
    mounted.write(other);
    assert_eq!(mounted.commit(one), Err(Error::NoSpace));
    assert_eq!(mounted.commit(other), Ok(()));
}

/// Writes two bytes of what it is given a few times, and has the rest asked for again.
struct Halting(RamFileSystem, AtomicUsize);

impl FileSystem for Halting {
    forward! { self => self.0;
        describe, root, limits, lookup, attributes, access, read_link, read, read_directory,
        statistics, create,
    }

    fn write(
        &self,
        call: &Call<'_>,
        id: &FileId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Written> {
        let is_last = self.1.fetch_sub(1, Ordering::SeqCst) == 0;
        let length = if is_last { data.len() } else { 2 };
        let written = self.0.write(call, id, offset, &data[..length], stability);
        match call.may_block {
            _ if is_last => written,
            true => Err(Error::TryLater),
            false => Err(Error::WouldBlock),
        }
    }
}

#[test]
fn what_is_appended_in_more_than_one_attempt_is_there_once() {
    let files = Halting(RamFileSystem::new(1 << 20).unwrap(), AtomicUsize::new(0));
    let files = Arc::new(files);
    let mounted = Mounted::of(files.clone(), Credentials::root());
    let node = mounted.create(b"file");
    mounted.write(node);
    files.1.store(2, Ordering::SeqCst);
    let flags = OpenFlags(libc::O_WRONLY | libc::O_APPEND);
    let place = Place::new(Target::new(node, None), 0, flags, WriteFlags::empty());
    let attempts = [false, true, true, true];
    let append = |may_block| mounted.writing.write(&place, may_block, b" more");
    let done = attempts
        .into_iter()
        .find_map(|may_block| append(may_block).ok());
    assert_eq!(done, Some((5, true)));
    let id = mounted.nodes.id(node).unwrap();
    let read = files.read(&mounted.call(), &id, 0, 100).unwrap();
    let mut found = vec![0; read.payload.len()];
    read.payload.copy_to(&mut found, true).unwrap();
    assert_eq!(found, b"bytes more");
}

#[test]
fn a_loss_is_reported_although_the_identifier_has_changed() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let node = mounted.create(b"file");
    mounted.write(node);
    mounted.lose(node);
    assert_eq!(mounted.look_up_anew(b"file"), node);
    let lost = mounted.commit(node).unwrap_err().to_string();
    assert!(lost.contains("lost"), "{lost}");
    mounted.commit(node).unwrap();
}

#[test]
fn a_generation_is_of_the_object_and_not_of_what_it_is_called() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let generation = |node| {
        let id = mounted.nodes.id(node).unwrap();
        mounted.nodes.generation(node, &id).0
    };
    let (one, other) = (mounted.create(b"one"), mounted.create(b"other"));
    let before = generation(one);
    assert_ne!(before, generation(other));
    mounted.look_up_anew(b"one");
    assert_eq!(generation(one), before);
}

#[test]
fn the_kernel_is_not_asked_to_forget_what_no_commit_has_covered() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let node = mounted.create(b"file");
    let pruning = Pruning::new(&mounted.nodes, &mounted.writing, &Arc::default());
    let prunable = || {
        let parts = 0..crate::nodes::PARTS;
        let numbers = parts.flat_map(|part| pruning.prunable(part));
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(prunable(), [node]);
    mounted.write(node);
    assert_eq!(prunable(), []);
    mounted.commit(node).unwrap();
    assert_eq!(prunable(), [node]);
}

#[test]
fn nothing_is_remembered_of_a_file_that_the_kernel_forgot() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let node = mounted.create(b"file");
    let remembered = || {
        let parts = mounted.writing.uncommitted.each();
        parts.map(|part| part.len()).sum::<usize>()
    };
    mounted.write(node);
    assert_eq!(remembered(), 1);
    mounted.look_up_anew(b"file");
    assert!(mounted.nodes.forget(node, 2));
    mounted.writing.forget(node);
    assert_eq!(mounted.nodes.known(node), None);
    assert_eq!(remembered(), 0);
}

#[test]
fn late_pages_are_not_appends() {
    let appending = OpenFlags(libc::O_WRONLY | libc::O_APPEND);
    assert!(is_append(appending, WriteFlags::empty()));
    assert!(!is_append(appending, WriteFlags::FUSE_WRITE_CACHE));
    assert!(!is_append(OpenFlags(libc::O_WRONLY), WriteFlags::empty()));
}

#[test]
fn what_the_kernel_writes_late_is_all_taken_or_is_an_error() {
    let files = RamFileSystem::new(1 << 20).unwrap();
    let mounted = Mounted::of(Arc::new(files), Credentials::root());
    let data = vec![7; 2 << 20];
    let write = |name: &[u8], write_flags| {
        let target = Target::new(mounted.create(name), None);
        let place = Place::new(target, 0, OpenFlags(libc::O_WRONLY), write_flags);
        mounted.writing.write(&place, true, &data)
    };
    let (count, _) = write(b"now", WriteFlags::empty()).unwrap();
    assert!(count > 0 && (count as usize) < data.len(), "{count}");
    let late = write(b"late", WriteFlags::FUSE_WRITE_CACHE);
    assert_eq!(late, Err(Error::NoSpace));
}
