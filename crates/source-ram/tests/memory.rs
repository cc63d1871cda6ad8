//! Memory of a RAM file system goes back to the system when its files go.
//!
//! A test program of its own with one test, because it looks at the memory of the whole process.

#![allow(clippy::unwrap_used)] // a test: to panic is to fail

use pagewell_fs::{Call, CreateMode, Credentials, FileId, FileSystem, SetAttributes, Stability};
use pagewell_source_ram::RamFileSystem;

const MIB: u64 = 1 << 20;
const THREADS: u64 = 8;

/// Bytes of the process that are in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

fn call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

fn in_threads(action: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let action = &action;
            scope.spawn(move || action(thread));
        }
    });
}

/// Files of each size in turn, written by many threads, so that what goes and what stays lies
/// next to each other.
fn write_files(ram: &RamFileSystem, file_bytes: u64, total_bytes: u64) {
    let root = Credentials::root();
    let count = total_bytes / file_bytes / THREADS;
    let piece = vec![7; usize::try_from(file_bytes.min(MIB)).unwrap()];
    in_threads(|thread| {
        for number in 0..count {
            let name = format!("{file_bytes} {thread} {number}");
            let mode = CreateMode::Guarded(SetAttributes::default());
            let made = ram.create(&call(&root), &ram.root(), name.as_bytes(), &mode);
            let id: FileId = made.unwrap().entry.id;
            let mut at = 0;
            while at < file_bytes {
                let written = ram.write(&call(&root), &id, at, &piece, Stability::Unstable);
                at += u64::from(written.unwrap().count);
            }
        }
    });
}

/// Removes those of the files that are not kept.
fn remove_files(
    ram: &RamFileSystem,
    file_bytes: u64,
    total_bytes: u64,
    keep: impl Fn(u64) -> bool + Sync,
) {
    let root = Credentials::root();
    in_threads(|thread| {
        for number in (0..total_bytes / file_bytes / THREADS).filter(|number| !keep(*number)) {
            let name = format!("{file_bytes} {thread} {number}");
            let removed = ram.remove(&call(&root), &ram.root(), name.as_bytes());
            assert!(removed.is_ok(), "{name}: {removed:?}");
        }
    });
}

/// What may stay of the 128 MiB and more that were there: the blocks kept for the next who ask
/// (4 MiB), and pages of the general allocator that hold the few objects and names which stay.
const SLACK_BYTES: u64 = 32 * MIB;

#[test]
fn memory_goes_back_when_files_go() {
    let ram = RamFileSystem::new(1 << 30).unwrap();
    let start = resident_bytes();
    for file_bytes in [4 * 1024, 64 * 1024, 300 * 1024, 16 * MIB] {
        let total_bytes = 128 * MIB;
        write_files(&ram, file_bytes, total_bytes);
        let full = resident_bytes();
        assert!(full >= start + total_bytes, "{file_bytes}: {full}");
        let keep = |number: u64| number.is_multiple_of(64);
        remove_files(&ram, file_bytes, total_bytes, keep);
        let (left, used) = (resident_bytes(), ram.used_bytes());
        let most = start + used + SLACK_BYTES;
        assert!(left <= most, "{file_bytes}: {left} bytes left, {used} used");
        remove_files(&ram, file_bytes, total_bytes, |number| !keep(number));
    }
}
