//! What calls that came together are told, and what names that were just looked up mean.

use pagewell_fs::{Error, moment};

use super::*;

fn size(fixture: &Fixture, id: &FileId) -> u64 {
    let root = root_credentials();
    let attributes = fixture.files.attributes(&hasty(&root), id).unwrap();
    attributes.size
}

fn look_up(fixture: &Fixture, who: &Credentials, name: &str) -> Result<Entry> {
    let (files, root) = (&fixture.files, fixture.root());
    match files.lookup(&hasty(who), &root, name.as_bytes()) {
        Err(Error::WouldBlock) => files.lookup(&waiting(who), &root, name.as_bytes()),
        found => found,
    }
}

#[test]
fn one_look_serves_a_moment_and_no_longer() {
    with_both(|fixture| {
        let id = fixture.make(&fixture.root(), "f", b"four");
        let path = fixture.path("f");
        let now = moment::begin();
        assert_eq!(size(fixture, &id), 4);
        std::fs::write(&path, b"seven!!").unwrap();
        assert_eq!(size(fixture, &id), 4, "all calls came before the change");
        moment::change();
        assert_eq!(size(fixture, &id), 7);
        std::fs::write(&path, b"").unwrap();
        drop(now);
        assert_eq!(size(fixture, &id), 0);
        std::fs::write(&path, b"1").unwrap();
        assert_eq!(size(fixture, &id), 1, "without a moment nothing is kept");
    });
}

#[test]
fn many_objects_of_a_moment_are_not_mixed_up() {
    with_both(|fixture| {
        let ids: Vec<FileId> = (0..40)
            .map(|length| fixture.make(&fixture.root(), &format!("f{length}"), &vec![1; length]))
            .collect();
        let _now = moment::begin();
        for _ in 0..3 {
            for (length, id) in ids.iter().enumerate() {
                assert_eq!(size(fixture, id), length as u64);
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
        for together in [false, true] {
            let now = together.then(moment::begin);
            assert!(look_up(fixture, &root, "f").is_ok());
            assert!(look_up(fixture, &root, "f").is_ok());
            let refused = look_up(fixture, &other, "f");
            assert_eq!(refused, Err(Error::AccessDenied), "{together}");
            drop(now);
        }
    });
}
