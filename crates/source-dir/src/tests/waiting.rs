//! What a thread that may not wait answers.

use pagewell_fs::{Access, Error, RenameMode};

use super::*;

#[test]
fn held_objects_are_answered_and_the_rest_would_block() {
    with_both(|fixture| {
        let who = root_credentials();
        let (call, slow) = (hasty(&who), waiting(&who));
        let root = fixture.root();
        let f = fixture.make(&root, "f", &[7; 8192]);
        let files = &fixture.files;
        files.attributes(&call, &f).unwrap();
        files.access(&call, &f, Access::ALL).unwrap();
        assert_eq!(files.lookup(&call, &root, b"f").unwrap().id, f);
        // most file systems let the kernel remember that a name is not there
        assert_eq!(files.lookup(&slow, &root, b"none"), Err(Error::NotFound));
        let hurried = files.lookup(&call, &root, b"none");
        assert!(matches!(hurried, Err(Error::NotFound | Error::WouldBlock)));
        assert_eq!(files.read(&call, &f, 0, 100).unwrap().payload.len(), 100);
        files.statistics(&call).unwrap();

        let blocked = Some(Error::WouldBlock);
        let mode = CreateMode::Unchecked(mode_of(0o600));
        assert_eq!(files.create(&call, &root, b"n", &mode).err(), blocked);
        assert_eq!(
            fixture.walk("n"),
            Err(Error::NotFound),
            "nothing was changed"
        );
        assert_eq!(files.remove(&call, &root, b"f").err(), blocked);
        assert_eq!(
            files
                .rename(&call, (&root, b"f"), (&root, b"g"), RenameMode::Replace)
                .err(),
            blocked
        );
        assert_eq!(files.link(&call, &f, &root, b"g").err(), blocked);
        assert_eq!(files.commit(&call, &f, 0, 0).err(), blocked);
        let set = files.set_attributes(&call, &f, &mode_of(0o600), None);
        assert_eq!(set.err(), blocked);
        let listed = files.read_directory(&call, &root, 0, false, &mut |_| true);
        assert_eq!(listed.err(), blocked);

        let again = fixture.restarted();
        assert_eq!(again.attributes(&call, &f), Err(Error::WouldBlock));
        again.attributes(&slow, &f).unwrap();
        again.attributes(&call, &f).unwrap();
    });
}

#[test]
fn only_writes_that_read_nothing_are_made_at_once() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = hasty(&who);
        let f = fixture.make(&fixture.root(), "f", &[7; 10_000]);
        let write = |offset, length: usize, stability| {
            let data = vec![1; length];
            let files = &fixture.files;
            files.write(&call, &f, offset, &data, stability).err()
        };
        let blocked = Some(Error::WouldBlock);
        assert_eq!(write(0, 4096, Stability::Unstable), None);
        assert_eq!(write(8192, 1808, Stability::Unstable), None, "to the end");
        let appended = write(10_000, 5, Stability::Unstable);
        assert_eq!(appended, blocked, "keeps a part of the last page");
        assert_eq!(
            write(12_300, 5, Stability::Unstable),
            None,
            "past the last page"
        );
        assert_eq!(
            write(100, 5, Stability::Unstable),
            blocked,
            "part of a page"
        );
        assert_eq!(write(0, 4096, Stability::DataSync), blocked);
        assert_eq!(write(0, 1 << 20, Stability::Unstable), None, "large");
        // not open for writing
        let again = fixture.restarted();
        again.attributes(&waiting(&who), &f).unwrap();
        let write = again.write(&call, &f, 0, &[1; 4096], Stability::Unstable);
        assert_eq!(write.err(), blocked);
    });
}
