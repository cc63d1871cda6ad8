//! Listings are complete, stable and true.

use super::*;
use pagewell_fs::Error;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn ten_thousand_names_while_others_come_and_go() {
    with_both(|fixture| {
        let directory = fixture.path("big");
        std::fs::create_dir(&directory).unwrap();
        for number in 0..10_000 {
            std::fs::write(directory.join(format!("stays-{number}")), b"").unwrap();
        }
        let id = fixture.id("big");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = 0;
                while !done.load(Ordering::Relaxed) {
                    let name = directory.join(format!("goes-{}", round % 500));
                    std::fs::write(&name, b"").unwrap();
                    let old = directory.join(format!("goes-{}", (round + 250) % 500));
                    let _ = std::fs::remove_file(old);
                    round += 1;
                }
            });
            let ends = Ends(&done);
            let listed = list(&fixture.files, &id, 97);
            drop(ends);
            let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
            for (name, _) in &listed {
                *seen.entry(name.clone()).or_default() += 1;
            }
            for number in 0..10_000 {
                let name = format!("stays-{number}").into_bytes();
                assert_eq!(seen.get(&name), Some(&1), "stays-{number}");
            }
            assert_eq!((seen[&b"."[..]], seen[&b".."[..]]), (1, 1));
        });
        let quiet = list(&fixture.files, &id, 1000);
        let cookies: HashSet<u64> = quiet.iter().map(|(_, cookie)| *cookie).collect();
        assert_eq!(cookies.len(), quiet.len());
        assert!(!cookies.contains(&0));
    });
}

#[test]
fn pages_of_any_size_and_restarts_give_the_same_names() {
    with_both(|fixture| {
        for number in 0..300 {
            std::fs::write(fixture.path(&format!("f{number}")), b"").unwrap();
        }
        let root = fixture.root();
        let whole = list(&fixture.files, &root, usize::MAX);
        assert_eq!(whole.len(), 302);
        for page in [1, 7, 301, 302, 303] {
            assert_eq!(list(&fixture.files, &root, page), whole);
        }
        // every cookie resumes behind its entry, also in another life
        let again = fixture.restarted();
        let who = root_credentials();
        for (index, (_, cookie)) in whole.iter().enumerate().step_by(37) {
            let mut rest = Vec::new();
            again
                .read_directory(&waiting(&who), &root, *cookie, true, &mut |entry| {
                    rest.push((entry.name.to_vec(), entry.cookie));
                    true
                })
                .unwrap();
            assert_eq!(rest, whole[index + 1..]);
        }
        let bad = again.read_directory(&waiting(&who), &root, u64::MAX, false, &mut |_| true);
        assert_eq!(bad.err(), Some(Error::BadCookie));
    });
}

#[test]
fn attributes_in_listings_are_those_of_lookup() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        std::fs::create_dir_all(fixture.path("d/sub")).unwrap();
        std::fs::write(fixture.path("d/file"), b"x").unwrap();
        std::os::unix::fs::symlink("nowhere", fixture.path("d/link")).unwrap();
        let id = fixture.id("d");
        let held = fixture.id("d/file");
        let mut count = 0;
        fixture
            .files
            .read_directory(&call, &id, 0, true, &mut |entry| {
                let found = fixture.files.lookup(&call, &id, entry.name).unwrap();
                assert_eq!(entry.entry.unwrap().id, found.id, "{:?}", entry.name);
                assert_eq!(entry.file_id, found.attributes.file_id);
                if entry.name == b"file" {
                    assert_eq!(found.id, held);
                }
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, 5);
        let file = fixture.id("d/file");
        let listed = fixture
            .files
            .read_directory(&call, &file, 0, false, &mut |_| true);
        assert_eq!(listed.err(), Some(Error::NotDirectory));
        // `..` of the root is the root, with its number
        let root = fixture.root();
        fixture
            .files
            .read_directory(&call, &root, 0, true, &mut |entry| {
                if entry.name.starts_with(b".") {
                    assert_eq!(entry.entry.unwrap().id, root);
                }
                true
            })
            .unwrap();
    });
}

#[test]
fn what_was_read_ahead_is_not_used_after_a_change() {
    with_both(|fixture| {
        for number in 0..100 {
            std::fs::write(fixture.path(&format!("f{number}")), b"").unwrap();
        }
        let root = fixture.root();
        let who = root_credentials();
        let first = |taken: usize, cookie: u64| {
            let mut names = Vec::new();
            let mut last = cookie;
            fixture
                .files
                .read_directory(&waiting(&who), &root, cookie, false, &mut |entry| {
                    if names.len() == taken {
                        return false;
                    }
                    last = entry.cookie;
                    names.push(entry.name.to_vec());
                    true
                })
                .unwrap();
            (names, last)
        };
        let (taken, cookie) = first(10, 0);
        for number in 0..100 {
            let name = format!("f{number}");
            if !taken.contains(&name.clone().into_bytes()) {
                std::fs::remove_file(fixture.path(&name)).unwrap();
            }
        }
        let (rest, _) = first(usize::MAX, cookie);
        let left: Vec<_> = rest.iter().filter(|name| name.starts_with(b"f")).collect();
        assert!(left.is_empty(), "{left:?} were removed");
    });
}
