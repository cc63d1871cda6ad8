//! Which locks calls for different files of a mount take in common: what makes threads that have
//! nothing else to do with each other wait, and write to the same cache lines.

use std::collections::HashSet;

use pagewell_base::sync::locks_taken;
use pagewell_fs::{Call, FileId, FileSystem, Stability};

use super::{LASTING, Mount, server};

/// Files, each on a part of the table of objects by chance: two of them are on different ones.
const FILES: usize = 8;

const UNSTABLE: Stability = Stability::Unstable;

/// A mount with files that are in memory and at the server.
fn mount_with_files(server: &pagewell_nfsd::Server) -> (Mount, Vec<FileId>) {
    let mount = Mount::new(server, LASTING);
    let files: Vec<FileId> = (0..FILES)
        .map(|number| mount.create(&number.to_string()))
        .collect();
    for file in &files {
        mount.write(file, 0, &[7; 100_000]).unwrap();
        mount.close(file).unwrap();
        mount.read(file).unwrap();
    }
    (mount, files)
}

/// The fewest locks that calls for two of the files have in common. The calls may not wait.
fn fewest_in_common(mount: &Mount, files: &[FileId], work: impl Fn(&Call<'_>, &FileId)) -> usize {
    let call = Call::new(mount.call().credentials, false);
    let taken: Vec<HashSet<usize>> = files
        .iter()
        .map(|file| locks_taken(|| work(&call, file)).into_iter().collect())
        .collect();
    assert!(taken.iter().all(|locks| !locks.is_empty()));
    let pairs = taken.iter().enumerate().flat_map(|(index, one)| {
        let others = taken.iter().skip(index + 1);
        others.map(|other| one.intersection(other).count())
    });
    pairs.min().unwrap()
}

#[test]
fn reads_of_two_files_from_memory_take_no_lock_in_common() {
    let (server, _) = server();
    let (mount, files) = mount_with_files(&server);
    let shared = fewest_in_common(&mount, &files, |call, file| {
        let read = mount.filesystem.read(call, file, 4096, 70_000).unwrap();
        assert_eq!(read.payload.len(), 70_000);
    });
    assert_eq!(shared, 0);
    let shared = fewest_in_common(&mount, &files, |call, file| {
        mount.filesystem.attributes(call, file).unwrap();
    });
    assert_eq!(shared, 0);
}

/// How much of a mount is dirty is under one lock of the policy, and how much of all mounts under
/// another.
#[test]
fn writes_to_two_files_take_the_locks_of_what_is_dirty_in_common_alone() {
    let (server, _) = server();
    let (mount, files) = mount_with_files(&server);
    // A page that becomes dirty, and one that is.
    for expected in [2, 1] {
        let shared = fewest_in_common(&mount, &files, |call, file| {
            let written = mount
                .filesystem
                .write(call, file, 4096, &[9; 4096], UNSTABLE);
            written.unwrap();
        });
        assert_eq!(shared, expected);
    }
}
