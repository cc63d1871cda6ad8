//! An export whose root was removed and made anew.

use super::*;
use pagewell_fs::Error;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// A path that only the server may search leads it to what is there now.
#[test]
fn an_export_that_is_made_anew_is_opened_by_the_server() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        let (files, old, path) = (&fixture.files, fixture.root(), fixture.path(""));
        chmod(path.parent().unwrap(), 0o700);
        let who = Credentials::new(1000, 1000, &[]);
        let call = waiting(&who);
        let looked_up = Barrier::new(2);
        std::thread::scope(|scope| {
            // One that inherits no caller.
            let remade = scope.spawn(|| {
                looked_up.wait();
                std::fs::remove_dir(&path).and_then(|()| std::fs::create_dir(&path))
            });
            let none = files.lookup(&call, &old, b"none");
            looked_up.wait();
            assert_eq!(none, Err(Error::NotFound));
            remade.join().unwrap().unwrap();
        });
        assert_ne!(files.current_root(&call).unwrap(), old);
    });
}

#[test]
fn the_old_tree_lets_go_of_all_that_it_held() {
    with_both(|fixture| {
        let (files, who) = (&fixture.files, root_credentials());
        for number in 0..50 {
            fixture.make(&fixture.root(), &number.to_string(), b"x");
        }
        // It is still there, elsewhere.
        let (path, outside) = (fixture.path(""), fixture.outside("old"));
        std::fs::rename(&path, &outside).unwrap();
        std::fs::create_dir(&path).unwrap();
        for name in std::fs::read_dir(&outside).unwrap() {
            std::fs::rename(name.unwrap().path(), path.join("moved")).unwrap();
        }
        std::fs::remove_dir(&outside).unwrap();
        let old = fixture.root();
        assert_ne!(files.current_root(&waiting(&who)).unwrap(), old);
        let until = Instant::now() + Duration::from_secs(60);
        let holds_any = || {
            let mut held = 0;
            files.tree().objects().each(|_| held += 1);
            held > 0 || Arc::weak_count(files.tree()) > 0
        };
        while holds_any() {
            assert!(Instant::now() < until, "the old tree goes on");
            std::thread::sleep(Duration::from_millis(50));
        }
        fixture.make(&fixture.root(), "new", b"x");
    });
}
