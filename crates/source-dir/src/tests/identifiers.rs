//! Identifiers outlive renames and restarts, and never mean another object.

use super::*;
use pagewell_fs::{Error, RenameMode};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn identifiers_survive_rename_rename_of_the_parent_and_restart() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let make = |at: &FileId, name: &[u8]| {
            let made = files.make_directory(&call, at, name, &mode_of(0o755));
            made.unwrap().entry.id
        };
        let a = make(&root, b"a");
        let b = make(&a, b"b");
        let f = fixture.make(&b, "f", b"one");
        files
            .rename(&call, (&b, b"f"), (&b, b"g"), RenameMode::Replace)
            .unwrap();
        assert_eq!(fixture.id("a/b/g"), f);
        files
            .rename(&call, (&root, b"a"), (&root, b"z"), RenameMode::Replace)
            .unwrap();
        assert_eq!(fixture.id("z/b/g"), f);
        let again = fixture.restarted();
        assert_eq!(read_as(&again, &who, &f).unwrap(), b"one");
        assert_eq!(walk(&again, "z/b/g").unwrap().id, f);
        assert_eq!(walk(&again, "z/b").unwrap().id, b);
        assert_eq!(again.root(), root);

        // moved to another directory while nothing was running
        std::fs::rename(fixture.path("z/b/g"), fixture.path("moved")).unwrap();
        let again = fixture.restarted();
        assert_eq!(read_as(&again, &who, &f).unwrap(), b"one");
        assert_eq!(walk(&again, "moved").unwrap().id, f);
        // and without its object held, after a rename by a local program
        std::fs::rename(fixture.path("moved"), fixture.path("z/b/back")).unwrap();
        let objects = again.tree().objects();
        objects.table().remove(&objects.key_of(&f));
        assert_eq!(read_as(&again, &who, &f).unwrap(), b"one");
    });
}

#[test]
fn a_reused_inode_is_another_object() {
    with_both(|fixture| {
        let who = root_credentials();
        let root = fixture.root();
        let mut seen = std::collections::HashMap::new();
        let mut reused = 0;
        for round in 0..200 {
            let id = fixture.make(&root, "f", b"x");
            let inode = fixture.walk("f").unwrap().attributes.file_id;
            if let Some(old) = seen.insert(inode, id) {
                reused += 1;
                assert_ne!(old, id, "round {round}");
                let got = fixture.files.attributes(&waiting(&who), &old);
                assert_eq!(got, Err(Error::Stale), "round {round}");
                let got = fixture.restarted().attributes(&waiting(&who), &old);
                assert_eq!(got, Err(Error::Stale), "round {round}");
            }
            fixture.files.remove(&waiting(&who), &root, b"f").unwrap();
            if reused > 3 {
                return;
            }
        }
        let opened = std::fs::File::open(fixture.path("")).unwrap();
        let magic = crate::identifier::magic_of(&opened);
        let ext4 = magic == Ok(crate::identifier::EXT4_MAGIC);
        assert!(!ext4, "ext4 reuses inode numbers at once");
        pagewell_skip::skip("this file system reuses no inode numbers");
    });
}

#[test]
fn malformed_identifiers_are_bad_and_dead_ones_stale() {
    with_both(|fixture| {
        let who = root_credentials();
        let files = &fixture.files;
        for bytes in [
            &b""[..],
            b"\x01",
            b"\x02",
            b"\x02abc",
            b"\x03abcdefgh",
            &[0xff; 48],
        ] {
            let id = FileId::new(bytes).unwrap();
            let got = files.attributes(&waiting(&who), &id);
            assert!(
                matches!(got, Err(Error::BadId | Error::Stale)),
                "{bytes:?} {got:?}"
            );
        }
        let f = fixture.make(&fixture.root(), "f", b"x");
        for at in 0..f.as_bytes().len() {
            let mut bytes = f.as_bytes().to_vec();
            bytes[at] ^= 0x55;
            let forged = FileId::new(&bytes).unwrap();
            // tmpfs does not look at the type of a handle
            if let Ok(got) = files.attributes(&waiting(&who), &forged) {
                let wanted = files.attributes(&waiting(&who), &f).unwrap();
                assert_eq!((at, got.file_id), (1, wanted.file_id));
            }
        }
    });
}

#[test]
fn what_leaves_the_export_is_stale() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let files = &fixture.files;
        let made = files.make_directory(&call, &fixture.root(), b"d", &mode_of(0o755));
        let d = made.unwrap().entry.id;
        let e = files
            .make_directory(&call, &d, b"e", &mode_of(0o755))
            .unwrap();
        let e = e.entry.id;
        let f = fixture.make(&d, "f", b"x");
        std::fs::rename(fixture.path("d"), fixture.outside("d")).unwrap();
        let up = files.lookup(&call, &d, b"..");
        assert_eq!(up, Err(Error::Stale), "the way up does not lead out");
        let again = fixture.restarted();
        assert_eq!(again.attributes(&call, &d), Err(Error::Stale));
        assert_eq!(again.attributes(&call, &e), Err(Error::Stale));
        assert_eq!(again.attributes(&call, &f), Err(Error::Stale));
    });
}

#[test]
fn eviction_closes_and_objects_come_back() {
    for force_trails in [false, true] {
        let fixture = Fixture::new(Options {
            force_trails,
            open_objects_max: Some(16),
            ..Options::default()
        });
        let root = fixture.root();
        let ids: Vec<_> = (0..200)
            .map(|number| fixture.make(&root, &format!("f{number}"), number.to_string().as_bytes()))
            .collect();
        let mut held = 0;
        fixture.files.tree().objects().each(|_| held += 1);
        assert!(held <= 32);
        for (number, id) in ids.iter().enumerate() {
            assert_eq!(fixture.get(id).unwrap(), number.to_string().as_bytes());
        }
    }
}

/// While an inode number is being reused, Linux reports "out of memory" for the old one.
#[test]
fn a_dead_identifier_is_stale_also_while_its_number_is_used_again() {
    with_both(|fixture| {
        let who = root_credentials();
        let root = fixture.root();
        let dead: Vec<_> = (0..20)
            .map(|number| {
                let name = format!("f{number}");
                let id = fixture.make(&root, &name, b"");
                std::fs::remove_file(fixture.path(&name)).unwrap();
                id
            })
            .collect();
        fixture.files.tree().objects().sweep();
        let (done, again) = (AtomicBool::new(false), fixture.path("again"));
        std::thread::scope(|scope| {
            let _ends = Ends(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::fs::write(&again, b"").unwrap();
                    std::fs::remove_file(&again).unwrap();
                }
            });
            for _ in 0..5000 {
                for id in &dead {
                    let got = fixture.files.attributes(&waiting(&who), id);
                    assert_eq!(got, Err(Error::Stale));
                }
            }
        });
    });
}
