//! Files by their descriptors.

use super::*;
use pagewell_fs::{Error, LocalFiles};
use std::os::unix::fs::MetadataExt;

#[test]
fn a_new_file_is_made_as_the_caller_and_replaces_nothing() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let (files, root) = (&fixture.files, fixture.root());
        let make = |directory: &FileId, name: &[u8]| files.new_file(&call, directory, name, 0o640);
        let made = make(&root, b"f").unwrap();
        rustix::io::pwrite(&made, b"hello", 0).unwrap();
        let metadata = std::fs::metadata(fixture.path("f")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.len()), (0o640, 5));
        assert_eq!(make(&root, b"f").err(), Some(Error::Exists));
        std::os::unix::fs::symlink("nowhere", fixture.path("link")).unwrap();
        assert_eq!(make(&root, b"link").err(), Some(Error::Exists));
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert!(make(&root, name).is_err(), "{name:?}");
        }
        let file = fixture.id("f");
        assert_eq!(make(&file, b"g").err(), Some(Error::NotDirectory));
        assert_eq!(fixture.get(&file).unwrap(), b"hello");
    });
}

#[test]
fn a_listed_file_is_opened_where_handles_name_it() {
    with_both(|fixture| {
        let who = root_credentials();
        let call = waiting(&who);
        let files = &fixture.files;
        let id = fixture.make(&fixture.root(), "f", b"abc");
        let has_handles = files.describe().contains("kernel file handles");
        let opened = files.open_listed(&call, &id).unwrap();
        assert_eq!(opened.is_some(), has_handles);
        if let Some(opened) = opened {
            let mut bytes = [0; 9];
            assert_eq!(rustix::io::pread(&opened, &mut bytes, 0), Ok(3));
            assert_eq!(&bytes[..3], b"abc");
            drop(opened);
            files.remove(&call, &fixture.root(), b"f").unwrap();
            let stale = files.open_listed(&call, &id);
            assert_eq!(stale.err(), Some(Error::Stale));
            let wrong = FileId::new(&[1]).unwrap();
            assert!(files.open_listed(&call, &wrong).is_err());
        }
    });
}
