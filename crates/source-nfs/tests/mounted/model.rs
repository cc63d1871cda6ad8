//! One file against a model: any order of writes, cuts, reads and commits, by two clients that take
//! turns as close-to-open allows.

use proptest::prelude::*;

use super::{Mount, pattern, server};

/// Longest file.
const LENGTH_MAX: usize = 400_000;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Truncate(usize),
    Read(usize, usize),
    Commit,
    Look,
    /// The other client goes on.
    Turn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..LENGTH_MAX;
    let one = prop_oneof![
        6 => (at.clone(), 1usize..70_000).prop_map(|(at, length)| Step::Write(at, length)),
        1 => at.clone().prop_map(Step::Truncate),
        4 => (at, 1usize..70_000).prop_map(|(at, length)| Step::Read(at, length)),
        1 => Just(Step::Commit),
        1 => Just(Step::Look),
        2 => Just(Step::Turn),
    ];
    proptest::collection::vec(one, 1..60)
}

fn run(mounts: &[Mount; 2], name: &str, steps: &[Step]) {
    let id = mounts[0].create(name);
    let mut model: Vec<u8> = Vec::new();
    let mut turn = 0;
    for (number, step) in steps.iter().enumerate() {
        let mount = &mounts[turn];
        match step {
            Step::Write(at, length) => {
                let bytes = pattern(*length, number as u64 * 7919 + 1);
                mount.write(&id, *at as u64, &bytes).unwrap();
                let end = at + length;
                model.resize(model.len().max(end), 0);
                model[*at..end].copy_from_slice(&bytes);
            }
            Step::Truncate(size) => {
                mount.truncate(&id, *size as u64);
                model.resize(*size, 0);
            }
            Step::Read(at, length) => {
                use pagewell_fs::FileSystem;
                #[allow(clippy::cast_possible_truncation)] // small
                let reply = mount
                    .filesystem
                    .read(&mount.call(), &id, *at as u64, *length as u32);
                let reply = reply.unwrap();
                let mut seen = vec![0; reply.payload.len()];
                assert_eq!(reply.payload.copy_to(&mut seen, true), Ok(seen.len()));
                let end = (at + length).min(model.len());
                let expected = model.get(*at..end).unwrap_or(&[]);
                assert_eq!(seen.len(), expected.len(), "length at step {number}");
                assert!(seen == expected, "bytes at step {number}");
                assert_eq!(reply.end_of_file, at + length >= model.len());
            }
            Step::Commit => mount.commit(&id).unwrap(),
            Step::Look => assert_eq!(mount.attributes(&id).size, model.len() as u64),
            Step::Turn => {
                mount.close(&id).unwrap();
                turn = 1 - turn;
                drop(mounts[turn].open(&id));
            }
        }
    }
    mounts[turn].close(&id).unwrap();
    for mount in mounts {
        drop(mount.open(&id));
        assert!(mount.read(&id).unwrap() == model, "at the end");
    }
}

#[test]
fn a_file_is_what_was_done_to_it() {
    let (server, _) = server();
    let mounts = [
        Mount::new(&server, ""),
        Mount::new(&server, "rsize=32k&wsize=16k"),
    ];
    let config = ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..Default::default()
    };
    let count = std::cell::Cell::new(0);
    proptest!(config, |(steps in steps())| {
        count.set(count.get() + 1);
        run(&mounts, &format!("file{}", count.get()), &steps);
    });
}
