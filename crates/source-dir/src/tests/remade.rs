//! An export whose root was removed and made anew.

use super::*;
use pagewell_fs::Error;
use std::sync::Barrier;

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
