//! Files that are cut short, replaced and deleted while they are sent: no signal, no
//! byte that a local reader could not have seen, and other files and connections go on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagewell_fs::FileSystem;
use pagewell_nfsd::Server;
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, Status};

use crate::client::Client;
use crate::fixture::{Kind, connect, directory, export, serve};
use crate::operations::{FileHandle, data, handle};
use pagewell_wire::random::Random;

/// Bytes of each version of the file.
const FILE_BYTES: u64 = 2 << 20;

/// READs of a client at once.
const DEPTH: usize = 8;

/// Changes of the file.
const CHANGES: u64 = 120;

/// The bits of a word that say where it is.
const PLACE_MASK: u64 = (1 << 48) - 1;

/// Each word says where it is and in which version, so that a byte from elsewhere is seen.
fn version_of_file(version: u64) -> Vec<u8> {
    (0..FILE_BYTES / 8)
        .flat_map(|word| ((version << 48) | (word * 8)).to_le_bytes())
        .collect()
}

/// Whole words of the file are right, of whatever version, or were cut off and are zeros.
fn check(bytes: &[u8], offset: u64, versions: u64) {
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        let at = offset + index as u64 * 8;
        let (version, place) = (word >> 48, word & PLACE_MASK);
        // A word may be cut in the middle, at a byte. While the kernel puts zeros behind the new
        // end, a reader, local ones too, may pass it: then its zeros end in the middle of a word.
        let is_part = (1..8).any(|bytes| {
            let first = (1u64 << (8 * bytes)) - 1;
            word == at & first || (version <= versions && place == at & !first & PLACE_MASK)
        });
        let is_whole = place == at && version <= versions;
        assert!(
            word == 0 || is_whole || is_part,
            "at {at} is {word:x}, after {versions} versions"
        );
    }
}

/// Reads many pieces at once of whatever has the name, until `is_done`; returns how many came.
fn read_on(server: &Server, seed: u64, is_done: &AtomicBool) -> u64 {
    let (mut client, root) = connect(server);
    let mut random = Random::new(seed);
    let mut pieces = 0;
    while !is_done.load(Ordering::Acquire) {
        let Ok(found) = client.lookup(&root, b"changed") else {
            continue;
        };
        let offsets: [u64; DEPTH] = std::array::from_fn(|_| random.below(FILE_BYTES / 8) * 8);
        let length = 40_000 + u32::try_from(random.below(200_000)).unwrap();
        let calls = offsets.map(|offset| start(&mut client, &found.handle, offset, length));
        for (call, offset) in calls.into_iter().zip(offsets) {
            match data(&client.finish(call)) {
                Ok(read) => {
                    check(&read.bytes, offset, CHANGES);
                    pieces += u64::from(!read.bytes.is_empty());
                }
                Err(status) => assert_eq!(status, Status::Stale),
            }
        }
    }
    pieces
}

fn start(client: &mut Client, file: &FileHandle, offset: u64, count: u32) -> u32 {
    let arguments = ReadArguments {
        file: handle(file),
        offset,
        count,
    };
    client.start(Procedure::Read, &arguments)
}

/// Another file, on a connection of its own, is as it was all the time.
fn read_undisturbed(server: &Server, is_done: &AtomicBool) {
    let (mut client, root) = connect(server);
    let file = client.lookup(&root, b"steady").unwrap().handle;
    let expected = version_of_file(1);
    while !is_done.load(Ordering::Acquire) {
        let read = client.read(&file, 0, 1 << 20).unwrap();
        assert!(read.bytes == expected[..1 << 20]);
    }
}

fn change(path: &Path, random: &mut Random, version: u64) {
    let beside = path.with_extension("new");
    match version % 4 {
        0 => {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(random.below(FILE_BYTES)).unwrap();
        }
        1 => std::fs::write(path, version_of_file(version)).unwrap(),
        2 => {
            std::fs::write(&beside, version_of_file(version)).unwrap();
            std::fs::rename(&beside, path).unwrap();
        }
        _ => {
            std::fs::remove_file(path).unwrap();
            std::fs::write(path, version_of_file(version)).unwrap();
        }
    }
}

#[test]
fn files_that_change_while_they_are_sent_harm_no_other_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed");
    std::fs::write(&path, version_of_file(0)).unwrap();
    std::fs::write(folder.path().join("steady"), version_of_file(1)).unwrap();
    let files: Arc<dyn FileSystem> = Arc::new(directory(folder.path(), Kind::Directory));
    let server = serve(vec![export("/", files)]);
    let is_done = AtomicBool::new(false);
    let pieces: u64 = std::thread::scope(|scope| {
        let (server, is_done) = (&server, &is_done);
        let readers: Vec<_> = (0..2)
            .map(|seed| scope.spawn(move || read_on(server, seed, is_done)))
            .collect();
        let steady = scope.spawn(move || read_undisturbed(server, is_done));
        let mut random = Random::new(0);
        for version in 1..=CHANGES {
            change(&path, &mut random, version);
            if readers.iter().any(|reader| reader.is_finished()) || steady.is_finished() {
                break; // one has failed
            }
        }
        is_done.store(true, Ordering::Release);
        steady.join().unwrap();
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum()
    });
    assert!(pieces > 50, "only {pieces} pieces were read");
    let (mut client, root) = connect(&server);
    let found = client.lookup(&root, b"steady").unwrap();
    assert_eq!(found.attributes.size, FILE_BYTES);
}
