//! Descriptors that a process may have; a process of its own, as the limit is the process'.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use pagewell_fs::{Call, CreateMode, Credentials, FileSystem, SetAttributes, Stability};
use pagewell_source_dir::{Directory, Options};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::path::Path;

/// What else the program opens, until it has no descriptors left.
fn leave_none(path: &Path) -> Vec<File> {
    std::iter::from_fn(|| File::open(path).ok()).collect()
}

/// Files that are found, read and written take three descriptors each.
#[test]
fn more_files_than_descriptors_can_be_used_one_after_the_other() {
    let few = Rlimit {
        current: Some(700),
        maximum: Some(700),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let who = Credentials::root();
    let waiting = Call::new(&who, true);
    for force_trails in [false, true] {
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        let options = Options {
            metadata_sync: false,
            force_trails,
            ..Options::default()
        };
        let files = Directory::open(top.path(), options.clone()).unwrap();
        let mode = CreateMode::Guarded(SetAttributes::default());
        for number in 0..500 {
            std::fs::write(top.path().join(number.to_string()), b"old").unwrap();
        }
        let mut ids = Vec::new();
        for number in 0..500 {
            let name = number.to_string();
            let id = files
                .lookup(&waiting, &files.root(), name.as_bytes())
                .unwrap()
                .id;
            ids.push(id);
            let read = files.read(&waiting, &id, 0, 3).unwrap();
            let mut bytes = [0; 3];
            assert_eq!(read.payload.copy_to(&mut bytes, true), Ok(3));
            files
                .write(&waiting, &id, 0, b"new", Stability::Unstable)
                .unwrap();
        }
        let others = leave_none(top.path());
        let made = files
            .create(&waiting, &files.root(), b"made", &mode)
            .unwrap();
        let hasty = Call::new(waiting.credentials, false);
        assert!(files.attributes(&hasty, &made.entry.id).is_ok());
        for number in 0..500 {
            let name = number.to_string();
            let found = files.lookup(&waiting, &files.root(), name.as_bytes());
            assert_eq!(found.unwrap().attributes.size, 3);
        }
        for id in &ids {
            assert_eq!(files.attributes(&waiting, id).unwrap().size, 3);
        }

        // A later life knows identifiers only, and a file was moved before it.
        drop((files, others));
        std::fs::create_dir(top.path().join("below")).unwrap();
        std::fs::rename(top.path().join("400"), top.path().join("below/moved")).unwrap();
        let files = Directory::open(top.path(), options).unwrap();
        for id in &ids[..100] {
            assert!(files.attributes(&waiting, id).is_ok());
        }
        let _others = leave_none(top.path());
        for id in &ids[100..] {
            assert_eq!(files.attributes(&waiting, id).unwrap().size, 3);
        }
    }
}
