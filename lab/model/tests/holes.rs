//! Finding data and holes: a directory answers what the file beneath it answers, call by call, and
//! in memory no byte that was written is in a hole.

#![allow(clippy::unwrap_used)] // a test: to panic is to fail

use pagewell_fs::{
    Call, CreateMode, Credentials, FileId, FileSystem, Seek, SetAttributes, Stability,
};
use pagewell_source_dir::{Directory, Options};
use pagewell_source_ram::RamFileSystem;
use proptest::prelude::*;
use rustix::fs::SeekFrom;

const BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(u64, usize),
    Resize(u64),
    Seek(u64, Seek),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..BYTES_MAX, 1..100_000usize).prop_map(|(at, length)| Act::Write(at, length)),
        (0..BYTES_MAX).prop_map(Act::Resize),
        (0..BYTES_MAX).prop_map(|at| Act::Seek(at, Seek::Data)),
        (0..BYTES_MAX).prop_map(|at| Act::Seek(at, Seek::Hole)),
    ];
    prop::collection::vec(act, 1..30)
}

/// Makes the calls; `check` is given each search with its answer, and the bytes there should be.
fn run(
    files: &dyn FileSystem,
    acts: &[Act],
    check: impl Fn(u64, Seek, pagewell_fs::Result<u64>, &[u8]),
) {
    let root = Credentials::root();
    let call = Call::new(&root, true);
    let mode = CreateMode::Guarded(SetAttributes::default());
    let made = files.create(&call, &files.root(), b"f", &mode).unwrap();
    let id: FileId = made.entry.id;
    let mut model = Vec::new();
    for act in acts {
        match *act {
            Act::Write(at, length) => {
                let bytes = vec![7; length];
                let stability = Stability::Unstable;
                let written = files.write(&call, &id, at, &bytes, stability).unwrap();
                assert_eq!(written.count as usize, length);
                let at = usize::try_from(at).unwrap();
                model.resize(model.len().max(at + length), 0);
                model[at..at + length].fill(7);
            }
            Act::Resize(size) => {
                let wanted = SetAttributes {
                    size: Some(size),
                    ..SetAttributes::default()
                };
                files.set_attributes(&call, &id, &wanted, None).unwrap();
                model.resize(usize::try_from(size).unwrap(), 0);
            }
            Act::Seek(at, wanted) => {
                let found = files.seek(&call, &id, at, wanted);
                check(at, wanted, found, &model);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    })]

    #[test]
    fn a_directory_finds_what_the_file_beneath_has(acts in acts()) {
        let top = tempfile::tempdir_in("/var/tmp").unwrap();
        let options = Options { metadata_sync: false, ..Options::default() };
        let files = Directory::open(top.path(), options).unwrap();
        run(&files, &acts, |at, wanted, found, _| {
            let beneath = std::fs::File::open(top.path().join("f")).unwrap();
            let from = match wanted {
                Seek::Data => SeekFrom::Data(at),
                Seek::Hole => SeekFrom::Hole(at),
            };
            let expected = rustix::fs::seek(&beneath, from);
            assert_eq!(found.map_err(|error| error.to_errno()), expected);
        });
        pagewell_fs::identity::act_for_server();
    }

    #[test]
    fn memory_has_no_byte_in_a_hole(acts in acts()) {
        let files = RamFileSystem::new(16 << 20).unwrap();
        run(&files, &acts, |at, wanted, found, model| {
            let at = usize::try_from(at).unwrap();
            let Some(rest) = model.get(at..).filter(|rest| !rest.is_empty()) else {
                return assert_eq!(found, Err(pagewell_fs::Error::NoDevice));
            };
            let first = rest.iter().position(|byte| *byte != 0);
            match (wanted, found) {
                (Seek::Data, Ok(found)) => {
                    let found = usize::try_from(found).unwrap();
                    assert!(found >= at && found < model.len());
                    assert!(first.is_none_or(|first| found <= at + first));
                }
                (Seek::Data, Err(_)) => assert_eq!(first, None),
                (Seek::Hole, found) => {
                    let found = usize::try_from(found.unwrap()).unwrap();
                    assert!(found >= at && found <= model.len());
                    // What begins there is zeros up to the next data, here at least for a byte.
                    assert!(model.get(found).is_none_or(|byte| *byte == 0));
                    assert!(found == model.len() || found == at || found % 4096 == 0);
                }
            }
        });
    }
}
