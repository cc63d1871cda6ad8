//! What calls of one receive batch share, and what names that were just looked up mean.

use pagewell_fs::{BatchCache, Batched, Error};

use super::*;

fn size_in(fixture: &Fixture, id: &FileId, batch: Option<&BatchCache>) -> u64 {
    let root = root_credentials();
    let files = Batched::new(&fixture.files, batch);
    files.attributes(&hasty(&root), id).unwrap().size
}

fn look_up(fixture: &Fixture, who: &Credentials, name: &str) -> Result<Entry> {
    look_up_in(fixture, who, name, None)
}

fn look_up_in(
    fixture: &Fixture,
    who: &Credentials,
    name: &str,
    batch: Option<&BatchCache>,
) -> Result<Entry> {
    let (files, root) = (Batched::new(&fixture.files, batch), fixture.root());
    match files.lookup(&hasty(who), &root, name.as_bytes()) {
        Err(Error::WouldBlock) => files.lookup(&waiting(who), &root, name.as_bytes()),
        found => found,
    }
}

#[test]
fn one_look_serves_a_batch_until_a_change() {
    with_both(|fixture| {
        let root = root_credentials();
        let id = fixture.make(&fixture.root(), "f", b"four");
        let other = fixture.make(&fixture.root(), "other", b"");
        let path = fixture.path("f");
        let batch = BatchCache::new();
        let size = || size_in(fixture, &id, Some(&batch));
        assert_eq!(size(), 4);
        std::fs::write(&path, b"seven!!").unwrap();
        assert_eq!(size(), 4, "all calls came before the change");
        // A change that fails because it would have to wait, one of another file, and its own.
        let files = Batched::new(&fixture.files, Some(&batch));
        let refused = files.remove(&hasty(&root), &fixture.root(), b"missing");
        assert!(refused.is_err());
        assert_eq!(size(), 7);
        std::fs::write(&path, b"1").unwrap();
        assert_eq!(size(), 7);
        let stability = pagewell_fs::Stability::Unstable;
        let call = waiting(&root);
        files.write(&call, &other, 0, b"data", stability).unwrap();
        assert_eq!(size(), 1);
        files.write(&call, &id, 0, b"12345", stability).unwrap();
        assert_eq!(size(), 5, "of the changed file itself");
        // As another thread does that has its own batch, and a call that was received alone.
        std::fs::write(&path, b"").unwrap();
        assert_eq!(size_in(fixture, &id, Some(&BatchCache::new())), 0);
        assert_eq!(size_in(fixture, &id, None), 0);
        assert_eq!(size(), 5);
    });
}

#[test]
fn many_objects_of_a_batch_are_not_mixed_up() {
    with_both(|fixture| {
        let ids: Vec<FileId> = (0..40)
            .map(|length| fixture.make(&fixture.root(), &format!("f{length}"), &vec![1; length]))
            .collect();
        let batch = BatchCache::new();
        for _ in 0..3 {
            for (length, id) in ids.iter().enumerate() {
                assert_eq!(size_in(fixture, id, Some(&batch)), length as u64);
            }
        }
    });
}

#[test]
fn a_name_means_what_it_means_now() {
    with_both(|fixture| {
        let root = root_credentials();
        let first = fixture.make(&fixture.root(), "f", b"first");
        let second = fixture.make(&fixture.root(), "g", b"second");
        assert_eq!(look_up(fixture, &root, "f").unwrap().id, first);
        assert_eq!(look_up(fixture, &root, "f").unwrap().id, first);
        std::fs::rename(fixture.path("g"), fixture.path("f")).unwrap();
        let found = look_up(fixture, &root, "f").unwrap();
        assert_eq!((found.id, found.attributes.size), (second, 6));
        assert_eq!(look_up(fixture, &root, "g"), Err(Error::NotFound));
        std::fs::write(fixture.path("f"), b"longer than before").unwrap();
        assert_eq!(look_up(fixture, &root, "f").unwrap().attributes.size, 18);
        std::fs::remove_file(fixture.path("f")).unwrap();
        assert_eq!(look_up(fixture, &root, "f"), Err(Error::NotFound));
        std::os::unix::fs::symlink("/", fixture.path("f")).unwrap();
        let found = look_up(fixture, &root, "f").unwrap();
        assert_eq!(found.attributes.file_type, pagewell_fs::FileType::Symlink);
    });
}

#[test]
fn what_one_caller_has_found_another_may_not_be_told() {
    if !is_root() {
        return;
    }
    with_both(|fixture| {
        fixture.make(&fixture.root(), "f", b"data");
        chmod(&fixture.path(""), 0o700);
        let (root, other) = (root_credentials(), Credentials::new(1000, 1000, &[]));
        let batch = BatchCache::new();
        for batch in [None, Some(&batch)] {
            let look_up = |who| look_up_in(fixture, who, "f", batch);
            assert!(look_up(&root).is_ok());
            assert!(look_up(&root).is_ok());
            let refused = look_up(&other);
            assert_eq!(refused, Err(Error::AccessDenied), "{}", batch.is_some());
        }
    });
}
