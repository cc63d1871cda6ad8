//! Reads in every order: what a mount gives is what the file holds, whatever read-ahead guesses.
//!
//! All files of a mount lie in one address space. What is read ahead of a backward stream comes to
//! the beginning of its file, and what lies before that is another file's.

use std::sync::Arc;

use pagewell_cache::CacheOptions;
use pagewell_fs::{FileId, FileSystem};
use pagewell_nfsd::Server;

use super::{Mount, pattern, server};
use crate::fixture::{export, serve};
use crate::layer::make_file;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A server with a file `first` and, behind it in the address space of who reads them in that
/// order, one `second`.
fn two_files(length: usize) -> (Server, [Vec<u8>; 2]) {
    let (server, memory) = server();
    let bytes = [pattern(5000, 11), pattern(length, 12)];
    make_file(&*memory, b"first", &bytes[0]);
    make_file(&*memory, b"second", &bytes[1]);
    (server, bytes)
}

/// One read, compared.
fn check(mount: &Mount, id: &FileId, bytes: &[u8], offset: usize, count: usize) {
    let count_asked = u32::try_from(count).unwrap();
    let reply = mount
        .filesystem
        .read(&mount.call(), id, offset as u64, count_asked)
        .unwrap();
    let mut seen = vec![0; reply.payload.len()];
    assert_eq!(reply.payload.copy_to(&mut seen, true), Ok(seen.len()));
    let end = bytes.len().min(offset.saturating_add(count));
    let expected = bytes.get(offset..end).unwrap_or(&[]);
    assert_eq!(seen.len(), expected.len(), "{count} bytes at {offset}");
    let wrong = seen.iter().zip(expected).filter(|(a, b)| a != b).count();
    assert_eq!(wrong, 0, "wrong bytes of {count} at {offset}");
    assert_eq!(reply.end_of_file, offset + count >= bytes.len());
}

/// Reads the second file from its end to its beginning in such steps, then once more forward.
fn descend(length: usize, step: usize, cache: Option<usize>) {
    let (server, bytes) = two_files(length);
    let options = CacheOptions::new(cache.unwrap_or(64 * MIB) as u64);
    let mount = Mount::with_cache(&server, "", options);
    assert!(mount.read(&mount.lookup("first").unwrap()).unwrap() == bytes[0]);
    let id = mount.lookup("second").unwrap();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(step);
        check(&mount, &id, &bytes[1], start, end - start);
        end = start;
    }
    assert!(mount.read(&id).unwrap() == bytes[1], "{length} by {step}");
}

#[test]
fn a_file_that_is_read_backward_begins_with_its_own_bytes() {
    descend(200_000, 1000, None);
    descend(1_000_000, 8192, Some(8 * MIB));
    descend(2_000_000, 65_536, Some(4 * MIB));
    for step in [12, 16, 24, 32, 48, 64, 96, 128, 192, 256] {
        descend(2_000_000, step * KIB, None);
    }
}

#[test]
fn a_file_that_is_read_backward_through_two_servers_begins_with_its_own_bytes() {
    let (server, bytes) = two_files(2_000_000);
    let cache = CacheOptions::new(8 * MIB as u64);
    let middle = Arc::new(Mount::with_cache(&server, "", cache).filesystem);
    let middle = serve(vec![export("/", middle)]);
    let mount = Mount::with_cache(&middle, "", cache);
    assert!(mount.read(&mount.lookup("first").unwrap()).unwrap() == bytes[0]);
    let id = mount.lookup("second").unwrap();
    for start in (0..2_000_000).step_by(32 * KIB).rev() {
        let end = bytes[1].len().min(start + 32 * KIB);
        check(&mount, &id, &bytes[1], start, end - start);
    }
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most.max(1) as u64).unwrap()
    }
}

/// How a reader goes through a file for a while.
fn offsets(random: &mut Random, length: usize) -> (Vec<usize>, usize) {
    let count = 1 + random.below(96 * KIB);
    let count = if random.below(2) == 0 {
        count / 16 + 1
    } else {
        count
    };
    let reads = 1 + random.below(60);
    let stride = count * (1 + random.below(12));
    let from = random.below(length + 1);
    let steps = 0..reads;
    let offsets = match random.below(5) {
        0 => steps.map(|step| from + step * count).collect(),
        1 => steps
            .map_while(|step| length.checked_sub((step + 1) * count))
            .collect(),
        2 => steps
            .map_while(|step| from.checked_sub((step + 1) * count))
            .collect(),
        3 => steps
            .map_while(|step| from.checked_sub((step + 1) * stride))
            .collect(),
        _ => steps.map(|_| random.below(length + count)).collect(),
    };
    (offsets, count)
}

/// Readers that go backward, in strides and at random through several files, with a cache that
/// holds a fraction of them.
fn wander(mount: &Mount, files: &[(FileId, Vec<u8>)], seed: u64, walks: usize) {
    let mut random = Random(seed);
    for walk in 0..walks {
        let (id, bytes) = &files[random.below(files.len())];
        let (offsets, count) = offsets(&mut random, bytes.len());
        for offset in offsets {
            check(mount, id, bytes, offset, count);
        }
        assert!(random.0 != 0, "walk {walk} of seed {seed}");
    }
}

#[test]
fn reads_in_any_order_give_what_the_files_hold() {
    let (server, memory) = server();
    let lengths = [
        5000,
        70_000,
        1,
        0,
        3 * MIB + 77,
        65_536,
        MIB,
        5 * MIB - 1,
        2 * MIB,
    ];
    let bytes = lengths.map(|length| pattern(length, length as u64 + 3));
    for (number, bytes) in bytes.iter().enumerate() {
        make_file(&*memory, format!("f{number}").as_bytes(), bytes);
    }
    for (seed, options) in [
        (1, ""),
        (2, "rsize=64k"),
        (3, "rsize=4k"),
        (4, "readahead=4"),
    ] {
        let mount = Mount::with_cache(&server, options, CacheOptions::new(4 * MIB as u64));
        let files: Vec<_> = bytes
            .iter()
            .enumerate()
            .map(|(number, bytes)| (mount.lookup(&format!("f{number}")).unwrap(), bytes.clone()))
            .collect();
        // The regions lie in another order each time.
        for turn in 0..files.len() {
            let (id, bytes) = &files[(turn * 5 + seed) % files.len()];
            check(&mount, id, bytes, 0, 1);
        }
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (mount, files) = (&mount, &files);
                scope.spawn(move || wander(mount, files, seed as u64 * 1000 + reader, 60));
            }
        });
        for (id, bytes) in &files {
            assert!(mount.read(id).unwrap() == *bytes, "seed {seed}");
        }
    }
}
