//! What has left the export is not served, and what has not is.

use super::*;
use pagewell_fs::Error;
use std::time::Duration;

/// Later than the grain of change times.
fn let_the_clock_move() {
    std::thread::sleep(Duration::from_millis(30));
}

#[test]
fn what_is_moved_out_while_it_is_held_becomes_stale() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, objects) = (&fixture.files, fixture.files.tree().objects());
        let make = |at: &FileId, name: &[u8]| {
            let made = files.make_directory(&call, at, name, &mode_of(0o755));
            made.unwrap().entry.id
        };
        let d = make(&fixture.root(), b"d");
        let e = make(&d, b"e");
        let f = fixture.make(&d, "f", b"x");
        let g = fixture.make(&fixture.root(), "g", b"x");
        let kept = make(&fixture.root(), b"kept");
        let k = fixture.make(&kept, "k", b"k");
        let_the_clock_move();
        std::fs::rename(fixture.path("d"), fixture.outside("d")).unwrap();
        std::fs::rename(fixture.path("g"), fixture.outside("g")).unwrap();
        std::fs::rename(fixture.path("kept"), fixture.path("renamed")).unwrap();
        std::fs::write(fixture.outside("d/secret"), b"secret").unwrap();
        // the directory itself at once, by its change time
        assert_eq!(files.attributes(&call, &d), Err(Error::Stale));
        let listed = files.read_directory(&call, &d, 0, true, &mut |_| true);
        assert_eq!(listed.err(), Some(Error::Stale));
        // what is below it, and a file, when the turn is over
        objects.end_turn();
        for gone in [&d, &e, &f, &g] {
            assert_eq!(files.attributes(&call, gone), Err(Error::Stale));
        }
        assert_eq!(files.lookup(&call, &d, b"secret"), Err(Error::Stale));
        let made = files.make_directory(&call, &e, b"new", &mode_of(0o755));
        assert_eq!(made.err(), Some(Error::Stale));
        assert_eq!(fixture.get(&f), Err(Error::Stale));
        // what stayed is not bothered
        assert_eq!(fixture.get(&k).unwrap(), b"k");
        assert!(files.lookup(&hasty(&who), &kept, b"k").is_ok());
        // and back again
        std::fs::rename(fixture.outside("g"), fixture.path("g")).unwrap();
        assert_eq!(fixture.id("g"), g);
        assert_eq!(fixture.get(&g).unwrap(), b"x");
    });
}

#[test]
fn a_file_with_several_names_is_inside_by_any_of_them() {
    with_both(|fixture| {
        let who = root_credentials();
        let objects = fixture.files.tree().objects();
        let f = fixture.make(&fixture.root(), "f", b"x");
        std::fs::hard_link(fixture.path("f"), fixture.outside("f")).unwrap();
        std::fs::create_dir(fixture.path("d")).unwrap();
        std::fs::hard_link(fixture.path("f"), fixture.path("d/other")).unwrap();
        std::fs::remove_file(fixture.path("f")).unwrap();
        objects.end_turn();
        assert_eq!(fixture.get(&f).unwrap(), b"x", "it has a name in d");
        let again = fixture.restarted();
        assert_eq!(read_as(&again, &who, &f).unwrap(), b"x");
    });
}

#[test]
fn what_was_moved_is_found_and_what_is_gone_is_stale() {
    let fixture = Fixture::new(Options {
        force_trails: true,
        metadata_sync: false,
        ..Options::default()
    });
    let who = root_credentials();
    let root = fixture.root();
    let gone: Vec<_> = (0..60)
        .map(|number| fixture.make(&root, &format!("gone{number}"), b""))
        .collect();
    let moved = fixture.make(&root, "moved", b"moved");
    let stays = fixture.make(&root, "stays", b"stays");
    for number in 0..60 {
        std::fs::remove_file(fixture.path(&format!("gone{number}"))).unwrap();
    }
    std::fs::create_dir_all(fixture.path("a/b")).unwrap();
    std::fs::rename(fixture.path("moved"), fixture.path("a/b/moved")).unwrap();
    let again = fixture.restarted();
    std::thread::scope(|scope| {
        for part in gone.chunks(20) {
            let (again, who) = (&again, &who);
            scope.spawn(move || {
                for id in part {
                    let got = again.attributes(&waiting(who), id);
                    assert_eq!(got, Err(Error::Stale));
                }
            });
        }
        assert_eq!(read_as(&again, &who, &stays).unwrap(), b"stays");
        assert_eq!(read_as(&again, &who, &moved).unwrap(), b"moved");
    });
    assert_eq!(walk(&again, "a/b/moved").unwrap().id, moved);
    // a name that is seen again is known again, whatever was remembered
    std::fs::rename(fixture.path("stays"), fixture.outside("stays")).unwrap();
    let last = fixture.restarted();
    let got = last.attributes(&waiting(&who), &stays);
    assert_eq!(got, Err(Error::Stale));
    std::fs::rename(fixture.outside("stays"), fixture.path("stays")).unwrap();
    assert_eq!(walk(&last, "stays").unwrap().attributes.size, 5);
    assert_eq!(read_as(&last, &who, &stays).unwrap(), b"stays");
}

/// In memory, where making many files is quick.
#[test]
fn a_moved_file_is_found_among_very_many() {
    let Ok(top) = tempfile::tempdir_in("/dev/shm") else {
        pagewell_skip::skip("no /dev/shm");
        return;
    };
    pagewell_fs::identity::act_for_server();
    let path = |name: &str| top.path().join(name);
    for directory in 0..21 {
        let directory = path(&format!("d{directory}"));
        std::fs::create_dir(&directory).unwrap();
        for number in 0..10_000 {
            std::fs::write(directory.join(number.to_string()), b"").unwrap();
        }
    }
    std::fs::write(path("f"), b"found").unwrap();
    let open = || {
        let options = Options {
            force_trails: true,
            ..Options::default()
        };
        Directory::open(top.path(), options).unwrap()
    };
    let who = root_credentials();
    let f = walk(&open(), "f").unwrap().id;
    for to in ["d0/f", "d20/f"] {
        std::fs::rename(path("f"), path(to)).unwrap();
        let again = open();
        let found = loop {
            match read_as(&again, &who, &f) {
                Err(Error::TryLater) => {}
                found => break found,
            }
        };
        assert_eq!(found.unwrap(), b"found", "in {to}");
        std::fs::rename(path(to), path("f")).unwrap();
    }
}
