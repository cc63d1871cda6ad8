//! Two clients that write to one file at the same time: who opens it sees what was closed before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pagewell_fs::{Credentials, FileId, FileSystem, Stability, WccAttributes};
use pagewell_nfsd::Server;

use super::{Mount, pattern, root_call, server};
use crate::fixture::{Kind, directory, export, serve};

/// Bytes of a record, which one of the two writes, and of the numbers that it is made of: no page
/// belongs to one alone.
const RECORD_BYTES: usize = 1000;
const NUMBER_BYTES: usize = 8;
/// Records that each writes, one after the other where runs of them are written.
const RUN: usize = 100;
/// Records of which every other one is the first's.
const MIXED: usize = 24;
const RECORDS: usize = 2 * RUN + MIXED;
/// Rounds, and the variable that says another number.
const ROUNDS: u64 = 500;
const ROUNDS_VARIABLE: &str = "PAGEWELL_TWO_CLIENTS_ROUNDS";

fn rounds() -> u64 {
    let rounds = std::env::var(ROUNDS_VARIABLE).ok();
    rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

/// A server of a directory, whose writes overlap.
fn directory_server() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let filesystem = Arc::new(directory(folder.path(), Kind::Directory));
    (serve(vec![export("/", filesystem)]), folder)
}

#[test]
fn what_was_closed_beside_a_write_is_seen() {
    const HALF: usize = 512 << 10;
    let (server, _folder) = directory_server();
    let (one, other) = (Mount::new(&server, "wsize=64k"), Mount::new(&server, ""));
    let mut expected = pattern(2 * HALF, 1);
    let id = one.create("shared");
    one.write(&id, 0, &expected).unwrap();
    one.close(&id).unwrap();
    for round in 0..40 {
        drop(one.open(&id));
        assert!(one.read(&id).unwrap() == expected, "round {round}");
        let (half, few) = (pattern(HALF, round + 2), pattern(16, round + 1000));
        let at = HALF + 5003 * round as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let opened = one.open(&id);
                one.write(&id, 0, &half).unwrap();
                one.close(&id).unwrap();
                drop(opened);
            });
            scope.spawn(|| {
                let opened = other.open(&id);
                other.write(&id, at as u64, &few).unwrap();
                other.close(&id).unwrap();
                drop(opened);
            });
        });
        expected[..HALF].copy_from_slice(&half);
        expected[at..at + few.len()].copy_from_slice(&few);
    }
    drop(one.open(&id));
    assert!(one.read(&id).unwrap() == expected);
}

/// Another program of the same mount writes all the time: there is always a call on its way.
#[test]
fn what_was_closed_is_seen_beside_a_program_that_goes_on_writing() {
    const HALF: usize = 256 << 10;
    let (server, _folder) = directory_server();
    let (one, other) = (Mount::new(&server, "wsize=16k"), Mount::new(&server, ""));
    let mut expected = vec![0; 10_000];
    let id = one.create("shared");
    one.write(&id, HALF as u64, &expected).unwrap();
    one.close(&id).unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0;
            while !has_ended.load(Ordering::Acquire) {
                round += 1;
                one.write(&id, 0, &pattern(HALF, round)).unwrap();
                // It is sent, and nobody waits for more than that.
                let _ = one.attributes(&id);
            }
        });
        // It must end with a failure, too.
        let _ends = Ends(&has_ended);
        for round in 0..100 {
            let at = (round * 7919) % 9000;
            let few = pattern(100, round as u64);
            let opened = other.open(&id);
            other.write(&id, (HALF + at) as u64, &few).unwrap();
            other.close(&id).unwrap();
            drop(opened);
            expected[at..at + few.len()].copy_from_slice(&few);
            drop(one.open(&id));
            let seen = one.read(&id).unwrap();
            assert!(seen[HALF..] == expected, "round {round}");
        }
    });
}

/// Says that it is over when it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Each of the writes that overlap is told from what it came: together they are one way.
#[test]
fn overlapping_writes_of_a_directory_are_told_apart() {
    const THREADS: u64 = 4;
    const WRITES: u64 = 200;
    let folder = tempfile::tempdir().unwrap();
    let filesystem = directory(folder.path(), Kind::Directory);
    std::fs::write(folder.path().join("file"), b"old").unwrap();
    let credentials = Credentials::root();
    let call = root_call(&credentials);
    let root = filesystem.root();
    let id = filesystem.lookup(&call, &root, b"file").unwrap().id;
    let reported = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (filesystem, reported, credentials) = (&filesystem, &reported, &credentials);
            scope.spawn(move || {
                let call = &root_call(credentials);
                let bytes = pattern(20_000, thread);
                for number in 0..WRITES {
                    let at = (number * 7919 + thread * 104_729) % 1_000_000;
                    let change = if number % 20 == 19 {
                        filesystem.commit(call, &id, 0, 0).unwrap().change
                    } else {
                        let written = filesystem.write(call, &id, at, &bytes, Stability::Unstable);
                        written.unwrap().change
                    };
                    reported.lock().unwrap().push(change);
                }
            });
        }
    });
    // Of a way, each place but the two ends is left as often as it is come to.
    let mut places: Vec<(WccAttributes, i32)> = Vec::new();
    for change in reported.into_inner().unwrap() {
        let (before, after) = (change.before.unwrap(), change.after.unwrap().wcc());
        for (place, count) in [(before, 1), (after, -1)] {
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, counted)) => *counted += count,
                None => places.push((place, count)),
            }
        }
    }
    let ends: Vec<i32> = places.iter().map(|(_, count)| *count).collect();
    assert_eq!(ends.iter().filter(|count| **count == 1).count(), 1);
    assert_eq!(ends.iter().filter(|count| **count == -1).count(), 1);
    assert!(ends.iter().all(|count| count.abs() <= 1));
}

/// What was closed of the shared file: the number that each record was filled with.
type Closed = Mutex<[u64; RECORDS]>;

/// One of the two, with what it does by chance.
struct Writer<'a> {
    mount: &'a Mount,
    first: bool,
    id: FileId,
    closed: &'a Closed,
    random: u64,
}

impl Writer<'_> {
    /// A number below `most`.
    fn chance(&mut self, most: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap() % most
    }

    /// Some records of its own: a run, or one of those between the other's.
    fn records(&mut self) -> std::ops::Range<usize> {
        if self.chance(2) == 0 {
            let begins = self.chance(RUN);
            let ends = begins + 1 + self.chance(RUN - begins);
            let base = if self.first { 0 } else { RUN };
            base + begins..base + ends
        } else {
            let at = 2 * RUN + 2 * self.chance(MIXED / 2) + usize::from(!self.first);
            at..at + 1
        }
    }

    fn go(&mut self, round: u64) {
        let before = *self.closed.lock().unwrap();
        let opened = self.mount.open(&self.id);
        self.look(&before, round);
        let mut written = Vec::new();
        for _ in 0..1 + self.chance(3) {
            let records = self.records();
            let bytes = round
                .to_be_bytes()
                .repeat(records.len() * RECORD_BYTES / NUMBER_BYTES);
            let offset = (records.start * RECORD_BYTES) as u64;
            self.mount.write(&self.id, offset, &bytes).unwrap();
            written.extend(records);
            if self.chance(4) == 0 {
                self.mount.commit(&self.id).unwrap();
            }
        }
        self.mount.close(&self.id).unwrap();
        let mut closed = self.closed.lock().unwrap();
        for record in written {
            closed[record] = round;
        }
        drop((closed, opened));
    }

    /// What was closed before is there, or something newer.
    fn look(&self, before: &[u64; RECORDS], round: u64) {
        let seen = self.mount.read(&self.id).unwrap();
        assert_eq!(seen.len(), RECORDS * RECORD_BYTES);
        for (at, number) in seen.chunks(NUMBER_BYTES).enumerate() {
            let number = u64::from_be_bytes(number.try_into().unwrap());
            let record = at * NUMBER_BYTES / RECORD_BYTES;
            assert!(
                (before[record]..=round).contains(&number),
                "round {round}, first {}: record {record} has {number}, {} was closed",
                self.first,
                before[record],
            );
        }
    }
}

/// Lets two mounts write for so many rounds, at whose ends both see all that was closed.
fn write_at_once(server: &Server) {
    let mounts = [Mount::new(server, "wsize=32k"), Mount::new(server, "")];
    let id = mounts[0].create("shared");
    let zeros = vec![0; RECORDS * RECORD_BYTES];
    mounts[0].write(&id, 0, &zeros).unwrap();
    mounts[0].close(&id).unwrap();
    let closed = Mutex::new([0; RECORDS]);
    let [mut one, mut other] = [0, 1].map(|index| Writer {
        mount: &mounts[index],
        first: index == 0,
        id,
        closed: &closed,
        random: index as u64 + 1,
    });
    for round in 1..=rounds() {
        std::thread::scope(|scope| {
            scope.spawn(|| one.go(round));
            scope.spawn(|| other.go(round));
        });
        let now = *closed.lock().unwrap();
        let newest = now.iter().copied().max().unwrap_or(0);
        for writer in [&one, &other] {
            drop(writer.mount.open(&id));
            writer.look(&now, newest);
        }
    }
}

#[test]
fn two_writers_of_a_directory_see_what_was_closed() {
    let (server, _folder) = directory_server();
    write_at_once(&server);
}

#[test]
fn two_writers_of_memory_see_what_was_closed() {
    let (server, _) = server();
    write_at_once(&server);
}
