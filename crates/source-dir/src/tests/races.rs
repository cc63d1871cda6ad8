//! Many at once: nothing outside is touched, and reports of changes are true.

use super::*;
use pagewell_fs::{Error, FileType, WccAttributes};
use rustix::fs::{CWD, RenameFlags};
use std::collections::HashMap;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

#[test]
fn a_name_that_flips_between_directory_and_link_never_leads_out() {
    with_both(|fixture| {
        let (export, outside) = (fixture.path(""), fixture.outside(""));
        std::fs::create_dir(export.join("x")).unwrap();
        symlink(&outside, export.join("y")).unwrap();
        std::fs::write(outside.join("file"), b"secret").unwrap();
        std::fs::write(export.join("x/file"), b"public").unwrap();
        let done = AtomicBool::new(false);
        let (mut entered, mut met) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let (x, y) = (export.join("x"), export.join("y"));
                    let flip = RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, x, CWD, y, flip).unwrap();
                }
            });
            let _ends = Ends(&done);
            let who = root_credentials();
            let call = waiting(&who);
            let files = &fixture.files;
            for round in 0..1_000_000 {
                if entered >= 50 && met >= 50 {
                    break;
                }
                let name = format!("new-{round}");
                let mode = CreateMode::Unchecked(mode_of(0o644));
                let found = files.lookup(&call, &fixture.root(), b"x").unwrap();
                if found.attributes.file_type != FileType::Directory {
                    let create = files.create(&call, &found.id, name.as_bytes(), &mode);
                    assert_eq!(create.err(), Some(Error::NotDirectory));
                    met += 1;
                    continue;
                }
                entered += 1;
                let file = files.lookup(&call, &found.id, b"file").unwrap();
                assert_eq!(read_as(files, &who, &file.id).unwrap(), b"public");
                files
                    .create(&call, &found.id, name.as_bytes(), &mode)
                    .unwrap();
                let up = files.lookup(&call, &found.id, b"..").unwrap();
                assert_eq!(up.id, fixture.root());
                files.remove(&call, &found.id, name.as_bytes()).unwrap();
            }
        });
        assert!(entered > 0 && met > 0, "{entered} {met}");
        let left: Vec<_> = std::fs::read_dir(&outside).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"secret");
    });
}

/// Each `before` must be the `after` of exactly one other change: a mix would break the chain.
fn chain_holds(changes: &[pagewell_fs::Change]) -> usize {
    let mut afters: HashMap<WccBytes, usize> = HashMap::new();
    for change in changes {
        *afters.entry(key(change.after.unwrap().wcc())).or_default() += 1;
    }
    let befores: Vec<_> = changes.iter().filter_map(|change| change.before).collect();
    for before in &befores {
        assert!(afters.contains_key(&key(*before)), "{before:?} was never");
    }
    befores.len()
}

type WccBytes = (u64, pagewell_fs::Timestamp, pagewell_fs::Timestamp);

fn key(wcc: WccAttributes) -> WccBytes {
    (wcc.size, wcc.modified, wcc.changed)
}

#[test]
fn before_is_some_earlier_after_with_eight_writers() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let id = fixture.make(&fixture.root(), "f", b"");
        let first = fixture.files.attributes(&call, &id).unwrap();
        let start = pagewell_fs::Change {
            before: None,
            after: Some(first),
        };
        let changes = Mutex::new(vec![start]);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for writer in 0..8u64 {
                let (changes, barrier, id, who) = (&changes, &barrier, &id, &who);
                scope.spawn(move || {
                    let call = waiting(who);
                    barrier.wait();
                    for round in 0..200u64 {
                        // every write makes the file longer, so that each after is unique
                        let offset = (round * 8 + writer) * 10;
                        let written = fixture
                            .files
                            .write(&call, id, offset, b"x", Stability::Unstable)
                            .unwrap();
                        changes.lock().unwrap().push(written.change);
                    }
                });
            }
        });
        let changes = changes.into_inner().unwrap();
        assert_eq!(changes.len(), 1601);
        let linked = chain_holds(&changes);
        assert!(linked > 0, "some write was alone");
    });
}

#[test]
fn directory_changes_are_always_told_from_before_to_after() {
    with_both(|fixture| {
        let who = root_credentials();
        let root = fixture.root();
        let first = fixture.files.attributes(&waiting(&who), &root).unwrap();
        let start = pagewell_fs::Change {
            before: None,
            after: Some(first),
        };
        let changes = Mutex::new(vec![start]);
        std::thread::scope(|scope| {
            for maker in 0..4 {
                let (changes, who) = (&changes, &who);
                scope.spawn(move || {
                    let call = waiting(who);
                    for round in 0..20 {
                        let name = format!("{maker}-{round}");
                        let name = name.as_bytes();
                        let none = SetAttributes::default();
                        let made = fixture
                            .files
                            .make_symlink(&call, &root, name, b"t", &none)
                            .unwrap();
                        let gone = fixture.files.remove(&call, &root, name).unwrap();
                        changes.lock().unwrap().extend([made.parent, gone]);
                    }
                });
            }
        });
        let changes = changes.into_inner().unwrap();
        let linked = chain_holds(&changes);
        assert_eq!(linked, changes.len() - 1, "serialised, so always told");
    });
}

#[test]
fn evictions_under_load_never_mix_objects() {
    for force_trails in [false, true] {
        let fixture = Fixture::new(Options {
            force_trails,
            metadata_sync: false,
            open_objects_max: Some(16),
            ..Options::default()
        });
        let root = fixture.root();
        let ids: Vec<_> = (0..100u32)
            .map(|number| fixture.make(&root, &format!("f{number}"), &number.to_be_bytes()))
            .collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (ids, fixture) = (&ids, &fixture);
                scope.spawn(move || {
                    for round in 0..2000usize {
                        let number = (round * 37 + thread * 11) % ids.len();
                        let wanted = u32::try_from(number).unwrap().to_be_bytes();
                        match fixture.get(&ids[number]) {
                            Ok(data) => assert_eq!(data, wanted),
                            Err(error) => assert_eq!(error, Error::TryLater),
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn what_a_local_program_removes_is_let_go() {
    with_both(|fixture| {
        let id = fixture.make(&fixture.root(), "f", &[1; 1 << 20]);
        std::fs::remove_file(fixture.path("f")).unwrap();
        let objects = fixture.files.tree().objects();
        let key = objects.key_of(&id);
        assert!(objects.table().get(&key).is_some(), "still held");
        objects.sweep();
        assert!(objects.table().get(&key).is_none());
        assert_eq!(fixture.get(&id), Err(Error::Stale));
    });
}

/// A server that is no superuser can write a file of mode 0444 only while that is open from its
/// creation.
#[test]
fn a_new_file_is_open_for_writing_also_when_it_was_found_meanwhile() {
    with_both(|fixture| {
        let (files, root, who) = (&fixture.files, fixture.root(), root_credentials());
        let (call, next) = (waiting(&who), AtomicUsize::new(0));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let name = format!("f{}", next.load(Ordering::Relaxed));
                    let _ = files.lookup(&waiting(&who), &root, name.as_bytes());
                }
            });
            for number in 0..300 {
                next.store(number, Ordering::Relaxed);
                let mode = CreateMode::Guarded(mode_of(0o444));
                let made = files.create(&call, &root, format!("f{number}").as_bytes(), &mode);
                let object = files
                    .tree()
                    .objects()
                    .object(&call, &made.unwrap().entry.id)
                    .unwrap();
                assert!(object.write_if_open().is_some(), "file {number}");
            }
        });
    });
}
