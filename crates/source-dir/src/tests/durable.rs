//! Promises of durability, and the reports of failures.

use super::super::durability::SyncCalls;
use super::*;
use pagewell_fs::{Error, Finish, RenameMode, SetTime, Timestamp};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts syncs and fails as many as it is set to.
#[derive(Default)]
struct Faulty {
    data: AtomicUsize,
    all: AtomicUsize,
    whole: AtomicUsize,
    failures: AtomicUsize,
}

impl Faulty {
    fn outcome(&self, count: &AtomicUsize) -> Result<(), Errno> {
        count.fetch_add(1, Ordering::SeqCst);
        let take = |left: usize| left.checked_sub(1);
        match self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
        {
            Ok(_) => Err(Errno::IO),
            Err(_) => Ok(()),
        }
    }

    fn counts(&self) -> (usize, usize, usize) {
        let count = |of: &AtomicUsize| of.swap(0, Ordering::SeqCst);
        (count(&self.data), count(&self.all), count(&self.whole))
    }
}

impl SyncCalls for Faulty {
    fn sync_data(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.outcome(&self.data)
    }

    fn sync_all(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.outcome(&self.all)
    }

    fn sync_filesystem(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.outcome(&self.whole)
    }
}

fn with_faults(test: impl Fn(&Fixture, &Faulty)) {
    for force_trails in [false, true] {
        let calls = Arc::new(Faulty::default());
        let fixture = Fixture::new(Options {
            force_trails,
            sync_calls: calls.clone(),
            ..Options::default()
        });
        test(&fixture, &calls);
    }
}

#[test]
fn a_failed_sync_changes_the_verifier() {
    with_faults(|fixture, calls| {
        let who = root_credentials();
        let call = waiting(&who);
        let files = &fixture.files;
        let id = fixture.make(&fixture.root(), "f", b"");
        let write = |stability| files.write(&call, &id, 0, b"data", stability);
        let first = write(Stability::Unstable).unwrap();
        assert_eq!(
            files.commit(&call, &id, 0, 0).unwrap().verifier,
            first.verifier
        );

        // the failing call gets the error, and so does each with unstable data
        let second = write(Stability::Unstable).unwrap();
        calls.failures.store(1, Ordering::SeqCst);
        assert!(matches!(files.commit(&call, &id, 0, 0), Err(Error::Io(_))));
        let later = files.commit(&call, &id, 0, 0).unwrap();
        assert_ne!(later.verifier, second.verifier, "does not look clean");
        let third = write(Stability::Unstable).unwrap();
        assert_eq!(
            files.commit(&call, &id, 0, 0).unwrap().verifier,
            third.verifier
        );

        for stability in [Stability::DataSync, Stability::FileSync] {
            calls.failures.store(1, Ordering::SeqCst);
            let before = files.write_verifier(None);
            assert!(matches!(write(stability), Err(Error::Io(_))));
            assert_ne!(files.write_verifier(None), before);
        }
        // a failure between a write and its commit, met by a change of a name
        let fourth = write(Stability::Unstable).unwrap();
        calls.failures.store(1, Ordering::SeqCst);
        let made = files.make_directory(&call, &fixture.root(), b"d", &mode_of(0o700));
        assert!(matches!(made, Err(Error::Io(_))));
        assert_ne!(
            files.commit(&call, &id, 0, 0).unwrap().verifier,
            fourth.verifier
        );
        assert_ne!(
            fixture.restarted().write_verifier(None),
            files.write_verifier(None)
        );
    });
}

/// The first sync gets the report of lost data, and its thread goes on only when another sync has
/// had time to succeed.
#[derive(Default)]
struct ReportedOnce {
    reported: AtomicUsize,
}

impl SyncCalls for ReportedOnce {
    fn sync_data(&self, _file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.reported.fetch_add(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(300));
        Err(Errno::IO)
    }
}

#[test]
fn no_commit_is_clean_while_another_draws_the_consequences_of_lost_data() {
    let calls = Arc::new(ReportedOnce::default());
    let fixture = Fixture::new(Options {
        sync_calls: calls.clone(),
        ..Options::default()
    });
    let who = root_credentials();
    let call = waiting(&who);
    let (files, id) = (&fixture.files, fixture.make(&fixture.root(), "f", b""));
    let written = files.write(&call, &id, 0, b"data", Stability::Unstable);
    let commit = || files.commit(&waiting(&who), &id, 0, 0);
    let (second, first) = std::thread::scope(|scope| {
        let first = scope.spawn(commit);
        while calls.reported.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        (commit(), first.join().unwrap())
    });
    assert!(matches!(first, Err(Error::Io(_))));
    assert_ne!(second.unwrap().verifier, written.unwrap().verifier);
}

#[test]
fn no_commit_is_clean_while_an_object_that_has_to_go_is_told_of_lost_data() {
    let calls = Arc::new(ReportedOnce::default());
    let fixture = Fixture::new(Options {
        metadata_sync: false,
        open_objects_max: Some(16),
        sync_calls: calls.clone(),
        ..Options::default()
    });
    let names: Vec<String> = (0..256).map(|number| format!("f{number}")).collect();
    for name in &names {
        std::fs::write(fixture.path(name), b"").unwrap();
    }
    let who = root_credentials();
    let call = waiting(&who);
    let (files, id) = (&fixture.files, fixture.make(&fixture.root(), "f", b""));
    let written = files.write(&call, &id, 0, b"data", Stability::Unstable);
    let is_told = || calls.reported.load(Ordering::SeqCst) > 0;
    let committed = std::thread::scope(|scope| {
        scope.spawn(|| {
            for name in names.iter().take_while(|_| !is_told()) {
                fixture.id(name);
            }
            assert!(is_told(), "it need not go");
        });
        while !is_told() {
            std::thread::yield_now();
        }
        files.commit(&call, &id, 0, 0)
    });
    assert_ne!(committed.unwrap().verifier, written.unwrap().verifier);
}

#[test]
fn what_cannot_be_opened_is_synced_with_all_else() {
    with_faults(|fixture, calls| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let made = files.make_symlink(&call, &root, b"link", b"target", &mode_of(0o777));
        let link = made.unwrap().entry.id;
        calls.counts();
        files.commit_metadata(&call, &link).unwrap();
        assert_eq!(calls.counts(), (0, 0, 1));
        files.commit_metadata(&call, &root).unwrap();
        assert_eq!(calls.counts(), (0, 1, 0));
    });
}

#[test]
fn each_operation_syncs_what_it_promises() {
    with_faults(|fixture, calls| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let one_journal = files.tree().metadata_sync().has_one_journal();
        let id = fixture.make(&root, "f", b"");
        let create = if one_journal { 1 } else { 2 };
        assert_eq!(calls.counts(), (0, create, 0));
        let write = |stability| {
            let written = files.write(&call, &id, 0, b"data", stability).unwrap();
            assert_eq!(written.committed, stability);
        };
        write(Stability::Unstable);
        assert_eq!(calls.counts(), (0, 0, 0));
        write(Stability::DataSync);
        assert_eq!(calls.counts(), (1, 0, 0));
        write(Stability::FileSync);
        assert_eq!(calls.counts(), (0, 1, 0));
        files.commit(&call, &id, u64::MAX, u32::MAX).unwrap();
        assert_eq!(calls.counts(), (1, 0, 0));
        files
            .set_attributes(&call, &id, &mode_of(0o600), None)
            .unwrap();
        assert_eq!(calls.counts(), (0, 1, 0));
        files
            .make_directory(&call, &root, b"d", &mode_of(0o700))
            .unwrap();
        assert_eq!(calls.counts(), (0, create, 0));
        let none = SetAttributes::default();
        let link = files.make_symlink(&call, &root, b"l", b"t", &none).unwrap();
        let counts = if one_journal { (0, 1, 0) } else { (0, 0, 1) };
        assert_eq!(calls.counts(), counts);
        let times = SetAttributes {
            modified: Some(SetTime::To(Timestamp::default())),
            ..none
        };
        files
            .set_attributes(&call, &link.entry.id, &times, None)
            .unwrap();
        assert_eq!(calls.counts(), (0, 0, 1), "a link cannot be opened");
        let d = fixture.id("d");
        files
            .rename(&call, (&root, b"f"), (&d, b"f"), RenameMode::Replace)
            .unwrap();
        assert_eq!(calls.counts(), (0, create, 0));
        files.link(&call, &id, &root, b"g").unwrap();
        assert_eq!(calls.counts(), (0, create, 0));
        files.remove(&call, &d, b"f").unwrap();
        files.remove_directory(&call, &root, b"d").unwrap();
        assert_eq!(calls.counts(), (0, 2, 0));
        write(Stability::Unstable);
        files.finish(Finish::Sync).unwrap();
        assert_eq!(calls.counts(), (1, 0, 1));
        files.finish(Finish::Sync).unwrap();
        assert_eq!(calls.counts(), (0, 0, 1), "nothing is unstable any more");
    });
}

/// Where the names of two directories, or a name and its object, are not written together.
#[test]
fn without_a_common_journal_objects_and_names_are_synced() {
    let Ok(top) = tempfile::tempdir_in("/dev/shm") else {
        return pagewell_skip::skip("needs a tmpfs");
    };
    let calls = Arc::new(Faulty::default());
    let options = Options {
        sync_calls: calls.clone(),
        ..Options::default()
    };
    let files = Directory::open(top.path(), options).unwrap();
    let (who, root, none) = (root_credentials(), files.root(), SetAttributes::default());
    let call = waiting(&who);
    files.make_symlink(&call, &root, b"l", b"t", &none).unwrap();
    assert_eq!(calls.counts(), (0, 0, 1));
    let fifo = pagewell_fs::NodeKind::Fifo;
    files.make_node(&call, &root, b"n", fifo, &none).unwrap();
    assert_eq!(calls.counts(), (0, 0, 1));
    let mode = CreateMode::Guarded(none);
    let id = files.create(&call, &root, b"f", &mode).unwrap().entry.id;
    assert_eq!(calls.counts(), (0, 2, 0));
    files.link(&call, &id, &root, b"g").unwrap();
    assert_eq!(calls.counts(), (0, 2, 0));
}

#[test]
fn without_metadata_sync_only_data_is_synced() {
    let calls = Arc::new(Faulty::default());
    let fixture = Fixture::new(Options {
        metadata_sync: false,
        sync_calls: calls.clone(),
        ..Options::default()
    });
    let who = root_credentials();
    let id = fixture.make(&fixture.root(), "f", b"x");
    fixture.files.commit(&waiting(&who), &id, 0, 0).unwrap();
    assert_eq!(calls.counts(), (1, 0, 0));
}

#[test]
fn unstable_data_is_synced_before_its_file_is_closed() {
    let calls = Arc::new(Faulty::default());
    let fixture = Fixture::new(Options {
        metadata_sync: false,
        open_objects_max: Some(16),
        sync_calls: calls.clone(),
        ..Options::default()
    });
    let verifier = fixture.files.write_verifier(None);
    calls.failures.store(1, Ordering::SeqCst);
    for number in 0..64 {
        fixture.make(&fixture.root(), &format!("f{number}"), b"x");
    }
    assert!(calls.counts().0 >= 32);
    assert_ne!(
        fixture.files.write_verifier(None),
        verifier,
        "one of them failed"
    );
}

#[test]
fn exclusive_creation_knows_its_own_retry() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let root = fixture.root();
        let create = |files: &Directory, verifier: [u8; 8]| {
            let mode = CreateMode::Exclusive(verifier);
            files.create(&call, &root, b"f", &mode)
        };
        let files = &fixture.files;
        let mine = [0xff, 1, 2, 3, 0x80, 5, 6, 7];
        let made = create(files, mine).unwrap();
        assert_eq!(create(files, mine).unwrap().entry.id, made.entry.id);
        assert_eq!(create(files, [9; 8]).err(), Some(Error::Exists));
        let again = fixture.restarted();
        assert_eq!(create(&again, mine).unwrap().entry.id, made.entry.id);
        let set = SetAttributes {
            accessed: Some(SetTime::ToServerTime),
            modified: Some(SetTime::ToServerTime),
            ..mode_of(0o644)
        };
        files
            .set_attributes(&call, &made.entry.id, &set, None)
            .unwrap();
        assert_eq!(create(files, mine).err(), Some(Error::Exists));
        let guarded = CreateMode::Guarded(SetAttributes::default());
        let made = files.create(&call, &root, b"f", &guarded);
        assert_eq!(made.err(), Some(Error::Exists));
    });
}

#[test]
fn unchecked_creation_applies_only_the_size_to_what_is_there() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let id = fixture.make(&root, "f", b"0123456789");
        let create = |wanted| {
            let made = files.create(&call, &root, b"f", &CreateMode::Unchecked(wanted));
            made.unwrap().entry
        };
        let same = create(mode_of(0o777));
        assert_eq!((same.id, same.attributes.size), (id, 10));
        assert_eq!(same.attributes.mode, 0o644);
        let cut = create(SetAttributes {
            size: Some(3),
            ..mode_of(0o777)
        });
        assert_eq!((cut.attributes.size, cut.attributes.mode), (3, 0o644));
        files
            .make_directory(&call, &root, b"d", &mode_of(0o755))
            .unwrap();
        let made = files.create(&call, &root, b"d", &CreateMode::Unchecked(mode_of(0o600)));
        assert_eq!(made.err(), Some(Error::Exists));
    });
}

/// A client may rely on the name that it found: its maker may not have synced it yet, and a local
/// program never does.
#[test]
fn a_name_that_is_found_by_create_is_durable_too() {
    with_faults(|fixture, calls| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let needed = if files.tree().metadata_sync().has_one_journal() {
            1
        } else {
            2
        };
        std::fs::write(fixture.path("f"), b"").unwrap();
        let unchecked = CreateMode::Unchecked(SetAttributes::default());
        files.create(&call, &root, b"f", &unchecked).unwrap();
        assert_eq!(calls.counts(), (0, needed, 0));
        let exclusive = CreateMode::Exclusive([7; 8]);
        for _ in 0..2 {
            files.create(&call, &root, b"e", &exclusive).unwrap();
            assert_eq!(calls.counts(), (0, needed, 0));
        }
    });
}
